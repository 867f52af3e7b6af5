//! Histograms of latencies against the sorted list.

use super::{Latencies, bucket, span};
use crate::{Nanos, Rng};

#[test]
fn every_value_lies_in_its_bucket_and_buckets_leave_no_gap() {
    let mut next = 0;
    for at in 0..3776 {
        let (first, width) = span(at);
        assert_eq!(first, next, "bucket {at}");
        assert!(width == 1 || width as f64 <= first as f64 / 64.0, "bucket {at} is wide");
        assert_eq!((bucket(first), bucket(first + (width - 1))), (at, at));
        next = first.wrapping_add(width);
    }
    assert_eq!(next, 0, "the last bucket ends where 64 bits end");
    assert_eq!(bucket(u64::MAX), 3775);
}

#[test]
fn quantiles_are_within_a_percent_of_the_sorted_list() {
    let mut rng = Rng::seeded(4);
    let mut latencies = Latencies::default();
    let mut list: Vec<u64> =
        (0..50_000).map(|_| (50_000.0 / (rng.unit_f64() + 1e-6)) as u64).collect();
    list.iter().for_each(|&took| latencies.record(Nanos(took)));
    list.sort_unstable();
    for part in [0.001, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
        let exact = list[((list.len() as f64 * part).ceil() as usize).max(1) - 1] as f64;
        let found = latencies.quantile(part).0 as f64;
        assert!((found / exact - 1.0).abs() < 0.01, "{part}: {found} for {exact}");
    }
    let mean = list.iter().map(|&took| u128::from(took)).sum::<u128>() / 50_000;
    assert_eq!(u128::from(latencies.mean().0), mean);
    assert_eq!(latencies.max().0, list[49_999]);
}

#[test]
fn sums_of_histograms_are_histograms_of_sums() {
    let (mut one, mut other, mut both) = Default::default();
    let halves: [&mut Latencies; 2] = [&mut one, &mut other];
    for (half, values) in halves.into_iter().zip([[5, 900], [70_000, 12]]) {
        for value in values {
            half.record(Nanos(value));
            Latencies::record(&mut both, Nanos(value));
        }
    }
    one.add(&other);
    assert_eq!(one, both);
    one.clear();
    assert_eq!((one.count(), one.max(), one.mean(), one.quantile(0.5)), Default::default());
}

#[test]
fn what_came_since_a_copy_is_told_apart_from_what_was_before() {
    let mut all = Latencies::default();
    let mut rng = Rng::seeded(3);
    let mut before = Latencies::default();
    let mut after = Latencies::default();
    for at in 0..2000 {
        let took = Nanos(rng.below(1 << 24));
        all.record(took);
        if at < 1000 { before.record(took) } else { after.record(took) }
    }
    let since = all.since(&before);
    assert_eq!((since.count(), since.mean()), (after.count(), after.mean()));
    for part in [0.01, 0.5, 0.99] {
        assert_eq!(since.quantile(part), after.quantile(part), "{part}");
    }
    assert!(since.max() >= after.max() && since.max().0 as f64 <= after.max().0 as f64 * 1.016);
    assert_eq!(all.since(&all).count(), 0);
}

#[test]
fn counts_between_bounds_lose_nothing() {
    let mut latencies = Latencies::default();
    for took in [0, 10, 99, 101, 5000, 1 << 40] {
        latencies.record(Nanos(took));
    }
    assert_eq!(latencies.between(&[Nanos(50), Nanos(100), Nanos(6000)]), [2, 1, 2, 1]);
    assert_eq!(latencies.sum().0, 10 + 99 + 101 + 5000 + (1 << 40));
}
