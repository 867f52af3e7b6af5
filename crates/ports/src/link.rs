//! A link to another site: packets go in at one end and come out at the other, later.
//!
//! A link keeps packets whole and in order unless its twin is told to misbehave. It promises
//! nothing about delivery; whoever needs that builds it on top.

use crate::Payload;
use thermocline_units::Nanos;

/// A packet on a link: an opaque number for the sender's use, and contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The sender's number; delivered unchanged.
    pub tag: u64,
    /// The payload.
    pub data: Payload,
}

/// One direction of a link.
pub trait Link {
    /// Hands over a packet at `now`. Never blocks.
    fn send(&mut self, now: Nanos, packet: Packet);

    /// Appends the packets that have arrived by `now`, in order of arrival.
    fn poll(&mut self, now: Nanos, arrived: &mut Vec<Packet>);

    /// Virtual time at which the next packet arrives; `None` when none is under way, or when only
    /// the world knows.
    fn next_event(&self) -> Option<Nanos>;
}
