//! The first slot of a chunk: which pool gives it, how it is made to read as zeroes, and who waits
//! when none is free.

use crate::copies::drop_copy;
use crate::core::traffic::Verb;
use crate::core::traffic::bit;
use crate::format::Record;
use crate::group::Group;
use crate::journal::Waiter;
use crate::map::Place;
use crate::map::{ChunkCopy, NONE};
use crate::pools::flight::Owner;
use crate::request::RequestError;
use thermocline_policy::choice::{self, Room};
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::Bytes;
use thermocline_units::Nanos;
use thermocline_units::PoolId;
use thermocline_units::mutants::mutant;

impl Group {
    /// Gives the chunk of `part` its first slot, and makes it read as zeroes if it may not.
    pub(crate) fn open_chunk(&mut self, now: Nanos, part: u32) {
        let chunk = self.core.parts[part].chunk;
        let hinted = self.hinted_pools(chunk);
        let Some((place, clean)) = self.allocate(self.core.parts[part].unfit, &hinted) else {
            return self.await_space(now, part);
        };
        self.note_hinted(place, &hinted);
        if clean || mutant("slot_not_zeroed") {
            return self.place_chunk(now, part, place);
        }
        let traffic = self.core.traffic_of(chunk);
        self.core.traffic[traffic].opening = Some((part, Some(place)));
        let pool = &self.core.pools[place.pool];
        let offset = pool.address(place, 0, self.core.pools.chunk_bytes());
        let length = Bytes(u64::from(self.core.pools.chunk_bytes()));
        let io = if pool.geometry.discard_zeroes {
            Io::Discard { offset, length }
        } else {
            Io::WriteZeroes { offset, length }
        };
        self.core.parts[part].outstanding += 1;
        self.core.journal.expect_record();
        self.send(now, place.pool, Owner::Part { part, at: 0 }, io);
    }

    pub(crate) fn is_opening(&self, part: u32) -> bool {
        let traffic = self.core.map.entry(self.core.parts[part].chunk).traffic;
        traffic != NONE
            && self.core.traffic[traffic].opening.is_some_and(|(opener, _)| opener == part)
    }

    /// The slot of an unmapped chunk reads as zeroes now, or its pool failed to do that.
    pub(crate) fn opened(
        &mut self,
        now: Nanos,
        part: u32,
        pool: PoolId,
        result: Result<Payload, DeviceError>,
    ) {
        let traffic = self.core.traffic_of(self.core.parts[part].chunk);
        let opening = self.core.traffic[traffic].opening.take();
        let (_, place) = opening.expect("the part opens its chunk");
        let place = place.expect("a slot was being made ready");
        self.core.journal.expected_record_came();
        let zeroed = result.is_ok() || mutant("slot_opened_though_not_zeroed");
        if zeroed && self.core.pools[pool].is_alive() {
            return self.place_chunk(now, part, place);
        }
        self.core.pools[pool].slots.give_back(place.slot, false);
        self.core.parts[part].unfit |= 1 << pool.0;
        if result == Err(DeviceError::NoSpace) {
            self.core.parts[part].error = Some(RequestError::NoSpace);
        }
        self.open_chunk(now, part);
    }

    fn place_chunk(&mut self, now: Nanos, part: u32, place: Place) {
        let chunk = self.core.parts[part].chunk;
        self.core.parts[part].error = None;
        let mut state = self.core.map.state(chunk);
        state.copies = vec![ChunkCopy { place, prefetched: false }];
        self.checksums.watch(&mut self.core, now, chunk);
        self.core.map.set_state(chunk, &state);
        self.core.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
        let range = self.core.parts[part].range.clone();
        if self.core.pools.keep_checksums() {
            let most = self.core.settings.limits.seals_cached;
            self.checksums.opened(chunk, self.core.pools.chunk_bytes(), most, &self.core.map);
            self.checksums.write_begins(chunk, &range, self.core.parts_begun);
        }
        self.core.parts[part].placed_on = Some(place.pool);
        self.part_write(now, part, place, range);
        if self.core.parts[part].outstanding == 0 {
            self.conclude(now, part);
        } else {
            self.traffic_eased(now, chunk);
        }
    }

    /// A free slot for a new chunk, on one of the pools of its `hint` if that can be, and on a far
    /// pool only if nothing else can be: (place, whether it reads as zeroes).
    fn allocate(&mut self, unfit: u64, hint: &[PoolId]) -> Option<(Place, bool)> {
        let id = self.pool_for_chunk(unfit, hint)?;
        let (slot, clean) = self.core.pools[id].slots.take().expect("a slot is free");
        Some((Place { pool: id, slot }, clean))
    }

    /// The pool that has a free slot for a new chunk, as [`Group::allocate`] chooses it.
    pub(crate) fn pool_for_chunk(&self, unfit: u64, hint: &[PoolId]) -> Option<PoolId> {
        let room = |id: PoolId| {
            let pool = &self.core.pools[id];
            let takes = pool.has_space() && unfit & bit(id) == 0;
            Room {
                free: if takes { pool.slots.free() } else { 0 },
                beside_reserve: if takes { pool.free_beside_reserve() } else { 0 },
                far: pool.is_far(),
            }
        };
        choice::pool_for_chunk(self.core.settings.fill, hint, self.core.pools.ranks().order(), room)
    }

    /// No slot is free: prefetched copies go, and slots that wait for the journal may become free.
    fn await_space(&mut self, now: Nanos, part: u32) {
        let evicted = self.evict_prefetched();
        let committing =
            evicted || self.core.journal.will_free() || self.core.operations.will_free();
        if committing || self.slots_leaving > 0 {
            let traffic = self.core.traffic_of(self.core.parts[part].chunk);
            self.core.traffic[traffic].opening = Some((part, None));
            if committing {
                self.core.journal.join(Waiter::Space(part));
            } else {
                self.space_waiters.push(part);
                // What the chunk itself has left need not wait for this part.
                self.traffic_eased(now, self.core.parts[part].chunk);
            }
            return;
        }
        let error = self.core.parts[part].error;
        self.core.parts[part].error = Some(error.unwrap_or(RequestError::NoSpace));
        self.conclude(now, part);
    }

    /// Drops one prefetched copy on a pool that takes chunks.
    fn evict_prefetched(&mut self) -> bool {
        let victim =
            self.core.map.chunks().filter(|&chunk| !self.core.map.is_simple(chunk)).find_map(
                |chunk| {
                    let mut copies = self.core.map.copies(chunk);
                    let copy = copies
                        .find(|c| c.prefetched && self.core.pools[c.place.pool].takes_chunks())?;
                    Some((chunk, copy.place.pool))
                },
            );
        if let Some((chunk, pool)) = victim {
            drop_copy(&mut self.core, &mut self.checksums, chunk, pool, true);
        }
        victim.is_some()
    }

    /// Tries once more to open the chunk of a part that waited for space.
    pub(crate) fn space_may_be_free(&mut self, now: Nanos, part: u32) {
        assert!(matches!(self.core.parts[part].verb, Verb::Write(_)), "only writes open chunks");
        let traffic = self.core.traffic_of(self.core.parts[part].chunk);
        if self.core.records_pile_up() {
            self.core.traffic[traffic].opening = Some((part, None));
            return self.core.journal.join(Waiter::Space(part));
        }
        self.core.traffic[traffic].opening = None;
        self.open_chunk(now, part);
    }
}
