//! Lines: clean copies of single blocks of 4 KiB, in slots of the fastest pool that no chunk needs.
//!
//! 1. A slot of the fastest pool is *lent*: it is taken in the pool's slots and named by no record.
//!    Its frames hold blocks of chunks whose copies are all on slower pools.
//! 2. A read of few blocks, all of which are lines, goes to their frames. One that missed goes to
//!    the chunk, and what came is written to frames in the background: a *fill*. S3-FIFO within
//!    sets of 16 frames says whose frame that is, so that what comes once displaces little.
//! 3. A write goes to the chunk as it would without lines. When it begins, the lines of its blocks
//!    count no more; when it has succeeded, those that have a frame are filled with what it wrote.
//!    So no line is ever newer or older than its chunk, nothing of lines is on record, and a crash
//!    forgets them all.
//! 4. A line has a checksum in memory. One that cannot be read, or reads wrongly, is forgotten, and
//!    its chunk answers.
//! 5. A lent slot goes back whenever a chunk or the metadata needs it: at once where no request is
//!    under way on it, else when the last one has ended. It is not read or filled any more.
//!
//! Hazards. A fill must not show what was read before a write: it is not begun if a write to the
//! chunk has begun or ended since the read began, or is under way; if one begins while the fill is
//! under way, the frame is empty afterwards. A frame is not written while it is read, nor given to
//! another line while it is read or filled.
//!
//! A line is in the slot that [`hashing`] names among those that are lent. Where more are lent than
//! when it was filled, it may be in an older place, which counts again if slots go back; so a write
//! voids it in all places that it may ever have been in.
//!
//! State: 28 B a line and some 150 B a slot: 0.7 % of what is lent.

pub(crate) mod lending;

mod bucket;
mod hashing;

use crate::map::place::Place;
use crate::map::sums::checksums;
use crate::pools::Pools;
use crate::pools::flight::Owner;
use crate::settings::BLOCK;
use bucket::{Bucket, Held, Line};
use std::ops::Range;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, Slab, VolumeId};

/// Blocks of the longest read that lines answer and are filled from. Longer ones are streams, which
/// slow pools serve well.
pub(crate) const BLOCKS_MAX: u32 = 8;
/// Fills under way at once; beyond it what comes is not kept.
const FILLS_MAX: usize = 64;

/// Counts of lines since the group was opened, and their state now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinesStatus {
    /// The pool whose slots are lent; `None`: none ever was.
    pub pool: Option<PoolId>,
    /// Slots that are wanted for lines.
    pub wanted: u32,
    /// Slots that are lent.
    pub lent: u32,
    /// Lines that can be read now.
    pub lines: u64,
    /// Memory that they take.
    pub memory: Bytes,
    /// Reads that lines answered, in part or whole: device requests.
    pub hits: u64,
    /// Reads of few blocks that lines could not answer.
    pub misses: u64,
    /// Lines that were written, after reads and after writes.
    pub fills: u64,
    /// Lines that could not be read, or had other contents than were written.
    pub wrong: u64,
}

/// A read of a line that is under way.
#[derive(Debug)]
struct LineRead {
    bucket: u32,
    held: Held,
    sub_request: u32,
    /// Byte of the chunk.
    at: u32,
}

/// The end of a read of a line.
#[derive(Debug)]
pub(crate) struct LineAnswer {
    pub(crate) sub_request: u32,
    /// Bytes of the chunk that were asked for.
    pub(crate) range: Range<u32>,
    /// The contents; `None`: the chunk must answer.
    pub(crate) payload: Option<Payload>,
}

/// Blocks that are true of a chunk at this moment, to be kept as lines.
#[derive(Debug)]
pub(crate) struct Kept<'a> {
    pub(crate) chunk: ChunkId,
    /// Byte of the chunk at which the contents begin; a whole block.
    pub(crate) at: u32,
    /// Whole blocks.
    pub(crate) payload: &'a Payload,
    /// True if a client wrote them, and only lines that have a frame are filled.
    pub(crate) written: bool,
}

/// All lines of a group.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The pool of all lent slots that serve.
    pool: Option<PoolId>,
    buckets: Slab<Bucket>,
    /// Lent slots that serve, by their number in hashing.
    order: Vec<u32>,
    reads: Slab<LineRead>,
    fills: Slab<(u32, Held)>,
    wanted: u32,
    planned: bool,
    /// True if a slot went back since this was last asked.
    freed: bool,
    status: LinesStatus,
}

impl Lines {
    /// State and counts.
    pub(crate) fn status(&self) -> LinesStatus {
        let buckets = self.buckets.iter().map(|(_, bucket)| bucket);
        let (mut lines, mut memory) = (0, 0);
        for bucket in buckets.filter(|bucket| bucket.serves) {
            lines += u64::from(bucket.whole());
            memory += bucket.bytes();
        }
        let (pool, wanted, lent) = (self.pool, self.wanted, self.lent());
        LinesStatus { pool, wanted, lent, lines, memory: Bytes(memory), ..self.status }
    }

    /// Slots that are lent, and serve.
    pub(crate) fn lent(&self) -> u32 {
        self.order.len() as u32
    }

    /// Notes how many slots are wanted; `planned`: whether the placement has asked for them.
    pub(crate) fn want(&mut self, slots: u32, planned: bool) {
        (self.wanted, self.planned) = (slots, planned);
    }

    /// True if the placement has asked for all slots that are lent on a pool.
    pub(crate) fn are_planned_on(&self, pool: PoolId) -> bool {
        self.planned && self.pool() == Some(pool) && self.lent() <= self.wanted
    }

    /// The pool of the lent slots; `None`: none is lent.
    pub(crate) fn pool(&self) -> Option<PoolId> {
        self.pool.filter(|_| !self.order.is_empty())
    }

    /// Places of all slots that were lent and did not go back yet.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.buckets.iter().map(|(_, bucket)| bucket.place)
    }

    /// True if a slot went back since this was last asked.
    pub(crate) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.freed)
    }

    /// True if slots go back that requests are still under way on.
    pub(crate) fn are_leaving(&self) -> bool {
        self.buckets.len() > self.order.len()
    }

    /// The bucket in which a line is now, if it is anywhere.
    fn bucket_of(&self, line: &Line) -> Option<u32> {
        let place = hashing::places(line.hash(), self.lent()).last()?;
        Some(self.order[place as usize])
    }

    /// The pool whose lines answer a read of these bytes; `None`: the chunk does.
    pub(crate) fn answer(&self, chunk: ChunkId, bytes: &Range<u32>) -> Option<PoolId> {
        let pool = self.pool()?;
        let mut starts = blocks_of(bytes)?;
        let is_there = |at: u32| {
            let line = Line::at(chunk, at);
            self.bucket_of(&line).is_some_and(|bucket| self.buckets[bucket].has(&line))
        };
        starts.all(is_there).then_some(pool)
    }

    /// Notes a read of few blocks that lines could not answer.
    pub(crate) fn note_miss(&mut self, bytes: &Range<u32>) {
        let counts = !self.order.is_empty() && blocks_of(bytes).is_some();
        self.status.misses += u64::from(counts);
    }

    /// Sends reads of the lines of these bytes, which are all there; how many.
    pub(crate) fn read(
        &mut self,
        pools: &mut Pools,
        now: Nanos,
        (chunk, bytes): (ChunkId, &Range<u32>),
        sub_request: u32,
        background: bool,
    ) -> u32 {
        let mut sent = 0;
        for at in blocks_of(bytes).into_iter().flatten() {
            let line = Line::at(chunk, at);
            let bucket = self.bucket_of(&line).expect("it is there");
            let held = self.buckets[bucket].begin_read(&line);
            self.pin(pools, bucket);
            let read = self.reads.insert(LineRead { bucket, held, sub_request, at });
            let place = self.buckets[bucket].place;
            let (offset, length) = (address(pools, place, held.frame), BLOCK);
            let owner = Owner::LineRead { read };
            pools.send(now, place.pool, owner, Io::Read { offset, length }, background);
            sent += 1;
        }
        assert!(sent > 0, "what lines answer is read");
        met("read answered by lines");
        self.status.hits += 1;
        sent
    }

    /// A read of a line was answered.
    pub(crate) fn read_ended(
        &mut self,
        pools: &mut Pools,
        read: u32,
        result: Result<Payload, DeviceError>,
    ) -> LineAnswer {
        let LineRead { bucket, held, sub_request, at } = self.reads.remove(read);
        let right = |payload: &Payload| checksums(payload) == [held.sum];
        let serves = self.buckets[bucket].serves;
        let payload = result.ok().filter(|payload| payload.len() == BLOCK && right(payload));
        let wrong = payload.is_none();
        met_if(wrong && serves, "line could not be read");
        self.status.wrong += u64::from(wrong);
        self.buckets[bucket].end_read(held, wrong);
        self.unpin(pools, bucket);
        assert!(at.is_multiple_of(BLOCK), "lines are whole blocks");
        LineAnswer { sub_request, range: at..at + BLOCK, payload }
    }

    /// Keeps blocks that are true of their chunk now, as far as that may be.
    pub(crate) fn keep(&mut self, pools: &mut Pools, now: Nanos, kept: &Kept<'_>) {
        let bytes = kept.at..kept.at + kept.payload.len();
        let Some(pool) = self.pool().filter(|_| !kept.payload.is_empty()) else { return };
        if pools[pool].is_full() || blocks_of(&bytes).is_none() {
            return;
        }
        for (at, sum) in (bytes.start..).step_by(BLOCK as usize).zip(checksums(kept.payload)) {
            if self.fills.len() >= FILLS_MAX {
                met("fill given up among many");
                return;
            }
            // What is left belongs to moves: they need a whole chunk's worth at once.
            let chunk = Bytes(u64::from(pools.chunk_bytes()));
            if !pools[pool].wear.allows(now, chunk) {
                return;
            }
            let line = Line::at(kept.chunk, at);
            let bucket = self.bucket_of(&line).expect("slots are lent");
            let held = match kept.written {
                true => self.buckets[bucket].renew(&line, sum),
                false => self.buckets[bucket].admit(&line, sum),
            };
            let Some(held) = held else { continue };
            met_if(kept.written, "line renewed by a write");
            self.pin(pools, bucket);
            pools[pool].wear.spend(Bytes(BLOCK.into()));
            let fill = self.fills.insert((bucket, held));
            let place = self.buckets[bucket].place;
            let (from, offset) = (at - kept.at, address(pools, place, held.frame));
            let data = kept.payload.slice(from..from + BLOCK);
            let io = Io::Write { offset, data, fua: false };
            pools.send(now, place.pool, Owner::LineFill { fill }, io, false);
        }
        assert!(self.fills.len() <= FILLS_MAX, "fills are bounded");
    }

    /// A fill was answered.
    pub(crate) fn fill_ended(&mut self, pools: &mut Pools, fill: u32, good: bool) {
        let (bucket, held) = self.fills.remove(fill);
        assert!(self.buckets[bucket].is_pinned(), "a fill is under way on its slot");
        self.buckets[bucket].end_fill(held, good);
        self.status.fills += u64::from(good);
        self.unpin(pools, bucket);
    }

    /// Bytes of a chunk change, or cease to be: its lines count no more.
    pub(crate) fn void(&mut self, chunk: ChunkId, bytes: &Range<u32>) {
        let lent = self.lent();
        if lent == 0 || mutant("write_leaves_its_lines") {
            return;
        }
        let forgets = mutant("older_places_of_a_line_forgotten");
        for block in bytes.start / BLOCK..bytes.end.div_ceil(BLOCK) {
            let line = Line { chunk, block };
            let now = self.bucket_of(&line);
            for place in hashing::places(line.hash(), lent) {
                let bucket = self.order[place as usize];
                if !forgets || Some(bucket) == now {
                    self.buckets[bucket].invalidate(&line);
                }
            }
        }
        assert!(self.answer(chunk, bytes).is_none(), "what changes is no line");
    }

    /// A volume is gone, and another may get its number.
    pub(crate) fn forget_volume(&mut self, volume: VolumeId) {
        if mutant("deleted_volume_leaves_its_lines") {
            return;
        }
        for (_, bucket) in self.buckets.iter_mut() {
            bucket.invalidate_all(|line| line.chunk.volume == volume);
        }
        assert!(self.lent() as usize <= self.buckets.len(), "each slot that serves has lines");
    }

    /// Lends a free slot of a pool; false: it has none.
    pub(crate) fn lend(&mut self, pools: &mut Pools, pool: PoolId) -> bool {
        assert!(self.pool().is_none_or(|lent| lent == pool), "lines are on one pool");
        let chunk_bytes = pools.chunk_bytes();
        let Some((slot, _)) = pools[pool].slots.take() else { return false };
        let bucket = Bucket::new(Place { pool, slot }, chunk_bytes);
        self.order.push(self.buckets.insert(bucket));
        self.pool = Some(pool);
        pools[pool].lent += 1;
        pools[pool].lent_idle += 1;
        assert!(pools[pool].lent_idle <= pools[pool].lent, "who is idle is lent");
        true
    }

    /// Takes back the slot that was lent last; it is free now, or soon. False: none is lent.
    pub(crate) fn take_back(&mut self, pools: &mut Pools) -> bool {
        let Some(bucket) = self.order.pop() else { return false };
        let state = &mut self.buckets[bucket];
        met_if(state.whole() > 0, "lent slot taken back");
        state.retire();
        let pool = state.place.pool;
        if !state.is_pinned() {
            assert!(pools[pool].lent_idle > 0, "a slot without requests is idle");
            pools[pool].lent_idle -= 1;
        }
        self.give_back_if_idle(pools, bucket);
        true
    }

    /// Takes slots back until one is free on the pool, or none is lent there.
    pub(crate) fn make_room(&mut self, pools: &mut Pools, pool: PoolId) {
        while pools[pool].slots.free() == 0 && self.pool() == Some(pool) {
            self.take_back(pools);
        }
        let none = self.pool() != Some(pool);
        assert!(none || pools[pool].slots.free() > 0, "what is lent goes back first");
    }

    /// Takes all slots back.
    pub(crate) fn take_back_all(&mut self, pools: &mut Pools) {
        while self.take_back(pools) {}
        assert_eq!(self.lent(), 0, "all of them go back");
    }

    /// A pool has died, and its lines with it.
    pub(crate) fn lose(&mut self, pools: &mut Pools, pool: PoolId) {
        if self.pool() == Some(pool) {
            met_if(self.status().lines > 0, "lines lost with their pool");
            self.take_back_all(pools);
        }
        assert_ne!(self.pool(), Some(pool), "no line of it is read any more");
    }

    /// A request on a lent slot has begun.
    fn pin(&self, pools: &mut Pools, bucket: u32) {
        let state = &self.buckets[bucket];
        assert!(state.serves && state.is_pinned(), "requests begin on slots that serve");
        if state.pins() == 1 {
            pools[state.place.pool].lent_idle -= 1;
        }
    }

    /// A request on a lent slot has ended.
    fn unpin(&mut self, pools: &mut Pools, bucket: u32) {
        let state = &self.buckets[bucket];
        if !state.serves {
            if mutant("lent_slot_freed_under_requests") {
                // It went back before.
                if !state.is_pinned() {
                    self.buckets.remove(bucket);
                }
                return;
            }
            return self.give_back_if_idle(pools, bucket);
        }
        let pool = &mut pools[state.place.pool];
        if !state.is_pinned() {
            pool.lent_idle += 1;
        }
        assert!(pool.lent_idle <= pool.lent, "who is idle is lent");
    }

    /// Gives a slot that serves no more back to its pool, if nothing is under way on it.
    fn give_back_if_idle(&mut self, pools: &mut Pools, bucket: u32) {
        assert!(!self.buckets[bucket].serves, "who serves stays");
        let (place, is_pinned) = (self.buckets[bucket].place, self.buckets[bucket].is_pinned());
        if is_pinned && !mutant("lent_slot_freed_under_requests") {
            return;
        }
        if !is_pinned {
            self.buckets.remove(bucket);
        }
        let pool = &mut pools[place.pool];
        assert!(pool.lent > pool.lent_idle, "what goes back was lent, and is not idle any more");
        pool.lent -= 1;
        pool.slots.give_back(place.slot, false);
        self.freed = true;
    }
}

/// True if lines answer, and are filled from, reads of so many bytes.
pub(crate) fn are_few(bytes: &Range<u32>) -> bool {
    blocks_of(bytes).is_some()
}

/// The blocks that a read of these bytes touches, by where they begin; `None`: they are too many.
fn blocks_of(bytes: &Range<u32>) -> Option<std::iter::StepBy<Range<u32>>> {
    let start = bytes.start / BLOCK * BLOCK;
    let few = bytes.end.saturating_sub(start).div_ceil(BLOCK) <= BLOCKS_MAX;
    few.then(|| (start..bytes.end).step_by(BLOCK as usize))
}

/// Offset of a frame on its device.
fn address(pools: &Pools, place: Place, frame: u32) -> Bytes {
    pools[place.pool].address(place, frame * BLOCK, pools.chunk_bytes())
}

#[cfg(test)]
mod tests;
