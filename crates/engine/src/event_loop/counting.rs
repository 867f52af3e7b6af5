//! Statistics of a running engine: requests by kind, each second of the last minutes, heat, events.
//!
//! Everything here is bounded: [`Seconds`], [`Events`], a heat map a volume.

use super::Engine;
use super::clients::RequestKind;
use super::health::health_of;
use super::heat::{HeatMap, ROW};
use crate::api::{PoolSecond, Second, TAKE_OUT};
use std::collections::BTreeMap;
use thermocline_admin::api::Severity;
use thermocline_admin::past::{Events, Seconds, wall_clock};
use thermocline_ports_os::Health;
use thermocline_units::{Latencies, Nanos, PoolId, VolumeId};
use thermocline_volume::{Action, PoolCounters, PoolState};

/// A drain that moved nothing for so many seconds is told of.
const STUCK_SECONDS: u32 = 10;
const SECOND: Nanos = Nanos::from_secs(1);

/// A pool as it was a second ago.
#[derive(Default)]
struct Before {
    state: Option<PoolState>,
    counters: PoolCounters,
    latencies: [Latencies; 2],
    /// Seconds in which it was being drained and nothing left it.
    stuck: u32,
    slots_used: u32,
    health: Health,
    full: bool,
}

/// Counts of requests, of each second, of heat, and events.
pub(super) struct Counts {
    /// End of the second.
    pub(super) next: Nanos,
    next_row: Nanos,
    requests: [Latencies; 4],
    /// Reads and writes of the second under way.
    lately: Latencies,
    counts: [u64; 2],
    pools: Vec<Before>,
    pub(super) seconds: Seconds<Second>,
    heat: BTreeMap<u32, HeatMap>,
    pub(super) events: Events,
}

impl Counts {
    pub(super) fn new() -> Counts {
        Counts {
            next: SECOND,
            next_row: ROW,
            requests: Default::default(),
            lately: Latencies::default(),
            counts: [0; 2],
            pools: Vec::new(),
            seconds: Seconds::default(),
            heat: BTreeMap::new(),
            events: Events::default(),
        }
    }

    /// A volume exists with this size.
    pub(super) fn note_volume(&mut self, volume: VolumeId, size: u64) {
        self.heat.insert(volume.0, HeatMap::new(size));
    }

    pub(super) fn forget_volume(&mut self, volume: VolumeId) {
        self.heat.remove(&volume.0);
    }

    pub(super) fn heat_of(&self, volume: VolumeId) -> Option<&HeatMap> {
        self.heat.get(&volume.0)
    }

    pub(super) fn note_request(&mut self, volume: VolumeId, action: &Action) {
        let (offset, length) = match action {
            Action::Read { offset, length } => (offset.0, u64::from(*length)),
            Action::Write { offset, payload, .. } => (offset.0, u64::from(payload.len())),
            Action::WriteZeroes { .. } | Action::Discard { .. } | Action::Flush => return,
        };
        if let Some(heat) = self.heat.get_mut(&volume.0) {
            heat.note(offset, length);
        }
    }

    pub(super) fn note_reply(&mut self, kind: RequestKind, took: Nanos) {
        self.requests[kind as usize].record(took);
        if let RequestKind::Read | RequestKind::Write = kind {
            self.lately.record(took);
            self.counts[kind as usize] += 1;
        }
    }

    /// Latencies of client requests since the start, by kind.
    pub(super) fn requests(&self) -> impl Iterator<Item = (&'static str, &Latencies)> {
        RequestKind::ALL.iter().map(|&(kind, name)| (name, &self.requests[kind as usize]))
    }
}

impl Engine {
    /// Closes seconds and rows when they are over.
    pub(super) fn watch_the_clock(&mut self) {
        let now = self.now();
        if now < self.counts.next {
            return;
        }
        // Seconds in which the loop was held up are not made up afterwards.
        while self.counts.next <= now {
            self.counts.next.0 += SECOND.0;
        }
        let pools = (0..self.group.pool_count()).map(|id| self.pool_second(PoolId(id))).collect();
        let all = &mut self.counts;
        let counts = std::mem::take(&mut all.counts);
        all.seconds.end(Second {
            number: all.seconds.number(),
            at_ms: wall_clock(),
            reads: counts[RequestKind::Read as usize],
            writes: counts[RequestKind::Write as usize],
            p99_us: all.lately.quantile(0.99).0 as f64 / 1e3,
            pools,
        });
        all.lately.clear();
        while all.next_row <= now {
            all.next_row.0 += ROW.0;
            all.heat.values_mut().for_each(HeatMap::close_row);
        }
        self.judge_room();
        self.tell_account();
        self.end_jobs();
        self.watch_moves();
        self.end_stalls(now);
        self.tell_turned_away();
        self.watch_scrubs();
    }

    /// Figures of a pool in the second that ends; a change of its state is an event.
    fn pool_second(&mut self, id: PoolId) -> PoolSecond {
        let status = self.group.pool_status(id).expect("ids below the count exist");
        let latencies = self.group.pool_latencies(id).expect("ids below the count exist");
        let at = usize::from(id.0);
        if self.counts.pools.len() <= at {
            self.counts.pools.resize_with(at + 1, Before::default);
        }
        let before = &mut self.counts.pools[at];
        let mut lately = latencies.reads.since(&before.latencies[0]);
        lately.add(&latencies.writes.since(&before.latencies[1]));
        before.latencies[0].clone_from(latencies.reads);
        before.latencies[1].clone_from(latencies.writes);
        let old = std::mem::replace(&mut before.counters, status.counters);
        let counts = status.counters.since(&old);
        let was = before.state.replace(status.state);
        let waits = status.state == PoolState::Draining && status.slots_used > 0;
        let used = std::mem::replace(&mut before.slots_used, status.slots_used);
        // What is read of a failing disk need not arrive anywhere.
        let fails = counts.errors + counts.checksum_errors > 0;
        let moves = status.slots_used < used || counts.copied_out_bytes > 0 && !fails;
        let stuck = if waits && !moves { before.stuck + 1 } else { 0 };
        before.stuck = stuck;
        let second = PoolSecond {
            reads: counts.reads,
            writes: counts.writes,
            read_bytes: counts.read_bytes,
            written_bytes: counts.written_bytes,
            moved_bytes: counts.copied_in_bytes + counts.copied_out_bytes,
            p50_us: lately.quantile(0.5).0 as f64 / 1e3,
            p99_us: lately.quantile(0.99).0 as f64 / 1e3,
            fill: f64::from(status.slots_used) / f64::from(status.slots_total.max(1)),
        };
        let was_full = std::mem::replace(&mut before.full, status.full);
        let health = self.disks[at].as_ref().map_or(Health::Well, health_of);
        let was_well = std::mem::replace(&mut self.counts.pools[at].health, health);
        self.tell_health(id, &status.name, was_well);
        self.tell_full(&status.name, was_full, status.full);
        // One that was removed before the first look at it, whose device is still held.
        let is_removed = status.state == PoolState::Removed && self.disks[at].is_some();
        if was.map_or(is_removed, |was| was != status.state) {
            self.tell_state(&status.name, status.state);
        }
        if stuck == STUCK_SECONDS {
            let text = format!(
                "{} is being drained, and none of its {} chunks has left it for {STUCK_SECONDS} s: \
                 do the others have room, and can its chunks be read? Chunks stay off pools across a network unless --to-far \
                 is said",
                status.name, status.slots_used
            );
            self.event(Severity::Warning, "pool", text);
        }
        if counts.errors > 0 {
            let text = format!("{}: {} requests failed on the device", status.name, counts.errors);
            self.event(Severity::Warning, "pool", text);
        }
        second
    }

    fn tell_full(&mut self, name: &str, was: bool, is: bool) {
        match (was, is) {
            (false, true) => {
                let text = format!(
                    "{name}: the device has no room for a write, whatever its size says; new chunks \
                     go to other pools until it has"
                );
                self.event(Severity::Warning, "pool", text);
            }
            (true, false) => {
                let text = format!("{name}: the device has room again");
                self.event(Severity::Info, "pool", text);
            }
            _ => {}
        }
    }

    fn tell_state(&mut self, name: &str, state: PoolState) {
        if state == PoolState::Removed {
            // Its device may be taken away now.
            let gone = |id: &u16| {
                let status = self.group.pool_status(PoolId(*id));
                status.is_some_and(|status| status.state == PoolState::Removed)
            };
            let gone: Vec<u16> = (0..self.group.pool_count()).filter(gone).collect();
            gone.into_iter().for_each(|id| self.disks[usize::from(id)] = None);
            if let Some(ledger) = &self.ledger {
                ledger.strike(name);
            }
        }
        let removed = format!("is removed; {TAKE_OUT}");
        let (severity, text) = match state {
            PoolState::Dead => (Severity::Error, "failed; chunks that were only there are lost"),
            PoolState::Active => (Severity::Info, "is in service"),
            PoolState::Joining => (Severity::Info, "is joining"),
            PoolState::Draining => (Severity::Info, "is being drained"),
            PoolState::Drained => (Severity::Info, "is empty and can be removed"),
            PoolState::Removing => (Severity::Info, "is being removed"),
            PoolState::Removed => (Severity::Info, &removed[..]),
        };
        self.event(severity, "pool", format!("{name} {text}"));
    }
}
