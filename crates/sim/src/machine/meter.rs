//! Measurement of a machine while a load runs on it.
//!
//! 1. A request is filed by operation and by the pool that serves it: the slowest of those on which
//!    its chunks stand when it is handed to the machine. A write to a chunk that holds nothing goes
//!    where the machine then puts it; a read of one is served by no pool.
//! 2. A read or write is filed a second time by whether operations were under way.
//! 3. The number of requests asked and not answered is integrated over time.
//! 4. The run is cut into slices, of time or of requests; what was counted in a slice becomes a
//!    point of the time lines when it ends.
//!
//! State: some histograms of 30 KiB at most, and one point a slice. No allocation a request.

use super::stage::{DeviceUse, Stage};
use thermocline_trace::Op;
use thermocline_units::{Bytes, Latencies, Nanos, PoolId};
use thermocline_volume::{Finished, Outcome, PoolCounters};

/// Points of the time lines.
pub(super) const SLICES: u64 = 100;
/// After so many slices they become twice as wide: a machine that cannot keep up answers long after
/// the last request came.
const SLICES_BEFORE_WIDER: usize = 1000;

/// End of a slice.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slicing {
    /// After so much time.
    Every(Nanos),
    /// After so many answers.
    Answers(u64),
}

/// Key that a request is filed under.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub(super) op: Op,
    /// `None`: by no pool.
    pub(super) pool: Option<PoolId>,
    /// True if operations were under way when it was asked.
    pub(super) moving: bool,
}

/// Reads and writes of a slice.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Slice {
    /// From the start of the measurement.
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    pub(super) requests: u64,
    pub(super) fast: u64,
    pub(super) mean: Nanos,
    pub(super) p99: Nanos,
    pub(super) migrated: Bytes,
    /// Chunks on each pool at its end.
    pub(super) fill: Vec<u32>,
}

/// Ends of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Moves {
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) cancelled: u64,
}

/// Measurements of a load on a machine.
#[derive(Debug)]
pub(super) struct Meter {
    started: Nanos,
    pools: usize,
    /// Reads and then writes, each by pool, and last those by no pool.
    served: Vec<Latencies>,
    pub(super) flushes: Latencies,
    pub(super) discards: Latencies,
    pub(super) moving: Latencies,
    pub(super) still: Latencies,
    pub(super) bytes: u64,
    failed: u64,
    pub(super) moves: Moves,
    asked: u64,
    outstanding: u64,
    outstanding_max: u64,
    outstanding_since: Nanos,
    /// Outstanding requests times nanoseconds.
    outstanding_sum: u128,
    slicing: Slicing,
    slice: Latencies,
    slice_fast: u64,
    slice_start: Nanos,
    slice_copied: u64,
    pub(super) slices: Vec<Slice>,
    counters: Vec<PoolCounters>,
    devices: Vec<DeviceUse>,
}

fn copied_in(stage: &Stage) -> u64 {
    stage.pool_counters().iter().map(|pool| pool.copied_in_bytes).sum()
}

impl Meter {
    /// Starts measuring now.
    pub(super) fn start(stage: &mut Stage, slicing: Slicing) -> Meter {
        stage.restart_queues();
        let (now, pools) = (stage.now(), stage.pool_count());
        Meter {
            started: now,
            pools,
            served: vec![Latencies::default(); 2 * (pools + 1)],
            flushes: Latencies::default(),
            discards: Latencies::default(),
            moving: Latencies::default(),
            still: Latencies::default(),
            bytes: 0,
            failed: 0,
            moves: Moves::default(),
            asked: 0,
            outstanding: 0,
            outstanding_max: 0,
            outstanding_since: now,
            outstanding_sum: 0,
            slicing,
            slice: Latencies::default(),
            slice_fast: 0,
            slice_start: now,
            slice_copied: copied_in(stage),
            slices: Vec::new(),
            counters: stage.pool_counters(),
            devices: stage.devices(),
        }
    }

    /// Someone asks.
    #[inline]
    pub(super) fn ask(&mut self, now: Nanos) {
        self.integrate(now);
        self.asked += 1;
        self.outstanding += 1;
        self.outstanding_max = self.outstanding_max.max(self.outstanding);
    }

    /// The answer comes, `took` after it was asked for.
    #[inline]
    pub(super) fn answer(&mut self, stage: &Stage, served: Served, bytes: u64, took: Nanos) {
        self.integrate(stage.now());
        self.outstanding -= 1;
        let side = match served.op {
            Op::Read => 0,
            Op::Write => self.pools + 1,
            Op::Flush => return self.flushes.record(took),
            Op::Trim => return self.discards.record(took),
        };
        self.bytes += bytes;
        self.served[side + served.pool.map_or(self.pools, |pool| usize::from(pool.0))].record(took);
        if served.moving {
            self.moving.record(took)
        } else {
            self.still.record(took)
        }
        self.slice.record(took);
        self.slice_fast += u64::from(served.pool == Some(PoolId(0)));
        if matches!(self.slicing, Slicing::Answers(count) if self.slice.count() >= count) {
            self.cut(stage, stage.now());
        }
    }

    /// An error comes instead of an answer. It counts in no latency: an error that comes at once
    /// would make whoever gives it look fast.
    pub(super) fn fail(&mut self, now: Nanos) {
        self.integrate(now);
        self.outstanding -= 1;
        self.failed += 1;
    }

    /// Requests that were answered with an error.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// An operation ended.
    pub(super) fn ended(&mut self, finished: &Finished) {
        match finished.outcome {
            Outcome::Done => self.moves.done += 1,
            Outcome::Failed => self.moves.failed += 1,
            Outcome::Cancelled => self.moves.cancelled += 1,
        }
    }

    #[inline]
    fn integrate(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.outstanding_since);
        self.outstanding_sum += u128::from(self.outstanding) * u128::from(passed.0);
        self.outstanding_since = now;
    }

    /// Cuts what has passed into slices; call it with the time of the next event, before that
    /// happens.
    #[inline]
    pub(super) fn until(&mut self, stage: &Stage, next: Nanos) {
        let Slicing::Every(width) = self.slicing else { return };
        while self.slice_start.0 + width.0 <= next.0 {
            self.cut(stage, Nanos(self.slice_start.0 + width.0));
            if self.slices.len().is_multiple_of(SLICES_BEFORE_WIDER) {
                self.slicing = Slicing::Every(Nanos(width.0.saturating_mul(2)));
                return self.until(stage, next);
            }
        }
    }

    fn cut(&mut self, stage: &Stage, end: Nanos) {
        let copied = copied_in(stage);
        self.slices.push(Slice {
            start: self.slice_start.saturating_sub(self.started),
            end: end.saturating_sub(self.started),
            requests: self.slice.count(),
            fast: self.slice_fast,
            mean: self.slice.mean(),
            p99: self.slice.quantile(0.99),
            migrated: Bytes(copied - self.slice_copied),
            fill: stage.pools().map(|pool| pool.slots_used).collect(),
        });
        self.slice.clear();
        (self.slice_fast, self.slice_start, self.slice_copied) = (0, end, copied);
    }

    /// Ends the measurement: the last slice may be shorter.
    pub(super) fn stop(&mut self, stage: &Stage) {
        self.integrate(stage.now());
        if self.slice.count() > 0 {
            self.cut(stage, stage.now());
        }
    }

    /// From the start until now.
    pub(super) fn span(&self, stage: &Stage) -> Nanos {
        stage.now().saturating_sub(self.started)
    }

    /// Reads served by pool `pool`; the last number after the pools stands for none.
    pub(super) fn reads_of(&self, pool: usize) -> &Latencies {
        &self.served[pool]
    }

    /// Writes served by pool `pool`.
    pub(super) fn writes_of(&self, pool: usize) -> &Latencies {
        &self.served[self.pools + 1 + pool]
    }

    /// All reads, and all writes.
    pub(super) fn sides(&self) -> [Latencies; 2] {
        let (reads, writes) = self.served.split_at(self.pools + 1);
        [reads, writes].map(|side| {
            side.iter().fold(Latencies::default(), |mut sum, part| {
                sum.add(part);
                sum
            })
        })
    }

    /// Requests asked and not answered: mean over the time measured, and the most.
    pub(super) fn outstanding(&self) -> (f64, u64) {
        let span = self.outstanding_since.saturating_sub(self.started).0.max(1);
        (self.outstanding_sum as f64 / span as f64, self.outstanding_max)
    }

    /// Requests asked until now.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    /// Counters of each pool when the measurement began.
    pub(super) fn before(&self) -> (&[PoolCounters], &[DeviceUse]) {
        (&self.counters, &self.devices)
    }
}
