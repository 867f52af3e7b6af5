//! Claims that hold for every registered cache policy, and for batches against single accesses.

use super::{CachePolicy, Outcome, Tag};
use crate::registry::{self, Build, Built, Geometry, PolicySpec, Settings};
use thermocline_units::{LineId, Rng};

fn caches(lines: u32) -> Vec<(&'static str, Box<dyn CachePolicy>)> {
    let geometry = Geometry { lines, ..Geometry::for_tests() };
    registry::entries()
        .filter_map(|entry| match entry.build {
            Build::Cache(build) => {
                let settings = Settings::defaults(entry);
                Some((entry.name, build(&geometry, &settings).expect("defaults build")))
            }
            _ => None,
        })
        .collect()
}

/// A mixture of a skewed set, a loop and a scan: enough to reach every branch of every policy.
pub(crate) fn mixture(seed: u64, count: usize) -> Vec<LineId> {
    let mut rng = Rng::seeded(seed);
    (0..count)
        .map(|i| match rng.below(10) {
            0..=5 => LineId((rng.unit_f64().powi(3) * 400.0) as u32),
            6..=7 => LineId(400 + (i % 150) as u32),
            _ => LineId(600 + (i / 3 % 1400) as u32),
        })
        .collect()
}

pub(crate) const UNIVERSE: u32 = 2000;

/// Misses of the policy written as `spec`, with room for `lines`, on a fixed trace of 50,000 accesses.
pub(crate) fn misses(spec: &str, lines: u32) -> usize {
    let geometry = Geometry { lines, ..Geometry::for_tests() };
    let spec = PolicySpec::parse(spec).expect("a policy of the registry");
    let Ok(Built::Cache(mut cache)) = spec.build(&geometry, None) else {
        panic!("{spec:?} builds a cache")
    };
    cache.reserve(UNIVERSE);
    let trace = mixture(42, 50_000);
    trace.into_iter().filter(|line| !cache.access(*line, Tag::default()).is_hit()).count()
}

/// Bytes that grow with the capacity, a line of it, of the policy written as `spec`.
pub(crate) fn bytes_per_line(spec: &str) -> f64 {
    let lines = 1 << 18;
    let geometry = Geometry { lines, ..Geometry::for_tests() };
    let spec = PolicySpec::parse(spec).expect("a policy of the registry");
    let Ok(Built::Cache(cache)) = spec.build(&geometry, None) else {
        panic!("{spec:?} builds a cache")
    };
    cache.footprint().resident as f64 / f64::from(lines)
}

#[test]
fn no_cache_exceeds_its_capacity_or_lies_about_residence() {
    for capacity in [1, 2, 3, 10, 100] {
        for (name, mut cache) in caches(capacity) {
            cache.reserve(UNIVERSE);
            let mut resident = vec![false; UNIVERSE as usize];
            for (i, line) in mixture(capacity.into(), 20_000).into_iter().enumerate() {
                let outcome = cache.access(line, Tag::default());
                assert_eq!(outcome.is_hit(), resident[line.index()], "{name}@{capacity} at {i}");
                if let Some(victim) = outcome.evicted() {
                    assert!(resident[victim.index()] || victim == line, "{name}: ghost evicted");
                    resident[victim.index()] = false;
                }
                if outcome.evicted() != Some(line) {
                    resident[line.index()] = outcome.is_resident();
                }
                if i % 97 == 0 {
                    let dropped = LineId((i % UNIVERSE as usize) as u32);
                    assert_eq!(cache.contains(dropped), resident[dropped.index()], "{name}");
                    assert_eq!(cache.invalidate(dropped), resident[dropped.index()], "{name}");
                    resident[dropped.index()] = false;
                }
                assert!(cache.resident() <= capacity, "{name}@{capacity} at {i}");
            }
            let count = resident.iter().filter(|r| **r).count();
            assert_eq!(count as u32, cache.resident(), "{name}@{capacity}");
        }
    }
}

#[test]
fn a_batch_does_what_its_accesses_do() {
    let lines = mixture(5, 10_000);
    let tags = vec![Tag::default(); lines.len()];
    for ((name, mut one), (_, mut batched)) in caches(64).into_iter().zip(caches(64)) {
        one.reserve(UNIVERSE);
        batched.reserve(UNIVERSE);
        let mut out = vec![Outcome::HIT; lines.len()];
        batched.access_batch(&lines, &tags, &mut out);
        let single: Vec<_> = lines.iter().map(|l| one.access(*l, Tag::default())).collect();
        assert!(single == out, "{name}: a batch differs from its accesses");
    }
}

#[test]
fn no_cache_needs_more_than_32_bytes_a_line_beside_the_index() {
    for entry in registry::entries().filter(|entry| matches!(entry.build, Build::Cache(_))) {
        let bytes = bytes_per_line(entry.name);
        assert!(bytes <= 32.0, "{}: {bytes} B a line", entry.name);
    }
}
