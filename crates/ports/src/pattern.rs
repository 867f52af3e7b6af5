//! fio-like patterns in a closed loop: so many requests in flight, the next one when one completes.
//!
//! Drives any device that lives in virtual time, a model first of all; what it measures is what a
//! data sheet states. It submits a request the moment the completion it replaces is handed out.

use crate::{Device, Io, Payload, SECTOR, Ticket};
use thermocline_units::{Bytes, Nanos, Rng};

/// Parts of a load's contents begin at multiples of this, as direct I/O wants it.
const ALIGNMENT: u32 = 4096;

/// The order of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Uniform over the range, aligned to the block.
    Random,
    /// One block after the other, from the range's start, around its end.
    Sequential,
}

/// A closed-loop load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pattern {
    /// The order of addresses.
    pub order: Order,
    /// Bytes a request; whole sectors.
    pub block: u32,
    /// Share of reads, from 0 to 1; the rest are writes.
    pub reads: f64,
    /// Requests in flight, at least 1.
    pub depth: u32,
    /// Bytes from the device's start that are accessed, at least a block.
    pub range: Bytes,
}

/// The measurements of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Bytes a request.
    pub block: u32,
    /// Time from the first submission to the last completion.
    pub span: Nanos,
    /// Latencies of reads, sorted.
    pub reads: Vec<Nanos>,
    /// Latencies of writes, sorted.
    pub writes: Vec<Nanos>,
}

impl Outcome {
    /// Requests per second.
    pub fn iops(&self) -> f64 {
        (self.reads.len() + self.writes.len()) as f64 / self.span.as_secs_f64()
    }

    /// 10⁶ bytes per second, as data sheets count.
    pub fn mb_per_s(&self) -> f64 {
        self.iops() * f64::from(self.block) / 1e6
    }

    /// Mean latency of all requests.
    pub fn mean(&self) -> Nanos {
        let all = self.reads.iter().chain(&self.writes);
        let count = self.reads.len() + self.writes.len();
        Nanos(all.map(|latency| latency.0).sum::<u64>() / count.max(1) as u64)
    }

    /// The latency that a share `p` of the sorted latencies does not exceed; zero of none.
    pub fn quantile(sorted: &[Nanos], p: f64) -> Nanos {
        let index = (p * sorted.len() as f64).ceil() as usize;
        sorted.get(index.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// Runs `requests` requests of `pattern` from `start` on; addresses and operations follow from
/// `seed`.
///
/// # Panics
/// When the device fails a request, has others in flight, or does not live in virtual time.
pub fn run(
    device: &mut impl Device,
    pattern: &Pattern,
    start: Nanos,
    requests: u64,
    seed: u64,
) -> Outcome {
    run_load(device, Load::new(pattern, start, requests, seed), start)
}

/// Runs as [`run`] does, from time zero on, over a range that begins at `from`.
///
/// # Panics
/// As [`run`].
pub(crate) fn run_at(
    device: &mut impl Device,
    pattern: &Pattern,
    from: Bytes,
    requests: u64,
    seed: u64,
) -> Outcome {
    let load = Load::new(pattern, Nanos(0), requests, seed).beginning_at(from);
    run_load(device, load, Nanos(0))
}

fn run_load(device: &mut impl Device, mut load: Load, start: Nanos) -> Outcome {
    assert!(device.next_event().is_none(), "nothing else is in flight");
    let mut done = Vec::new();
    let mut now = start;
    while let Some((ticket, io)) = load.next(now) {
        device.submit(now, ticket, io);
    }
    while let Some(event) = device.next_event() {
        now = event;
        device.poll(now, &mut done);
        for completion in done.drain(..) {
            completion.result.expect("models do not fail");
            load.answered(completion.ticket, now);
            if let Some((ticket, io)) = load.next(now) {
                device.submit(now, ticket, io);
            }
        }
    }
    load.outcome()
}

/// A pattern's requests, for whoever drives a device: with this module's `run` in virtual time,
/// with a clock of their own on a real one.
pub struct Load {
    pattern: Pattern,
    blocks: u64,
    rng: Rng,
    /// Bytes to write: as long as a request, or longer, and then a part of it.
    contents: Payload,
    /// Offset of the range.
    from: Bytes,
    start: Nanos,
    now: Nanos,
    requests: u64,
    submitted: u64,
    /// Times of submission by slot, and true for reads.
    in_flight: Vec<(Nanos, bool)>,
    /// Slots without a request.
    free: Vec<u64>,
    outcome: Outcome,
}

impl Load {
    /// At most `requests` requests of `pattern` from `start` on; addresses and operations follow
    /// from `seed`, writes write zeroes.
    ///
    /// # Panics
    /// When the pattern has a block that is not made of whole sectors, a range without a block, or
    /// no depth.
    pub fn new(pattern: &Pattern, start: Nanos, requests: u64, seed: u64) -> Load {
        assert!(pattern.block > 0 && pattern.block.is_multiple_of(SECTOR), "blocks are sectors");
        let blocks = pattern.range.0 / u64::from(pattern.block);
        assert!(blocks > 0 && pattern.depth > 0, "there is something to do");
        Load {
            pattern: *pattern,
            blocks,
            rng: Rng::seeded(seed),
            contents: Payload::Zeroes(pattern.block),
            from: Bytes(0),
            start,
            now: start,
            requests,
            submitted: 0,
            in_flight: vec![(Nanos(0), false); pattern.depth as usize],
            free: (0..u64::from(pattern.depth)).rev().collect(),
            outcome: Outcome {
                block: pattern.block,
                span: Nanos(0),
                reads: Vec::new(),
                writes: Vec::new(),
            },
        }
    }

    /// The same load with other contents than zeroes: each write takes another part of `contents`.
    ///
    /// # Panics
    /// When there are fewer than a block of them.
    #[must_use]
    pub fn writing(self, contents: Payload) -> Load {
        assert!(contents.len() >= self.pattern.block, "a write has contents");
        Load { contents, ..self }
    }

    /// The same load with its range beginning at `from` instead of the device's start; whole
    /// sectors.
    #[must_use]
    pub fn beginning_at(self, from: Bytes) -> Load {
        Load { from, ..self }
    }

    /// The next request to submit at `now`; none while as many are in flight as the pattern is
    /// deep, and when all were submitted.
    pub fn next(&mut self, now: Nanos) -> Option<(Ticket, Io)> {
        if self.submitted == self.requests {
            return None;
        }
        let slot = self.free.pop()?;
        let block = match self.pattern.order {
            Order::Random => self.rng.below(self.blocks),
            Order::Sequential => self.submitted % self.blocks,
        };
        let is_read = self.rng.unit_f64() < self.pattern.reads;
        self.submitted += 1;
        self.in_flight[slot as usize] = (now, is_read);
        let offset = Bytes(self.from.0 + block * u64::from(self.pattern.block));
        let length = self.pattern.block;
        let io = match is_read {
            true => Io::Read { offset, length },
            false => Io::Write { offset, data: self.part(), fua: false },
        };
        Some((Ticket(slot), io))
    }

    fn part(&self) -> Payload {
        let block = self.pattern.block;
        let parts = (self.contents.len() - block) / ALIGNMENT + 1;
        let from = (self.submitted % u64::from(parts)) as u32 * ALIGNMENT;
        self.contents.slice(from..from + block)
    }

    /// A request was answered at `now`.
    ///
    /// # Panics
    /// When the ticket is not one of the load's.
    pub fn answered(&mut self, ticket: Ticket, now: Nanos) {
        let (submitted, is_read) = self.in_flight[ticket.0 as usize];
        let latencies = if is_read { &mut self.outcome.reads } else { &mut self.outcome.writes };
        latencies.push(now.saturating_sub(submitted));
        self.free.push(ticket.0);
        self.now = now;
    }

    /// Submits no more.
    pub fn stop(&mut self) {
        self.requests = self.submitted;
    }

    /// True if all was submitted and answered.
    pub fn is_over(&self) -> bool {
        self.submitted == self.requests && self.free.len() == self.in_flight.len()
    }

    /// The measurements until now.
    pub fn outcome(mut self) -> Outcome {
        self.outcome.span = self.now.saturating_sub(self.start);
        self.outcome.reads.sort_unstable();
        self.outcome.writes.sort_unstable();
        self.outcome
    }
}
