//! Distances against a plain stack, curves against exact ones, miniatures against the full cache.

use super::*;
use crate::cache::{CachePolicy, Tag};
use crate::registry::{Build, Geometry, PolicySpec};
use proptest::prelude::*;
use std::collections::BTreeMap;
use thermocline_units::{LineId, Rng};

/// Zipf over 100 000 lines (a few of them very hot), a loop of 8 000 and a scan without reuse.
fn trace(seed: u64, count: usize) -> Vec<u64> {
    let mut rng = Rng::seeded(seed);
    let mut cumulative = 0.0;
    let weights: Vec<f64> = (1..=100_000)
        .map(|rank| {
            cumulative += 1.0 / f64::from(rank);
            cumulative
        })
        .collect();
    (0..count as u64)
        .map(|i| match rng.below(10) {
            0..=5 => {
                let point = rng.unit_f64() * cumulative;
                let rank = weights.partition_point(|w| *w < point) as u64;
                rank.wrapping_mul(0x9e37_79b9) & 0xffff_ffff
            }
            6..=7 => (1 << 33) + i % 8_000,
            _ => (1 << 34) + i,
        })
        .collect()
}

const RESOLUTION: Resolution = Resolution { step_lines: 500, points: 200 };

fn curve_of(mut shards: Shards, trace: &[u64]) -> (MissRatioCurve, MissRatioCurve) {
    trace.iter().for_each(|key| shards.access(*key));
    (shards.curve(), shards.raw_curve())
}

fn sampled_at(rate: f64, seed: u64) -> Shards {
    Shards::fixed_rate(Sampler::new(rate, 1, seed), RESOLUTION)
}

/// Mean absolute difference of two curves, point by point.
fn mean_error(curve: &MissRatioCurve, other: &MissRatioCurve) -> f64 {
    assert_eq!(curve.ratios().len(), other.ratios().len(), "curves of the same points");
    let errors = curve.ratios().iter().zip(other.ratios()).map(|(a, b)| (a - b).abs());
    errors.sum::<f64>() / curve.ratios().len() as f64
}

/// Mean absolute errors, adjusted and raw, over a few seeds.
fn errors(rate: f64) -> (f64, f64) {
    const SEEDS: u64 = 5;
    let trace = trace(1, 600_000);
    let (exact, _) = curve_of(sampled_at(1.0, 0), &trace);
    let (mut adjusted, mut raw) = (0.0, 0.0);
    for seed in 0..SEEDS {
        let (a, r) = curve_of(sampled_at(rate, seed), &trace);
        adjusted += mean_error(&a, &exact) / SEEDS as f64;
        raw += mean_error(&r, &exact) / SEEDS as f64;
    }
    (adjusted, raw)
}

#[test]
fn adjusted_curves_are_ten_times_nearer_than_raw_ones_on_a_skewed_trace() {
    for (rate, bound) in [(0.1, 0.006), (0.01, 0.02)] {
        let (adjusted, raw) = errors(rate);
        assert!(adjusted < bound, "R = {rate}: mean absolute error {adjusted}, raw {raw}");
        assert!(raw > 10.0 * adjusted, "R = {rate}: raw {raw}, adjusted {adjusted}");
    }
}

#[test]
fn a_fixed_size_sample_stays_within_its_bound_and_near_the_exact_curve() {
    let trace = trace(2, 300_000);
    let (exact, _) = curve_of(sampled_at(1.0, 0), &trace);
    let mut shards = Shards::fixed_size(Sampler::new(1.0, 1, 7), 2_000, RESOLUTION);
    for key in &trace {
        shards.access(*key);
        assert!(shards.bound.as_ref().is_some_and(|bound| bound.hashes.len() <= 2_000));
    }
    assert!(shards.rate() < 0.05, "the rate fell to {}", shards.rate());
    let error = mean_error(&shards.curve(), &exact);
    assert!(error < 0.03, "{error}");
    assert!(mean_error(&shards.raw_curve(), &exact) > 2.0 * error);
    assert!(shards.bytes() < 2_000 * 100 + 8 * 200, "{} B", shards.bytes());
}

#[test]
fn a_group_is_sampled_whole_or_not_at_all() {
    let sampler = Sampler::new(0.1, 16, 3);
    let mut kept = 0;
    for group in 0..10_000u64 {
        let lines: Vec<bool> = (0..16).map(|i| sampler.keeps(group * 16 + i)).collect();
        assert!(lines.iter().all(|l| *l == lines[0]), "group {group}");
        kept += u32::from(lines[0]);
    }
    assert!((900..1100).contains(&kept), "{kept} of 10 000 groups at a rate of 0.1");
}

#[test]
fn uncounted_accesses_move_the_stack_and_nothing_else() {
    let resolution = Resolution { step_lines: 1, points: 4 };
    let mut shards = Shards::fixed_rate(Sampler::new(1.0, 1, 0), resolution);
    shards.access(1); // cold
    shards.access_uncounted(2);
    shards.access(1); // distance 1
    shards.access(2); // distance 1, by the uncounted access before
    assert_eq!(shards.accesses(), 3.0);
    let third = 1.0 - 1.0 / 3.0 - 1.0 / 3.0;
    let expected = [1.0, 1.0, third, third, third];
    shards.curve().ratios().iter().zip(expected).for_each(|(r, e)| assert!((r - e).abs() < 1e-12));
}

#[test]
fn faded_accesses_weigh_less_than_new_ones() {
    let resolution = Resolution { step_lines: 1, points: 2 };
    let mut shards = Shards::fixed_rate(Sampler::new(1.0, 1, 0), resolution);
    (0..8).for_each(|key| shards.access(key)); // 8 misses
    shards.fade(0.25); // count as 2
    (0..6).for_each(|_| shards.access(7)); // 6 hits
    assert_eq!(shards.curve().at(1), 0.25);
}

#[test]
fn a_curve_is_linear_between_points_and_level_past_the_last() {
    let curve = MissRatioCurve::new(10, vec![1.0, 0.5, 0.2]);
    assert_eq!((curve.at(0), curve.at(5), curve.at(10)), (1.0, 0.75, 0.5));
    assert_eq!((curve.at(20), curve.at(1 << 40)), (0.2, 0.2));
}

fn cache(name: &str, lines: u64) -> Box<dyn CachePolicy> {
    let geometry = Geometry { lines: lines as u32, ..Geometry::for_tests() };
    let spec = PolicySpec::parse(name).expect("a known policy");
    match spec.entry.build {
        Build::Cache(build) => build(&geometry, &spec.settings).expect("right settings"),
        _ => panic!("{name} is no cache"),
    }
}

/// Replays what `sampler` keeps; misses and accesses.
fn replay(name: &str, lines: u64, trace: &[u64], sampler: &Sampler) -> (u64, u64) {
    let miniature = (lines as f64 * sampler.rate()).round() as u64;
    let mut cache = cache(name, miniature);
    let mut ids: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut misses, mut accesses) = (0, 0);
    for key in trace.iter().filter(|key| sampler.keeps(**key)) {
        let new = ids.len() as u32;
        let line = LineId(*ids.entry(*key).or_insert(new));
        cache.reserve(ids.len() as u32);
        misses += u64::from(!cache.access(line, Tag::default()).is_hit());
        accesses += 1;
    }
    (misses, accesses)
}

#[test]
fn a_miniature_cache_misses_like_the_full_one() {
    let trace = trace(3, 300_000);
    let all = Sampler::new(1.0, 1, 0);
    let small = Sampler::new(0.1, 1, 5);
    for lines in [10_000, 30_000] {
        let (misses, accesses) = replay("lru", lines, &trace, &all);
        let full = misses as f64 / accesses as f64;
        let (misses, _) = replay("lru", lines, &trace, &small);
        // Samples that skew withheld count as hits.
        let expected = small.rate() * trace.len() as f64;
        let hits = expected - misses as f64;
        let estimate = 1.0 - (hits / expected).clamp(0.0, 1.0);
        assert!((full - estimate).abs() < 0.02, "{lines} lines: {full} full, {estimate} estimated");
        // The exact curve, and the cache itself, are two ways to the same number.
        let (curve, _) = curve_of(sampled_at(1.0, 0), &trace);
        assert!((curve.at(lines) - full).abs() < 1e-9, "{lines} lines");
    }
}

proptest! {
    #[test]
    fn distances_are_those_of_a_plain_stack(
        accesses in prop::collection::vec((0u64..40, prop::bool::weighted(0.1)), 0..600),
    ) {
        let (mut stack, mut plain) = (StackDistance::default(), Vec::<u64>::new());
        for (key, leaves) in accesses {
            let at = plain.iter().rev().position(|k| *k == key);
            plain.retain(|k| *k != key);
            if leaves {
                stack.remove(key);
            } else {
                prop_assert_eq!(stack.access(key), at.map(|at| at as u64));
                plain.push(key);
            }
        }
    }
}
