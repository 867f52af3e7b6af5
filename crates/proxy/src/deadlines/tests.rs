//! Deadlines are not early, whenever the clock was read last.

use super::*;

/// The clock shows 1,000 ms until it is read again at 1,100 ms.
#[test]
fn a_deadline_set_just_before_a_tick_is_not_early() {
    let ticks = Arc::new(Ticks::new(Instant::now()));
    let ms = |ms: u64| ticks.now.store(ms * 1_000_000, Relaxed);
    ms(1_000);
    let deadlines = Deadlines::new(&ticks, Duration::from_millis(100));
    deadlines.moved();
    ms(1_190);
    assert!(!deadlines.is_over(), "it may have begun 91 ms ago");
    ms(1_200);
    assert!(deadlines.is_over());
    deadlines.enter(Phase::Exchange, Duration::from_millis(100));
    ms(1_390);
    assert!(!deadlines.is_over(), "it may have begun 91 ms ago");
    deadlines.progress();
    ms(1_580);
    assert!(!deadlines.is_over(), "something may have moved 91 ms ago");
    ms(1_590);
    assert!(deadlines.is_over());
}
