//! Configuration ports: a card loads one slot at a time, so loads wait for each other.
//!
//! Invariant: a slot waits at one port once; what is prefetched goes behind all that is needed.

use crate::work::SlotId;
use std::collections::VecDeque;
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;

/// The port of one card.
#[derive(Debug, Default)]
pub(crate) struct Loader {
    urgent: VecDeque<(SlotId, Nanos)>,
    prefetched: VecDeque<(SlotId, Nanos)>,
    /// Slot that is being loaded, and when that will be done as far as one knows.
    busy: Option<(SlotId, Nanos)>,
}

impl Loader {
    /// Puts a slot into the queue; its load takes `takes`.
    pub(crate) fn enqueue(&mut self, slot: SlotId, takes: Nanos, is_prefetch: bool) {
        let queue = if is_prefetch { &mut self.prefetched } else { &mut self.urgent };
        assert!(queue.iter().all(|(known, _)| *known != slot), "a slot waits once");
        queue.push_back((slot, takes));
    }

    /// The slot to load now, if the port is free.
    pub(crate) fn begin(&mut self, now: Nanos) -> Option<SlotId> {
        if self.busy.is_some() && !mutant("a_port_loads_two_slots_at_once") {
            return None;
        }
        let next = self.urgent.pop_front().or_else(|| self.prefetched.pop_front());
        let (slot, takes) = next?;
        self.busy = Some((slot, Nanos(now.0.saturating_add(takes.0))));
        assert!(self.busy.is_some(), "the port is taken");
        Some(slot)
    }

    /// The load of a slot has ended, or the slot does not want it any more.
    pub(crate) fn forget(&mut self, slot: SlotId) {
        if self.busy.is_some_and(|(loading, _)| loading == slot) {
            self.busy = None;
        }
        self.urgent.retain(|(waiting, _)| *waiting != slot);
        self.prefetched.retain(|(waiting, _)| *waiting != slot);
        assert!(self.busy.is_none_or(|(loading, _)| loading != slot), "it is gone");
    }

    /// Time until all that is in the queue is loaded. Prefetched slots that have not begun do not
    /// count: whatever is needed goes first.
    pub(crate) fn free_in(&self, now: Nanos) -> Nanos {
        let waiting: u64 = self.urgent.iter().map(|(_, takes)| takes.0).sum();
        let rest = self.busy.map_or(0, |(_, until)| until.saturating_sub(now).0);
        Nanos(waiting.saturating_add(rest))
    }

    /// Slot that is being loaded.
    pub(crate) fn loading(&self) -> Option<SlotId> {
        self.busy.map(|(slot, _)| slot)
    }
}
