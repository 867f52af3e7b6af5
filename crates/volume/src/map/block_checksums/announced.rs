//! Regions of chunks that the journal expects writes to, and what is said of their chunks' tables
//! ([`crate::map::regions`]).

use super::BlockChecksums;
use crate::format::Record;
use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::journal::commit::Waiter;
use crate::map::regions::{Region, Regions};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{ChunkId, Nanos};

/// Regions that one round of housekeeping looks at.
const LOOKS_PER_ROUND: usize = 64;

/// The region of a chunk.
pub(super) fn region_of(group: &GroupState, chunk: ChunkId) -> Region {
    Regions::of(chunk, group.pools.chunk_bytes(), group.settings.limits.region_chunks)
}

fn chunks_of(group: &GroupState, region: Region) -> impl Iterator<Item = ChunkId> + use<> {
    let volume = group.map.volume(region.volume());
    region.chunks(volume.map_or(0, |volume| volume.entries.len() as u32))
}

impl BlockChecksums {
    /// True if some region is open.
    pub(crate) fn has_open_regions(&self) -> bool {
        !self.regions.is_empty()
    }

    /// Opens the region of a chunk whose writes are being announced, for the other chunks in it,
    /// and regions ahead of it.
    pub(crate) fn open_regions(&mut self, group: &mut GroupState, now: Nanos, chunk: ChunkId) {
        assert!(group.map.entry(chunk).is_called_right(), "the journal calls its table right");
        let region = region_of(group, chunk);
        let ahead = self.regions.ahead_of(region);
        self.open_region(group, now, region, Some(chunk));
        for region in ahead {
            if !group.records_pile_up() && chunks_of(group, region).next().is_some() {
                met("region opened ahead");
                self.open_region(group, now, region, None);
            }
        }
    }

    /// Opens a region for all its chunks but the one whose writes have been announced.
    fn open_region(
        &mut self,
        group: &mut GroupState,
        now: Nanos,
        region: Region,
        announced: Option<ChunkId>,
    ) {
        if !self.regions.begin(region, now, group.settings.limits.regions_open) {
            return;
        }
        for other in chunks_of(group, region) {
            let has_table = Some(other) != announced && group.map.entry(other).has_checksums();
            if has_table && !group.records_pile_up() {
                met("region opened for more than one chunk");
                group.map.entry_mut(other).set_unsaid(true);
                if !mutant("region_opened_for_one_chunk") {
                    group.announce_only(other);
                }
            }
        }
        let unsaid = |chunk| group.map.entry(chunk).is_unsaid();
        assert!(!announced.is_some_and(unsaid), "what is announced needs no region");
        group.journal.join(Waiter::Region(region));
    }

    /// Lets writes go on that waited for a region: its commit is durable. Another commit follows
    /// soon, so that damage to this one is not taken for the journal's end.
    pub(crate) fn region_opened(&mut self, group: &mut GroupState, region: Region) {
        assert!(!self.regions.may_close(region), "a region is opened once");
        let mut chunks = chunks_of(group, region);
        let chunk = chunks.find(|&chunk| group.map.entry(chunk).first().is_some());
        if let Some(chunk) = chunk.filter(|_| !group.records_pile_up()) {
            group.announce_only(chunk);
        }
        for chunk in self.regions.opened(region) {
            if group.map.is_busy(chunk) {
                group.emit(Effect::Eased(chunk));
            }
        }
    }

    /// True if a write to the chunk must wait until its region is open; it is told then.
    pub(crate) fn waits_for_region(&mut self, group: &mut GroupState, chunk: ChunkId) -> bool {
        if !group.map.entry(chunk).is_unsaid() || mutant("written_before_its_region_is_open") {
            return false;
        }
        assert!(self.regions.has(region_of(group, chunk)), "its region is open, or is opened");
        let waits = self.regions.awaits(region_of(group, chunk), chunk);
        met_if(waits, "write waited for its region");
        waits
    }

    /// Makes the table of a chunk in an open region count no more: a write begins.
    pub(crate) fn take_table(&mut self, group: &mut GroupState, now: Nanos, chunk: ChunkId) {
        if group.map.entry(chunk).is_unsaid() {
            met("write without an announcement of its own");
            self.void_checksums(group, now, chunk);
        }
        assert!(!group.map.entry(chunk).is_unsaid(), "what is unsaid is true no more");
    }

    /// Closes regions in which nobody has written for a while.
    pub(crate) fn close_quiet_regions(&mut self, group: &mut GroupState, now: Nanos) {
        for _ in 0..LOOKS_PER_ROUND {
            let Some(region) = self.regions.due(now) else { return };
            assert!(self.regions.has(region), "only open ones are looked at");
            let mut written = false;
            for chunk in chunks_of(group, region) {
                written |= group.map.entry_mut(chunk).take_region_written();
            }
            if !written && !self.close_region(group, region) {
                return; // It comes again when there is room for its records.
            }
            self.regions.looked_at(region, now, !written);
        }
    }

    /// Closes regions as far as there is room for their records: the group closes.
    pub(crate) fn close_regions(&mut self, group: &mut GroupState) {
        while let Some(region) = self.regions.first() {
            if !self.close_region(group, region) {
                return;
            }
            assert!(self.regions.has(region), "only open ones are looked at");
            self.regions.looked_at(region, group.now, true);
        }
    }

    /// Tells the journal which tables of the region are right; false while it is being opened, or
    /// the journal has no room.
    fn close_region(&mut self, group: &mut GroupState, region: Region) -> bool {
        if !self.regions.may_close(region) {
            return false;
        }
        for chunk in chunks_of(group, region) {
            if !group.map.entry(chunk).is_unsaid() {
                continue;
            }
            if group.records_half_pile_up() {
                met("region closed in parts");
                group.want_commit_of_changes();
                return false;
            }
            group.map.entry_mut(chunk).set_unsaid(false);
            let state = group.durable_state(chunk);
            group.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
        }
        met("region closed");
        let unsaid = |chunk| group.map.entry(chunk).is_unsaid();
        debug_assert!(!chunks_of(group, region).any(unsaid), "all that is right is said");
        true
    }
}
