//! Each rule alone; how they go together is tested with the dispatcher.

use super::{Checks, Health, Outliers, Record, RetryBudget, SlowStart, Window};
use crate::tactics::BalancerTactics;
use thermocline_units::Nanos;

const SECOND: Nanos = Nanos::from_secs(1);

#[test]
fn a_verdict_changes_after_results_in_a_row_and_the_first_decides_alone() {
    let checks = Checks { rise: 2, fall: 3, ..Checks::default() };
    let mut health = Health::new(Nanos(0));
    assert!(health.checked(true, &checks), "the first one decides");
    let changes = [false, false, true, false, false, false].map(|ok| health.checked(ok, &checks));
    assert_eq!(changes, [false, false, false, false, false, true], "a success begins the row anew");
    assert_eq!([true, true].map(|ok| health.checked(ok, &checks)), [false, true]);
    assert_eq!(health.fit(), Some(true));
}

#[test]
fn ejections_double_up_to_the_longest_and_a_good_window_forgives_one() {
    let tactics = BalancerTactics::default();
    let outliers =
        Outliers { ejection: SECOND, ejection_max: Nanos(3 * SECOND.0), ..Outliers::default() };
    let mut record = Record::default();
    for seconds in [1, 2, 3, 3] {
        assert_eq!(record.eject(Nanos(0), &outliers, &tactics.ejection), Nanos::from_secs(seconds));
        assert!(record.return_if_due(Nanos::from_secs(seconds)));
    }
    record.served();
    record.begin_window();
    assert_eq!(record.ejections(), 3);
}

#[test]
fn a_fault_that_all_have_is_nobodys() {
    let tactics = BalancerTactics::default();
    let outliers =
        Outliers { requests_min: 4, failed_percent: 50, consecutive: 0, ..Outliers::default() };
    let mut record = Record::default();
    for failed in [true, false, true, true] {
        match failed {
            true => assert!(!record.failed(&outliers, &tactics.ejection)),
            false => record.served(),
        }
    }
    let mut all = record.window();
    all.add(Window { requests: 100, failures: 5 });
    assert!(record.stands_out(all, &outliers, &tactics.ejection));
    all.add(Window { requests: 100, failures: 95 });
    assert!(!record.stands_out(all, &outliers, &tactics.ejection));
}

#[test]
fn retries_are_a_share_of_arrivals_above_a_floor() {
    let tactics = BalancerTactics::default();
    let mut budget = RetryBudget::new(Nanos(0), 0.0);
    let spent = (0..100).filter(|_| budget.take(Nanos(0), 0.0, &tactics.retries)).count();
    assert_eq!(spent, 10, "what it held");
    (0..50).for_each(|_| budget.arrived(0.25, 0.0));
    assert_eq!(
        (0..100).filter(|_| budget.take(Nanos(0), 0.0, &tactics.retries)).count(),
        10,
        "it holds no more"
    );
    assert_eq!(
        (0..100).filter(|_| budget.take(SECOND, 3.0, &tactics.retries)).count(),
        3,
        "a second of the floor"
    );
}

#[test]
fn a_slow_start_grows_in_steps_and_goes_on_elsewhere() {
    let tactics = BalancerTactics::default();
    let (mut start, ten) = (SlowStart::default(), Nanos::from_secs(10));
    assert!(
        (start.share(Nanos(0), ten, &tactics.slow_start) - 1.0).abs() < 1e-9,
        "without one, all of it"
    );
    start.begin(Nanos(0), ten);
    let shares: Vec<f64> =
        (0..10).map(|s| start.share(Nanos::from_secs(s), ten, &tactics.slow_start)).collect();
    assert!((shares[0] - 0.1).abs() < 1e-9 && shares.is_sorted() && shares[9] < 1.0, "{shares:?}");
    let mut elsewhere = SlowStart::default();
    elsewhere.go_on(SECOND, ten, Nanos::from_secs(4));
    assert!((elsewhere.share(SECOND, ten, &tactics.slow_start) - shares[4]).abs() < 1e-9);
    assert!((start.share(ten, ten, &tactics.slow_start) - 1.0).abs() < 1e-9 && !start.is_on());
}
