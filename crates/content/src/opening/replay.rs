//! Replay: volumes, blocks and their maps, restored from records and trailers.
//!
//! Each record is checked against what those before it left. Nothing here reads the device.

use crate::blocks::{Blocks, Entry};
use crate::format::{Record, Stored, Trailer, VolumeRecord};
use crate::layout::Layout;
use crate::name::BLOCK;
use crate::open_error::OpenError;
use crate::segments::Segments;
use crate::settings::{VOLUME_BLOCKS_MAX, VOLUMES_MAX};
use crate::tree::Nodes;
use crate::volume::Volume;
use std::collections::BTreeMap;
use thermocline_units::VolumeId;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;

/// State that has been put together so far; it belongs to the store.
pub(super) struct Replay<'a> {
    pub(super) layout: &'a Layout,
    pub(super) index_bits: u8,
    pub(super) nodes: &'a mut Nodes,
    pub(super) blocks: &'a mut Blocks,
    pub(super) volumes: &'a mut BTreeMap<VolumeId, Volume>,
    pub(super) segments: &'a mut Segments,
    pub(super) next_volume: &'a mut u32,
    pub(super) generation: &'a mut u32,
}

impl Replay<'_> {
    /// A record of the root or of the journal.
    ///
    /// # Errors
    /// The record contradicts those before it.
    pub(super) fn apply(&mut self, record: &Record) -> Result<(), OpenError> {
        match record {
            Record::Next { volume, generation, segment } => {
                if *volume >= u32::MAX / 2
                    || *generation >= u32::MAX / 2
                    || *segment >= u64::MAX / 2
                {
                    return Err(OpenError::Record("a number given next is out of range"));
                }
                *self.next_volume = (*self.next_volume).max(*volume);
                *self.generation = (*self.generation).max(*generation);
                self.segments.next_sequence = self.segments.next_sequence.max(*segment);
            }
            Record::Volume(volume) => {
                if volume.root != 0 {
                    return Err(OpenError::Record("a new volume has a map"));
                }
                self.add_volume(volume, 0)?;
                *self.next_volume = (*self.next_volume).max(volume.id.0 + 1);
            }
            Record::Clone { id, from, read_only, name } => {
                self.add_clone(*id, *from, *read_only, name)?;
            }
            Record::Deleted(volume) => {
                let gone = self.volumes.remove(volume);
                self.nodes.release(gone.ok_or(OpenError::Record("no volume to delete"))?.root);
            }
            Record::Quotas(volume, quotas) => {
                let volume = self.volumes.get_mut(volume);
                volume.ok_or(OpenError::Record("no volume to bound"))?.quotas = *quotas;
            }
            Record::Tag(volume, tag) => {
                let volume = self.volumes.get_mut(volume);
                volume.ok_or(OpenError::Record("no volume for a tag"))?.tag = *tag;
            }
            Record::Open { segment, sequence, class } => {
                if *segment >= self.layout.segments || *class > 1 || *sequence >= u64::MAX / 2 {
                    return Err(OpenError::Record("a segment that is not there was opened"));
                }
                self.segments.reopen(*segment, *class, *sequence);
            }
            Record::Block(place, stored) => self.add_block(*place, stored)?,
            Record::Map { volume, first, numbers } => self.map(*volume, *first, numbers)?,
            Record::Zero { volume, first, count } => self.zero(*volume, *first, *count)?,
            Record::Generation(generation) => {
                if *generation >= u32::MAX / 2 {
                    return Err(OpenError::Record("a generation is out of range"));
                }
                *self.generation = (*self.generation).max(*generation);
            }
        }
        Ok(())
    }

    /// A volume with this node as its root; 0: nothing is mapped.
    ///
    /// # Errors
    /// It is there already, or of a size that no volume has.
    pub(super) fn add_volume(&mut self, record: &VolumeRecord, root: u32) -> Result<(), OpenError> {
        let blocks = record.size.0.div_ceil(u64::from(BLOCK));
        let is_taken = self.volumes.values().any(|other| other.name == record.name);
        let is_sound = blocks > 0
            && blocks <= VOLUME_BLOCKS_MAX
            && record.id.0 < u32::MAX / 2
            && record.version < u64::MAX / 2
            && record.mapped <= blocks
            && record.size.0.is_multiple_of(512)
            && !is_taken
            && !self.volumes.contains_key(&record.id)
            && self.volumes.len() < VOLUMES_MAX;
        if !is_sound {
            return Err(OpenError::Record("a volume is there twice, or of no size"));
        }
        self.volumes.insert(record.id, Volume::of(record.clone(), root, self.nodes));
        Ok(())
    }

    fn add_clone(
        &mut self,
        id: VolumeId,
        from: VolumeId,
        read_only: bool,
        name: &str,
    ) -> Result<(), OpenError> {
        let taken = self.volumes.values().any(|volume| volume.name == name);
        let is_new = !self.volumes.contains_key(&id) && id.0 < u32::MAX / 2;
        let Some(origin) = self.volumes.get(&from).filter(|_| is_new && !taken) else {
            return Err(OpenError::Record("a clone of nothing, or one there already"));
        };
        *self.next_volume = (*self.next_volume).max(id.0 + 1);
        let volume = origin.copy(from, name.to_string(), read_only, self.nodes);
        self.volumes.insert(id, volume);
        Ok(())
    }

    /// The blocks of a segment that was sealed: each is where its newest trailer says.
    ///
    /// # Errors
    /// The trailer contradicts other structures.
    pub(super) fn add_trailer(&mut self, segment: u32, trailer: Trailer) -> Result<(), OpenError> {
        let sequence = trailer.head.generation;
        if sequence >= u64::MAX / 2 {
            return Err(OpenError::Record("a segment's sequence is out of range"));
        }
        self.segments.found(segment, sequence);
        let first = self.layout.first_slot(segment);
        for (place, entry) in (first..).zip(trailer.entries) {
            let Some(stored) = entry else { continue };
            self.check_number(&stored)?;
            let other = self.blocks.entry(stored.number);
            let is_newer = match other.place {
                0 => true,
                place => {
                    let there = self.segments.get(self.segments.of(place)).sequence;
                    (stored.generation, sequence) > (other.generation, there)
                }
            };
            met_if(other.place != 0, "two trailers name a block");
            if is_newer {
                self.restore(place, &stored);
            }
        }
        Ok(())
    }

    fn add_block(&mut self, place: u32, stored: &Stored) -> Result<(), OpenError> {
        self.check_number(stored)?;
        if !self.layout.is_slot(place) {
            return Err(OpenError::Record("a block lies outside all segments"));
        }
        // An open segment may list a block that was swept, whose number another has.
        let there = self.blocks.entry(stored.number);
        let is_old = there.place != 0 && there.generation > stored.generation;
        met_if(is_old, "record of a block that was swept");
        if !is_old || mutant("former_generation_believed") {
            self.restore(place, stored);
            self.segments.reenter(place, stored);
        }
        Ok(())
    }

    /// Numbers are given from 1 on, and there are not more than slots.
    fn check_number(&self, stored: &Stored) -> Result<(), OpenError> {
        let most = u64::from(self.layout.segments) * u64::from(self.layout.slots());
        let is_sound = stored.number != 0
            && u64::from(stored.number) <= most
            && stored.generation < u32::MAX / 2;
        match is_sound {
            true => Ok(()),
            false => Err(OpenError::Record("a block's number is out of range")),
        }
    }

    fn restore(&mut self, place: u32, stored: &Stored) {
        *self.generation = (*self.generation).max(stored.generation);
        self.blocks.restore(
            stored.number,
            Entry {
                short: stored.content.short(stored.domain, self.index_bits),
                place,
                generation: stored.generation,
                refs: 0,
                owner: stored.owner.0,
            },
        );
    }

    fn map(&mut self, volume: VolumeId, first: u32, numbers: &[u32]) -> Result<(), OpenError> {
        let it = self.volumes.get_mut(&volume).ok_or(OpenError::Record("a map of no volume"))?;
        if u64::from(first) + numbers.len() as u64 > it.blocks() {
            return Err(OpenError::Record("a map goes on behind its volume's end"));
        }
        for (block, &number) in (first..).zip(numbers) {
            let old = self.nodes.get(it.root, it.level, block);
            if old == number {
                continue;
            }
            let block = u64::from(block);
            it.root = self.nodes.set(it.root, it.level, block, number, &mut |_| {});
            it.mapped = (it.mapped + u64::from(number != 0)).saturating_sub(u64::from(old != 0));
            it.version += 1;
        }
        Ok(())
    }

    fn zero(&mut self, volume: VolumeId, first: u32, count: u32) -> Result<(), OpenError> {
        let it = self.volumes.get_mut(&volume).ok_or(OpenError::Record("zeroes of no volume"))?;
        let (first, end) = (u64::from(first), u64::from(first) + u64::from(count));
        if end > it.blocks() {
            return Err(OpenError::Record("zeroes go on behind their volume's end"));
        }
        let gone = self.nodes.count_in(it.root, it.level, first, end);
        it.root = self.nodes.zero(it.root, it.level, first, end, &mut |_| {});
        it.mapped = it.mapped.saturating_sub(gone);
        it.version += gone;
        Ok(())
    }
}
