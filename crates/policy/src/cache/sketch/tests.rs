//! Properties of a count-min sketch: never too low, fading, seeded.

use super::Sketch;
use thermocline_units::{LineId, Rng};

#[test]
fn an_estimate_is_never_below_the_count_nor_above_fifteen() {
    let mut sketch = Sketch::new(256, 8, 3);
    let mut counts = [0u32; 400];
    let mut rng = Rng::seeded(9);
    for _ in 0..3000 {
        let line = (rng.unit_f64().powi(3) * 400.0) as u32;
        sketch.count(LineId(line));
        counts[line as usize] += 1;
        let estimate = sketch.estimate(LineId(line));
        assert!(estimate >= counts[line as usize].min(Sketch::MAX) && estimate <= Sketch::MAX);
    }
}

#[test]
fn few_lines_in_a_large_sketch_are_counted_exactly() {
    let mut sketch = Sketch::new(4096, 8, 1);
    for line in 0..64 {
        (0..line % 16).for_each(|_| {
            sketch.count(LineId(line));
        });
    }
    let wrong = (0..64).filter(|line| sketch.estimate(LineId(*line)) != line % 16).count();
    assert_eq!(wrong, 0);
}

#[test]
fn halving_rounds_down_and_reports_what_it_dropped() {
    let mut sketch = Sketch::new(64, 8, 1);
    for _ in 0..7 {
        assert!(sketch.count(LineId(5)));
    }
    assert_eq!(sketch.halve(), 4, "four counters of 7 are odd");
    assert_eq!(sketch.estimate(LineId(5)), 3);
    (0..20).for_each(|_| {
        sketch.count(LineId(5));
    });
    assert_eq!(sketch.estimate(LineId(5)), Sketch::MAX);
    assert!(!sketch.count(LineId(5)), "a full counter counts no more");
}

#[test]
fn another_seed_puts_lines_elsewhere() {
    let collisions = |seed| {
        let mut sketch = Sketch::new(8, 8, seed);
        (0..40).for_each(|line| {
            sketch.count(LineId(line));
        });
        (0..40).map(|line| sketch.estimate(LineId(line))).collect::<Vec<_>>()
    };
    assert_eq!(collisions(1), collisions(1));
    assert_ne!(collisions(1), collisions(2));
}
