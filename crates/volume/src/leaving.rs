//! Slots that chunks leave.
//!
//! Such a slot goes through two waits before it is free: until the record that says so is durable,
//! and until the last part that was begun before has ended.

use crate::core::{Core, Effect};
use crate::map::NONE;
use crate::map::Place;
use crate::pools::flight::Owner;
use thermocline_ports::Io;
use thermocline_units::Bytes;
use thermocline_units::ChunkId;
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;

/// The slots of a group that chunks leave.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    /// Slots that some part is still on, or that are being made to read as zeroes.
    pub(crate) slots: u32,
    /// Parts that wait for such a slot.
    pub(crate) waiting: Vec<u32>,
}

impl Leaving {
    /// The record by which `chunk` left `place` is durable.
    pub(crate) fn leave(&mut self, core: &mut Core, now: Nanos, chunk: ChunkId, place: Place) {
        if !core.map.has(chunk) || core.map.entry(chunk).traffic == NONE {
            return self.free_slot(core, now, place);
        }
        let traffic = core.traffic_of(chunk);
        core.traffic[traffic].left.push((core.parts_begun, place));
        self.slots += 1;
        core.emit(Effect::Eased(chunk));
    }

    /// Frees slots that the chunk has left and no part is on any more; whether there were any.
    pub(crate) fn free_left_slots(&mut self, core: &mut Core, now: Nanos, chunk: ChunkId) -> bool {
        let traffic = core.traffic_of(chunk);
        if core.traffic[traffic].left.is_empty() || core.traffic[traffic].repairing {
            return false;
        }
        let state = &core.traffic[traffic];
        // A part that opens the chunk found it unmapped: it is on no slot, and may wait for these.
        let opener = state.opening.map(|(part, _)| part);
        let on_slots = state.running.iter().filter(|&&part| Some(part) != opener);
        let oldest = on_slots.map(|&part| core.parts[part].order).min();
        let oldest = oldest.unwrap_or(u64::MAX);
        let left = std::mem::take(&mut core.traffic[traffic].left);
        let (free, keep) = left.into_iter().partition(|&(order, _)| {
            order < oldest || order == oldest && mutant("slot_freed_one_part_early")
        });
        core.traffic[traffic].left = keep;
        let free: Vec<(u64, Place)> = free;
        let any = !free.is_empty();
        for (_, place) in free {
            self.slot_has_left();
            self.free_slot(core, now, place);
        }
        any
    }

    /// Nothing refers to the slot any more, in memory or on disk.
    pub(crate) fn free_slot(&mut self, core: &mut Core, now: Nanos, place: Place) {
        let pool = &core.pools[place.pool];
        if pool.is_alive() && pool.geometry.discard_zeroes {
            let offset = pool.address(place, 0, core.pools.chunk_bytes());
            let length = Bytes(u64::from(core.pools.chunk_bytes()));
            let owner = Owner::Clean { slot: place.slot };
            self.slots += 1;
            core.pools.send(now, place.pool, owner, Io::Discard { offset, length }, false);
        } else {
            self.give_back(core, place, false);
        }
    }

    /// One of those that were leaving has left.
    pub(crate) fn slot_has_left(&mut self) {
        assert!(self.slots > 0, "each slot leaves once");
        self.slots -= 1;
    }

    fn give_back(&mut self, core: &mut Core, place: Place, clean: bool) {
        core.pools[place.pool].slots.give_back(place.slot, clean);
        core.emit(Effect::SlotFree);
        for part in std::mem::take(&mut self.waiting) {
            core.emit(Effect::Space(part));
        }
    }

    /// A freed slot was discarded, or could not be.
    pub(crate) fn clean_done(&mut self, core: &mut Core, place: Place, clean: bool) {
        self.slot_has_left();
        met_if(!clean, "discard of a freed slot failed");
        self.give_back(core, place, clean || mutant("slot_clean_though_not_discarded"));
    }
}
