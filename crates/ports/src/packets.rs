//! A network interface, as a machine sees one: batches of packets go out, batches come in.
//!
//! The contract, which cables of the laboratory and real interfaces share:
//! - A packet comes whole, with the checksums that its sender meant, or not at all. The interface
//!   completes what the sender's hardware was to complete.
//! - Packets that were sent one after the other, in one batch or in several, do not overtake each
//!   other, except on a cable that is told to misbehave.
//! - Nothing is promised about delivery. Packets that the interface did not take are counted.
//! - What one end sends does not come back to it.

use crate::{Link, Packet, Payload};
use bytes::Bytes;
use std::cell::RefCell;
use std::rc::Rc;
use thermocline_units::Nanos;

/// First bytes of the packets of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// Ethernet frames, without their check sequence.
    Ethernet {
        /// Address of this end.
        address: [u8; 6],
    },
    /// IP packets, without a header before them.
    Ip,
}

/// Packets of one end since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PacketCounts {
    /// Packets that came.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that were sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that were to be sent, and that the interface did not take.
    pub refused: u64,
    /// Packets that came and that were of no use: cut off, or with a header that cannot be.
    pub damaged: u64,
}

/// One end of an interface. No call blocks or fails; an interface that is down carries nothing.
///
/// The caller guarantees that time does not run backwards.
pub trait Packets {
    /// First bytes of its packets; constant.
    fn medium(&self) -> Medium;

    /// Bytes of an IP packet that it carries in one piece.
    fn mtu(&self) -> usize;

    /// Sends a batch in its order, and empties it. O(bytes).
    fn send(&mut self, now: Nanos, batch: &mut Vec<Bytes>);

    /// Appends what has arrived by `now`, in its order, at most `most` packets.
    fn receive(&mut self, now: Nanos, most: usize, arrived: &mut Vec<Bytes>);

    /// Virtual time at which `receive` will next have something; `None` when nothing is under way,
    /// or when only the world knows.
    fn next_event(&self) -> Option<Nanos>;

    /// Counts since it was opened.
    fn counts(&self) -> PacketCounts;
}

/// An end of a cable between two interfaces in virtual time, of one link in each direction: the
/// modelled twin with [`crate::model::ModelLink`], the faulty one with [`crate::faulty::SimLink`].
#[derive(Debug)]
pub struct CableEnd<L> {
    links: Rc<RefCell<[L; 2]>>,
    /// 0 or 1: the link that this end sends to.
    side: usize,
    mtu: usize,
    waiting: Vec<Packet>,
    counts: PacketCounts,
}

/// A cable of two links, from its first end to its second and back; its ends carry frames of IP
/// packets of at most `mtu` bytes.
pub fn cable<L: Link>(links: [L; 2], mtu: usize) -> [CableEnd<L>; 2] {
    let links = Rc::new(RefCell::new(links));
    [0, 1].map(|side| CableEnd {
        links: links.clone(),
        side,
        mtu,
        waiting: Vec::new(),
        counts: PacketCounts::default(),
    })
}

impl<L: Link> Packets for CableEnd<L> {
    fn medium(&self) -> Medium {
        Medium::Ethernet { address: [2, 0, 0, 0, 0, self.side as u8 + 1] }
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn send(&mut self, now: Nanos, batch: &mut Vec<Bytes>) {
        for bytes in batch.drain(..) {
            if bytes.len() > self.mtu + ETHERNET_BYTES {
                self.counts.refused += 1;
                continue;
            }
            self.counts.sent += 1;
            self.counts.sent_bytes += bytes.len() as u64;
            let packet = Packet { tag: 0, data: Payload::Bytes(bytes) };
            self.links.borrow_mut()[self.side].send(now, packet);
        }
    }

    fn receive(&mut self, now: Nanos, most: usize, arrived: &mut Vec<Bytes>) {
        self.links.borrow_mut()[1 - self.side].poll(now, &mut self.waiting);
        let count = self.waiting.len().min(most);
        for packet in self.waiting.drain(..count) {
            let bytes = match packet.data {
                Payload::Bytes(bytes) => bytes,
                zeroes @ Payload::Zeroes(_) => zeroes.to_vec().into(),
            };
            self.counts.received += 1;
            self.counts.received_bytes += bytes.len() as u64;
            arrived.push(bytes);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        match self.waiting.is_empty() {
            true => self.links.borrow()[1 - self.side].next_event(),
            false => Some(Nanos(0)),
        }
    }

    fn counts(&self) -> PacketCounts {
        self.counts
    }
}

/// Bytes of an Ethernet header without tags.
pub const ETHERNET_BYTES: usize = 14;
