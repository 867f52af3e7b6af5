//! Miss-ratio curves: misses over cache size, exact for LRU or sampled for any cache policy.
//!
//! Ratios are by line, because a sample tears requests apart. Sampled curves come from miniature
//! simulation (Waldspurger et al., ATC'17): the sampled lines are replayed at sizes scaled by the
//! rate, and the sample's surplus or lack of accesses counts as hits (SHARDS-adj).

use super::run::{LabError, LabOptions, run};
use super::size::CacheSize;
use crate::workload::Workload;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use thermocline_policy::mrc::shards::Sampler;
use thermocline_policy::mrc::{StackDistances, StackHistogram};
use thermocline_policy::registry::PolicySpec;

/// How a curve is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CurveMethod {
    /// Every access, every size; LRU only.
    Exact,
    /// Miniature simulation of this share of the lines.
    Shards(f64),
}

impl FromStr for CurveMethod {
    type Err = String;

    fn from_str(text: &str) -> Result<CurveMethod, String> {
        if text == "exact" {
            return Ok(CurveMethod::Exact);
        }
        let rate = text.strip_prefix("shards:").and_then(|rate| rate.parse().ok());
        match rate {
            Some(rate) if 0.0 < rate && rate <= 1.0 => Ok(CurveMethod::Shards(rate)),
            _ => Err(format!("`{text}` is no way to make a curve; write exact or shards:0.01")),
        }
    }
}

impl fmt::Display for CurveMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CurveMethod::Exact => f.write_str("exact"),
            CurveMethod::Shards(rate) => write!(f, "shards:{rate}"),
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
}

/// One policy's miss-ratio curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// The policy as the user wrote it.
    pub policy: String,
    /// By size, ascending.
    pub points: Vec<Point>,
}

/// Points of a curve, spread evenly over the logarithm of the size.
const POINTS: u32 = 24;
/// The smallest size of a curve, as a share of the working set.
const SMALLEST: f64 = 1e-3;

/// Sizes of a curve's points, as shares of the working set: from 0.1 % to all of it.
fn shares() -> Vec<CacheSize> {
    let step = |i| SMALLEST.powf(1.0 - f64::from(i) / f64::from(POINTS - 1));
    (0..POINTS).map(|i| CacheSize::Share(step(i))).collect()
}

/// The exact curve of LRU, from its stack distances in one pass.
pub fn exact_curve(workload: &Workload) -> Curve {
    let mut distances = StackDistances::new();
    distances.reserve(workload.names.distinct_lines());
    let mut histogram = StackHistogram::default();
    for block in &workload.blocks {
        for (i, head) in block.heads.iter().enumerate() {
            if !head.discard {
                let lines = &block.lines.ids[block.lines.of(i)];
                distances.access_batch(lines, &mut histogram);
            }
        }
    }
    let distinct = workload.distinct();
    let capacity =
        |size: &CacheSize| size.lines(workload.names.line_bytes(), distinct).unwrap_or(1);
    let capacities: Vec<u32> = shares().iter().map(capacity).collect();
    let misses = histogram.misses(&capacities);
    let accesses = histogram.accesses().max(1) as f64;
    let line = workload.names.line_bytes().0;
    let point = |(capacity, misses): (&u32, &u64)| Point {
        bytes: u64::from(*capacity) * line,
        miss_ratio: *misses as f64 / accesses,
    };
    let mut points: Vec<Point> = capacities.iter().zip(&misses).map(point).collect();
    points.dedup_by_key(|point| point.bytes);
    Curve { policy: "lru".to_string(), points }
}

/// Sampled curves of every policy in `specs`.
///
/// # Errors
/// When a policy cannot be built, is a placement, or the sample is empty.
pub fn sampled_curves(
    workload: &Workload,
    specs: &[PolicySpec],
    rate: f64,
    options: &LabOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Curve>, LabError> {
    let sampler = Sampler::new(rate, 1, options.seed);
    let sample = workload.sample(&sampler);
    if sample.heads() == 0 {
        return Err(LabError::EmptySample { rate });
    }
    let rows = run(&sample, specs, &shares(), options, progress)?;
    let points = |rows: &[super::Row]| {
        let point = |row: &super::Row| Point {
            bytes: row.capacity_bytes,
            miss_ratio: 1.0 - row.line_hit_ratio,
        };
        rows.iter().map(point).collect()
    };
    let by_policy = rows.chunks(POINTS as usize).zip(specs);
    Ok(by_policy
        .map(|(rows, spec)| Curve { policy: spec.label.clone(), points: points(rows) })
        .collect())
}
