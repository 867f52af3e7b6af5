//! Slots that chunks leave.
//!
//! Such a slot goes through two waits before it is free: until the record that says so is durable,
//! and until the last part that was begun before has ended.

use crate::group::Group;
use crate::map::NONE;
use crate::map::Place;
use crate::pools::flight::Owner;
use thermocline_ports::Io;
use thermocline_units::Bytes;
use thermocline_units::ChunkId;
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;

impl Group {
    /// The record by which `chunk` left `place` is durable.
    pub(crate) fn leave(&mut self, now: Nanos, chunk: ChunkId, place: Place) {
        if !self.core.map.has(chunk) || self.core.map.entry(chunk).traffic == NONE {
            return self.free_slot(now, place);
        }
        let traffic = self.core.traffic_of(chunk);
        self.core.traffic[traffic].left.push((self.core.parts_begun, place));
        self.slots_leaving += 1;
        self.traffic_eased(now, chunk);
    }

    /// Frees slots that the chunk has left and no part is on any more; whether there were any.
    pub(crate) fn free_left_slots(&mut self, now: Nanos, chunk: ChunkId) -> bool {
        let traffic = self.core.traffic_of(chunk);
        if self.core.traffic[traffic].left.is_empty() || self.core.traffic[traffic].repairing {
            return false;
        }
        let state = &self.core.traffic[traffic];
        // A part that opens the chunk found it unmapped: it is on no slot, and may wait for these.
        let opener = state.opening.map(|(part, _)| part);
        let on_slots = state.running.iter().filter(|&&part| Some(part) != opener);
        let oldest = on_slots.map(|&part| self.core.parts[part].order).min();
        let oldest = oldest.unwrap_or(u64::MAX);
        let left = std::mem::take(&mut self.core.traffic[traffic].left);
        let (free, keep) = left.into_iter().partition(|&(order, _)| {
            order < oldest || order == oldest && mutant("slot_freed_one_part_early")
        });
        self.core.traffic[traffic].left = keep;
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
        let pool = &self.core.pools[place.pool];
        if pool.is_alive() && pool.geometry.discard_zeroes {
            let offset = pool.address(place, 0, self.core.pools.chunk_bytes());
            let length = Bytes(u64::from(self.core.pools.chunk_bytes()));
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
        self.core.pools[place.pool].slots.give_back(place.slot, clean);
        self.moves.look_again();
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
