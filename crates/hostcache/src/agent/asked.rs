//! Requests of a host that the server has not answered, and the numbers of its guests' requests.

use super::events::{Ticket, VolumeKey};
use crate::messages::How;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use thermocline_units::Nanos;

/// A block of a request: the reads that wait for it, and the content that it is the source of.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) waiters: Vec<Ticket>,
    pub(super) expects: Option<u32>,
}

/// A request to the server that is not answered. One for a map is for that of an image, or for the
/// volume's differences from it.
#[derive(Debug)]
pub(super) enum Request {
    Attach(VolumeKey),
    Renew { sent: Nanos },
    Read { volume: VolumeKey, block: u32, how: How, blocks: Vec<Wanted> },
    Write { volume: VolumeKey, block: u32, count: usize },
    Flush { volume: VolumeKey, ticket: Option<Ticket>, stamp: u64 },
    Map { volume: VolumeKey, image: Option<u32> },
}

/// Requests to the server without an answer, by number, with when they were sent.
#[derive(Debug, Default)]
pub(super) struct Asked {
    next: u32,
    all: BTreeMap<u32, (Nanos, Request)>,
}

impl Asked {
    /// Takes note of a request that is sent now; its number.
    pub(super) fn note(&mut self, now: Nanos, request: Request) -> u32 {
        self.next = self.next.wrapping_add(1);
        let before = self.all.insert(self.next, (now, request));
        assert!(before.is_none(), "a number is given again only when its request was answered");
        self.next
    }
}

impl Deref for Asked {
    type Target = BTreeMap<u32, (Nanos, Request)>;

    fn deref(&self) -> &BTreeMap<u32, (Nanos, Request)> {
        &self.all
    }
}

impl DerefMut for Asked {
    fn deref_mut(&mut self) -> &mut BTreeMap<u32, (Nanos, Request)> {
        &mut self.all
    }
}

/// Numbers for the requests of guests.
#[derive(Debug, Default)]
pub(super) struct Tickets(u64);

impl Tickets {
    /// A number that no other request has.
    pub(super) fn issue(&mut self) -> Ticket {
        self.0 += 1;
        Ticket(self.0)
    }
}
