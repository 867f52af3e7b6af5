//! A head over a spinning disk, from latencies of single random reads.
//!
//! 1. Random reads over a share r of the device seek over √d on average 8/15 · √r, so their mean
//!    latency over √r is a straight line: its slope is 8/15 of the stroke's share, its intercept
//!    what no seek avoids: overhead, the shortest seek and half a turn.
//! 2. Over the narrowest range a latency varies by the rotation almost alone: a uniform time of one
//!    turn, whose variance is a twelfth of its square. What seeks add to it (0.049 · stroke² · r)
//!    is taken off. The nearest speed that disks are sold with is taken.
//! 3. Rates at both edges come from sequential reads.
//! 4. Queue and age bound are those of a grid of usual ones with which the model comes nearest to
//!    the rates at depths from 2 to 64.
//!
//! Seek curve: Ruemmler and Wilkes (1994), as the model has it. 8/15 is the mean of √|x − y| over
//! the unit square, and 1/3 − (8/15)² its variance.

use super::plan::{LoadName, NARROW, READ_DEPTHS};
use super::{Measurements, misfit, profile_of};
use crate::model::{Disk, Medium};
use thermocline_units::{Bytes, Nanos};

/// Mean of √|x − y|, x and y uniform.
const MEAN_ROOT: f64 = 8.0 / 15.0;
/// Its variance.
const VARIANCE_ROOT: f64 = 1.0 / 3.0 - MEAN_ROOT * MEAN_ROOT;
/// Speeds that disks are sold with, in revolutions per minute.
const SPEEDS: [u32; 6] = [4_200, 5_400, 5_900, 7_200, 10_000, 15_000];
/// Time from a command to the first movement; it cannot be told from the shortest seek.
const OVERHEAD: Nanos = Nanos::from_micros(50);
/// Requests among which disks choose.
const QUEUE_DEPTHS: [u32; 6] = [1, 4, 16, 32, 64, 128];
/// Ages, in milliseconds, at which disks let a request go first.
const AGES_MAX: [u64; 7] = [25, 50, 100, 200, 400, 800, 1_600];
/// Bytes that are read ahead.
const READ_AHEAD: Bytes = Bytes::from_mib(2);
/// A disk's longest stroke, in nanoseconds: a bound for nonsense.
const STROKE_MAX: f64 = 1e9;

pub(super) fn fit(measured: &Measurements, size: Bytes, assumed: &mut Vec<String>) -> Medium {
    let (intercept, slope) = line(&seeks(measured));
    let stroke = (slope / MEAN_ROOT).clamp(0.0, STROKE_MAX);
    let rpm = speed(measured, stroke);
    let half_turn = 30e9 / f64::from(rpm);
    let seek_min = (intercept - half_turn - OVERHEAD.0 as f64).max(0.0);
    let rate = |name| (measured.figures(name).mb_per_s * 1e6).max(1e5) as u64;
    let (outer, inner) = (rate(LoadName::SequentialRead(32)), rate(LoadName::InnerRead));
    assumed.push(format!(
        "a disk's overhead ({OVERHEAD}), read-ahead ({READ_AHEAD}) and a write cache that is off; \
         {rpm} rpm is the nearest speed on sale"
    ));
    let disk = Disk {
        rpm,
        seek_min: Nanos(seek_min as u64),
        seek_stroke: Nanos(stroke as u64),
        outer_bytes_per_s: outer,
        inner_bytes_per_s: inner.min(outer),
        overhead: OVERHEAD,
        queue_depth: 1,
        age_max: Nanos(0),
        read_ahead: READ_AHEAD,
        shingles: None,
    };
    Medium::Disk(queueing(disk, measured, size))
}

/// Step 4.
fn queueing(disk: Disk, measured: &Measurements, size: Bytes) -> Disk {
    let loads: Vec<LoadName> = READ_DEPTHS[1..]
        .iter()
        .map(|&depth| LoadName::RandomRead(depth))
        .chain([LoadName::LargeRead(32)])
        .collect();
    let mut best = (f64::INFINITY, disk.clone());
    for queue_depth in QUEUE_DEPTHS {
        for age in AGES_MAX {
            let age_max = Nanos::from_micros(age * 1_000);
            let disk = Disk { queue_depth, age_max, ..disk.clone() };
            let medium = Medium::Disk(disk.clone());
            let profile = profile_of(size, medium);
            let off = misfit(&profile, measured, &loads);
            if off < best.0 {
                best = (off, disk);
            }
        }
    }
    best.1
}

/// (√share of the device, mean latency) of single random reads.
fn seeks(measured: &Measurements) -> Vec<(f64, f64)> {
    let narrow = NARROW.map(|part| (LoadName::NarrowRead(part), f64::from(part)));
    let loads = narrow.into_iter().chain([(LoadName::RandomRead(1), 1.0)]);
    loads.map(|(name, part)| ((1.0 / part).sqrt(), measured.figures(name).mean.0 as f64)).collect()
}

/// The straight line with the least squares: (intercept, slope).
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len() as f64;
    let (mx, my) = points.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / count, y + p.1 / count));
    let over: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    let under: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let slope = over / under;
    (my - slope * mx, slope)
}

/// Step 2.
fn speed(measured: &Measurements, stroke: f64) -> u32 {
    let part = NARROW[0];
    let load = measured.get(LoadName::NarrowRead(part)).expect("reads are always measured");
    let latencies = &load.outcome.reads;
    let count = latencies.len().max(2) as f64;
    let mean = latencies.iter().map(|latency| latency.0 as f64).sum::<f64>() / count;
    let squares: f64 = latencies.iter().map(|latency| (latency.0 as f64 - mean).powi(2)).sum();
    let rotation = squares / (count - 1.0) - VARIANCE_ROOT * stroke * stroke / f64::from(part);
    let turn = (12.0 * rotation.max(0.0)).sqrt();
    let off = |rpm: u32| (60e9 / f64::from(rpm) / turn.max(1.0)).ln().abs();
    let nearest = SPEEDS.into_iter().min_by(|&a, &b| off(a).total_cmp(&off(b)));
    nearest.expect("there are speeds")
}
