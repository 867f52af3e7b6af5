//! Arrivals against the definitions, straight and slow.

use super::*;
use proptest::prelude::*;
use thermocline_units::Rng;

fn of(times: impl IntoIterator<Item = u64>) -> Arrivals {
    let mut arrivals = Arrivals::default();
    times.into_iter().for_each(|time| arrivals.arrive(Nanos(time)));
    arrivals
}

/// I straight from its definition, in two passes.
fn by_definition(gaps: &[f64]) -> f64 {
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    let variance = gaps.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    let lags = LAGS_MAX.min(gaps.len() / 10);
    let correlation = |lag: usize| {
        let pairs = gaps[lag..].iter().zip(gaps);
        pairs.map(|(x, earlier)| (x - mean) * (earlier - mean)).sum::<f64>() / n / variance
    };
    let sum: f64 = (1..=lags).map(correlation).sum();
    (variance / (mean * mean) * (1.0 + 2.0 * sum)).max(0.0)
}

#[test]
fn poisson_arrivals_have_an_index_near_one() {
    let mut rng = Rng::seeded(1);
    let mut now = 0.0;
    let times = (0..200_000).map(|_| {
        now += rng.exponential(1e6);
        now as u64
    });
    let arrivals = of(times);
    let index = arrivals.index_of_dispersion().unwrap();
    // The estimate's standard error with 100 lags is about 0.1.
    assert!((index - 1.0).abs() < 0.3, "{index}");
    let counts = arrivals.variance_over_mean().unwrap();
    assert!((counts - 1.0).abs() < 0.3, "{counts}");
}

#[test]
fn regular_arrivals_have_an_index_of_zero() {
    let arrivals = of((0..5_000).map(|i| i * 1_000_000));
    assert_eq!(arrivals.index_of_dispersion(), Some(0.0));
    assert_eq!(arrivals.variance_over_mean(), Some(0.0));
    assert_eq!(arrivals.most_in_a_second(), 1_000);
}

#[test]
fn empty_seconds_count() {
    // 3 arrivals in the first second, none in the second, 1 in the third, 1 in the unfinished one.
    let arrivals = of([0, 1, 2, 2_500_000_000, 3_100_000_000]);
    let mean = 4.0 / 3.0;
    let variance = (9.0 + 0.0 + 1.0) / 3.0 - mean * mean;
    let told = arrivals.variance_over_mean().unwrap();
    assert!((told - variance / mean).abs() < 1e-12, "{told}");
    assert_eq!(arrivals.most_in_a_second(), 3);
}

#[test]
fn arrivals_at_one_instant_have_no_index() {
    let arrivals = of([7, 7, 7, 7]);
    assert_eq!(arrivals.index_of_dispersion(), None);
    assert_eq!(arrivals.variance_over_mean(), None);
}

proptest! {
    #[test]
    fn the_streaming_index_equals_its_definition(
        gaps in prop::collection::vec(1_000_u64..1_000_000_000, 2..600),
    ) {
        let times = std::iter::once(0).chain(gaps.iter().scan(0, |now, gap| {
            *now += gap;
            Some(*now)
        }));
        let told = of(times).index_of_dispersion().unwrap();
        let gaps: Vec<f64> = gaps.iter().map(|gap| *gap as f64 / 1e9).collect();
        let truth = by_definition(&gaps);
        prop_assert!((told - truth).abs() <= 1e-6 * (1.0 + truth), "{told} for {truth}");
    }
}
