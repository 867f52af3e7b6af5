//! The histogram against exact percentiles.

use super::*;
use proptest::prelude::*;

fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::default();
    values.into_iter().for_each(|value| histogram.add(value));
    histogram
}

#[test]
fn an_empty_histogram_tells_nothing() {
    let empty = Histogram::default();
    assert_eq!((empty.count(), empty.mean(), empty.min(), empty.max()), (0, None, None, None));
    assert_eq!(empty.percentile(0.5), None);
    assert_eq!(empty.powers_of_two(), []);
}

#[test]
fn request_sizes_are_told_exactly() {
    for size in (512..128 << 10).step_by(512) {
        assert_eq!(of([1, size, u64::MAX]).percentile(0.5), Some(size));
    }
}

#[test]
fn percentiles_are_of_nearest_rank() {
    let hundred = of(1..=100);
    for (share, value) in [(0.0, 1), (0.01, 1), (0.011, 2), (0.5, 50), (0.99, 99), (1.0, 100)] {
        assert_eq!(hundred.percentile(share), Some(value), "{share}");
    }
}

#[test]
fn powers_of_two_begin_at_themselves() {
    let counts = of([0, 1, 2, 3, 511, 512, 1023, 4096, u64::MAX]).powers_of_two();
    assert_eq!(counts, [(1, 2), (2, 2), (256, 1), (512, 2), (4096, 1), (1 << 63, 1)]);
}

fn of_any_magnitude() -> impl Strategy<Value = u64> {
    (0_u32..64).prop_flat_map(|bits| 0..=u64::MAX >> bits)
}

proptest! {
    #[test]
    fn a_percentile_is_at_most_one_part_in_128_below_the_truth(
        values in prop::collection::vec(of_any_magnitude(), 1..200),
        share in 0.0..=1.0_f64,
    ) {
        let told = of(values.iter().copied()).percentile(share).unwrap();
        let mut sorted = values;
        sorted.sort_unstable();
        let rank = ((share * sorted.len() as f64).ceil() as usize).max(1);
        let truth = sorted[rank - 1];
        prop_assert!(told <= truth);
        prop_assert!((truth - told) as f64 <= truth as f64 / 128.0, "{told} of {truth}");
    }

    #[test]
    fn merging_counts_as_if_all_had_been_added_to_one(
        a in prop::collection::vec(any::<u64>(), 0..50),
        b in prop::collection::vec(0_u64..10_000, 0..50),
    ) {
        let mut merged = of(a.iter().copied());
        merged.merge(&of(b.iter().copied()));
        let all = of(a.into_iter().chain(b));
        prop_assert_eq!(merged.powers_of_two(), all.powers_of_two());
        prop_assert_eq!(merged, all);
    }
}
