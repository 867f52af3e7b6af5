//! A link that loses, duplicates, delays, reorders and corrupts packets by seed.
//!
//! A packet that nothing happens to arrives after the link's latency, in order and whole. One that
//! is reordered waits up to twenty latencies, so that later ones overtake it.

use super::happens;
use crate::{Link, Packet, Payload};
use std::collections::BTreeMap;
use thermocline_units::{Nanos, Rng};

/// Latencies by which a reordered packet may be late.
const REORDER_LATENCIES: u64 = 20;

/// Slowdown of a delayed packet; it keeps its place, and holds up those behind it.
const DELAY_FACTOR: u64 = 100;

/// Faults and their probabilities per packet, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkFaults {
    /// Time that a packet is under way.
    pub latency: Nanos,
    /// Probability that it never arrives.
    pub lose: f64,
    /// Probability that it arrives twice, the second time out of order.
    pub duplicate: f64,
    /// Probability that it takes a hundred times longer, and everything after it waits.
    pub delay: f64,
    /// Probability that later packets may overtake it.
    pub reorder: f64,
    /// Probability that one bit of its contents is flipped.
    pub corrupt: f64,
}

impl LinkFaults {
    /// A link of 1 ms that keeps its promises.
    pub const NONE: LinkFaults = LinkFaults {
        latency: Nanos::from_micros(1000),
        lose: 0.0,
        duplicate: 0.0,
        delay: 0.0,
        reorder: 0.0,
        corrupt: 0.0,
    };
}

/// One direction of a link that misbehaves by seed.
#[derive(Debug)]
pub struct SimLink {
    faults: LinkFaults,
    rng: Rng,
    /// Packets by arrival, then by sequence of sending.
    under_way: BTreeMap<(Nanos, u64), Packet>,
    sequence: u64,
    /// No packet that keeps its place arrives before this.
    in_order_from: Nanos,
    is_cut: bool,
}

impl SimLink {
    /// A link whose every whim follows from `seed`.
    pub fn new(seed: u64, faults: LinkFaults) -> SimLink {
        SimLink {
            faults,
            rng: Rng::seeded(seed),
            under_way: BTreeMap::new(),
            sequence: 0,
            in_order_from: Nanos(0),
            is_cut: false,
        }
    }

    /// From now on, these faults; packets under way keep theirs.
    pub fn set_faults(&mut self, faults: LinkFaults) {
        self.faults = faults;
    }

    /// Loses everything under way and everything sent until [`SimLink::mend`].
    pub fn cut(&mut self) {
        self.under_way.clear();
        self.is_cut = true;
    }

    /// Ends [`SimLink::cut`].
    pub fn mend(&mut self) {
        self.is_cut = false;
    }

    fn late(&mut self, now: Nanos) -> Nanos {
        let latency = self.faults.latency.0;
        Nanos(now.0 + latency + self.rng.below(REORDER_LATENCIES * latency + 1))
    }

    fn put(&mut self, arrival: Nanos, packet: Packet) {
        self.sequence += 1;
        self.under_way.insert((arrival, self.sequence), packet);
    }

    fn corrupt(&mut self, data: &Payload) -> Payload {
        let mut bytes = data.to_vec();
        let bit = self.rng.below(8 * bytes.len() as u64);
        bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
        Payload::from(bytes)
    }
}

impl Link for SimLink {
    fn send(&mut self, now: Nanos, mut packet: Packet) {
        if self.is_cut || happens(&mut self.rng, self.faults.lose) {
            return;
        }
        if !packet.data.is_empty() && happens(&mut self.rng, self.faults.corrupt) {
            packet.data = self.corrupt(&packet.data);
        }
        if happens(&mut self.rng, self.faults.duplicate) {
            let arrival = self.late(now);
            self.put(arrival, packet.clone());
        }
        if happens(&mut self.rng, self.faults.reorder) {
            let arrival = self.late(now);
            return self.put(arrival, packet);
        }
        let slower = if happens(&mut self.rng, self.faults.delay) { DELAY_FACTOR } else { 1 };
        let arrival = Nanos(now.0 + slower * self.faults.latency.0).max(self.in_order_from);
        self.in_order_from = arrival;
        self.put(arrival, packet);
    }

    fn poll(&mut self, now: Nanos, arrived: &mut Vec<Packet>) {
        while let Some(entry) = self.under_way.first_entry() {
            if entry.key().0 > now {
                return;
            }
            arrived.push(entry.remove());
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.under_way.keys().next().map(|&(arrival, _)| arrival)
    }
}
