//! The index of dispersion beside a plain computation, and for processes whose index is known.

use super::Dispersion;
use proptest::prelude::*;
use thermocline_units::Rng;

/// Straight from the definition, in two passes over all gaps.
fn plain(gaps: &[f64], lags: usize) -> f64 {
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    let covariance = |lag: usize| {
        let pairs = gaps.iter().zip(&gaps[lag..]);
        pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n
    };
    let lags = lags.min(gaps.len() / 2);
    let correlations: f64 = (1..=lags).map(|lag| covariance(lag) / covariance(0)).sum();
    covariance(0) / (mean * mean) * (1.0 + 2.0 * correlations)
}

proptest! {
    #[test]
    fn one_gap_at_a_time_gives_what_the_definition_gives(
        gaps in proptest::collection::vec(0.001_f64..1000.0, 2..60),
        lags in 0_usize..12,
    ) {
        let mut window = Dispersion::new(lags);
        window.add(5.0);
        window.clear();
        gaps.iter().for_each(|gap| window.add(*gap));
        let (ours, theirs) = (window.index(), plain(&gaps, lags));
        prop_assert!((ours - theirs).abs() <= 1e-6 * (1.0 + theirs.abs()), "{ours} {theirs}");
    }
}

#[test]
fn gaps_far_from_zero_and_nearly_equal_do_not_cancel_out() {
    let mut window = Dispersion::new(0);
    (0..1000).for_each(|n| window.add(1e9 + f64::from(n % 2)));
    assert!((window.index() - 0.25e-18).abs() < 1e-21, "{}", window.index());
}

#[test]
fn a_poisson_process_has_one_and_a_clock_none() {
    let mut rng = Rng::seeded(1);
    let mut poisson = Dispersion::new(8);
    (0..200_000).for_each(|_| poisson.add(rng.exponential(10.0)));
    assert!((poisson.index() - 1.0).abs() < 0.05, "{}", poisson.index());
    let mut clock = Dispersion::new(8);
    (0..1000).for_each(|_| clock.add(3.0));
    assert_eq!(clock.index(), 0.0);
}
