//! Distances against a plain list, curves against caches, and the memory that the head states.

use super::{StackDistances, StackHistogram};
use crate::cache::LruSweep;
use thermocline_units::{LineId, Rng};

#[test]
fn a_distance_is_the_place_in_the_list_of_last_uses() {
    let mut rng = Rng::seeded(11);
    let mut distances = StackDistances::new();
    distances.reserve(3000);
    let mut stack: Vec<LineId> = Vec::new();
    for i in 0..20_000 {
        let line = LineId((rng.unit_f64().powi(3) * 3000.0) as u32);
        let place = stack.iter().position(|other| *other == line);
        place.map(|place| stack.remove(place));
        stack.insert(0, line);
        let expected = place.map(|place| place as u32 + 1);
        assert_eq!(distances.access(line), expected, "access {i}");
    }
}

#[test]
fn the_curve_has_the_misses_of_every_cache_of_a_sweep() {
    let mut rng = Rng::seeded(12);
    let lines: Vec<_> =
        (0..50_000).map(|_| LineId((rng.unit_f64().powi(2) * 2000.0) as u32)).collect();
    let sizes = [1, 2, 7, 63, 64, 500, 1999, 2000];
    let mut distances = StackDistances::new();
    let mut histogram = StackHistogram::default();
    distances.reserve(2000);
    distances.access_batch(&lines, &mut histogram);
    let mut sweep = LruSweep::new(&sizes).unwrap();
    sweep.reserve(2000);
    let mut missed = vec![0; lines.len()];
    sweep.access_batch(&lines, &mut missed, |_, _, _| ());
    let expected: Vec<_> = (0..sizes.len())
        .map(|k| missed.iter().filter(|m| usize::from(**m) > k).count() as u64)
        .collect();
    assert_eq!(histogram.misses(&sizes), expected);
    assert_eq!(histogram.accesses(), 50_000);
    assert_eq!(histogram.misses(&[u32::MAX, 0]), [histogram.cold(), 50_000]);
}

#[test]
fn memory_stays_below_21_bytes_a_line_however_long_the_trace() {
    let mut distances = StackDistances::new();
    distances.reserve(5000);
    for i in 0..100_000u32 {
        distances.access(LineId(i * 7919 % 5000));
    }
    assert!(distances.bytes() <= 21 * 5000, "{} B", distances.bytes());
}
