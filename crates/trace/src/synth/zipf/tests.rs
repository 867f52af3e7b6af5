//! The Zipf sampler against the exact distribution.

use super::Zipf;
use thermocline_units::Rng;

/// Pearson's χ² of `samples` draws against the exact law, over its `bins` commonest ranks and the
/// rest.
fn chi_square(count: u64, alpha: f64, samples: u64, bins: usize) -> f64 {
    let zipf = Zipf::new(count, alpha);
    let mut rng = Rng::seeded(1996);
    let mut seen = vec![0u64; bins + 1];
    for _ in 0..samples {
        let rank = zipf.sample(&mut rng);
        assert!(rank < count);
        seen[(rank as usize).min(bins)] += 1;
    }
    let weight = |rank: u64| ((rank + 1) as f64).powf(-alpha);
    let total: f64 = (0..count).map(weight).sum();
    let mut expected: Vec<f64> =
        (0..bins as u64).map(|rank| weight(rank) / total * samples as f64).collect();
    expected.push(samples as f64 - expected.iter().sum::<f64>());
    let square = |(seen, expected): (&u64, &f64)| (*seen as f64 - expected).powi(2) / expected;
    seen.iter().zip(&expected).filter(|(_, e)| **e > 0.5).map(square).sum()
}

#[test]
fn ranks_follow_the_exact_law() {
    // 64 degrees of freedom: χ² exceeds 104.7 once in a thousand times for a right sampler.
    for alpha in [0.0, 0.5, 0.8, 0.99, 1.0, 1.01, 1.2, 2.0] {
        let chi = chi_square(10_000, alpha, 500_000, 64);
        assert!(chi < 104.7, "α = {alpha}: χ² = {chi}");
    }
}

#[test]
fn a_wrong_exponent_would_be_noticed() {
    let zipf = Zipf::new(10_000, 0.97);
    let mut rng = Rng::seeded(1);
    let first = (0..500_000).filter(|_| zipf.sample(&mut rng) == 0).count() as f64;
    let total: f64 = (1..=10_000).map(|k| f64::from(k).powf(-1.0)).sum();
    let expected = 500_000.0 / total;
    assert!((first - expected).abs() > 6.0 * expected.sqrt(), "{first} against {expected}");
}

#[test]
fn every_rank_of_a_small_range_is_drawn() {
    for count in 1..6 {
        assert!(chi_square(count, 1.0, 100_000, count as usize) < 25.0, "{count}");
    }
}

#[test]
fn huge_ranges_stay_in_range() {
    let count = (1 << 52) - 1;
    let (zipf, mut rng) = (Zipf::new(count, 0.9), Rng::seeded(3));
    assert!((0..10_000).all(|_| zipf.sample(&mut rng) < count));
}
