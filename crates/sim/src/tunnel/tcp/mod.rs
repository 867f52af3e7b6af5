//! A TCP connection over a modelled link: when bytes arrive, what is lost and sent again.
//!
//! 1. Bytes leave in segments of 1,448 with 52 of headers (Ethernet's packets of 1,500, IPv4, TCP
//!    with timestamps), as many as the window lets be under way ([`window`]).
//! 2. Every segment that arrives is acknowledged at once. An acknowledgement says of all segments
//!    that were sent before which have arrived. The link keeps the order, so the others are lost;
//!    they are sent again (RFC 8985 with no reordering).
//! 3. If nothing is heard for two round trips, the last segment is sent again, so that its
//!    acknowledgement tells of the others (RFC 8985 §7).
//! 4. The other side gets bytes in order: those behind a lost segment wait for it.
//!
//! The connection is made already, and the receiver takes everything: its window is no limit.
//! Acknowledgements are packets of their own; none is delayed or carried by data.

mod bbr;
mod cubic;
#[cfg(test)]
mod tests;
mod window;

use std::collections::{BTreeMap, VecDeque};
pub use window::Congestion;
use window::{Heard, Window};

use thermocline_ports::model::{LinkProfile, ModelLink};
use thermocline_ports::{Link, Packet, Payload};
use thermocline_units::Nanos;

/// Bytes of a whole segment.
const SEGMENT_BYTES: usize = 1448;
/// Bytes of its headers, and of an acknowledgement.
const HEADER_BYTES: usize = 52;
/// Bytes that a sender holds beyond what its window lets be under way.
const BACKLOG_BYTES: usize = 64 << 10;
/// Time beyond two round trips after which silence is a loss.
const GRACE: Nanos = Nanos::from_micros(2_000);
/// Round trip that is assumed before one was seen.
const FIRST_ROUND_TRIP: Nanos = Nanos::from_micros(200_000);

/// One of a connection's two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Far,
    Near,
}

impl Side {
    pub(super) const fn index(self) -> usize {
        match self {
            Side::Far => 0,
            Side::Near => 1,
        }
    }
}

/// A connection.
pub(super) struct Connection {
    /// The two directions, by the side that sends.
    ways: [Way; 2],
    /// The link that carries packets away from each side.
    links: [ModelLink; 2],
    arrived: Vec<Packet>,
}

impl Connection {
    /// A connection that was just made over links like this one.
    pub(super) fn new(profile: LinkProfile, congestion: Congestion, seed: u64) -> Connection {
        Connection {
            ways: [0, 1].map(|_| Way::new(congestion)),
            links: [ModelLink::new(profile, seed ^ 1), ModelLink::new(profile, seed ^ 2)],
            arrived: Vec::new(),
        }
    }

    /// Bytes that a side may hand over.
    pub(super) fn room(&self, side: Side) -> usize {
        self.ways[side.index()].room()
    }

    /// Takes bytes from a side.
    pub(super) fn give(&mut self, now: Nanos, side: Side, bytes: &[u8]) {
        self.ways[side.index()].bytes.extend(bytes);
        self.send(now, side.index());
    }

    /// Takes what arrived at a side by now, in order.
    pub(super) fn take(&mut self, side: Side) -> Vec<u8> {
        std::mem::take(&mut self.ways[1 - side.index()].delivered)
    }

    /// Bytes that went away from a side, headers and what was sent again included.
    pub(super) fn carried(&self, side: Side) -> u64 {
        self.links[side.index()].counts().bytes
    }

    /// Does what is due by now.
    pub(super) fn advance(&mut self, now: Nanos) {
        for from in [0, 1] {
            self.links[from].poll(now, &mut self.arrived);
            for packet in std::mem::take(&mut self.arrived) {
                match Tag::of(packet.tag) {
                    Tag::Segment(number) => {
                        self.ways[from].arrive(number);
                        let data = Payload::Zeroes(HEADER_BYTES as u32);
                        let tag = Tag::Heard(number).number();
                        self.links[1 - from].send(now, Packet { tag, data });
                    }
                    Tag::Heard(number) => self.ways[1 - from].hear(now, number),
                }
            }
        }
        for from in [0, 1] {
            self.ways[from].look_for_silence(now);
            self.send(now, from);
        }
    }

    /// The next moment at which something is due.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        let links = self.links.iter().filter_map(Link::next_event);
        links.chain(self.ways.iter().filter_map(Way::next_event)).min()
    }

    fn send(&mut self, now: Nanos, from: usize) {
        while let Some((number, bytes)) = self.ways[from].next_segment(now) {
            let data = Payload::Zeroes((bytes + HEADER_BYTES) as u32);
            self.links[from].send(now, Packet { tag: Tag::Segment(number).number(), data });
        }
    }
}

/// A packet's meaning; its number is that of a transmission.
enum Tag {
    Segment(u64),
    Heard(u64),
}

impl Tag {
    fn number(&self) -> u64 {
        match self {
            Tag::Segment(number) => number * 2,
            Tag::Heard(number) => number * 2 + 1,
        }
    }

    fn of(number: u64) -> Tag {
        if number.is_multiple_of(2) { Tag::Segment(number / 2) } else { Tag::Heard(number / 2) }
    }
}

/// A part of the stream: its first byte and its length.
#[derive(Debug, Clone, Copy)]
struct Segment {
    at: u64,
    bytes: usize,
}

/// A segment on its way.
#[derive(Debug)]
struct Flight {
    segment: Segment,
    sent: Nanos,
    /// Bytes that had been heard of when it was sent, and when the last of them was.
    heard_bytes: u64,
    heard_at: Nanos,
    /// True if the window was not what limited the sender.
    is_idle: bool,
    has_arrived: bool,
}

/// One direction: a sender and its receiver.
struct Way {
    window: Window,
    /// The stream from the first byte on that has not been delivered.
    bytes: VecDeque<u8>,
    /// Place in the stream up to which everything is delivered, and the next byte to send first.
    delivered_to: u64,
    sent_to: u64,
    /// Bytes in order that the other side has not taken yet.
    delivered: Vec<u8>,
    /// Segments that arrived behind a lost one: where they end by where they begin.
    ahead: BTreeMap<u64, u64>,
    /// Segments to send again.
    lost: VecDeque<Segment>,
    flights: VecDeque<Flight>,
    /// Number of the first of `flights`.
    first: u64,
    in_flight: usize,
    heard_bytes: u64,
    heard_at: Nanos,
    /// A round is over when what was sent behind this many heard bytes is heard of.
    round_ends: u64,
    /// Losses of transmissions before this one belong to one that was answered already.
    recovers_to: u64,
    round_trip: Nanos,
    /// Last time that something was sent or heard, and looks into silence since.
    moved: Nanos,
    silences: u32,
    /// True if the last segment is to be sent whatever the window is.
    asks: bool,
    /// The pace allows nothing before.
    paced: Nanos,
}

impl Way {
    fn new(congestion: Congestion) -> Way {
        Way {
            window: Window::new(congestion, SEGMENT_BYTES),
            bytes: VecDeque::new(),
            delivered_to: 0,
            sent_to: 0,
            delivered: Vec::new(),
            ahead: BTreeMap::new(),
            lost: VecDeque::new(),
            flights: VecDeque::new(),
            first: 0,
            in_flight: 0,
            heard_bytes: 0,
            heard_at: Nanos(0),
            round_ends: 0,
            recovers_to: 0,
            round_trip: FIRST_ROUND_TRIP,
            moved: Nanos(0),
            silences: 0,
            asks: false,
            paced: Nanos(0),
        }
    }

    fn end(&self) -> u64 {
        self.delivered_to + self.bytes.len() as u64
    }

    fn unsent(&self) -> usize {
        (self.end() - self.sent_to) as usize
    }

    fn room(&self) -> usize {
        let may_be_held = self.window.bytes().saturating_sub(self.in_flight) + BACKLOG_BYTES;
        may_be_held.saturating_sub(self.unsent())
    }

    /// The next segment to send now: the number of its transmission, and its bytes.
    fn next_segment(&mut self, now: Nanos) -> Option<(u64, usize)> {
        let has_window = self.in_flight == 0 || self.has_window();
        if !(self.asks || has_window && self.paced <= now) {
            return None;
        }
        let segment = self.choose()?;
        let is_idle = self.lost.is_empty() && self.unsent() == 0 && self.has_window();
        let number = self.first + self.flights.len() as u64;
        let (heard_bytes, heard_at) = match self.in_flight {
            // The first after a pause measures from itself on.
            0 => (self.heard_bytes, now),
            _ => (self.heard_bytes, self.heard_at),
        };
        self.heard_at = heard_at;
        let (sent, has_arrived) = (now, false);
        self.flights.push_back(Flight {
            segment,
            sent,
            heard_bytes,
            heard_at,
            is_idle,
            has_arrived,
        });
        self.in_flight += segment.bytes;
        self.moved = now;
        let pace = self.window.pace(segment.bytes + HEADER_BYTES);
        self.paced = Nanos(self.paced.max(now).0 + pace.0);
        Some((number, segment.bytes))
    }

    fn has_window(&self) -> bool {
        self.in_flight + SEGMENT_BYTES <= self.window.bytes()
    }

    fn choose(&mut self) -> Option<Segment> {
        if std::mem::take(&mut self.asks) {
            return self.flights.back().map(|flight| flight.segment);
        }
        while let Some(segment) = self.lost.pop_front() {
            if !self.has_arrived(segment) {
                return Some(segment);
            }
        }
        let bytes = self.unsent().min(SEGMENT_BYTES);
        let segment = Segment { at: self.sent_to, bytes };
        self.sent_to += bytes as u64;
        (bytes > 0).then_some(segment)
    }

    fn has_arrived(&self, segment: Segment) -> bool {
        segment.at < self.delivered_to || self.ahead.contains_key(&segment.at)
    }

    /// A transmission reaches the other side.
    fn arrive(&mut self, number: u64) {
        let Some(at) = number.checked_sub(self.first) else { return };
        let flight = &mut self.flights[at as usize];
        flight.has_arrived = true;
        let segment = flight.segment;
        if self.has_arrived(segment) {
            return;
        }
        self.ahead.insert(segment.at, segment.at + segment.bytes as u64);
        while let Some(end) = self.ahead.remove(&self.delivered_to) {
            let bytes = (end - self.delivered_to) as usize;
            self.delivered.extend(self.bytes.drain(..bytes));
            self.delivered_to = end;
        }
    }

    /// This side hears of a transmission, and with it of all before.
    fn hear(&mut self, now: Nanos, number: u64) {
        let limited = self.in_flight + SEGMENT_BYTES > self.window.bytes();
        let (mut heard, mut last, mut is_loss) = (0, None, false);
        while self.first <= number {
            let flight = self.flights.pop_front().expect("what is heard of was sent");
            self.first += 1;
            self.in_flight -= flight.segment.bytes;
            if flight.has_arrived {
                heard += flight.segment.bytes;
                last = Some(flight);
            } else {
                is_loss |= self.first > self.recovers_to;
                self.lost.push_back(flight.segment);
            }
        }
        let Some(last) = last else { return };
        self.moved = now;
        self.silences = 0;
        self.heard_bytes += heard as u64;
        self.heard_at = now;
        self.round_trip = now.saturating_sub(last.sent);
        let is_round = last.heard_bytes >= self.round_ends;
        if is_round {
            self.round_ends = self.heard_bytes;
        }
        let took = now.saturating_sub(last.heard_at).0.max(1) as f64 / 1e9;
        self.window.hear(&Heard {
            now,
            bytes: heard,
            round_trip: self.round_trip,
            rate: (self.heard_bytes - last.heard_bytes) as f64 / took,
            is_idle: last.is_idle,
            is_limited: limited,
            is_round,
            is_recovering: number < self.recovers_to,
            in_flight: self.in_flight,
        });
        if is_loss {
            self.window.lose();
            self.recovers_to = self.first + self.flights.len() as u64;
        }
    }

    /// Moment at which silence is a loss.
    fn silent_at(&self) -> Option<Nanos> {
        let wait = (2 * self.round_trip.0 + GRACE.0) << self.silences.min(6);
        (self.in_flight > 0).then(|| Nanos(self.moved.0 + wait))
    }

    fn look_for_silence(&mut self, now: Nanos) {
        if self.silent_at().is_some_and(|at| at <= now) {
            self.asks = true;
            self.silences += 1;
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let has_something = !self.lost.is_empty() || self.unsent() > 0;
        let may_send = has_something && (self.in_flight == 0 || self.has_window());
        let sends = may_send.then_some(self.paced);
        [self.silent_at(), sends].into_iter().flatten().min()
    }
}
