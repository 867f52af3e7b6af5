//! fio-like patterns in a closed loop: so many requests in flight, the next one when one completes.
//!
//! Drives any device that lives in virtual time, a model first of all; what it measures is what a
//! data sheet states. It submits a request the moment the completion it replaces is handed out.

use crate::{Device, Io, Payload, SECTOR, Ticket};
use thermocline_units::{Bytes, Nanos, Rng};

/// Which addresses follow each other.
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
    /// Which addresses follow each other.
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

/// What a pattern measured.
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
    assert!(device.next_event().is_none(), "nothing else is in flight");
    let mut load = Load::new(pattern, seed);
    let mut outcome =
        Outcome { block: pattern.block, span: Nanos(0), reads: Vec::new(), writes: Vec::new() };
    let mut done = Vec::new();
    let mut now = start;
    for slot in 0..u64::from(pattern.depth).min(requests) {
        let io = load.next(slot, now);
        device.submit(now, Ticket(slot), io);
    }
    while let Some(event) = device.next_event() {
        now = event;
        device.poll(now, &mut done);
        for completion in done.drain(..) {
            completion.result.expect("models do not fail");
            let Ticket(slot) = completion.ticket;
            let (submitted, is_read) = load.in_flight[slot as usize];
            let latencies = if is_read { &mut outcome.reads } else { &mut outcome.writes };
            latencies.push(now.saturating_sub(submitted));
            if load.submitted < requests {
                let io = load.next(slot, now);
                device.submit(now, Ticket(slot), io);
            }
        }
    }
    outcome.span = now.saturating_sub(start);
    outcome.reads.sort_unstable();
    outcome.writes.sort_unstable();
    outcome
}

/// Makes a pattern's requests.
struct Load {
    pattern: Pattern,
    blocks: u64,
    rng: Rng,
    submitted: u64,
    /// By slot: when its request was submitted, and whether it is a read.
    in_flight: Vec<(Nanos, bool)>,
}

impl Load {
    fn new(pattern: &Pattern, seed: u64) -> Load {
        assert!(pattern.block > 0 && pattern.block.is_multiple_of(SECTOR), "blocks are sectors");
        let blocks = pattern.range.0 / u64::from(pattern.block);
        assert!(blocks > 0 && pattern.depth > 0, "there is something to do");
        Load {
            pattern: *pattern,
            blocks,
            rng: Rng::seeded(seed),
            submitted: 0,
            in_flight: vec![(Nanos(0), false); pattern.depth as usize],
        }
    }

    fn next(&mut self, slot: u64, now: Nanos) -> Io {
        let block = match self.pattern.order {
            Order::Random => self.rng.below(self.blocks),
            Order::Sequential => self.submitted % self.blocks,
        };
        let is_read = self.rng.unit_f64() < self.pattern.reads;
        self.submitted += 1;
        self.in_flight[slot as usize] = (now, is_read);
        let offset = Bytes(block * u64::from(self.pattern.block));
        let length = self.pattern.block;
        match is_read {
            true => Io::Read { offset, length },
            false => Io::Write { offset, data: Payload::Zeroes(length), fua: false },
        }
    }
}
