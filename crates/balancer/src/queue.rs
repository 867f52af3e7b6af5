//! Requests that wait for a place: first come, first served, each until its deadline.
//!
//! All wait equally long at most, so deadlines are in the order of arrival and only the front is
//! ever looked at. State: 24 B a request. O(1), withdrawing O(n).

use std::collections::VecDeque;
use thermocline_units::{Nanos, SiteId};

/// A request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// The fate of a request that waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// The request.
    pub ticket: Ticket,
    /// The backend that it was placed at; `None` when its time was up.
    pub site: Option<SiteId>,
}

/// Requests that wait.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<(Ticket, Nanos)>,
    last: u64,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts one in at the end. Deadlines must not go back; one that does is moved on.
    pub(crate) fn push(&mut self, deadline: Nanos) -> Ticket {
        self.last += 1;
        let ticket = Ticket(self.last);
        let before = self.waiting.back();
        assert!(before.is_none_or(|(last, _)| *last < ticket), "a ticket is given once");
        let deadline = before.map_or(deadline, |(_, last)| deadline.max(*last));
        self.waiting.push_back((ticket, deadline));
        debug_assert!(self.waiting.iter().map(|(_, deadline)| deadline).is_sorted());
        ticket
    }

    /// The one that waits longest.
    pub(crate) fn pop(&mut self) -> Option<Ticket> {
        self.waiting.pop_front().map(|(ticket, _)| ticket)
    }

    /// The next one whose time is up.
    pub(crate) fn pop_late(&mut self, now: Nanos) -> Option<Ticket> {
        self.waiting.front().is_some_and(|(_, deadline)| *deadline <= now).then(|| self.pop())?
    }

    /// Takes one out; `false` when it is not there any more.
    pub(crate) fn withdraw(&mut self, ticket: Ticket) -> bool {
        let place = self.waiting.iter().position(|(waiting, _)| *waiting == ticket);
        place.is_some_and(|place| self.waiting.remove(place).is_some())
    }
}
