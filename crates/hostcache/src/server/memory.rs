//! The server's memory for blocks, by content or, to compare, by volume and block.

use crate::blocks::{Blocks, Put};
use crate::settings::{ServerSettings, SettingsError};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Memory {
    blocks: Blocks,
    /// Lines by volume and block, if the memory is kept by those.
    by_block: Option<BTreeMap<(u32, u32), u32>>,
}

impl Memory {
    pub(super) fn new(settings: &ServerSettings) -> Result<Memory, SettingsError> {
        let policy = crate::settings::cache(
            &settings.memory_policy,
            settings.memory_blocks,
            settings.block_bytes,
            settings.seed,
        )?;
        let by_block = settings.memory_by_block.then(BTreeMap::new);
        Ok(Memory { blocks: Blocks::new(settings.block_bytes, policy), by_block })
    }

    fn line(&mut self, place: u32, block: (u32, u32)) -> u32 {
        let Some(lines) = &mut self.by_block else { return place };
        let next = lines.len() as u32;
        *lines.entry(block).or_insert(next)
    }

    pub(super) fn get(&mut self, place: u32, block: (u32, u32)) -> Option<&[u8]> {
        let line = self.line(place, block);
        self.blocks.get(line)
    }

    pub(super) fn holds(&mut self, place: u32, block: (u32, u32)) -> bool {
        let line = self.line(place, block);
        self.blocks.holds(line)
    }

    pub(super) fn put(&mut self, place: u32, block: (u32, u32), bytes: &[u8]) {
        let line = self.line(place, block);
        if !self.blocks.holds(line) {
            let _: Put = self.blocks.put(line, bytes, 0, |_, _| ());
        }
    }

    /// Drops the block of a place that gets other content.
    pub(super) fn forget_place(&mut self, place: u32) {
        if self.by_block.is_none() {
            self.blocks.remove(place);
        }
    }

    /// Drops a block that gets other content.
    pub(super) fn forget_block(&mut self, block: (u32, u32)) {
        if self.by_block.is_some() {
            let line = self.line(0, block);
            self.blocks.remove(line);
        }
    }

    /// Bytes that grow with the tracker: the map from places to slots, and the policy's index.
    pub(super) fn line_bytes(&self) -> u64 {
        self.blocks.line_bytes()
    }
}
