//! Work goes on at the pace of the moment.

use super::*;

fn second(n: u64) -> Nanos {
    Nanos::from_secs(n)
}

#[test]
fn work_that_meets_a_slow_time_takes_longer_by_what_it_lacks() {
    let slow = vec![(second(10), second(14)), (second(20), second(24))];
    let mut pace = Pace { slow, to: 0.25, at: 0 };
    assert_eq!(pace.done(second(0), second(10)), second(10), "before it");
    // Two seconds fast, then one second's work in four.
    assert_eq!(pace.done(second(8), second(3)), second(14));
    // Begun in it: half a second's work in two, the rest after it.
    assert_eq!(pace.done(second(12), second(1)), Nanos(14_500_000_000));
    // Across the second one: 6 s fast, 1 s of work in 4 s, 1 s fast.
    assert_eq!(pace.done(second(14), second(8)), second(25));
    assert_eq!(pace.done(second(30), second(2)), second(32), "after all");
}

#[test]
fn one_site_at_a_time_slows_down_and_the_seed_says_which() {
    let slowing = Slowing { every: second(10), lasting: second(4), to: 0.5 };
    let of = |seed| of_sites(Some(&slowing), 4, second(400), seed);
    let mut all: Vec<(Nanos, Nanos)> = of(1).into_iter().flat_map(|pace| pace.slow).collect();
    all.sort_unstable();
    let want: Vec<_> = (1..40).map(|n| (second(n * 10), second(n * 10 + 4))).collect();
    assert_eq!(all, want);
    let slow = |seed| of(seed).into_iter().map(|pace| pace.slow).collect::<Vec<_>>();
    assert_eq!(slow(1), slow(1));
    assert_ne!(slow(1), slow(2));
    assert!(of(1).iter().all(|pace| !pace.slow.is_empty()), "each of four sites, of 39 times");
}
