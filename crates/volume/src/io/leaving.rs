//! Slots that chunks leave.
//!
//! Such a slot goes through two waits before it is free: until the record that says so is durable,
//! and until the last sub-request that was begun before has ended.

use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::group_state::service::Service;
use crate::map::place::Place;
use crate::pools::flight::Owner;
use thermocline_ports::Io;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{Bytes, ChunkId, Nanos};

/// The slots of a group that chunks leave.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    /// Slots that some sub-request is still on, or that are being made to read as zeroes.
    pub(in crate::io) slots: u32,
    /// Sub-requests that wait for such a slot.
    pub(in crate::io) waiting: Vec<u32>,
}

impl Leaving {
    /// The record by which `chunk` left `place` is durable.
    pub(crate) fn leave(
        &mut self,
        group: &mut GroupState,
        now: Nanos,
        chunk: ChunkId,
        place: Place,
    ) {
        let named = || group.map.copies(chunk).any(|copy| copy.place == place);
        assert!(!group.map.has(chunk) || !named(), "what a chunk has left it is not on");
        if !group.map.is_busy(chunk) {
            return self.free_slot(group, now, place);
        }
        let begun = group.sub_requests_begun;
        group.busy_chunk_of(chunk).left.push((begun, place));
        self.slots += 1;
        group.emit(Effect::Eased(chunk));
    }

    /// Frees slots that the chunk has left and no sub-request is on any more; whether there were
    /// any.
    pub(crate) fn free_left_slots(
        &mut self,
        group: &mut GroupState,
        now: Nanos,
        chunk: ChunkId,
    ) -> bool {
        let Some(state) = group.busy_chunk(chunk) else { return false };
        if state.left.is_empty() || state.repairing {
            return false;
        }
        // A sub-request that opens the chunk found it unmapped: it is on no slot, and may wait for
        // these.
        let opener = state.opening.map(|(sub_request, _)| sub_request);
        let on_slots = state.running.iter().filter(|&&sub_request| Some(sub_request) != opener);
        let oldest = on_slots.map(|&sub_request| group.sub_requests[sub_request].order).min();
        let oldest = oldest.unwrap_or(u64::MAX);
        let left = std::mem::take(&mut group.busy_chunk_of(chunk).left);
        let (free, keep) = left.into_iter().partition(|&(order, _)| {
            order < oldest || order == oldest && mutant("slot_freed_one_sub_request_early")
        });
        group.busy_chunk_of(chunk).left = keep;
        let free: Vec<(u64, Place)> = free;
        let any = !free.is_empty();
        assert!(free.len() <= self.slots as usize, "each slot that leaves was counted");
        for (_, place) in free {
            self.slot_has_left();
            self.free_slot(group, now, place);
        }
        any
    }

    /// Nothing refers to the slot any more, in memory or on disk.
    pub(crate) fn free_slot(&mut self, group: &mut GroupState, now: Nanos, place: Place) {
        let pool = &group.pools[place.pool];
        assert!(pool.slots.is_taken(place.slot), "a slot is let go once");
        debug_assert!(!group.pools.flights().any(|flight| {
            let is_there =
                matches!(flight.owner, Owner::SubRequest { .. }) && flight.place() == place;
            is_there && pool.is_alive()
        }));
        if pool.is_alive() && pool.geometry.discard_zeroes {
            let offset = pool.address(place, 0, group.pools.chunk_bytes());
            let length = Bytes(u64::from(group.pools.chunk_bytes()));
            let owner = Owner::Clean { slot: place.slot };
            self.slots += 1;
            group.pools.send(now, place.pool, owner, Io::Discard { offset, length }, false);
        } else {
            self.give_back(group, place, false);
        }
    }

    /// A slot is leaving: a device is asked, and has not answered.
    pub(crate) fn slot_leaves(&mut self) {
        self.slots += 1;
        assert!(self.slots > 0, "slots are far fewer than 2³²");
    }

    /// One of those that were leaving has left.
    pub(crate) fn slot_has_left(&mut self) {
        assert!(self.slots > 0, "each slot leaves once");
        self.slots -= 1;
    }

    fn give_back(&mut self, group: &mut GroupState, place: Place, clean: bool) {
        let slots = &mut group.pools[place.pool].slots;
        let free = slots.free();
        slots.give_back(place.slot, clean);
        assert_eq!(slots.free(), free + 1, "a slot that left is one more that is free");
        self.slots_came(group);
    }

    /// Slots are free: others may go on.
    pub(crate) fn slots_came(&mut self, group: &mut GroupState) {
        assert_ne!(group.service, Service::Opening, "nobody waits before it is open");
        group.emit(Effect::SlotFree);
        for sub_request in std::mem::take(&mut self.waiting) {
            group.emit(Effect::Space(sub_request));
        }
    }

    /// A freed slot was discarded, or could not be.
    pub(crate) fn clean_done(&mut self, group: &mut GroupState, place: Place, clean: bool) {
        self.slot_has_left();
        met_if(!clean, "discard of a freed slot failed");
        self.give_back(group, place, clean || mutant("slot_clean_though_not_discarded"));
    }
}

#[cfg(test)]
mod tests;
