//! Parts of the device that are worth more than others: the store's own structures, and segments
//! whose blocks many clones share. For whoever decides where a device's parts lie.
//!
//! 1. Superblocks, the journal, and segments of nodes are [`Worth::Metadata`].
//! 2. A segment is [`Worth::Shared`] if at least half of its slots hold blocks of images with
//!    [`CLONES_MIN`] clones or more. Leaves of maps that clones share count once in reference
//!    counts, so the maps of images are looked at.
//! 3. At most [`IMAGE_BLOCKS_MAX`] blocks of images are looked at a time, of those with most clones
//!    first: 25 ms of the processor.

use crate::name::BLOCK;
use crate::segments::State;
use crate::state::StoreState;
use std::collections::BTreeMap;
use thermocline_units::{Bytes, VolumeId};

/// Clones that make an image widely shared.
const CLONES_MIN: u32 = 4;
/// Blocks of images that are looked at.
const IMAGE_BLOCKS_MAX: u32 = 1 << 20;

/// Worth of a part of the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Worth {
    /// The store's own structures: every flush writes here.
    Metadata,
    /// Blocks that many clones share.
    Shared,
}

/// Parts of the device that are worth more than others, by ascending offset: first byte, and byte
/// after the last.
pub(crate) fn parts(state: &StoreState) -> Vec<(Bytes, Bytes, Worth)> {
    let layout = state.layout;
    let shared = image_blocks(state);
    let half = layout.slots() / 2;
    let mut parts = vec![(0, layout.first_slot(0), Worth::Metadata)];
    for (number, segment) in state.segments.iter() {
        let worth = match segment.state {
            State::Nodes => Worth::Metadata,
            _ if shared.get(&number).is_some_and(|blocks| *blocks >= half) => Worth::Shared,
            _ => continue,
        };
        let first = layout.first_slot(number);
        match parts.last_mut() {
            Some((_, end, of)) if *end == first && *of == worth => *end += layout.segment_blocks,
            _ => parts.push((first, first + layout.segment_blocks, worth)),
        }
    }
    let offset = |block: u32| Bytes(u64::from(block) * u64::from(BLOCK));
    parts.into_iter().map(|(from, to, worth)| (offset(from), offset(to), worth)).collect()
}

/// Blocks of widely shared images, by segment.
fn image_blocks(state: &StoreState) -> BTreeMap<u32, u32> {
    let mut clones: BTreeMap<VolumeId, u32> = BTreeMap::new();
    for volume in state.volumes.values() {
        *clones.entry(volume.origin).or_default() += 1;
    }
    let mut images: Vec<(u32, VolumeId)> =
        clones.into_iter().map(|(image, count)| (count, image)).collect();
    images.retain(|(count, image)| *count >= CLONES_MIN && state.volumes.contains_key(image));
    images.sort_unstable_by(|a, b| b.cmp(a));
    let mut counts = BTreeMap::new();
    let mut left = u64::from(IMAGE_BLOCKS_MAX);
    for (_, image) in images {
        let image = &state.volumes[&image];
        let blocks = image.blocks().min(left);
        left -= blocks;
        for block in 0..blocks as u32 {
            let number = state.nodes.get(image.root, image.level, block);
            if number != 0 && state.blocks.is_used(number) {
                let segment = state.segments.of(state.blocks.entry(number).place);
                *counts.entry(segment).or_default() += 1;
            }
        }
    }
    counts
}
