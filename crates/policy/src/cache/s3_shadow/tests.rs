//! The shadows: what they choose, what they cost, and that choosing flushes nothing.

use super::S3Shadow;
use crate::cache::tests::{UNIVERSE, bytes_per_line, misses, mixture};
use crate::cache::{Replacement, Tag};
use crate::registry::{Built, Geometry, PolicySpec};
use expect_test::expect;
use thermocline_units::{LineId, Rng};

const DEFAULTS: [(f64, u32); 5] = [(0.01, 2), (0.1, 1), (0.3, 1), (0.6, 2), (0.95, 2)];

fn of(lines: u32, universe: u32) -> S3Shadow {
    let mut cache = S3Shadow::new(lines, &DEFAULTS).expect("it fits");
    cache.reserve(universe);
    cache
}

/// Misses of the policy written as `spec` on `trace`.
fn misses_on(spec: &str, lines: u32, trace: &[u32]) -> usize {
    let geometry = Geometry { lines, ..Geometry::for_tests() };
    let spec = PolicySpec::parse(spec).expect("a policy of the registry");
    let Ok(Built::Cache(mut cache)) = spec.build(&geometry, None) else { panic!("a cache") };
    cache.reserve(trace.iter().max().expect("accesses") + 1);
    trace.iter().filter(|line| !cache.access(LineId(**line), Tag::default()).is_hit()).count()
}

/// A loop over more lines than fit: small queues keep a part of it, large ones nothing.
fn looping(rounds: usize) -> Vec<u32> {
    (0..rounds).flat_map(|_| 0..6000).collect()
}

/// Each line twice, half a cache apart, and never again: only a large small queue sees the second.
fn twice(count: u32) -> Vec<u32> {
    (0..count).flat_map(|i| [10_000 + i, 10_000 + i.saturating_sub(900)]).collect()
}

#[test]
fn misses_are_these() {
    let counts = [20, 200, 800].map(|lines| misses("s3-shadow", lines));
    expect!["[38929, 24621, 8864]"].assert_eq(&format!("{counts:?}"));
}

#[test]
fn it_does_on_each_load_nearly_what_the_best_share_does() {
    // S3-FIFO with one share is far behind on one of the two.
    for (trace, best, worst) in [
        (looping(40), "s3-fifo:small=0.01", "s3-fifo:small=0.95"),
        (twice(100_000), "s3-fifo:small=0.95", "s3-fifo:small=0.01"),
    ] {
        let [own, best, worst] =
            ["s3-shadow", best, worst].map(|spec| misses_on(spec, 2000, &trace) as f64);
        assert!(worst > 1.2 * best, "the load tells shares apart: {best}, {worst}");
        assert!(own < best + 0.15 * (worst - best), "{own}, best {best}, worst {worst}");
    }
}

#[test]
fn a_change_of_the_load_changes_the_share_and_drops_no_line() {
    let mut cache = of(2000, 200_000);
    let mut rulers = vec![cache.ruling];
    for line in looping(20).into_iter().chain(twice(60_000)).chain(looping(20)) {
        let (before, ruling) = (cache.resident(), cache.ruling);
        let outcome = cache.access(LineId(line));
        let left = u32::from(outcome.evicted().is_some());
        let came = u32::from(!outcome.is_hit());
        assert_eq!(cache.resident(), before + came - left, "only evictions take lines out");
        if cache.ruling != ruling {
            rulers.push(cache.ruling);
        }
    }
    assert_eq!(rulers[0], 4, "it begins nearest to FIFO");
    let steps = || rulers.windows(2).map(|pair| pair[1].cmp(&pair[0]));
    assert!(steps().any(|step| step.is_lt()) && steps().any(|step| step.is_gt()), "{rulers:?}");
    assert_eq!(cache.resident(), 2000);
}

#[test]
fn one_line_of_32_is_sampled_and_numbers_have_no_gaps() {
    let cache = of(4096, 1 << 16);
    let sampled: Vec<u32> =
        (0..1 << 16).filter_map(|line| cache.sampled_number(LineId(line))).map(|l| l.0).collect();
    assert_eq!(sampled, (0..1 << 11).collect::<Vec<u32>>());
    let places: Vec<u32> =
        (0..1 << 16).filter(|line| cache.sampled_number(LineId(*line)).is_some()).collect();
    let members: std::collections::BTreeSet<u32> = places.iter().map(|line| line % 32).collect();
    assert_eq!(members.len(), 32, "every member of a group is taken in some group");
}

#[test]
fn shadows_take_less_than_8_bytes_a_line_more() {
    let more = bytes_per_line("s3-shadow") - bytes_per_line("s3-fifo");
    assert!((1.0..8.0).contains(&more), "{more} B a line");
}

#[test]
fn every_access_of_small_caches_is_answered_whatever_the_candidates() {
    let mut rng = Rng::seeded(3);
    for lines in [1, 2, 63, 64, 127, 128, 2047, 2048] {
        let mut cache = of(lines, UNIVERSE);
        for line in mixture(rng.below(1 << 20), 5000) {
            cache.access(line);
            assert!(cache.contains(line) && cache.resident() <= lines);
        }
    }
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let geometry = Geometry::for_tests();
    for (text, said) in [
        ("s3-shadow:shares=0.1/0.2:moves=1", "one number for each of 2"),
        ("s3-shadow:shares=0.1/0.1/0.1/0.1/0.1/0.1/0.1/0.1/0.1", "at most 8"),
        ("s3-shadow:shares=1.5:moves=1", "from 0 to 1"),
    ] {
        let spec = PolicySpec::parse(text).expect("the form is right");
        let error = spec.build(&geometry, None).err().expect(text).to_string();
        assert!(error.contains(said), "{error}");
    }
}
