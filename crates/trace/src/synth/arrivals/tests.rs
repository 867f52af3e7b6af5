//! Arrival processes: stated means and dispersions are met, impossible ones refused.

use super::{ArrivalTimes, Arrivals, Burstiness, Mmpp2};
use thermocline_units::{Nanos, Rng};

/// Mean and index of dispersion of the arrivals in `count` windows.
fn measured(arrivals: Arrivals, window: Nanos, count: usize) -> (f64, f64) {
    let mut rng = Rng::seeded(42);
    let mut times = ArrivalTimes::new(arrivals, &mut rng);
    let mut counts = vec![0f64; count];
    while let Some(bin) = counts.get_mut((times.next(&mut rng).0 / window.0) as usize) {
        *bin += 1.0;
    }
    let mean = counts.iter().sum::<f64>() / count as f64;
    let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / (count - 1) as f64;
    (mean, variance / mean)
}

fn near(measured: f64, stated: f64, tolerance: f64) -> bool {
    (measured / stated - 1.0).abs() < tolerance
}

#[test]
fn independent_arrivals_have_their_rate_and_dispersion_one() {
    let (mean, dispersion) =
        measured(Arrivals::Poisson { rate_per_s: 50.0 }, Nanos::from_secs(1), 20_000);
    assert!(near(mean, 50.0, 0.01), "{mean}");
    assert!(near(dispersion, 1.0, 0.05), "{dispersion}");
}

#[test]
fn bursts_have_the_rate_and_the_dispersion_that_were_asked_for() {
    for (dispersion, burst_share) in [(5.0, 0.1), (20.0, 0.2), (8.0, 0.5)] {
        let wanted =
            Burstiness { rate_per_s: 200.0, dispersion, burst: Nanos::from_secs(1), burst_share };
        let bursts = Mmpp2::from_measures(wanted).unwrap();
        assert!(near(bursts.mean_rate_per_s(), 200.0, 1e-6));
        assert!(near(bursts.dispersion(None), dispersion, 1e-6));
        let window = Nanos::from_secs(20);
        let (mean, seen) = measured(Arrivals::Bursty(bursts), window, 2_500);
        assert!(near(mean, 200.0 * 20.0, 0.05), "{mean}");
        assert!(near(seen, bursts.dispersion(Some(window)), 0.15), "{seen} for {dispersion}");
        assert!(near(seen, dispersion, 0.25), "{seen} for {dispersion}");
    }
}

#[test]
fn impossible_bursts_are_refused_with_the_shortest_possible_ones() {
    let wanted = Burstiness {
        rate_per_s: 10.0,
        dispersion: 100.0,
        burst: Nanos::from_secs(1),
        burst_share: 0.5,
    };
    let error = Mmpp2::from_measures(wanted).unwrap_err().to_string();
    assert!(error.contains("at least 9.900 s"), "{error}");
    let longer = Burstiness { burst: Nanos(9_910_000_000), ..wanted };
    assert!(Mmpp2::from_measures(longer).is_ok());
}

#[test]
fn a_silent_quiet_state_ends() {
    let bursts = Mmpp2 { rates_per_s: [0.0, 100.0], dwells: [Nanos::from_secs(1); 2] };
    let (mean, _) = measured(Arrivals::Bursty(bursts), Nanos::from_secs(1), 20_000);
    assert!(near(mean, 50.0, 0.05), "{mean}");
}
