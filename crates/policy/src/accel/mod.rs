//! Schedulers of a pool of accelerators: which function is loaded into which slot.
//!
//! 1. Cards have slots (regions that can be configured by themselves). A slot holds one function at
//!    a time; slots differ in size ([`SlotView::room`]).
//! 2. A machine measures what is offered to each function, and what a packet costs on each slot. It
//!    asks for a plan a hundred times a second ([`Scheduler::plan`]).
//! 3. A plan is a list of [`Act`]s, the most urgent first. The machine checks each of them, and
//!    carries out those that are possible.
//! 4. To load a function takes milliseconds, and **a card has one configuration port**: loads of a
//!    card wait for each other. That contention is the subject of newer schedulers (VersaSlot
//!    2025; big and little slots are from there, too).
//!
//! Source of the platform: OpenANFV, Ge 2017 §4.5. It names no rule for the scheduler but that of
//! OpenStack's; `first-fit` is our reading. `by-cost`, the default, is ours.
//!
//! Invariants: equal views give equal plans; no act names a slot twice in one plan. Not here:
//! flows, packets, what a load costs in reality, whether an image may be used.

mod assignment;
mod by_cost;
mod first_fit;
mod foresight;
#[cfg(test)]
mod tests;

use thermocline_units::Nanos;

/// Registry entries of this folder's policies: one line each.
pub(crate) const ENTRIES: &[crate::registry::Entry] = &[by_cost::ENTRY, first_fit::ENTRY];

/// Schedulers that are told the demand to come: bounds of the laboratory.
pub(crate) const BOUNDS: &[crate::registry::Entry] = &[foresight::ENTRY];

/// Number of a network function, dense from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionId(pub u16);

impl FunctionId {
    /// The number as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Content of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// Nothing: it can be loaded.
    Nothing,
    /// A function that waits for the port, or is being loaded.
    Loading(FunctionId),
    /// A function that takes packets.
    Running(FunctionId),
    /// A function whose flows are leaving.
    Draining(FunctionId),
    /// The slot does not work.
    Failed,
}

impl Holding {
    /// The function that it has, or will have soon.
    pub fn serves(self) -> Option<FunctionId> {
        match self {
            Holding::Loading(function) | Holding::Running(function) => Some(function),
            Holding::Nothing | Holding::Draining(_) | Holding::Failed => None,
        }
    }
}

/// A slot, as a scheduler sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlotView {
    /// Number of its card, dense from 0 on.
    pub card: u16,
    /// Size of its region, in units of the card's logic (LUTs).
    pub room: u32,
    /// Its content.
    pub holds: Holding,
    /// True if an administrator empties its card: nothing may be loaded there.
    pub closed: bool,
    /// True if it is kept for one tenant: it is no capacity for others, and nothing may be loaded
    /// there or taken away. [`FunctionView::offered`] is without what it carries.
    pub reserved: bool,
}

/// A function, as a scheduler sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FunctionView {
    /// Packets a second that came for it, over the last period, dropped ones included and those on
    /// slots that are reserved left out.
    pub offered: f64,
    /// Size that its image needs; a slot with less room cannot hold it.
    pub room: u32,
    /// Nanoseconds that a packet takes on any slot, as its image states.
    pub cost_stated: f64,
    /// Nanoseconds that a packet takes on the processor: measured where it has run, else stated;
    /// `None` if it does not run there.
    pub processor: Option<f64>,
}

/// Slots, functions and what the machine has measured.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// Time of the view.
    pub now: Nanos,
    /// Every slot, by number.
    pub slots: &'a [SlotView],
    /// Every function, by number.
    pub functions: &'a [FunctionView],
    /// Nanoseconds a packet, by function and then by slot: measured where it has run, else stated.
    pub costs: &'a [f64],
    /// Time to load a function, by function and then by slot, once the port is free.
    pub loads: &'a [Nanos],
    /// Time until the configuration port of each card is free.
    pub ports: &'a [Nanos],
}

impl View<'_> {
    /// Nanoseconds that a packet of `function` takes on `slot`.
    pub fn cost(&self, function: FunctionId, slot: usize) -> f64 {
        self.costs[function.index() * self.slots.len() + slot]
    }

    /// Packets a second that `slot` can do of `function`.
    pub fn rate(&self, function: FunctionId, slot: usize) -> f64 {
        1e9 / self.cost(function, slot).max(1.0)
    }

    /// Time that loading takes, once the port is free.
    pub fn load(&self, function: FunctionId, slot: usize) -> Nanos {
        self.loads[function.index() * self.slots.len() + slot]
    }

    /// True if the function's image fits into the slot, and the slot may be loaded.
    pub fn fits(&self, function: FunctionId, slot: usize) -> bool {
        let at = &self.slots[slot];
        at.room >= self.functions[function.index()].room && !at.closed
    }

    /// Every function, by number.
    pub(crate) fn function_ids(&self) -> impl Iterator<Item = FunctionId> + use<> {
        (0..self.functions.len() as u16).map(FunctionId)
    }
}

/// A step of a plan. Slots are told by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Loads a function into an empty slot, for flows that need it now.
    Provision {
        /// The empty slot.
        slot: usize,
        /// The function to load.
        function: FunctionId,
    },
    /// Loads a function into an empty slot before it is needed: behind all other loads of the card.
    Prefetch {
        /// The empty slot.
        slot: usize,
        /// The function to load.
        function: FunctionId,
    },
    /// Takes the flows from a running slot, and loads another function there.
    Reload {
        /// The running slot.
        slot: usize,
        /// The function to load.
        function: FunctionId,
    },
    /// Takes the flows from a running slot, and leaves it empty.
    Release {
        /// The running slot.
        slot: usize,
    },
    /// Loads the function of a running slot into an empty one, moves the flows there with their
    /// state, and leaves the first one empty.
    Move {
        /// The running slot.
        from: usize,
        /// The empty slot.
        to: usize,
    },
}

/// Decides what slots hold.
///
/// The caller guarantees that times do not run backwards, and that numbers of slots and functions
/// stay the same; both lists may only grow at their ends. The implementer must keep a plan
/// O(functions × slots²) and must not name a slot twice in it. Equal calls must give equal plans.
pub trait Scheduler: Send {
    /// Appends the acts that should begin now.
    fn plan(&mut self, view: &View<'_>, plan: &mut Vec<Act>);
}

/// The demand to come: what only a replay knows.
pub trait Coming: Send {
    /// Packets a second that are offered to `function` at `at`.
    fn offered(&self, function: FunctionId, at: Nanos) -> f64;
}

/// No demand is known in advance.
pub struct NothingComing;

impl Coming for NothingComing {
    fn offered(&self, _function: FunctionId, _at: Nanos) -> f64 {
        0.0
    }
}
