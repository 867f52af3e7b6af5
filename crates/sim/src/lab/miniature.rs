//! Miss-ratio curves of any cache policy from a sample of the lines, and how far off they may be.
//!
//! 1. A cache of c lines is replayed on the sampled lines as a miniature of c · rate lines
//!    (Waldspurger et al., ATC 2017).
//! 2. Sampled lines are shared out to 32 groups by a hash of their own. The groups are 32 samples
//!    of the same trace, so the spread of their misses and accesses tells how far chance moves the
//!    sum.
//! 3. *Plain*: the ratio is misses over accesses of the sample. *Adjusted* (SHARDS-adj, Waldspurger
//!    et al., FAST 2015): it is the sample's misses over the accesses that a sample of this rate
//!    should have, so that what is lacking or in excess counts as hits. Adjusting helps when a few
//!    very hot lines fell into the sample or out of it, and hurts when the lines that happen to be
//!    in the sample miss more or less often than others.
//! 4. The curve is adjusted when the sample's accesses are further from the expected number than
//!    the groups explain (three standard errors: only very hot lines do that), and otherwise when
//!    the groups' spread says that the adjusted ratio is the less uncertain of the two. One choice
//!    holds for all sizes of a policy.
//! 5. A miniature's size is uncertain too: of c lines, a sample has c · rate give or take the
//!    square root of c · rate · (1 − rate). The slope of the curve turns that into misses.
//! 6. Which of the two ratios is told was chosen by the same sample, so their distance is a doubt
//!    of its own. The error is the root of the sum of three squares: twice the groups' spread,
//!    twice that of the size, and the distance. It is never less than three accesses in all that
//!    were sampled: so many misses or hits a sample may have missed altogether (the rule of three).
//!
//! Miniatures below [`MINIATURE_LINES_MIN`] lines say nothing: such sizes are left out, or refused
//! when they were asked for.

use super::curve::{Curve, CurveMethod, Curves, Point, usual_sizes};
use super::run::{LabError, LabOptions, check_warmup};
use super::size::CacheSize;
use crate::replay::{Epochs, Warmup};
use crate::workload::{Sample, Unit};
use rayon::prelude::*;
use std::sync::Arc;
use thermocline_policy::registry::{Built, Geometry, PolicySpec};
use thermocline_units::{Bytes, Nanos};

/// Lines of a miniature cache below which it says nothing of the cache it stands for.
const MINIATURE_LINES_MIN: f64 = 16.0;
/// Standard errors beyond which a lack or surplus of accesses is not chance.
const UNEXPLAINED: f64 = 3.0;

/// Events that may be there with 95 % where a sample has shown none.
const RULE_OF_THREE: f64 = 3.0;

/// Treatment of the sample's lack or surplus of accesses as hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adjustment {
    /// Adjusted where the sample says that it helps: step 4 above.
    WhereItHelps,
    /// Always, as SHARDS-adj does; for comparison.
    Always,
    /// Never, as plain SHARDS does; for comparison.
    Never,
}

/// A count for each group of the sample.
type ByGroup = [f64; Sample::GROUPS];

/// Curves of every policy in `specs` at `sizes`, or at the usual ones.
///
/// # Errors
/// When a policy cannot be built or is no cache, a size is too small for the sample, or the warm-up
/// leaves nothing.
pub fn sampled_curves(
    sample: &Sample,
    unit: Unit,
    specs: &[PolicySpec],
    sizes: Option<&[CacheSize]>,
    (method, adjustment): (CurveMethod, Adjustment),
    options: &LabOptions,
) -> Result<Curves, LabError> {
    let studio = Studio::new(sample, unit, options)?;
    let capacities = studio.capacities(sizes)?;
    let jobs: Vec<(&PolicySpec, u32)> = specs
        .iter()
        .flat_map(|spec| capacities.replayed.iter().map(move |lines| (spec, *lines)))
        .collect();
    let replayed: Result<Vec<ByGroup>, LabError> =
        jobs.par_iter().with_max_len(1).map(|(spec, lines)| studio.replay(spec, *lines)).collect();
    let replayed = replayed?;
    let by_policy = replayed.chunks(capacities.replayed.len().max(1)).zip(specs);
    let curves =
        by_policy.map(|(misses, spec)| studio.curve(spec, &capacities, misses, adjustment));
    Ok(Curves {
        method: method.to_string(),
        rate: sample.rate,
        sampled_lines: sample.lines().into(),
        distinct_lines: sample.distinct().round() as u64,
        repairs: sample.repairs.clone(),
        curves: curves.collect(),
    })
}

/// Sizes of miniatures.
struct Capacities {
    /// Lines of each cache that gets a point, ascending.
    points: Vec<u32>,
    /// Lines of the miniatures that are replayed, ascending: those of the points, and their
    /// neighbours.
    replayed: Vec<u32>,
}

/// A sample about to be replayed.
struct Studio<'a> {
    sample: &'a Sample,
    options: &'a LabOptions,
    line: Bytes,
    /// Index of the first touch that counts.
    counted_from: usize,
    /// Counted accesses by group.
    accesses: ByGroup,
    /// Accesses that a sample of this rate should have.
    expected: f64,
}

impl<'a> Studio<'a> {
    fn new(
        sample: &'a Sample,
        unit: Unit,
        options: &'a LabOptions,
    ) -> Result<Studio<'a>, LabError> {
        let touches = &sample.touches;
        let warmup = options.replay.warmup.of(sample.requests);
        let last = touches.last().map_or_else(Default::default, |touch| touch.time);
        check_warmup(warmup, sample.requests, last)?;
        let counted_from = match warmup {
            Warmup::Fraction(_) => 0,
            Warmup::Requests(count) => touches.partition_point(|touch| touch.request < count),
            Warmup::Time(time) => touches.partition_point(|touch| touch.time < time),
        };
        let mut accesses = [0.0; Sample::GROUPS];
        for touch in touches[counted_from..].iter().filter(|touch| !touch.discard) {
            accesses[usize::from(sample.groups[touch.line.index()])] += 1.0;
        }
        // Of a warm-up in time the sample knows its own touches only: its first one after it. The
        // sample may have none within a warm-up, which has touches of the trace all the same.
        let first = match warmup {
            Warmup::Fraction(_) | Warmup::Time(Nanos(0)) => 0,
            Warmup::Requests(count) => count,
            Warmup::Time(_) => touches.get(counted_from).map_or(0, |touch| touch.request),
        };
        let total = sample.touches_from(first);
        let (line, expected) = (unit.line_bytes(), total as f64 * sample.rate);
        Ok(Studio { sample, options, line, counted_from, accesses, expected })
    }

    fn capacities(&self, sizes: Option<&[CacheSize]>) -> Result<Capacities, LabError> {
        let rate = self.sample.rate;
        let usual = usual_sizes();
        let mut points = Vec::new();
        for size in sizes.unwrap_or(&usual) {
            let lines = match size.lines(self.line, self.sample.distinct()) {
                Ok(lines) => lines,
                Err(_) if sizes.is_none() => continue,
                Err(error) => return Err(error.into()),
            };
            let miniature = f64::from(lines) * rate;
            if rate == 1.0 || miniature >= MINIATURE_LINES_MIN {
                points.push(lines);
            } else if sizes.is_some() {
                let wanted = (MINIATURE_LINES_MIN / f64::from(lines)).min(1.0);
                let (size, lines) = (*size, miniature);
                return Err(LabError::SampleTooSmall { size, lines, rate, wanted });
            }
        }
        points.sort_unstable();
        points.dedup();
        let mut replayed: Vec<u32> = points.iter().map(|lines| self.miniature(*lines)).collect();
        if sizes.is_some() && rate < 1.0 {
            for lines in &points {
                let spread = self.spread(*lines).max(1.0) as u32;
                let middle = self.miniature(*lines);
                replayed.extend([middle.saturating_sub(spread).max(1), middle + spread]);
            }
        }
        replayed.sort_unstable();
        replayed.dedup();
        Ok(Capacities { points, replayed })
    }

    /// Lines of the miniature of a cache of `lines`.
    fn miniature(&self, lines: u32) -> u32 {
        ((f64::from(lines) * self.sample.rate).round() as u32).max(1)
    }

    /// Standard error of the number of `lines` lines that are in the sample.
    fn spread(&self, lines: u32) -> f64 {
        (f64::from(lines) * self.sample.rate * (1.0 - self.sample.rate)).sqrt()
    }

    /// Misses by group of `spec` with room for `lines` sampled lines.
    fn replay(&self, spec: &PolicySpec, lines: u32) -> Result<ByGroup, LabError> {
        let sample = self.sample;
        let geometry = Geometry {
            lines,
            line_bytes: self.line,
            volumes: sample.volumes.max(1),
            seed: self.options.seed,
        };
        let future = spec.is_clairvoyant().then(|| self.future());
        let built = spec.build(&geometry, future.as_ref());
        let settings = |source| LabError::Settings { policy: spec.label.clone(), source };
        let Built::Cache(mut policy) = built.map_err(settings)? else {
            return Err(LabError::NoCache { policy: spec.label.clone() });
        };
        policy.reserve(sample.lines());
        let mut epochs = Epochs::new(self.options.replay.epoch);
        let mut misses = [0.0; Sample::GROUPS];
        for (i, touch) in sample.touches.iter().enumerate() {
            while let Some(end) = epochs.passed(touch.time) {
                policy.end_epoch(end);
            }
            if touch.discard {
                policy.invalidate(touch.line);
            } else if !policy.access(touch.line, touch.tag).is_hit() && i >= self.counted_from {
                misses[usize::from(sample.groups[touch.line.index()])] += 1.0;
            }
        }
        if let Some(problem) = policy.failure() {
            let (policy, problem) = (spec.label.clone(), problem.to_string());
            return Err(LabError::Failed { policy, problem });
        }
        Ok(misses)
    }

    /// For every access, the position of the next one to the same line.
    fn future(&self) -> Arc<[u32]> {
        let accesses = self.sample.touches.iter().filter(|touch| !touch.discard);
        let lines: Vec<usize> = accesses.map(|touch| touch.line.index()).collect();
        let mut next_of = vec![u32::MAX; self.sample.lines() as usize];
        let mut future = vec![u32::MAX; lines.len()];
        for (at, line) in lines.iter().enumerate().rev() {
            future[at] = std::mem::replace(&mut next_of[*line], at as u32);
        }
        future.into()
    }

    fn curve(
        &self,
        spec: &PolicySpec,
        capacities: &Capacities,
        misses: &[ByGroup],
        adjustment: Adjustment,
    ) -> Curve {
        let plain: Vec<Estimate> = misses.iter().map(|m| self.plain(m)).collect();
        let adjusted: Vec<Estimate> = misses.iter().map(|m| self.adjusted(m)).collect();
        let sum = |estimates: &[Estimate]| estimates.iter().map(|e| e.variance).sum::<f64>();
        let helps = || self.lack_is_unexplained() || sum(&adjusted) < sum(&plain);
        let adjusts = self.sample.rate < 1.0
            && match adjustment {
                Adjustment::WhereItHelps => helps(),
                Adjustment::Always => true,
                Adjustment::Never => false,
            };
        let (estimates, others) = if adjusts { (adjusted, plain) } else { (plain, adjusted) };
        let least = RULE_OF_THREE / self.accesses.iter().sum::<f64>().max(1.0);
        let point = |lines: &u32| {
            let at = capacities.replayed.partition_point(|r| *r < self.miniature(*lines));
            let slope = slope(&capacities.replayed, &estimates, at);
            let Estimate { ratio, variance } = estimates[at];
            let sideways = slope * self.spread(*lines);
            let distance = ratio - others[at].ratio;
            let square = 4.0 * (variance + sideways * sideways) + distance * distance;
            let error = if self.sample.rate < 1.0 { square.sqrt().max(least) } else { 0.0 };
            Point { bytes: u64::from(*lines) * self.line.0, miss_ratio: ratio, error }
        };
        let points = capacities.points.iter().map(point).collect();
        Curve { policy: spec.label.clone(), adjusted: adjusts, points }
    }

    /// True if the sample has more or fewer accesses than its groups' spread accounts for.
    fn lack_is_unexplained(&self) -> bool {
        let accesses: f64 = self.accesses.iter().sum();
        let mean = accesses / Sample::GROUPS as f64;
        let spread = deviation(self.accesses.iter().map(|n| n - mean)).sqrt();
        (accesses - self.expected).abs() > UNEXPLAINED * spread
    }

    /// Misses over the accesses of the sample.
    fn plain(&self, misses: &ByGroup) -> Estimate {
        let accesses: f64 = self.accesses.iter().sum::<f64>().max(1.0);
        let ratio = misses.iter().sum::<f64>() / accesses;
        let pairs = misses.iter().zip(&self.accesses);
        let variance = deviation(pairs.map(|(m, n)| m - ratio * n)) / (accesses * accesses);
        self.estimate(ratio, variance)
    }

    /// Misses over the accesses that the sample should have.
    fn adjusted(&self, misses: &ByGroup) -> Estimate {
        let expected = self.expected.max(1.0);
        let sum: f64 = misses.iter().sum();
        let mean = sum / Sample::GROUPS as f64;
        let variance = deviation(misses.iter().map(|m| m - mean)) / (expected * expected);
        self.estimate(sum / expected, variance)
    }

    fn estimate(&self, ratio: f64, variance: f64) -> Estimate {
        let sampled = self.sample.rate < 1.0;
        Estimate { ratio: ratio.min(1.0), variance: if sampled { variance } else { 0.0 } }
    }
}

/// A miss ratio, and the variance that sampling gives it.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    ratio: f64,
    variance: f64,
}

/// Variance of a sum over groups, from the groups' distances to what they should be.
fn deviation(distances: impl Iterator<Item = f64>) -> f64 {
    const GROUPS: f64 = Sample::GROUPS as f64;
    distances.map(|distance| distance * distance).sum::<f64>() * GROUPS / (GROUPS - 1.0)
}

/// Misses that one line of a miniature more or less makes, around `replayed[at]`.
fn slope(replayed: &[u32], estimates: &[Estimate], at: usize) -> f64 {
    let (low, high) = (at.saturating_sub(1), (at + 1).min(replayed.len() - 1));
    if low == high {
        return 0.0;
    }
    let lines = f64::from(replayed[high] - replayed[low]);
    (estimates[high].ratio - estimates[low].ratio) / lines
}
