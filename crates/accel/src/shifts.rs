//! Flows that change their tag together, and the transfer of their state.
//!
//! For each function whose worker differs between both tags, and which is stateful, the old worker
//! exports the state of these flows and the new one imports it, function by function.
//!
//! Invariant: a shift waits for at most one answer.

use crate::flows::FlowIndex;
use crate::switch::Tag;
use crate::work::{Place, Ticket};
use std::collections::{BTreeMap, BTreeSet};
use thermocline_policy::accel::FunctionId;

/// A change of worker for one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) function: FunctionId,
    pub(crate) from: Place,
    pub(crate) to: Place,
}

/// Flows that move from one tag to another.
#[derive(Debug)]
pub(crate) struct Shift {
    pub(crate) flows: Vec<FlowIndex>,
    pub(crate) to: Tag,
    /// Hops that are left, the next one last.
    pub(crate) hops: Vec<Hop>,
}

/// Flows that can move, and shifts that wait for an answer.
#[derive(Debug, Default)]
pub(crate) struct Shifts {
    ready: BTreeSet<FlowIndex>,
    waiting: BTreeMap<Ticket, Shift>,
}

impl Shifts {
    /// A flow has nothing under way, and can move.
    pub(crate) fn add_ready(&mut self, flow: FlowIndex) {
        self.ready.insert(flow);
        assert!(self.ready.contains(&flow), "it is ready now");
    }

    /// Takes the flows that can move.
    pub(crate) fn take_ready(&mut self) -> BTreeSet<FlowIndex> {
        std::mem::take(&mut self.ready)
    }

    pub(crate) fn wait(&mut self, ticket: Ticket, shift: Shift) {
        let before = self.waiting.insert(ticket, shift);
        assert!(before.is_none(), "a ticket is given once");
    }

    /// The shift that waits for this answer.
    pub(crate) fn answered(&mut self, ticket: Ticket) -> Shift {
        self.waiting.remove(&ticket).expect("it waits for the answer")
    }

    /// True if no flow moves.
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.waiting.is_empty()
    }
}
