//! Fragments of IPv4: only the first one has ports, so what became of it is kept for the others.
//!
//! Fragments that come before the first one are held, up to a number of bytes over all; what does
//! not fit is dropped (RFC 4787, REQ-14). A datagram is forgotten a fixed time after its first
//! fragment was seen, and the oldest one when there are too many.

use crate::{Reason, Side, Verdict};
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use thermocline_units::Nanos;

/// Identity of a datagram (RFC 791, section 3.2), and the side that it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Datagram {
    pub(super) from: Side,
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    pub(super) protocol: u8,
    pub(super) id: u16,
}

/// Fate of a datagram's first fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) verdict: Verdict,
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
}

#[derive(Debug)]
enum State {
    Decided(Decision),
    Waiting(Vec<Vec<u8>>),
}

/// Datagrams whose fragments come in.
#[derive(Debug)]
pub(super) struct Fragments {
    known: BTreeMap<Datagram, (u64, State)>,
    /// Datagrams in the order of age; what was forgotten or replaced since has another number.
    ages: VecDeque<(Nanos, Datagram, u64)>,
    number: u64,
    held_bytes: usize,
    max: usize,
    bytes_max: usize,
    timeout: Nanos,
}

/// Bytes that a datagram takes beside the fragments that are held: entry, age, allocation.
const ENTRY_BYTES: usize = 160;

impl Fragments {
    pub(super) fn new(max: usize, bytes_max: usize, timeout: Nanos) -> Fragments {
        Fragments {
            known: BTreeMap::new(),
            ages: VecDeque::new(),
            number: 0,
            held_bytes: 0,
            max,
            bytes_max,
            timeout,
        }
    }

    /// Forgets datagrams whose time is over.
    pub(super) fn expire(&mut self, now: Nanos) {
        while self.next_deadline().is_some_and(|at| at <= now) {
            self.forget_oldest();
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        self.ages.front().map(|(at, ..)| Nanos(at.0.saturating_add(self.timeout.0)))
    }

    fn forget_oldest(&mut self) {
        let Some((_, datagram, number)) = self.ages.pop_front() else { return };
        if self.known.get(&datagram).is_some_and(|(current, _)| *current == number) {
            self.remove(&datagram);
        }
    }

    fn remove(&mut self, datagram: &Datagram) -> Vec<Vec<u8>> {
        match self.known.remove(datagram) {
            Some((_, State::Waiting(held))) => {
                self.held_bytes -= held.iter().map(|bytes| cost(bytes)).sum::<usize>();
                held
            }
            _ => Vec::new(),
        }
    }

    fn insert(&mut self, now: Nanos, datagram: Datagram, state: State) {
        while self.ages.len() >= self.max.max(1) {
            self.forget_oldest();
        }
        self.number += 1;
        self.known.insert(datagram, (self.number, state));
        self.ages.push_back((now, datagram, self.number));
    }

    /// Notes the fate of a first fragment; gives back those that waited for it.
    pub(super) fn decide(
        &mut self,
        now: Nanos,
        datagram: Datagram,
        decision: Decision,
    ) -> Vec<Vec<u8>> {
        let held = self.remove(&datagram);
        self.insert(now, datagram, State::Decided(decision));
        held
    }

    /// Fate of a later fragment: known, or it is held or dropped.
    pub(super) fn later(
        &mut self,
        now: Nanos,
        datagram: Datagram,
        bytes: &[u8],
    ) -> Result<Decision, Verdict> {
        if let Some((_, State::Decided(decision))) = self.known.get(&datagram) {
            return Ok(*decision);
        }
        if self.held_bytes + cost(bytes) > self.bytes_max {
            return Err(Verdict::Dropped(Reason::Fragment));
        }
        if !self.known.contains_key(&datagram) {
            self.insert(now, datagram, State::Waiting(Vec::new()));
        }
        if let Some((_, State::Waiting(held))) = self.known.get_mut(&datagram) {
            held.push(bytes.to_vec());
            self.held_bytes += cost(bytes);
        }
        Err(Verdict::Held)
    }

    pub(super) fn memory(&self) -> usize {
        self.held_bytes + self.ages.len() * ENTRY_BYTES
    }
}

/// Memory that a held fragment takes, with its allocation.
fn cost(bytes: &[u8]) -> usize {
    bytes.len() + 48
}
