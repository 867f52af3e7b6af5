//! Figures that were worked out by hand.

use super::equal::equal_writes;
use super::stats::{Paired, mean, percentile, ranks, saving};
use super::{Point, Points};
use std::collections::BTreeMap;

#[test]
fn percentiles_lie_between_neighbours() {
    let values = [4.0, 1.0, 3.0, 2.0];
    assert_eq!(percentile(&values, 0.0), 1.0);
    assert_eq!(percentile(&values, 1.0), 4.0);
    assert_eq!(percentile(&values, 0.5), 2.5);
    assert!(percentile(&[], 0.5).is_nan());
    assert_eq!(mean(&values), 2.5);
}

#[test]
fn equal_values_share_their_ranks() {
    assert_eq!(ranks(&[0.3, 0.1, 0.3, 0.2]), [3.5, 1.0, 3.5, 2.0]);
}

#[test]
fn a_saving_lies_between_minus_one_and_one() {
    assert_eq!(saving(0.5, 1.0), 0.5);
    assert_eq!(saving(1.0, 0.5), -0.5);
    assert_eq!(saving(0.0, 0.0), 0.0);
    assert_eq!(saving(0.1, 0.0), -1.0);
}

#[test]
fn pairs_are_counted_and_the_interval_holds_the_mean() {
    let pairs = [(0.5, 1.0), (1.0, 1.0), (1.0, 0.8), (0.1, 1.0)];
    let paired = Paired::of(&pairs).unwrap();
    assert_eq!((paired.traces, paired.better, paired.worse), (4, 2, 1));
    assert!((paired.mean - (0.5 + 0.0 - 0.2 + 0.9) / 4.0).abs() < 1e-12, "{paired:?}");
    assert!((paired.worst + 0.2).abs() < 1e-12, "{paired:?}");
    let (low, high) = paired.low.zip(paired.high).unwrap();
    assert!(paired.worst < low && low < paired.mean && paired.mean < high, "{paired:?}");
    assert_eq!(Paired::of(&pairs), Some(paired), "the same every time");
    assert_eq!(Paired::of(&[]), None);
}

/// "+9.4 % to +9.4 %" of a single trace looked like certainty.
#[test]
fn few_traces_have_no_interval() {
    let pairs = [(0.5, 1.0), (1.0, 1.0), (1.0, 0.8), (0.1, 1.0)];
    for few in 1..4 {
        let paired = Paired::of(&pairs[..few]).unwrap();
        assert_eq!((paired.low, paired.high), (None, None), "{few} traces");
        assert!(paired.mean.is_finite());
    }
}

fn point(cost_s: f64, flash_written: f64) -> Point {
    Point { value: 0.0, cost_s, flash_written, processor_ns: None }
}

/// A policy with two variants, one that writes more than the baseline and one that writes less:
/// its cost at the baseline's writes lies on the line between them. One that always writes more has
/// none.
#[test]
fn costs_at_equal_writes_lie_between_variants() {
    let policies = [
        ("lru", point(10.0, 100.0)),
        ("larc:r=1+lru", point(12.0, 50.0)),
        ("larc:r=2+lru", point(6.0, 150.0)),
        ("arc", point(1.0, 200.0)),
    ];
    let of: BTreeMap<String, Point> =
        policies.into_iter().map(|(name, point)| (name.to_string(), point)).collect();
    let points: Points = [(("family".to_string(), "trace".to_string()), of)].into();
    let rows = equal_writes(&points, "lru", 1.0);
    let row = |name: &str| rows.iter().find(|row| row.policy == name).unwrap();
    assert_eq!((row("larc+lru").variants, row("larc+lru").cost_s), (2, Some(9.0)));
    assert_eq!((row("arc").writes_more, row("arc").cost_s), (1, None));
    assert_eq!(row("lru").cost_s, Some(10.0));
    // At half of the writes only the first variant is allowed, as it is.
    let half = equal_writes(&points, "lru", 0.5);
    let larc = half.iter().find(|row| row.policy == "larc+lru").unwrap();
    assert_eq!((larc.cost_s, larc.writes_more), (Some(12.0), 0));
}
