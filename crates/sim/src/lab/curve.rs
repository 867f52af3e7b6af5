//! Miss-ratio curves: misses over cache size, exact for LRU or sampled for any cache policy.
//!
//! Ratios are by line, because a sample tears requests apart. What a sampled curve is and how far
//! it can be trusted stands in `miniature.rs`.

use super::run::{LabError, LabOptions, check_warmup};
use super::size::CacheSize;
use crate::replay::Warmup;
use crate::workload::{Block, Cut, SampleSize, Stream, WorkloadError};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use thermocline_policy::mrc::{StackDistances, StackHistogram};
use thermocline_trace::TraceReader;
use thermocline_units::text::count;
use thermocline_units::{Bytes, Nanos};

/// Ways to make a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CurveMethod {
    /// Every access, every size; LRU only.
    Exact,
    /// Miniature simulation of this share of the lines, or of [`CurveMethod::LINES_MIN`] lines
    /// where that is more.
    Rate(f64),
    /// Miniature simulation of so many lines.
    Lines(u32),
}

impl CurveMethod {
    /// Lines that a sample has at least (or all, when the trace has fewer).
    pub const LINES_MIN: u32 = 8192;

    /// The sample that this method takes; `None` when it takes none.
    pub fn sample(self) -> Option<SampleSize> {
        match self {
            CurveMethod::Exact => None,
            CurveMethod::Rate(rate) => Some(SampleSize { rate, lines_min: CurveMethod::LINES_MIN }),
            CurveMethod::Lines(lines_min) => Some(SampleSize { rate: 0.0, lines_min }),
        }
    }
}

impl FromStr for CurveMethod {
    type Err = String;

    fn from_str(text: &str) -> Result<CurveMethod, String> {
        let error = || {
            format!(
                "`{text}` is no way to make a curve; write exact, shards:0.01 (a share of the \
                 lines) or shards:20000lines (at least {} of them)",
                CurveMethod::LINES_MIN
            )
        };
        if text == "exact" {
            return Ok(CurveMethod::Exact);
        }
        let sample = text.strip_prefix("shards:").ok_or_else(error)?;
        if let Some(lines) = sample.strip_suffix("lines") {
            let lines = lines.parse().ok().filter(|lines| *lines >= CurveMethod::LINES_MIN);
            return lines.map(CurveMethod::Lines).ok_or_else(error);
        }
        let rate = sample.parse().ok().filter(|rate| 0.0 < *rate && *rate <= 1.0);
        rate.map(CurveMethod::Rate).ok_or_else(error)
    }
}

impl fmt::Display for CurveMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CurveMethod::Exact => f.write_str("exact"),
            CurveMethod::Rate(rate) => write!(f, "shards:{rate}"),
            CurveMethod::Lines(lines) => write!(f, "shards:{lines}lines"),
        }
    }
}

/// One point of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// Cache size in bytes (objects with `--objects`).
    pub bytes: u64,
    /// Share of line touches that miss, 0 to 1.
    pub miss_ratio: f64,
    /// Half of the interval that holds the true ratio in 95 of 100 samples; 0 when nothing was
    /// sampled.
    pub error: f64,
}

/// One policy's miss-ratio curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// The policy as the user wrote it.
    pub policy: String,
    /// True if the sample's lack or surplus of accesses was counted as hits (SHARDS-adj).
    pub adjusted: bool,
    /// Points by size, ascending.
    pub points: Vec<Point>,
}

/// Curves, and what they were made from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curves {
    /// The way in which they were made.
    pub method: String,
    /// Share of the distinct lines that was replayed.
    pub rate: f64,
    /// Lines that were replayed.
    pub sampled_lines: u64,
    /// Distinct lines of the trace; an estimate when sampled.
    pub distinct_lines: u64,
    /// Repairs by the reader.
    pub repairs: Vec<String>,
    /// One a policy.
    pub curves: Vec<Curve>,
}

impl Curves {
    /// The way in which they were made, in a few words.
    pub fn made_from(&self) -> String {
        let Curves { method, rate, sampled_lines, distinct_lines, .. } = self;
        let distinct_lines = count(*distinct_lines);
        if *rate == 1.0 {
            return format!("{method}; all {distinct_lines} lines");
        }
        format!(
            "{method}; {} lines sampled of about {distinct_lines} ({:.2} %)",
            count(*sampled_lines),
            rate * 100.0
        )
    }
}

/// Points of a curve when no sizes are asked for, spread evenly over the logarithm of the size.
const POINTS: u32 = 24;
/// The smallest of those sizes, as a share of the working set.
const SMALLEST: f64 = 1e-3;

/// Sizes of a curve when none are asked for: shares of the working set from 0.1 % to all of it.
pub(super) fn usual_sizes() -> Vec<CacheSize> {
    let step = |i| SMALLEST.powf(1.0 - f64::from(i) / f64::from(POINTS - 1));
    (0..POINTS).map(|i| CacheSize::Share(step(i))).collect()
}

/// The exact curve of LRU at `sizes` (or the usual ones), from its stack distances in one pass over
/// the trace. Memory grows with the distinct lines, not with the requests.
///
/// # Errors
/// When the trace cannot be read, the warm-up leaves nothing or is a share of the requests, or a
/// size does not fit.
pub fn exact_curve(
    reader: &mut dyn TraceReader,
    cut: Cut,
    sizes: Option<&[CacheSize]>,
    options: &LabOptions,
    progress: &dyn Fn(u64),
) -> Result<Curves, LabError> {
    let warmup = options.replay.warmup;
    if matches!(warmup, Warmup::Fraction(part) if part > 0.0) {
        let problem = "--warmup: an exact curve takes a number of requests or a time";
        return Err(LabError::Option(problem.to_string()));
    }
    let mut stream = Stream::new(reader, cut);
    let mut block = Block::new(cut);
    let mut passes = Passes::default();
    while stream.fill(&mut block)? {
        passes.take(&block, warmup);
        progress(stream.bytes_read());
    }
    if passes.touches == 0 {
        return Err(WorkloadError::Empty.into());
    }
    check_warmup(warmup, passes.requests, passes.last)?;
    let usual = usual_sizes();
    let line = cut.unit.line_bytes();
    let points = passes.points(sizes.unwrap_or(&usual), sizes.is_some(), line)?;
    let curve = Curve { policy: "lru".to_string(), adjusted: false, points };
    Ok(Curves {
        method: CurveMethod::Exact.to_string(),
        rate: 1.0,
        sampled_lines: passes.distinct.into(),
        distinct_lines: passes.distinct.into(),
        repairs: stream.repairs(),
        curves: vec![curve],
    })
}

/// Stack distances of what passed.
#[derive(Default)]
struct Passes {
    distances: StackDistances,
    histogram: StackHistogram,
    distinct: u32,
    requests: u64,
    touches: u64,
    last: Nanos,
}

impl Passes {
    fn take(&mut self, block: &Block, warmup: Warmup) {
        self.distinct += block.new_lines();
        self.distances.reserve(self.distinct);
        for (i, head) in block.heads.iter().enumerate() {
            let counts = match warmup {
                Warmup::Requests(count) => self.requests >= count,
                Warmup::Time(time) => head.time >= time,
                Warmup::Fraction(_) => true,
            };
            self.requests += 1;
            self.last = head.time;
            if head.discard {
                continue;
            }
            for line in &block.lines.ids[block.lines.of(i)] {
                let distance = self.distances.access(*line);
                if counts {
                    self.histogram.count(distance);
                }
                self.touches += 1;
            }
        }
    }

    fn points(
        &self,
        sizes: &[CacheSize],
        asked: bool,
        line: Bytes,
    ) -> Result<Vec<Point>, LabError> {
        let mut capacities = Vec::new();
        for size in sizes {
            match size.lines(line, f64::from(self.distinct)) {
                Ok(lines) => capacities.push(lines),
                Err(error) if asked => return Err(error.into()),
                Err(_) => {} // of the usual sizes, those below one line are left out
            }
        }
        capacities.sort_unstable();
        capacities.dedup();
        let accesses = self.histogram.accesses().max(1) as f64;
        let misses = self.histogram.misses(&capacities);
        let point = |(capacity, misses): (&u32, u64)| Point {
            bytes: u64::from(*capacity) * line.0,
            miss_ratio: misses as f64 / accesses,
            error: 0.0,
        };
        Ok(capacities.iter().zip(misses).map(point).collect())
    }
}
