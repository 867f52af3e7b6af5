//! Properties of W-TinyLFU, and its counts on a fixed trace.

use super::{Shape, WTinyLfu};
use crate::cache::tests::{UNIVERSE, bytes_per_line, misses, mixture};
use crate::cache::{Outcome, Replacement};
use crate::registry::{Geometry, PolicySpec};
use expect_test::expect;
use thermocline_units::LineId;

fn build(spec: &str, lines: u32) -> WTinyLfu {
    let spec = PolicySpec::parse(spec).unwrap();
    let geometry = Geometry { lines, ..Geometry::for_tests() };
    let mut cache = WTinyLfu::new(&Shape::read(&geometry, &spec.settings).unwrap());
    Replacement::reserve(&mut cache, UNIVERSE);
    cache
}

fn access(cache: &mut WTinyLfu, line: u32) -> Outcome {
    Replacement::access(cache, LineId(line))
}

#[test]
fn queues_keep_their_shares_and_the_segments_their_order() {
    for capacity in [1, 2, 5, 64, 200] {
        let mut cache = build("w-tiny-lfu:window=0.2", capacity);
        for (i, line) in mixture(2, 20_000).into_iter().enumerate() {
            Replacement::access(&mut cache, line);
            assert!(cache.window.len() <= cache.window_share, "at {i}");
            assert!(cache.protected.len() <= cache.protected_share, "at {i}");
            assert!(cache.resident() <= capacity, "at {i}");
        }
    }
}

#[test]
fn a_window_that_adapts_keeps_to_the_capacity_and_moves_both_ways() {
    for capacity in [1, 2, 5, 64, 200] {
        let mut cache = build("w-tiny-lfu:adapt=yes", capacity);
        let mut shares = Vec::new();
        for line in mixture(2, 60_000) {
            Replacement::access(&mut cache, line);
            assert!(cache.resident() <= capacity && cache.contains(line) || capacity == 1);
            shares.push(cache.window_share);
        }
        let grew = shares.windows(2).any(|pair| pair[1] > pair[0]);
        let shrank = shares.windows(2).any(|pair| pair[1] < pair[0]);
        assert!(capacity < 64 || grew && shrank, "{capacity} lines");
    }
}

#[test]
fn an_adapting_window_grows_where_lines_come_again_soon() {
    // Each line comes twice, up to 80 lines apart, and never again: frequencies tell nothing.
    let trace = |i: u32| [i, i.saturating_sub(1 + i * 37 % 80)];
    let misses = |spec: &str| {
        let mut cache = build(spec, 100);
        Replacement::reserve(&mut cache, 60_000);
        let lines = (0..60_000).flat_map(trace);
        lines.filter(|line| !access(&mut cache, *line).is_hit()).count()
    };
    let (fixed, adapting) = (misses("w-tiny-lfu"), misses("w-tiny-lfu:adapt=yes"));
    assert!(adapting * 10 < fixed * 9, "{adapting} misses, {fixed} with a window of 1 %");
}

#[test]
fn a_scan_does_not_displace_lines_that_are_used_often() {
    let mut cache = build("w-tiny-lfu", 100);
    for _ in 0..5 {
        (0..99).for_each(|line| {
            access(&mut cache, line);
        });
    }
    (200..1900).for_each(|line| {
        access(&mut cache, line);
    });
    let kept = (0..99).filter(|line| cache.contains(LineId(*line))).count();
    assert!(kept > 90, "{kept} of 99 are left");
}

#[test]
fn the_victim_stays_when_it_is_seen_as_often_as_the_candidate() {
    // One line of window, nine of main. Lines 0 to 9 are seen once and fill the cache.
    let mut cache = build("w-tiny-lfu:window=0.1", 10);
    (0..10).for_each(|line| assert_eq!(access(&mut cache, line), Outcome::ADMITTED));
    // The newcomer pushes 9 out of the window; 9 ties with the victim 0 and is evicted.
    assert_eq!(access(&mut cache, 10), Outcome::evicting(LineId(9)));
    // Seen twice by now, 9 enters main in place of 0 as soon as it leaves the window.
    assert_eq!(access(&mut cache, 9), Outcome::evicting(LineId(10)));
    assert_eq!(access(&mut cache, 11), Outcome::evicting(LineId(0)));
    assert!(cache.contains(LineId(9)));
}

#[test]
fn counts_are_halved_once_a_sample_was_counted() {
    let mut cache = build("w-tiny-lfu:sample=1", 64);
    (0..63).for_each(|_| {
        access(&mut cache, 1);
        cache.counted = cache.counted.min(62);
    });
    let before = cache.sketch.estimate(LineId(1));
    cache.counted = 63;
    access(&mut cache, 2);
    assert_eq!((before, cache.sketch.estimate(LineId(1))), (15, 7));
    assert!(cache.counted < 32);
}

#[test]
fn counts_on_the_fixed_trace_stay_what_they_are() {
    expect!["33711"].assert_eq(&misses("w-tiny-lfu", 64).to_string());
    expect!["34808"].assert_eq(&misses("w-tiny-lfu:window=0.2:protected=0.5", 64).to_string());
    expect!["34099"].assert_eq(&misses("w-tiny-lfu:sample=2", 64).to_string());
}

#[test]
fn memory_is_what_the_head_states() {
    let bytes = bytes_per_line("w-tiny-lfu");
    assert!((bytes - 22.3).abs() < 0.05, "{bytes}");
}
