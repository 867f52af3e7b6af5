//! Properties of every admission filter, and its effect on the cache behind it.

use crate::cache::tests::{UNIVERSE, mixture};
use crate::cache::{CachePolicy, Outcome, Tag};
use crate::registry::{Built, Geometry, PolicySpec, filters};
use thermocline_units::{LineId, Nanos};

/// The policy written as `spec`, for 64 lines.
pub(super) fn build(spec: &str) -> Box<dyn CachePolicy> {
    let spec = PolicySpec::parse(spec).expect("a composed policy");
    let Ok(Built::Cache(mut cache)) = spec.build(&Geometry::for_tests(), None) else {
        panic!("{spec:?} builds a cache")
    };
    cache.reserve(UNIVERSE);
    cache
}

#[test]
fn a_filtered_cache_tells_the_truth_about_residence() {
    for filter in filters() {
        let mut cache = build(&format!("{}+lru", filter.name));
        let mut resident = vec![false; UNIVERSE as usize];
        for (i, line) in mixture(1, 20_000).into_iter().enumerate() {
            let outcome = cache.access(line, Tag::new(0, i % 3 == 0));
            assert_eq!(outcome.is_hit(), resident[line.index()], "{} at {i}", filter.name);
            if let Some(victim) = outcome.evicted() {
                resident[victim.index()] = false;
            }
            resident[line.index()] = outcome.is_resident();
            if i % 89 == 0 {
                let dropped = LineId((i % UNIVERSE as usize) as u32);
                assert_eq!(cache.invalidate(dropped), resident[dropped.index()]);
                resident[dropped.index()] = false;
            }
            if i % 1000 == 0 {
                cache.end_epoch(Nanos::from_secs(i as u64));
            }
        }
        let count = resident.iter().filter(|r| **r).count();
        assert_eq!(count as u32, cache.resident(), "{}", filter.name);
    }
}

#[test]
fn a_batch_does_what_its_accesses_do_and_the_same_seed_the_same_again() {
    let lines = mixture(8, 10_000);
    let tags = vec![Tag::default(); lines.len()];
    for filter in filters() {
        let spec = format!("{}+s3-fifo", filter.name);
        let mut out = vec![Outcome::HIT; lines.len()];
        build(&spec).access_batch(&lines, &tags, &mut out);
        let mut one = build(&spec);
        let single: Vec<_> = lines.iter().map(|l| one.access(*l, Tag::default())).collect();
        assert!(single == out, "{spec}");
    }
}

#[test]
fn admitting_all_is_no_filter() {
    let (mut bare, mut all) = (build("arc"), build("all+arc"));
    for line in mixture(6, 10_000) {
        assert_eq!(bare.access(line, Tag::default()), all.access(line, Tag::default()));
    }
}

#[test]
fn a_refused_line_changes_nothing_in_the_cache() {
    let mut cache = build("random:p=0+lru");
    for line in mixture(3, 1000) {
        assert_eq!(cache.access(line, Tag::default()), Outcome::BYPASSED);
        assert!(!cache.contains(line) && cache.resident() == 0);
    }
}
