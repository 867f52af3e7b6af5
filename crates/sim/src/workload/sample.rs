//! A sample of a trace's lines, taken while the trace is read.
//!
//! 1. A line is in the sample when its hash lies below a threshold. The rate is the threshold's
//!    part of the hash space, and begins at 1.
//! 2. While the sample has more lines than its minimum and the rate is above the one asked for,
//!    the line with the largest hash leaves, and the threshold falls to that hash. With an asked
//!    rate of 0 this is a sample of fixed size.
//! 3. Touches of lines that left are dropped whenever the threshold has halved.
//!
//! So a short trace is sampled at a higher rate than asked for, because a rate of 0.01 of a few
//! thousand lines says nothing; and a long one costs memory for its sample only.
//!
//! Source: Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015. Differs: the
//! touches themselves are kept, so that any policy can be replayed on them afterwards
//! (Waldspurger et al., "Cache Modeling and Optimization using Miniature Simulations", ATC 2017).
//!
//! State: 24 B a touch of a sampled line, about 50 B a line that was ever in the sample, and
//! 512 KiB for the number of touches before requests of the trace.

use super::dense::{Address, DenseIds};
use super::stream::{check_length, known, units};
use super::{Unit, WorkloadError};
use crate::source::each_batch;
use std::collections::BinaryHeap;
use thermocline_policy::cache::Tag;
use thermocline_policy::mrc::shards::Sampler;
use thermocline_trace::{Op, Request, TraceReader};
use thermocline_units::{LineId, Nanos};

/// Sets volumes apart in the sampler's key space: 2⁴⁴ lines of 4 KiB are 64 PiB.
const VOLUME_SHIFT: u32 = 44;
/// Notes of how many lines the trace has touched. Traces of up to so many requests have one for
/// each; in longer ones what lies between two notes is interpolated.
const NOTES_MAX: usize = 1 << 16;
/// Seed of the hash that shares lines out to groups, beside the sample's own.
const GROUP_SEED: u64 = 0x6772_6f75_7073;

/// Size of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleSize {
    /// Share of the lines, 0 to 1; 0 for the minimum alone.
    pub rate: f64,
    /// Lines at least, however low the rate; ≥ 1.
    pub lines_min: u32,
}

/// One touch of a sampled line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// Its time.
    pub time: Nanos,
    /// Number of its request in the trace, from 0.
    pub request: u64,
    /// The line, numbered within the sample.
    pub line: LineId,
    /// Volume and direction.
    pub tag: Tag,
    /// A discard: the line is dropped, nothing is accessed.
    pub discard: bool,
}

/// Part of a trace that was kept.
#[derive(Debug)]
pub struct Sample {
    /// Touches in order.
    pub touches: Vec<Touch>,
    /// A group for each line, 0 to [`Sample::GROUPS`] − 1, by a hash of its own.
    pub groups: Vec<u8>,
    /// Share of the distinct lines that is in it, above 0.
    pub rate: f64,
    /// Reads, writes and discards of the whole trace.
    pub requests: u64,
    /// Volumes of the whole trace.
    pub volumes: u32,
    /// Repairs by the reader.
    pub repairs: Vec<String>,
    notes: Notes,
    /// Touches of the whole trace; discards not counted.
    total: u64,
}

/// Touches of the whole trace before every `step`-th request, from request 0 on; discards not
/// counted.
#[derive(Debug)]
struct Notes {
    step: u64,
    counts: Vec<u64>,
}

impl Notes {
    fn new() -> Notes {
        Notes { step: 1, counts: Vec::new() }
    }

    /// `touches` come before the request of that number; to be called for each, in order.
    fn take(&mut self, request: u64, touches: u64) {
        if !request.is_multiple_of(self.step) {
            return;
        }
        if self.counts.len() == NOTES_MAX {
            let even = self.counts.iter().step_by(2).copied();
            self.counts = even.collect();
            self.step *= 2;
        }
        debug_assert_eq!(request, self.counts.len() as u64 * self.step, "no request is left out");
        self.counts.push(touches);
    }

    /// Touches before that request of a trace that has `requests` with `touches` in all:
    /// interpolated between two notes.
    fn before(&self, request: u64, requests: u64, touches: u64) -> u64 {
        let at = request / self.step;
        let Some(&below) = self.counts.get(at as usize) else { return touches };
        let next = self.counts.get(at as usize + 1).copied();
        let (end, above) = next.map_or((requests, touches), |count| ((at + 1) * self.step, count));
        let part = (request - at * self.step) as f64 / (end - at * self.step).max(1) as f64;
        (below + ((above - below) as f64 * part).round() as u64).min(touches)
    }
}

impl Sample {
    /// Groups that lines are shared out to, for estimates of the error.
    pub const GROUPS: usize = 32;

    /// Reads a trace to its end. `progress` is told the bytes of input read so far.
    ///
    /// # Errors
    /// When the trace cannot be read, or holds nothing to cache.
    pub fn read(
        reader: &mut dyn TraceReader,
        unit: Unit,
        size: SampleSize,
        seed: u64,
        progress: &dyn Fn(u64),
    ) -> Result<Sample, WorkloadError> {
        let mut taker = Taker::new(unit, size, seed);
        each_batch(reader, |requests, reader| {
            let taken = requests.iter().try_for_each(|request| taker.take(request));
            taken.and_then(|()| taker.settle()).map_err(|error| error.in_input(reader))?;
            progress(reader.bytes_read());
            Ok::<(), WorkloadError>(())
        })?;
        if taker.total == 0 {
            return Err(WorkloadError::Empty);
        }
        Ok(taker.finish(reader))
    }

    /// Distinct lines in it.
    pub fn lines(&self) -> u32 {
        self.groups.len() as u32
    }

    /// An estimate of the trace's distinct lines; exact at a rate of 1.
    pub fn distinct(&self) -> f64 {
        f64::from(self.lines()) / self.rate
    }

    /// Touches of the whole trace from request `first` on; exact in traces of up to 65,536
    /// requests.
    pub(crate) fn touches_from(&self, first: u64) -> u64 {
        self.total - self.notes.before(first, self.requests, self.total)
    }
}

/// A sample in the making.
struct Taker {
    unit: Unit,
    size: SampleSize,
    sampler: Sampler,
    /// The threshold of the rate that was asked for.
    threshold_min: u64,
    ids: DenseIds,
    /// Hash and group of each line that has a number.
    hashes: Vec<u32>,
    groups: Vec<u8>,
    /// Hash and number of the lines that are in the sample.
    inside: BinaryHeap<(u32, u32)>,
    /// Addresses of the last touches, which have no number yet.
    pending: Vec<Address>,
    touches: Vec<Touch>,
    /// Rate when touches were last dropped.
    dropped_at: f64,
    requests: u64,
    seen: u64,
    notes: Notes,
    total: u64,
}

impl Taker {
    fn new(unit: Unit, size: SampleSize, seed: u64) -> Taker {
        assert!(size.lines_min > 0, "a sample has at least one line");
        Taker {
            unit,
            size,
            sampler: Sampler::new(1.0, 1, seed),
            threshold_min: Sampler::new(size.rate.max(f64::MIN_POSITIVE), 1, seed).threshold(),
            ids: DenseIds::new(unit),
            hashes: Vec::new(),
            groups: Vec::new(),
            inside: BinaryHeap::new(),
            pending: Vec::new(),
            touches: Vec::new(),
            dropped_at: 1.0,
            requests: 0,
            seen: 0,
            notes: Notes::new(),
            total: 0,
        }
    }

    fn take(&mut self, request: &Request) -> Result<(), WorkloadError> {
        self.seen += 1;
        if request.op == Op::Flush || request.length.0 == 0 {
            return Ok(());
        }
        if request.volume.0 > Tag::VOLUME_MAX {
            return Err(WorkloadError::Volumes { place: String::new(), max: Tag::VOLUME_MAX + 1 });
        }
        check_length(self.unit, request, self.seen)?;
        self.notes.take(self.requests, self.total);
        let tag = Tag::new(request.volume.0, request.op == Op::Write);
        let discard = request.op == Op::Trim;
        let (time, number) = (request.time, self.requests);
        let touch = |line| Touch { time, request: number, line, tag, discard };
        self.requests += 1;
        if discard {
            self.settle()?;
            let mut lines = Vec::new();
            known(&self.ids, self.unit, request, &mut lines);
            self.touches.extend(lines.into_iter().map(touch));
            return Ok(());
        }
        let volume = request.volume.0;
        for unit in units(self.unit, request) {
            self.total += 1;
            if self.sampler.keeps(key(volume, unit)) {
                self.pending.push(Address { volume, unit });
                self.touches.push(touch(LineId(0)));
            }
        }
        Ok(())
    }

    /// Numbers what is pending, and keeps the sample within its size.
    fn settle(&mut self) -> Result<(), WorkloadError> {
        let (mut numbers, mut new) = (Vec::new(), Vec::new());
        let known = self.ids.len();
        let numbered = self.ids.number(&self.pending, &mut numbers, &mut new);
        numbered.map_err(|_| WorkloadError::Lines { place: String::new(), max: LineId::MAX.0 })?;
        self.pending.clear();
        let first = self.touches.len() - numbers.len();
        for (touch, line) in self.touches[first..].iter_mut().zip(numbers) {
            touch.line = line;
        }
        let group_of = Sampler::new(1.0, 1, self.sampler.seed() ^ GROUP_SEED);
        for (id, address) in (known..).zip(&new) {
            let key = key(address.volume, address.unit);
            let hash = self.sampler.hash(key) as u32;
            self.hashes.push(hash);
            self.groups.push((group_of.hash(key) % Sample::GROUPS as u64) as u8);
            self.inside.push((hash, id));
        }
        self.shrink();
        Ok(())
    }

    /// Lines with the largest hash leave while there are too many.
    fn shrink(&mut self) {
        while self.inside.len() > self.size.lines_min as usize
            && self.sampler.threshold() > self.threshold_min
        {
            let (largest, _) = self.inside.peek().expect("more than the minimum");
            self.sampler.lower(u64::from(*largest).max(self.threshold_min));
            while self.inside.peek().is_some_and(|(hash, _)| !self.sampler.keeps_hash(*hash)) {
                self.inside.pop();
            }
        }
        if self.sampler.rate() <= self.dropped_at / 2.0 {
            self.drop_touches();
        }
    }

    fn drop_touches(&mut self) {
        let (sampler, hashes) = (self.sampler, &self.hashes);
        self.touches.retain(|touch| sampler.keeps_hash(hashes[touch.line.index()]));
        self.dropped_at = sampler.rate();
    }

    /// The sample, its lines numbered anew without gaps.
    fn finish(mut self, reader: &dyn TraceReader) -> Sample {
        self.drop_touches();
        let mut groups = Vec::new();
        let mut numbers = vec![LineId(0); self.hashes.len()];
        for (id, hash) in self.hashes.iter().enumerate() {
            if self.sampler.keeps_hash(*hash) {
                numbers[id] = LineId(groups.len() as u32);
                groups.push(self.groups[id]);
            }
        }
        self.touches.iter_mut().for_each(|touch| touch.line = numbers[touch.line.index()]);
        Sample {
            touches: self.touches,
            groups,
            rate: self.sampler.rate(),
            requests: self.requests,
            volumes: reader.volumes().len() as u32,
            repairs: reader.repairs(),
            notes: self.notes,
            total: self.total,
        }
    }
}

fn key(volume: u32, unit: u64) -> u64 {
    u64::from(volume) << VOLUME_SHIFT ^ unit
}
