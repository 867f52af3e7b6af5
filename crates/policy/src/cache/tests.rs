//! Claims that hold for every registered cache policy, and for batches against single accesses.

use super::{CachePolicy, Outcome, Tag};
use crate::registry::{self, Build, Built, Geometry, PolicySpec, Settings};
use expect_test::expect;
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

/// Misses of the policy written as `spec`, with room for `lines`, on a fixed trace of 50,000
/// accesses.
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

/// Misses of every cache of the registry, the clairvoyant too, in its order.
fn misses_of_all(lines: &[LineId], capacity: u32) -> Vec<(&'static str, usize)> {
    let mut next = vec![u32::MAX; lines.len()];
    let mut seen = vec![u32::MAX; UNIVERSE as usize];
    for (i, line) in lines.iter().enumerate().rev() {
        next[i] = std::mem::replace(&mut seen[line.index()], i as u32);
    }
    let geometry = Geometry { lines: capacity, ..Geometry::for_tests() };
    let built = registry::entries().filter_map(|entry| {
        let settings = Settings::defaults(entry);
        let cache = match entry.build {
            Build::Cache(build) => build(&geometry, &settings),
            Build::Clairvoyant(build) => build(&geometry, &settings, next.clone().into()),
            _ => return None,
        };
        Some((entry.name, cache.expect("defaults build")))
    });
    let count = |mut cache: Box<dyn CachePolicy>| {
        cache.reserve(UNIVERSE);
        lines.iter().filter(|line| !cache.access(**line, Tag::default()).is_hit()).count()
    };
    built.map(|(name, cache)| (name, count(cache))).collect()
}

#[test]
fn misses_on_a_fixed_trace_are_these_and_none_is_below_the_optimum() {
    let lines = mixture(2026, 60_000);
    let mut table = String::new();
    for capacity in [20, 200] {
        let counts = misses_of_all(&lines, capacity);
        let (_, optimum) = *counts.iter().find(|(name, _)| *name == "belady").expect("the bound");
        for (name, count) in counts {
            assert!(count >= optimum, "{name}@{capacity} misses less than is possible");
            table.push_str(&format!("{name}@{capacity} {count}\n"));
        }
    }
    expect![[r#"
        fifo@20 52372
        clock@20 51053
        lru@20 51376
        elru@20 51376
        lru-2@20 49346
        2q@20 46838
        arc@20 48430
        car@20 47987
        sieve@20 48167
        lirs@20 48779
        s3-fifo@20 45732
        s3-shadow@20 46582
        w-tiny-lfu@20 46594
        merlin@20 46942
        srrip@20 50385
        lru-sets@20 51333
        s3-fifo-sets@20 46096
        belady@20 40758
        equal@20 51376
        ucp@20 51376
        eci@20 51376
        fifo@200 37242
        clock@200 35619
        lru@200 36331
        elru@200 36331
        lru-2@200 33058
        2q@200 31974
        arc@200 32544
        car@200 32065
        sieve@200 32823
        lirs@200 32093
        s3-fifo@200 30068
        s3-shadow@200 29233
        w-tiny-lfu@200 28750
        merlin@200 31462
        srrip@200 34567
        lru-sets@200 35706
        s3-fifo-sets@200 29830
        belady@200 19763
        equal@200 36331
        ucp@200 36331
        eci@200 36331
    "#]]
    .assert_eq(&table);
}

#[test]
fn queues_and_ghosts_take_at_most_32_bytes_a_cached_line() {
    // Not so: a heap with 64-bit times, and partitions, whose monitors have a size of their own.
    const OTHERS: [&str; 3] = ["lru-2", "ucp", "eci"];
    // Some rings are powers of two: sizes all through a doubling, and caches that have evicted.
    for lines in (20_000..40_000).step_by(2000) {
        for (name, mut cache) in
            caches(lines).into_iter().filter(|(name, _)| !OTHERS.contains(name))
        {
            cache.reserve(3 * lines);
            for line in 0..3 * lines {
                cache.access(LineId(line), Tag::default());
            }
            let bytes = cache.footprint().resident as f64 / f64::from(lines);
            assert!(bytes <= 32.0, "{name}@{lines}: {bytes} B a line");
        }
    }
}
