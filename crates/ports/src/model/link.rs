//! A link that costs time and may lose packets: bandwidth, latency, jitter, a queue, losses.
//!
//! 1. A packet that would wait longer than the queue is long is dropped.
//! 2. Others pass the lane: their bytes over the bandwidth, after the packets before them.
//! 3. Behind the lane some are lost, each by itself.
//! 4. A packet is under way for the latency and an exponentially distributed jitter, but never
//!    overtakes.

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
    /// A packet that would wait longer for those before it is dropped, as a router drops it.
    pub queue: Option<Nanos>,
    /// Packets of a million that are lost, each by itself.
    pub lost_per_million: u32,
}

impl LinkProfile {
    /// A link that keeps all packets, however long they wait, and has no jitter.
    pub const fn new(bytes_per_s: u64, latency: Nanos) -> LinkProfile {
        let lane = Lane { bytes_per_s, command: Nanos(0) };
        LinkProfile { latency, jitter: Nanos(0), lane, queue: None, lost_per_million: 0 }
    }
}

/// Packets that one direction took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounts {
    /// Packets that were sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that found the queue full.
    pub dropped: u64,
    /// Packets that were lost behind the queue.
    pub lost: u64,
}

/// A modelled link in virtual time.
#[derive(Debug)]
pub struct ModelLink {
    profile: LinkProfile,
    lane: LaneModel,
    rng: Rng,
    under_way: VecDeque<(Nanos, Packet)>,
    latest: Nanos,
    counts: LinkCounts,
}

impl ModelLink {
    /// A link as `profile` describes it; `seed` decides jitter and losses.
    pub fn new(profile: LinkProfile, seed: u64) -> ModelLink {
        ModelLink {
            profile,
            lane: LaneModel::new(&profile.lane),
            rng: Rng::seeded(seed),
            under_way: VecDeque::new(),
            latest: Nanos(0),
            counts: LinkCounts::default(),
        }
    }

    /// Packets so far.
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }
}

impl Link for ModelLink {
    fn send(&mut self, now: Nanos, packet: Packet) {
        let bytes = u64::from(packet.data.len());
        self.counts.packets += 1;
        self.counts.bytes += bytes;
        if self.profile.queue.is_some_and(|longest| self.lane.wait(now) > longest) {
            self.counts.dropped += 1;
            return;
        }
        let through = self.lane.pass(now, bytes);
        // A link that loses nothing draws nothing: its jitter is that of its seed.
        let losses = u64::from(self.profile.lost_per_million);
        if losses > 0 && self.rng.below(1_000_000) < losses {
            self.counts.lost += 1;
            return;
        }
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
