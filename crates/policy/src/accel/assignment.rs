//! A plan in the making: what slots will serve once its acts are done, so that no slot is named
//! twice and no two functions get one slot.
//!
//! Invariant: every act names slots that no earlier act of this draft names.

use super::{Act, FunctionId, Holding, View};
use thermocline_units::Nanos;

/// Acts so far, and what follows from them.
pub(super) struct Draft<'a> {
    view: &'a View<'a>,
    acts: Vec<Act>,
    /// The function that each slot will serve; `None`: it is empty, or will be.
    serves: Vec<Option<FunctionId>>,
    /// Slots that an act names.
    named: Vec<bool>,
    /// Time until the port of each card is free, with the loads of this draft.
    ports: Vec<Nanos>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(view: &'a View<'a>) -> Draft<'a> {
        Draft {
            view,
            acts: Vec::new(),
            serves: view.slots.iter().map(|slot| slot.holds.serves()).collect(),
            named: vec![false; view.slots.len()],
            ports: view.ports.to_vec(),
        }
    }

    /// Hands over the acts.
    pub(super) fn finish(self, plan: &mut Vec<Act>) {
        plan.extend(self.acts);
    }

    /// Slots that serve `function`, or will, in order of number; reserved ones and those of closed
    /// cards are left out.
    pub(super) fn serving(&self, function: FunctionId) -> Vec<usize> {
        let serves = |slot: &usize| {
            let known = &self.view.slots[*slot];
            self.serves[*slot] == Some(function) && !known.closed && !known.reserved
        };
        (0..self.serves.len()).filter(serves).collect()
    }

    /// Packets a second of `function` that these slots can do.
    pub(super) fn capacity(&self, function: FunctionId) -> f64 {
        self.serving(function).iter().map(|&slot| self.view.rate(function, slot)).sum()
    }

    /// True if no act names the slot, and nobody has reserved it.
    fn is_open(&self, slot: usize) -> bool {
        !self.named[slot] && !self.view.slots[slot].reserved
    }

    /// True if the slot is empty, large enough, and not named.
    pub(super) fn is_free(&self, function: FunctionId, slot: usize) -> bool {
        let is_empty = self.view.slots[slot].holds == Holding::Nothing;
        is_empty && self.is_open(slot) && self.view.fits(function, slot)
    }

    /// True if the slot runs another function and could run this one.
    pub(super) fn can_reload(&self, function: FunctionId, slot: usize) -> bool {
        let runs_other = match self.view.slots[slot].holds {
            Holding::Running(other) => other != function,
            _ => false,
        };
        runs_other && self.is_open(slot) && self.view.fits(function, slot)
    }

    /// True if the slot runs something and no act names it.
    pub(super) fn can_leave(&self, slot: usize) -> bool {
        matches!(self.view.slots[slot].holds, Holding::Running(_)) && self.is_open(slot)
    }

    /// Time until `function` would run in `slot`, waiting for the port included.
    pub(super) fn ready_in(&self, function: FunctionId, slot: usize) -> Nanos {
        let port = self.ports[usize::from(self.view.slots[slot].card)];
        Nanos(port.0 + self.view.load(function, slot).0)
    }

    /// The smallest empty slot that fits; of equals the one that runs `function` first.
    pub(super) fn soonest_free(&self, function: FunctionId) -> Option<usize> {
        let free = (0..self.serves.len()).filter(|&slot| self.is_free(function, slot));
        let order = |slot: &usize| {
            let room = self.view.slots[*slot].room;
            (room, self.ready_in(function, *slot), *slot)
        };
        // Others may need the large one.
        free.min_by_key(order)
    }

    pub(super) fn provision(&mut self, function: FunctionId, slot: usize) {
        assert!(self.is_free(function, slot), "only empty slots are provisioned");
        self.name(slot, Some(function));
        self.occupy_port(function, slot);
        self.acts.push(Act::Provision { slot, function });
    }

    pub(super) fn prefetch(&mut self, function: FunctionId, slot: usize) {
        assert!(self.is_free(function, slot), "only empty slots are filled in advance");
        self.name(slot, Some(function));
        self.occupy_port(function, slot);
        self.acts.push(Act::Prefetch { slot, function });
    }

    pub(super) fn reload(&mut self, function: FunctionId, slot: usize) {
        assert!(self.can_reload(function, slot), "only slots of another function are reloaded");
        self.name(slot, Some(function));
        self.occupy_port(function, slot);
        self.acts.push(Act::Reload { slot, function });
    }

    /// Releases a slot, if it runs; one that is being loaded runs first.
    pub(super) fn release(&mut self, slot: usize) {
        if self.can_leave(slot) {
            self.name(slot, None);
            self.acts.push(Act::Release { slot });
        }
    }

    /// Moves what runs in `from` to the empty slot `to`.
    pub(super) fn relocate(&mut self, from: usize, to: usize) {
        let function = self.serves[from].expect("something runs there");
        assert!(self.can_leave(from) && self.is_free(function, to), "from running to empty");
        self.name(from, None);
        self.name(to, Some(function));
        self.occupy_port(function, to);
        self.acts.push(Act::Move { from, to });
    }

    /// Empties the cards that an administrator closed: moves what finds a place, releases the rest.
    pub(super) fn leave_closed_cards(&mut self) {
        for slot in 0..self.serves.len() {
            if !self.view.slots[slot].closed || !self.can_leave(slot) {
                continue;
            }
            let function = self.serves[slot].expect("it runs something");
            match self.soonest_free(function) {
                Some(to) => self.relocate(slot, to),
                None => self.release(slot),
            }
        }
    }

    fn name(&mut self, slot: usize, serves: Option<FunctionId>) {
        assert!(!self.named[slot], "a slot is named once");
        self.named[slot] = true;
        self.serves[slot] = serves;
    }

    fn occupy_port(&mut self, function: FunctionId, slot: usize) {
        let ready = self.ready_in(function, slot);
        let port = &mut self.ports[usize::from(self.view.slots[slot].card)];
        assert!(ready >= *port, "a load takes time");
        *port = ready;
    }
}
