//! Several copies of a chunk: dropping those that failed, opening the first, leaving slots.
//!
//! A slot that a chunk leaves goes through two waits before it is free: until the record that says
//! so is durable, and until the last part that was begun before has ended.

use crate::copying::Copier;
use crate::foreground::{Traffic, Verb, bit};
use crate::format::Record;
use crate::group::Group;
use crate::journal::Waiter;
use crate::map::{ChunkCopy, ChunkMap, ChunkState, NONE, Place, Table};
use crate::operation::{Operation, OperationKind};
use crate::overlay::Side;
use crate::pools::flight::Owner;
use crate::request::RequestError;
use thermocline_policy::choice::{self, Room};
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, Slab};

/// A chunk as the journal must say it: as it is once all that is queued is durable.
pub(crate) fn durable_state(
    map: &ChunkMap,
    traffic: &Slab<Traffic>,
    copier: &Copier,
    chunk: ChunkId,
) -> ChunkState {
    let mut state = map.state(chunk);
    let index = map.entry(chunk).traffic;
    if index != NONE {
        let traffic = &traffic[index];
        state.dirty |= traffic.intent && !mutant("intent_not_in_the_record");
        if traffic.intent {
            state.table = Table::None;
        }
        if let Some(operation) = traffic.operation {
            copier.operations[operation].foretell(&mut state);
        }
    }
    state
}

impl Group {
    /// The chunk as the journal shall have it once all that is queued is durable.
    pub(crate) fn durable_state(&self, chunk: ChunkId) -> ChunkState {
        durable_state(&self.map, &self.traffic, &self.copier, chunk)
    }

    /// Notes when the copies were last written.
    pub(crate) fn touch_copies(&mut self, now: Nanos, chunk: ChunkId) {
        let mirrored = self.map.mirror(chunk).is_some();
        if mirrored || self.map.extra(chunk).is_some_and(|extra| !extra.others.is_empty()) {
            self.map.extra_mut(chunk).last_write = now;
        }
    }

    /// Drops the copy on `pool`, unless it is the only one; another will be made.
    pub(crate) fn copy_failed(&mut self, chunk: ChunkId, pool: PoolId) {
        if self.drop_copy(chunk, pool, false) {
            self.copier.wish(Operation { kind: OperationKind::Replicate, chunk, to: pool });
        }
    }

    /// Drops the copy on `pool`, unless it is the only one; whether an ordinary copy was dropped.
    pub(crate) fn drop_copy(
        &mut self,
        chunk: ChunkId,
        pool: PoolId,
        only_prefetched: bool,
    ) -> bool {
        let mut state = self.map.state(chunk);
        let found = state.copies.iter().position(|copy| copy.place.pool == pool);
        let Some(index) = found.filter(|_| state.copies.len() > 1) else { return false };
        if only_prefetched && !state.copies[index].prefetched {
            return false;
        }
        met_if(!state.dirty, "copy dropped that the journal calls equal");
        let copy = state.copies.remove(index);
        self.await_drop(chunk, state.dirty);
        self.uncount_prefetched(copy);
        self.uncount_prefetched(state.copies[0]);
        state.copies[0].prefetched = false;
        state.dirty &= state.may_differ();
        self.drop_orphaned_table(chunk, &mut state);
        self.map.set_state(chunk, &state);
        let durable = self.durable_state(chunk);
        self.journal.change(&Record::Chunk(chunk, durable), chunk, &[copy.place]);
        !copy.prefetched
    }

    /// Makes an ordinary copy of the prefetched one on `pool`. On request the chunk moves there: it
    /// is the first copy, and the one that was first is dropped.
    pub(crate) fn keep_prefetched(&mut self, chunk: ChunkId, pool: PoolId, moves: bool) {
        let mut state = self.map.state(chunk);
        let home = state.copies[0].place.pool;
        let found = state.copies.iter().position(|copy| copy.place.pool == pool);
        let index = found.expect("the caller found it");
        self.uncount_prefetched(state.copies[index]);
        state.copies[index].prefetched = mutant("kept_copy_still_prefetched");
        if moves {
            let copy = state.copies.remove(index);
            state.copies.insert(0, copy);
        }
        self.map.set_state(chunk, &state);
        if moves {
            // One record says both: after a crash the old copy shall not count as asked for.
            self.drop_copy(chunk, home, false);
        } else {
            let durable = self.durable_state(chunk);
            self.journal.change(&Record::Chunk(chunk, durable), chunk, &[]);
        }
    }

    fn uncount_prefetched(&mut self, copy: ChunkCopy) {
        if copy.prefetched {
            self.pools[copy.place.pool].uncount_prefetched();
        }
    }

    /// True if a chunk has a copy on the pool beside others.
    pub(crate) fn has_spare_copy_on(&self, pool: PoolId) -> bool {
        self.map.chunks().filter(|&chunk| !self.map.is_simple(chunk)).any(|chunk| {
            self.map.copies(chunk).count() > 1
                && self.map.copies(chunk).any(|copy| copy.place.pool == pool)
        })
    }

    /// The pool is dead: chunks with copies elsewhere lose theirs on it. One record says it for
    /// all.
    pub(crate) fn forget_copies_on(&mut self, pool: PoolId) {
        let several: Vec<ChunkId> =
            self.map.chunks().filter(|&chunk| !self.map.is_simple(chunk)).collect();
        for chunk in several {
            self.wish_on_the_living_side(chunk, pool);
            let mut state = self.map.state(chunk);
            let announced = state.dirty;
            let lost = state.lose_pool(pool);
            if !lost.is_empty() {
                self.await_drop(chunk, announced);
            }
            for copy in lost {
                self.uncount_prefetched(copy);
                self.pools[pool].slots.give_back(copy.place.slot, false);
            }
            let prefetched = state.copies.first().copied().filter(|first| first.prefetched);
            if let Some(first) = prefetched {
                self.uncount_prefetched(first);
                state.copies[0].prefetched = false;
            }
            self.drop_orphaned_table(chunk, &mut state);
            self.map.set_state(chunk, &state);
        }
        if !mutant("death_not_recorded") {
            self.journal.record_death(pool);
        }
    }

    /// A pool died: a mirrored chunk that is on it shall be whole on its other side.
    fn wish_on_the_living_side(&mut self, chunk: ChunkId, dead: PoolId) {
        if self.map.mirror(chunk).is_none() {
            return;
        }
        let [base, above] =
            [Side::Base, Side::Above].map(|side| self.map.place_on(chunk, side).pool);
        if base == dead || above == dead {
            let to = if base == dead { above } else { base };
            self.copier.wish(Operation { kind: OperationKind::Migrate, chunk, to });
        }
    }

    /// Gives the chunk of `part` its first slot, and makes it read as zeroes if it may not.
    pub(crate) fn open_chunk(&mut self, now: Nanos, part: u32) {
        let chunk = self.parts[part].chunk;
        let hinted = self.hinted_pools(chunk);
        let Some((place, clean)) = self.allocate(self.parts[part].unfit, &hinted) else {
            return self.await_space(now, part);
        };
        self.note_hinted(place, &hinted);
        if clean || mutant("slot_not_zeroed") {
            return self.place_chunk(now, part, place);
        }
        let traffic = self.traffic_of(chunk);
        self.traffic[traffic].opening = Some((part, Some(place)));
        let pool = &self.pools[place.pool];
        let offset = pool.address(place, 0, self.pools.chunk_bytes());
        let length = Bytes(u64::from(self.pools.chunk_bytes()));
        let io = if pool.geometry.discard_zeroes {
            Io::Discard { offset, length }
        } else {
            Io::WriteZeroes { offset, length }
        };
        self.parts[part].outstanding += 1;
        self.journal.expect_record();
        self.send(now, place.pool, Owner::Part { part, at: 0 }, io);
    }

    pub(crate) fn is_opening(&self, part: u32) -> bool {
        let traffic = self.map.entry(self.parts[part].chunk).traffic;
        traffic != NONE && self.traffic[traffic].opening.is_some_and(|(opener, _)| opener == part)
    }

    /// The slot of an unmapped chunk reads as zeroes now, or its pool failed to do that.
    pub(crate) fn opened(
        &mut self,
        now: Nanos,
        part: u32,
        pool: PoolId,
        result: Result<Payload, DeviceError>,
    ) {
        let traffic = self.traffic_of(self.parts[part].chunk);
        let opening = self.traffic[traffic].opening.take();
        let (_, place) = opening.expect("the part opens its chunk");
        let place = place.expect("a slot was being made ready");
        self.journal.expected_record_came();
        let zeroed = result.is_ok() || mutant("slot_opened_though_not_zeroed");
        if zeroed && self.pools[pool].is_alive() {
            return self.place_chunk(now, part, place);
        }
        self.pools[pool].slots.give_back(place.slot, false);
        self.parts[part].unfit |= 1 << pool.0;
        if result == Err(DeviceError::NoSpace) {
            self.parts[part].error = Some(RequestError::NoSpace);
        }
        self.open_chunk(now, part);
    }

    fn place_chunk(&mut self, now: Nanos, part: u32, place: Place) {
        let chunk = self.parts[part].chunk;
        self.parts[part].error = None;
        let mut state = self.map.state(chunk);
        state.copies = vec![ChunkCopy { place, prefetched: false }];
        self.watch(now, chunk);
        self.map.set_state(chunk, &state);
        self.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
        let range = self.parts[part].range.clone();
        if self.keeps_checksums() {
            let most = self.settings.limits.seals_cached;
            self.checksums.opened(chunk, self.pools.chunk_bytes(), most, &self.map);
            self.checksums.write_begins(chunk, &range, self.parts_begun);
        }
        self.parts[part].placed_on = Some(place.pool);
        self.part_write(now, part, place, range);
        if self.parts[part].outstanding == 0 {
            self.conclude(now, part);
        } else {
            self.traffic_eased(now, chunk);
        }
    }

    /// A free slot for a new chunk, on one of the pools of its `hint` if that can be, and on a far
    /// pool only if nothing else can be: (place, whether it reads as zeroes).
    fn allocate(&mut self, unfit: u64, hint: &[PoolId]) -> Option<(Place, bool)> {
        let id = self.pool_for_chunk(unfit, hint)?;
        let (slot, clean) = self.pools[id].slots.take().expect("a slot is free");
        Some((Place { pool: id, slot }, clean))
    }

    /// The pool that has a free slot for a new chunk, as [`Group::allocate`] chooses it.
    pub(crate) fn pool_for_chunk(&self, unfit: u64, hint: &[PoolId]) -> Option<PoolId> {
        let room = |id: PoolId| {
            let pool = &self.pools[id];
            let takes = pool.has_space() && unfit & bit(id) == 0;
            Room {
                free: if takes { pool.slots.free() } else { 0 },
                beside_reserve: if takes { pool.free_beside_reserve() } else { 0 },
                far: pool.is_far(),
            }
        };
        choice::pool_for_chunk(self.settings.fill, hint, self.pools.ranks().order(), room)
    }

    /// No slot is free: prefetched copies go, and slots that wait for the journal may become free.
    fn await_space(&mut self, now: Nanos, part: u32) {
        let evicted = self.evict_prefetched();
        let committing = evicted || self.journal.will_free() || self.copier.will_free();
        if committing || self.slots_leaving > 0 {
            let traffic = self.traffic_of(self.parts[part].chunk);
            self.traffic[traffic].opening = Some((part, None));
            if committing {
                self.journal.join(Waiter::Space(part));
            } else {
                self.space_waiters.push(part);
                // What the chunk itself has left need not wait for this part.
                self.traffic_eased(now, self.parts[part].chunk);
            }
            return;
        }
        let error = self.parts[part].error;
        self.parts[part].error = Some(error.unwrap_or(RequestError::NoSpace));
        self.conclude(now, part);
    }

    /// Drops one prefetched copy on a pool that takes chunks.
    fn evict_prefetched(&mut self) -> bool {
        let victim =
            self.map.chunks().filter(|&chunk| !self.map.is_simple(chunk)).find_map(|chunk| {
                let mut copies = self.map.copies(chunk);
                let copy =
                    copies.find(|c| c.prefetched && self.pools[c.place.pool].takes_chunks())?;
                Some((chunk, copy.place.pool))
            });
        if let Some((chunk, pool)) = victim {
            self.drop_copy(chunk, pool, true);
        }
        victim.is_some()
    }

    /// Tries once more to open the chunk of a part that waited for space.
    pub(crate) fn space_may_be_free(&mut self, now: Nanos, part: u32) {
        assert!(matches!(self.parts[part].verb, Verb::Write(_)), "only writes open chunks");
        let traffic = self.traffic_of(self.parts[part].chunk);
        if self.records_pile_up() {
            self.traffic[traffic].opening = Some((part, None));
            return self.journal.join(Waiter::Space(part));
        }
        self.traffic[traffic].opening = None;
        self.open_chunk(now, part);
    }

    /// The record by which `chunk` left `place` is durable.
    pub(crate) fn leave(&mut self, now: Nanos, chunk: ChunkId, place: Place) {
        if !self.map.has(chunk) || self.map.entry(chunk).traffic == NONE {
            return self.free_slot(now, place);
        }
        let traffic = self.traffic_of(chunk);
        self.traffic[traffic].left.push((self.parts_begun, place));
        self.slots_leaving += 1;
        self.traffic_eased(now, chunk);
    }

    /// Frees slots that the chunk has left and no part is on any more; whether there were any.
    pub(crate) fn free_left_slots(&mut self, now: Nanos, chunk: ChunkId) -> bool {
        let traffic = self.traffic_of(chunk);
        if self.traffic[traffic].left.is_empty() || self.traffic[traffic].repairing {
            return false;
        }
        let state = &self.traffic[traffic];
        // A part that opens the chunk found it unmapped: it is on no slot, and may wait for these.
        let opener = state.opening.map(|(part, _)| part);
        let on_slots = state.running.iter().filter(|&&part| Some(part) != opener);
        let oldest = on_slots.map(|&part| self.parts[part].order).min();
        let oldest = oldest.unwrap_or(u64::MAX);
        let left = std::mem::take(&mut self.traffic[traffic].left);
        let (free, keep) = left.into_iter().partition(|&(order, _)| {
            order < oldest || order == oldest && mutant("slot_freed_one_part_early")
        });
        self.traffic[traffic].left = keep;
        let free: Vec<(u64, Place)> = free;
        let any = !free.is_empty();
        for (_, place) in free {
            self.slot_has_left();
            self.free_slot(now, place);
        }
        any
    }

    /// Nothing refers to the slot any more, in memory or on disk.
    pub(crate) fn free_slot(&mut self, now: Nanos, place: Place) {
        let pool = &self.pools[place.pool];
        if pool.is_alive() && pool.geometry.discard_zeroes {
            let offset = pool.address(place, 0, self.pools.chunk_bytes());
            let length = Bytes(u64::from(self.pools.chunk_bytes()));
            let owner = Owner::Clean { slot: place.slot };
            self.slots_leaving += 1;
            self.send(now, place.pool, owner, Io::Discard { offset, length });
        } else {
            self.give_back(now, place, false);
        }
    }

    /// One of those that were leaving has left.
    pub(crate) fn slot_has_left(&mut self) {
        assert!(self.slots_leaving > 0, "each slot leaves once");
        self.slots_leaving -= 1;
    }

    fn give_back(&mut self, now: Nanos, place: Place, clean: bool) {
        self.pools[place.pool].slots.give_back(place.slot, clean);
        self.proposal.look_again();
        for part in std::mem::take(&mut self.space_waiters) {
            self.space_may_be_free(now, part);
        }
    }

    /// A freed slot was discarded, or could not be.
    pub(crate) fn clean_done(&mut self, now: Nanos, place: Place, clean: bool) {
        self.slot_has_left();
        met_if(!clean, "discard of a freed slot failed");
        self.give_back(now, place, clean || mutant("slot_clean_though_not_discarded"));
    }
}
