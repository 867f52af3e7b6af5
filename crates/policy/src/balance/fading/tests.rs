//! An answer fades to the mean, as fast as answers show.

use super::super::tests::balancer;
use super::*;
use thermocline_units::Rng;

const SITE: SiteId = SiteId(0);

fn fading() -> Fading {
    let mut fading = Fading::default();
    fading.reshaped(Some(SITE), balancer("rand", 1, 1).board());
    fading
}

#[test]
fn an_answer_is_right_at_once_and_the_mean_later() {
    let mut fading = fading();
    assert_eq!(fading.others(Nanos(0), SITE, 1.0), 0.0);
    for n in 0..200 {
        fading.hear(SITE, Nanos::from_secs(n * 1000), (n % 2 * 8) as f64, 1.0);
    }
    let last = Nanos::from_secs(199_000);
    assert_eq!(fading.others(last, SITE, 1.0), 8.0);
    let late = fading.others(Nanos::from_secs(300_000), SITE, 1.0);
    assert!((3.5..4.6).contains(&late), "{late}");
    // One that was overtaken changes nothing.
    fading.hear(SITE, Nanos::from_secs(1), 100.0, 1.0);
    assert_eq!(fading.others(last, SITE, 1.0), 8.0);
}

/// The memory after answers of a queue that returns to its mean by e in each `true_s` seconds.
fn learnt(true_s: f64) -> f64 {
    let (mut fading, mut rng) = (fading(), Rng::seeded(5));
    let (mut off, mut now_s) = (0.0, 0.0);
    for _ in 0..20_000 {
        let gap_s = rng.exponential(2.0);
        let left = f64::exp(-gap_s / true_s);
        let noise = (rng.unit_f64() - 0.5) * 12f64.sqrt();
        off = off * left + noise * 3.0 * (1.0 - left * left).sqrt();
        now_s += gap_s;
        fading.hear(SITE, Nanos((now_s * 1e9) as u64), 10.0 + off, 1.0);
    }
    fading.memory_s(1.0)
}

#[test]
fn the_memory_is_learnt_from_answers() {
    let (short, middle, long) = (learnt(1.0), learnt(5.0), learnt(25.0));
    assert!((0.5..2.0).contains(&short), "{short}");
    assert!((3.0..8.0).contains(&middle), "{middle}");
    assert!((12.0..50.0).contains(&long), "{long}");
}
