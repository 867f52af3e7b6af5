//! MIN against every possible choice of victims on short traces, and the bound of its heap.

use super::Belady;
use crate::cache::Replacement;
use std::sync::Arc;
use thermocline_units::LineId;

fn next_uses(lines: &[u32]) -> Arc<[u32]> {
    (0..lines.len())
        .map(|i| {
            let later = lines[i + 1..].iter().position(|line| *line == lines[i]);
            later.map_or(u32::MAX, |ahead| (i + 1 + ahead) as u32)
        })
        .collect()
}

/// The least misses possible with forced admission, by trying every victim.
fn least_misses(lines: &[u32], cached: &[u32], capacity: usize) -> u32 {
    let Some((line, rest)) = lines.split_first() else { return 0 };
    if cached.contains(line) {
        return least_misses(rest, cached, capacity);
    }
    let with = |kept: &[u32]| {
        let kept: Vec<u32> = kept.iter().chain([line]).copied().collect();
        1 + least_misses(rest, &kept, capacity)
    };
    if cached.len() < capacity {
        return with(cached);
    }
    let victims = 0..cached.len();
    let without = |victim| [&cached[..victim], &cached[victim + 1..]].concat();
    victims.map(|victim| with(&without(victim))).min().expect("a full cache has lines")
}

#[test]
fn no_choice_of_victims_misses_less() {
    let mut rng = thermocline_units::Rng::seeded(4);
    for _ in 0..200 {
        let lines: Vec<u32> = (0..13).map(|_| rng.below(6) as u32).collect();
        for capacity in 1..4 {
            let mut cache = Belady::new(capacity, next_uses(&lines));
            cache.reserve(6);
            let misses = lines.iter().filter(|line| !cache.access(LineId(**line)).is_hit()).count();
            assert_eq!(misses as u32, least_misses(&lines, &[], capacity as usize), "{lines:?}");
        }
    }
}

#[test]
fn memory_is_bounded_by_the_cache_and_not_by_the_trace() {
    let lines: Vec<u32> = (0..20_000).map(|i| i * 31 % 50).collect();
    let mut next = vec![u32::MAX; lines.len()];
    let mut seen = [u32::MAX; 50];
    for i in (0..lines.len()).rev() {
        next[i] = std::mem::replace(&mut seen[lines[i] as usize], i as u32);
    }
    let mut cache = Belady::new(40, next.into());
    cache.reserve(50);
    for line in &lines {
        cache.access(LineId(*line));
    }
    assert!(cache.footprint().resident < 4096, "{:?}", cache.footprint());
}
