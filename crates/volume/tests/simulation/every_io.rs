//! Every single device request failing in turn: one fixed scenario, run once for each request.
//!
//! The scenario formats, fills, overwrites, uses all four operations, flushes, discards, recovers
//! from a crash and closes. It runs once undisturbed, to count requests; then for the n-th request
//! of each pool, for every n, with that request failing, timing out, or finding the disk dead.
//! It must keep what every run must: the model's rules, and that it ends.

use crate::plan::{Plan, PoolPlan, Span, Step};
use crate::report;
use crate::run::{Extras, count_requests, run};
use crate::world::{Injection, Misfortune};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use thermocline_ports::faulty::Survival;
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::{Copying, OperationKind, Settings};

/// Sectors of a chunk of 64 KiB.
const CHUNK: u32 = 128;

fn pool(chunks: u32, latency_us: u32, zeroed: bool) -> PoolPlan {
    let discard_zeroes = zeroed;
    let (roomy, reserve, far, forgets) = (true, 2, false, true);
    PoolPlan { chunks, roomy, reserve, latency_us, zeroed, discard_zeroes, far, forgets }
}

fn write(chunk: u32, sectors: u32, fua: bool) -> Step {
    let span = Span { volume: 0, sector: chunk * CHUNK, sectors };
    Step::Write { span, fua, patience: None }
}

/// On the `nth` mapped chunk, to the `to`-th of the pools that do not hold it.
fn operate(kind: OperationKind, nth: u32, to: u8) -> Step {
    Step::Operate { kind, nth, to }
}

/// The scenario, on three pools.
fn scenario() -> Plan {
    let settings = Settings {
        chunk_size: Bytes::from_kib(64),
        journal_blocks: 64,
        epoch: Nanos::from_secs(3600),
        copying: Copying {
            rate_per_second: None,
            piece: Some(Bytes::from_kib(16)),
            ..Copying::default()
        },
        ..Settings::default()
    };
    let flush = Step::Flush { volume: 0 };
    let few = Step::Events { count: 3 };
    let all = Step::Verify { eighths: 8 };
    let steps = vec![
        Step::CreateVolume { sectors: 12 * CHUNK },
        write(0, 2 * CHUNK, false),
        write(2, CHUNK + 24, true),
        write(5, 8, false),
        flush,
        Step::Settle,
        operate(OperationKind::Migrate, 0, 1),
        operate(OperationKind::Replicate, 1, 2),
        few,
        write(0, 16, false),
        write(1, 16, true),
        operate(OperationKind::Prefetch, 2, 2),
        few,
        write(2, 1, false),
        flush,
        Step::Settle,
        operate(OperationKind::Redirect, 3, 1),
        write(3, 8, false),
        few,
        Step::Read(Span { volume: 0, sector: 0, sectors: 6 * CHUNK }),
        write(3, 24, true),
        Step::Settle,
        operate(OperationKind::Migrate, 1, 1),
        Step::Discard(Span { volume: 0, sector: 5 * CHUNK, sectors: CHUNK }),
        Step::WriteZeroes {
            span: Span { volume: 0, sector: CHUNK / 2, sectors: CHUNK },
            fua: true,
        },
        few,
        Step::Crash { survival: Survival::Torn },
        all,
        operate(OperationKind::Migrate, 0, 0),
        write(0, CHUNK, false),
        flush,
        all,
    ];
    let steps = [steps, mirroring(), vec![Step::Close { cut: None }, all]].concat();
    let pools = vec![pool(8, 20, true), pool(12, 100, false), pool(16, 400, false)];
    Plan { seed: 0x10, settings, pools, steps }
}

/// A chunk is mirrored, written on either side, made equal, written and brought together.
fn mirroring() -> Vec<Step> {
    let (flush, few) = (Step::Flush { volume: 0 }, Step::Events { count: 3 });
    vec![
        operate(OperationKind::Mirror, 2, 0),
        few,
        write(2, 12, false),
        Step::Settle,
        write(2, 24, true),
        write(2, 3, false),
        Step::Read(Span { volume: 0, sector: 2 * CHUNK, sectors: CHUNK }),
        flush,
        write(2, 40, false),
        operate(OperationKind::Mirror, 2, 1),
        Step::Settle,
        write(2, 16, false),
        operate(OperationKind::Migrate, 2, 0),
        few,
        write(2, 8, true),
        Step::Verify { eighths: 8 },
    ]
}

/// Runs the scenario with every request going wrong in turn; how many runs that took.
fn every_request(misfortune: Misfortune) -> u64 {
    let plan = scenario();
    let counts = count_requests(&plan).unwrap_or_else(|what| panic!("undisturbed: {what}"));
    let injections: Vec<Injection> = counts
        .iter()
        .enumerate()
        .flat_map(|(pool, &count)| (1..=count).map(move |nth| (pool, nth)))
        .map(|(pool, nth)| Injection { pool, nth, misfortune })
        .collect();
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(&injection) = injections.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let extras = Extras { injection: Some(injection), ..Extras::default() };
                    if let Err(failure) = run(&plan, extras) {
                        failed.lock().expect("no run panics").push((injection, failure));
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().expect("no run panics");
    failed.sort_by_key(|(injection, _)| (injection.pool, injection.nth));
    let lines = failed.iter().map(|(injection, failure)| {
        format!("{injection:?}, step {}: {}", failure.step, failure.what)
    });
    let lines: Vec<String> = lines.collect();
    if let Some((injection, failure)) = failed.first() {
        let extras = Extras { injection: Some(*injection), ..Extras::default() };
        let report = report::failure(&plan, failure, extras);
        panic!("{} of {} fail:\n{}\n\n{report}", lines.len(), injections.len(), lines.join("\n"));
    }
    injections.len() as u64
}

#[test]
fn every_single_request_may_fail() {
    let runs = every_request(Misfortune::Fails);
    assert!(runs > 100, "the scenario is too short to mean anything: {runs} requests");
    println!("{runs} runs, in each another device request failing: nothing lost");
}

#[test]
fn every_single_request_may_time_out() {
    let runs = every_request(Misfortune::TimesOut);
    println!("{runs} runs, in each another device request timing out: nothing lost");
}

#[test]
fn a_pool_may_die_at_every_single_request() {
    let runs = every_request(Misfortune::PoolDies);
    println!("{runs} runs, in each a pool dying at another request: nothing else lost");
}
