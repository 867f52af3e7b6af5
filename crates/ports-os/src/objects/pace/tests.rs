//! Budgets and links on tokio's paused clock would need its test features; so the lanes are asked
//! what they would do.

use super::*;

/// Wait of `leave` and `arrive` of a load by their lanes, without waiting.
fn through(pace: &Pace, requests: u32, bytes: u64) -> Nanos {
    let mut last = Nanos(0);
    for _ in 0..requests {
        last = pace.budget.lock().expect("ours").pass(Nanos(0), bytes);
    }
    last
}

#[test]
fn a_budget_of_requests_and_bytes_spreads_them_over_time() {
    let limits = Limits { requests_per_s: Some(100), ..Limits::default() };
    assert_eq!(through(&Pace::new(&limits, None), 50, 1 << 20).0 / 1_000_000, 500);
    let limits = Limits { bytes_per_s: Some(Bytes::from_mib(10)), ..Limits::default() };
    assert_eq!(through(&Pace::new(&limits, None), 50, 1 << 20).0 / 1_000_000, 5_000);
    let unbounded = through(&Pace::new(&Limits::default(), None), 50, 1 << 20);
    assert!(unbounded < Nanos(1_000_000), "{unbounded:?}");
}

#[test]
fn a_request_waits_for_what_went_before_it_and_for_the_link() {
    let runtime = super::super::runtime().expect("a runtime");
    let link = LinkProfile::new(1 << 30, Nanos::from_micros(3_000));
    let limits = Limits { requests_per_s: Some(1000), ..Limits::default() };
    let pace = Pace::new(&limits, Some(link));
    runtime.block_on(async {
        let from = pace.now();
        for _ in 0..3 {
            let _turn = pace.turn().await;
            pace.leave(1 << 20).await;
            pace.arrive(0).await;
        }
        let took = pace.now().saturating_sub(from);
        // At least: three times both ways, and a MiB three times at a GiB a second.
        let least = 6 * link.latency.0 + 3 * (1_000_000_000 / 1024);
        assert!(took.0 >= least, "{took:?} is faster than the link");
    });
}
