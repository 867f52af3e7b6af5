//! Regions of chunks that the journal expects writes to.
//!
//! A write to a chunk whose table of checksums is right must wait until the journal no longer says
//! so ([`crate::seals`]). If every chunk waited for a record of its own, writes that are scattered
//! over data at rest would cost a commit each. So the first of them speaks for its whole region, as
//! in a dirty region log (md's write-intent bitmap, dm-integrity's bitmap mode, DRBD's activity log):
//!
//! 1. A write to a chunk at rest opens the region: the commit that it waits for says of no chunk
//!    there that its table is right. The tables of the others stay right, and reads are still
//!    verified by them; only the journal does not say so.
//! 2. While the region is open, the first write to such a chunk needs no commit: its table ceases
//!    to be right in memory. A chunk that comes to rest gets its table, and no record.
//! 3. When nobody has written to the region for a while, and when the group closes, it is closed:
//!    records say which tables are right.
//!
//! What this costs: after a crash the chunks of open regions have no tables, whether they were
//! written or not. They are read again, and contents that rotted before count as right. A region
//! is small, and the number of open ones is bounded, so that this is little of a large group.

use crate::commit::Waiter;
use crate::format::Record;
use crate::group::Group;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;
use thermocline_units::{ChunkId, Nanos, VolumeId};

/// Bytes of a region at most, if a chunk is not larger.
const REGION_BYTES: u64 = 256 << 20;
/// A region is looked at so often; one in which nobody wrote in between is closed.
const LOOK: Nanos = Nanos(10_000_000_000);
/// Regions that are opened ahead of a client that writes in order.
const AHEAD_MAX: u32 = 16;
/// Regions that one round of housekeeping looks at.
const LOOKS_PER_ROUND: usize = 64;

/// The place of a region: it begins with the chunk of this index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Region {
    volume: VolumeId,
    first: u32,
}

impl Region {
    /// The region so many further on, where regions have `size` chunks.
    fn moved(self, by: i64, size: u32) -> Region {
        let first = i64::from(self.first) + by * i64::from(size);
        Region { first: u32::try_from(first).unwrap_or(u32::MAX), ..self }
    }
}

/// What an open region waits for.
#[derive(Debug)]
enum State {
    /// The commit that opens it, with chunks whose writes wait for it.
    Opening(Vec<ChunkId>),
    /// Nothing: the journal calls the table of none of its unsaid chunks right.
    Open,
}

/// The open regions.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    open: BTreeMap<Region, State>,
    /// Each once, the one that was looked at longest ago first, and when that was.
    looks: VecDeque<(Region, Nanos)>,
}

impl Regions {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

impl Group {
    fn region_chunks(&self) -> u32 {
        let chunks = REGION_BYTES / u64::from(self.chunk_size);
        (chunks as u32).clamp(1, self.settings.limits.region_chunks)
    }

    fn region_of(&self, chunk: ChunkId) -> Region {
        let first = chunk.index - chunk.index % self.region_chunks();
        Region { volume: chunk.volume, first }
    }

    /// The chunks of a region that the volume has.
    fn chunks_of(&self, region: Region) -> impl Iterator<Item = ChunkId> + use<> {
        let count = self.map.volume(region.volume).map_or(0, |volume| volume.entries.len() as u32);
        let end = region.first.saturating_add(self.region_chunks());
        let indexes: Range<u32> = region.first..count.min(end);
        indexes.map(move |index| ChunkId { volume: region.volume, index })
    }

    /// Opens the region of a chunk whose writes are being announced, for the other chunks in it.
    /// Behind open regions as many more are opened in front of it: a client that writes in order
    /// will be there soon.
    pub(crate) fn open_regions(&mut self, now: Nanos, chunk: ChunkId) {
        let first = self.region_of(chunk);
        let size = self.region_chunks();
        let mut behind = 0;
        while behind < AHEAD_MAX
            && first.first >= (behind + 1) * size
            && self.regions.open.contains_key(&first.moved(-1 - i64::from(behind), size))
        {
            behind += 1;
        }
        self.open_region(now, first, Some(chunk));
        for ahead in 1..=behind {
            let region = first.moved(i64::from(ahead), size);
            if self.records_pile_up() || self.chunks_of(region).next().is_none() {
                break;
            }
            met("region opened ahead");
            self.open_region(now, region, None);
        }
    }

    /// Opens a region, if it is not open and may be, for all its chunks but the one whose writes
    /// have been announced.
    fn open_region(&mut self, now: Nanos, region: Region, announced: Option<ChunkId>) {
        let most = self.settings.limits.regions_open;
        if self.regions.open.contains_key(&region) || self.regions.open.len() >= most {
            return;
        }
        self.regions.open.insert(region, State::Opening(Vec::new()));
        self.regions.looks.push_back((region, now));
        for other in self.chunks_of(region) {
            let has_table = Some(other) != announced && self.map.entry(other).is_sealed();
            if has_table && !self.records_pile_up() {
                met("region opened for more than one chunk");
                self.map.entry_mut(other).set_unsaid(true);
                if !mutant("region_opened_for_one_chunk") {
                    self.announce_only(other);
                }
            }
        }
        self.commit.join(Waiter::Region(region));
    }

    /// The commit that opens the region is durable.
    pub(crate) fn region_opened(&mut self, now: Nanos, region: Region) {
        let before = self.regions.open.insert(region, State::Open);
        if let Some(State::Opening(chunks)) = before {
            for chunk in chunks {
                if self.map.is_busy(chunk) {
                    self.traffic_eased(now, chunk);
                }
            }
        }
    }

    /// True if a write to the chunk must wait until its region is open; it is told then.
    pub(crate) fn waits_for_region(&mut self, chunk: ChunkId) -> bool {
        if !self.map.entry(chunk).is_unsaid() || mutant("written_before_its_region_is_open") {
            return false;
        }
        let region = self.region_of(chunk);
        let Some(State::Opening(waiting)) = self.regions.open.get_mut(&region) else {
            return false;
        };
        if !waiting.contains(&chunk) {
            met("write waited for its region");
            waiting.push(chunk);
        }
        true
    }

    /// A write begins to a chunk in an open region: its table is not right any more.
    pub(crate) fn take_table(&mut self, now: Nanos, chunk: ChunkId) {
        if self.map.entry(chunk).is_unsaid() {
            met("write without an announcement of its own");
            self.break_seal(now, chunk);
        }
    }

    /// True if the journal need not be told of a chunk that gets its table.
    pub(crate) fn is_in_open_region(&self, chunk: ChunkId) -> bool {
        self.regions.open.contains_key(&self.region_of(chunk))
    }

    /// Closes regions in which nobody has written for a while.
    pub(crate) fn close_quiet_regions(&mut self, now: Nanos) {
        for _ in 0..LOOKS_PER_ROUND {
            let due = |looked: Nanos| now.saturating_sub(looked) >= LOOK;
            let Some(&(region, _)) = self.regions.looks.front().filter(|(_, at)| due(*at)) else {
                return;
            };
            let mut written = false;
            for chunk in self.chunks_of(region) {
                written |= self.map.entry_mut(chunk).take_region_written();
            }
            if !written && !self.close_region(region) {
                return; // It comes again when there is room for its records.
            }
            self.regions.looks.pop_front();
            if self.regions.open.contains_key(&region) {
                self.regions.looks.push_back((region, now));
            }
        }
    }

    /// The group closes: regions are closed as far as there is room for their records.
    pub(crate) fn close_regions(&mut self) {
        while let Some(&(region, _)) = self.regions.looks.front() {
            if !self.close_region(region) {
                return;
            }
            self.regions.looks.pop_front();
        }
    }

    /// Tells the journal which tables of the region are right; false while it is being opened, or
    /// the journal has no room.
    fn close_region(&mut self, region: Region) -> bool {
        if !matches!(self.regions.open.get(&region), Some(State::Open)) {
            return false;
        }
        for chunk in self.chunks_of(region) {
            if !self.map.entry(chunk).is_unsaid() {
                continue;
            }
            if self.records_pile_up() {
                met("region closed in parts");
                return false;
            }
            self.map.entry_mut(chunk).set_unsaid(false);
            let state = self.durable_state(chunk);
            self.change(Record::Chunk(chunk, state), chunk, &[]);
        }
        met("region closed");
        self.regions.open.remove(&region);
        true
    }
}
