//! Differences between sites are learnt, and chance is not.

use super::super::tests::balancer;
use super::*;
use thermocline_units::Rng;

/// Speeds after many answers of sites that take `alone` seconds each, exponential, at queues of one
/// to four.
fn learnt(alone: &[f64], seed: u64) -> Vec<f64> {
    let balancer = balancer("rand", alone.len(), 1);
    let board = balancer.board();
    let mut speeds = Speeds::new(64.0);
    (0..alone.len()).for_each(|site| speeds.reshaped(Some(SiteId(site as u16)), board));
    let mut rng = Rng::seeded(seed);
    for _ in 0..400 * alone.len() {
        let site = rng.below(alone.len() as u64) as usize;
        let met = 1 + rng.below(4);
        let took: f64 = (0..met).map(|_| rng.exponential(alone[site])).sum();
        let (latency, met) = (Nanos((took * 1e9) as u64), met as f64);
        let lesson = Lesson { latency, met, compared: met };
        speeds.add(SiteId(site as u16), &lesson, board);
    }
    (0..alone.len()).map(|site| speeds.weight(board, SiteId(site as u16))).collect()
}

#[test]
fn equal_sites_stay_equal_and_unequal_ones_are_found() {
    for seed in 1..=20 {
        let equal = learnt(&[1.0; 8], seed);
        assert!(equal.iter().all(|weight| (0.8..1.25).contains(weight)), "{seed}: {equal:?}");
        let mean = equal.iter().map(|weight| weight.ln().abs()).sum::<f64>() / 8.0;
        assert!(mean < 0.06, "{seed}: chance is hardly believed: {mean}");
        let unequal = learnt(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0, 3.0], seed);
        for fast in &unequal[..6] {
            for slow in &unequal[6..] {
                assert!((1.6..4.5).contains(&(fast / slow)), "{seed}: {unequal:?}");
            }
        }
    }
}

#[test]
fn what_a_request_takes_alone_is_found_and_a_new_site_is_as_its_weight() {
    let mut balancer = balancer("rand", 2, 1);
    let mut speeds = Speeds::new(64.0);
    speeds.reshaped(Some(SiteId(1)), balancer.board());
    assert_eq!(speeds.alone_s(), 0.0);
    for n in 0..200 {
        let (site, seconds) = if n % 2 == 0 { (SiteId(0), 2) } else { (SiteId(1), 6) };
        let lesson = Lesson { latency: Nanos::from_secs(seconds), met: 2.0, compared: 2.0 };
        speeds.add(site, &lesson, balancer.board());
    }
    assert!((speeds.alone_s() - 2.0).abs() < 0.1, "{}", speeds.alone_s());
    let fresh = balancer.add_site(1.0);
    speeds.reshaped(Some(fresh), balancer.board());
    assert_eq!(speeds.weight(balancer.board(), fresh), 1.0);
    let ratio =
        speeds.weight(balancer.board(), SiteId(0)) / speeds.weight(balancer.board(), SiteId(1));
    assert!((2.5..3.1).contains(&ratio), "{ratio}");
}

#[test]
fn a_site_that_was_slow_once_is_tried_again() {
    let balancer = balancer("rand", 4, 1);
    let board = balancer.board();
    let mut speeds = Speeds::new(64.0);
    (0..4).for_each(|site| speeds.reshaped(Some(SiteId(site)), board));
    let mut answer = |site: u16, millis: u64| {
        let latency = Nanos(millis * 1_000_000);
        speeds.add(SiteId(site), &Lesson { latency, met: 1.0, compared: 1.0 }, board);
        speeds.weight(board, SiteId(3)) / speeds.weight(board, SiteId(0))
    };
    // All answer within 1 to 3 ms, but the last one begins with three of a second.
    (0..60).for_each(|n| {
        answer(n % 3, 1 + u64::from(n % 5) / 2);
    });
    (0..3).for_each(|_| {
        answer(3, 1000);
    });
    let few = (0..32).map(|n| answer(n % 3, 2)).fold(1.0, f64::min);
    assert!(few > 0.5, "three answers say little: {few}");
    // Then it answers slowly for long, is left alone, and is unknown again.
    (0..64).for_each(|_| {
        answer(3, 1000);
    });
    let slow = (0..32).map(|n| answer(n % 3, 2)).fold(1.0, f64::min);
    assert!(slow < 0.3, "{slow}");
    let later = (0..2000).map(|n| answer(n % 3, 2)).fold(0.0, f64::max);
    assert!(later > 0.9, "{later}");
}
