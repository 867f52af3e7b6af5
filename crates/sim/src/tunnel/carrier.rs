//! Transport of bytes from one end to the other.
//!
//! 1. `Queue`: the link takes what an end gives as fast as its bandwidth allows, loses nothing, and
//!    needs no acknowledgement: a bound that no protocol reaches.
//! 2. `Tls`: records of TLS over one TCP connection ([`super::tcp`]). A record can be read when all
//!    of it has arrived.

use super::tcp::{Congestion, Connection, Side};
use std::collections::VecDeque;
use thermocline_ports::model::{LinkProfile, ModelLink};
use thermocline_ports::{Link, Packet, Payload};
use thermocline_units::Nanos;

/// Bytes that are given at once, at most: the longest frame.
pub(super) const BURST_BYTES: usize = 16 * 1024 + 64;
/// Plain bytes of a record, at most, and what it adds (TLS 1.3 with AES-GCM or ChaCha20).
const RECORD_BYTES: usize = 16 * 1024;
const RECORD_EXTRA: usize = 22;

/// Both directions of a link between two ends.
pub(super) enum Carrier {
    Queue(Box<[Queue; 2]>),
    Tls(Box<Tls>),
}

impl Carrier {
    pub(super) fn new(link: LinkProfile, tcp: Option<Congestion>, seed: u64) -> Carrier {
        match tcp {
            None => Carrier::Queue(Box::new([1, 2].map(|way| Queue::new(link, seed ^ way)))),
            Some(congestion) => Carrier::Tls(Box::new(Tls {
                connection: Connection::new(link, congestion, seed),
                records: Default::default(),
                arrived: Default::default(),
            })),
        }
    }

    /// Bytes that a side may give now.
    pub(super) fn room(&self, now: Nanos, side: Side) -> usize {
        match self {
            Carrier::Queue(ways) if ways[side.index()].free > now => 0,
            Carrier::Queue(_) => BURST_BYTES,
            // A socket that is nearly full says nothing until there is room for more than a bit.
            Carrier::Tls(tls) if tls.connection.room(side) < BURST_BYTES => 0,
            Carrier::Tls(_) => BURST_BYTES,
        }
    }

    pub(super) fn give(&mut self, now: Nanos, side: Side, bytes: Vec<u8>) {
        match self {
            Carrier::Queue(ways) => ways[side.index()].give(now, bytes),
            Carrier::Tls(tls) => tls.give(now, side, &bytes),
        }
    }

    /// Takes what arrived at a side by now.
    pub(super) fn take(&mut self, now: Nanos, side: Side) -> Vec<u8> {
        match self {
            Carrier::Queue(ways) => ways[1 - side.index()].take(now),
            Carrier::Tls(tls) => tls.take(side),
        }
    }

    /// Does what is due by now.
    pub(super) fn advance(&mut self, now: Nanos) {
        if let Carrier::Tls(tls) = self {
            tls.connection.advance(now);
        }
    }

    /// The next moment at which something arrives or is due.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        match self {
            Carrier::Queue(ways) => ways.iter().filter_map(|way| way.link.next_event()).min(),
            Carrier::Tls(tls) => tls.connection.next_event(),
        }
    }

    /// Moment at which there is room for a side that has found none; `None`: after an event.
    pub(super) fn room_at(&self, side: Side) -> Option<Nanos> {
        match self {
            Carrier::Queue(ways) => Some(ways[side.index()].free),
            Carrier::Tls(_) => None,
        }
    }

    /// Bytes on the link away from a side, with everything that the carrier adds.
    pub(super) fn carried(&self, side: Side) -> u64 {
        match self {
            Carrier::Queue(ways) => ways[side.index()].link.counts().bytes,
            Carrier::Tls(tls) => tls.connection.carried(side),
        }
    }
}

/// One direction without a protocol.
pub(super) struct Queue {
    link: ModelLink,
    bytes_per_s: f64,
    /// The link takes nothing before.
    free: Nanos,
}

impl Queue {
    fn new(link: LinkProfile, seed: u64) -> Queue {
        let bytes_per_s = link.lane.bytes_per_s.max(1) as f64;
        // Nobody would send again what is lost.
        let link = LinkProfile { queue: None, lost_per_million: 0, ..link };
        Queue { link: ModelLink::new(link, seed), bytes_per_s, free: Nanos(0) }
    }

    fn give(&mut self, now: Nanos, bytes: Vec<u8>) {
        self.free = Nanos(now.0 + (bytes.len() as f64 * 1e9 / self.bytes_per_s) as u64);
        self.link.send(now, Packet { tag: 0, data: Payload::Bytes(bytes.into()) });
    }

    fn take(&mut self, now: Nanos) -> Vec<u8> {
        let mut arrived = Vec::new();
        self.link.poll(now, &mut arrived);
        arrived.iter().flat_map(|packet| packet.data.to_vec()).collect()
    }
}

/// Records over a connection.
pub(super) struct Tls {
    connection: Connection,
    /// Plain bytes of the records that are under way from each side.
    records: [VecDeque<usize>; 2],
    /// The first bytes of a record that arrived at each side.
    arrived: [Vec<u8>; 2],
}

impl Tls {
    fn give(&mut self, now: Nanos, side: Side, bytes: &[u8]) {
        for plain in bytes.chunks(RECORD_BYTES) {
            // The last bytes stand for head and tag.
            let record = [plain, &[0; RECORD_EXTRA]].concat();
            self.records[side.index()].push_back(plain.len());
            self.connection.give(now, side, &record);
        }
    }

    fn take(&mut self, side: Side) -> Vec<u8> {
        let arrived = &mut self.arrived[side.index()];
        arrived.append(&mut self.connection.take(side));
        let records = &mut self.records[1 - side.index()];
        let (mut plain, mut at) = (Vec::new(), 0);
        while let Some(bytes) = records.front().copied() {
            let end = at + bytes + RECORD_EXTRA;
            if end > arrived.len() {
                break;
            }
            plain.extend_from_slice(&arrived[at..at + bytes]);
            at = end;
            records.pop_front();
        }
        arrived.drain(..at);
        plain
    }
}
