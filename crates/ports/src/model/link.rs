//! A link that keeps its promises and costs time: bandwidth, latency, jitter.
//!
//! 1. A packet passes the lane: its bytes over the bandwidth, after the packets before it.
//! 2. It is under way for the latency and an exponentially distributed jitter, but never overtakes.

use super::lane::LaneModel;
use super::profile::Lane;
use crate::{Link, Packet};
use std::collections::VecDeque;
use thermocline_units::{Nanos, Rng};

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkProfile {
    /// Time from one end to the other, at least.
    pub latency: Nanos,
    /// Mean of what is added to it.
    pub jitter: Nanos,
    /// Bandwidth, and time that each packet takes whatever its size.
    pub lane: Lane,
}

/// A modelled link in virtual time.
#[derive(Debug)]
pub struct ModelLink {
    profile: LinkProfile,
    lane: LaneModel,
    rng: Rng,
    under_way: VecDeque<(Nanos, Packet)>,
    latest: Nanos,
}

impl ModelLink {
    /// A link as `profile` describes it; `seed` decides the jitter.
    pub fn new(profile: LinkProfile, seed: u64) -> ModelLink {
        ModelLink {
            profile,
            lane: LaneModel::new(&profile.lane),
            rng: Rng::seeded(seed),
            under_way: VecDeque::new(),
            latest: Nanos(0),
        }
    }
}

impl Link for ModelLink {
    fn send(&mut self, now: Nanos, packet: Packet) {
        let through = self.lane.pass(now, u64::from(packet.data.len()));
        let jitter = self.rng.exponential(self.profile.jitter.0 as f64) as u64;
        let arrival = Nanos(through.0 + self.profile.latency.0 + jitter);
        self.latest = self.latest.max(arrival);
        self.under_way.push_back((self.latest, packet));
    }

    fn poll(&mut self, now: Nanos, arrived: &mut Vec<Packet>) {
        while self.under_way.front().is_some_and(|(arrival, _)| *arrival <= now) {
            arrived.extend(self.under_way.pop_front().map(|(_, packet)| packet));
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        self.under_way.front().map(|(arrival, _)| *arrival)
    }
}
