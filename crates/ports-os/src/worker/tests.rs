//! Workers keep the contract; one that dies, hangs or lies fails alone.

use super::{Process, ProcessError, ProcessOptions, Threads, simd};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thermocline_ports::accelerator::{
    Accelerator, AcceleratorError, Context, Done, Fingerprint, Function, Job,
};
use thermocline_ports::contract::check_accelerator;
use thermocline_ports::{Payload, Ticket};
use thermocline_units::Nanos;

const MOMENT: Duration = Duration::from_millis(20);

/// The Verilated core that `cargo xtask hdl build` leaves; tests without it say SKIPPED.
fn core() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let built = root.join("target/hdl/worker-0-8/worker");
    if !built.exists() {
        println!("SKIPPED: no Verilated core; `cargo xtask hdl build` makes one");
        return None;
    }
    Some(built)
}

fn job(bytes: Vec<u8>) -> Job {
    let function = Function {
        fingerprint: Some(Fingerprint::RabinSource),
        loose: 255,
        strict: 255,
        equals: 1,
        min: 64,
        expected: 256,
        max: 1024,
        at_min: false,
    };
    Job { data: Payload::from(bytes), context: Context::default(), function }
}

/// A worker in shell: says hello, then does `then`. It is bash, whose `read -N` and `printf`
/// suffice.
fn scripted(then: &str) -> ProcessOptions {
    let hello = r"printf 'TCW1\1\0\0\0\1\0\0\0\1\0\0\0' >&0; ";
    let mut options = ProcessOptions::new("/bin/bash".into());
    options.arguments = vec!["-c".into(), format!("{hello}{then}").into()];
    options
}

/// Everything that comes until `count` jobs are done; `now` in steps, so that patience can end.
fn all(worker: &mut Process, count: usize, step: Nanos) -> Vec<Done> {
    let (mut done, mut now) = (Vec::new(), Nanos(0));
    while done.len() < count {
        worker.wait(MOMENT);
        now = Nanos(now.0 + step.0);
        worker.poll(now, &mut done);
    }
    done
}

#[test]
fn threads_with_simd_keep_the_contract() {
    for units in [1, 3] {
        let mut threads = Threads::new(units, simd);
        let mut wait = |threads: &mut Threads, now: Nanos| {
            threads.wait(MOMENT);
            Nanos(now.0 + 1)
        };
        check_accelerator(&mut threads, &mut simd, &mut wait, u64::from(units), 200);
    }
}

#[test]
fn the_verilated_core_keeps_the_contract() {
    let Some(program) = core() else { return };
    let mut options = ProcessOptions::new(program);
    options.buffer = thermocline_units::Bytes::from_kib(64);
    options.patience = Duration::from_secs(600);
    let mut worker = Process::start(&options).expect("the core starts");
    let mut wait = |worker: &mut Process, now: Nanos| {
        worker.wait(MOMENT);
        Nanos(now.0 + 1)
    };
    check_accelerator(&mut worker, &mut simd, &mut wait, 4, 300);
    assert_eq!(worker.failed(), None);
}

#[test]
fn the_core_keeps_the_contract_on_memory_that_stalls() {
    let Some(program) = core() else { return };
    let mut options = ProcessOptions::new("/usr/bin/env".into());
    options.arguments = vec!["TC_STALL=60".into(), program.into()];
    options.buffer = thermocline_units::Bytes::from_kib(64);
    options.patience = Duration::from_secs(600);
    let mut worker = Process::start(&options).expect("the core starts");
    let mut wait = |worker: &mut Process, now: Nanos| {
        worker.wait(MOMENT);
        Nanos(now.0 + 1)
    };
    check_accelerator(&mut worker, &mut simd, &mut wait, 5, 300);
}

#[test]
fn a_core_that_is_killed_is_a_failed_unit() {
    let Some(program) = core() else { return };
    let mut worker = Process::start(&ProcessOptions::new(program)).expect("the core starts");
    let mut done = Vec::new();
    for ticket in 0..10 {
        worker.submit(Nanos(0), Ticket(ticket), job(vec![7; 200_000]));
    }
    worker.child.kill().expect("it runs");
    done.extend(all(&mut worker, 10, Nanos(1)));
    assert!(done.iter().any(|one| one.result == Err(AcceleratorError::Gone)));
    assert!(worker.failed().is_some());
    worker.submit(Nanos(0), Ticket(99), job(vec![7; 10]));
    assert_eq!(all(&mut worker, 1, Nanos(1))[0].result, Err(AcceleratorError::Gone));
}

#[test]
fn a_worker_that_ends_at_once_fails_its_jobs() {
    let mut worker = Process::start(&scripted("exit 0")).expect("it says hello");
    worker.submit(Nanos(0), Ticket(5), job(vec![1; 100]));
    let done = all(&mut worker, 1, Nanos(1));
    assert_eq!((done[0].ticket, &done[0].result), (Ticket(5), &Err(AcceleratorError::Gone)));
}

#[test]
fn a_worker_that_hangs_times_out_and_is_killed() {
    let mut worker = Process::start(&scripted("sleep 1000")).expect("it says hello");
    worker.submit(Nanos(0), Ticket(5), job(vec![1; 100]));
    for ticket in 6..12 {
        worker.submit(Nanos(0), Ticket(ticket), job(vec![1; 100]));
    }
    let began = Instant::now();
    let done = all(&mut worker, 7, Nanos::from_secs(1));
    assert!(began.elapsed() < Duration::from_secs(60), "it was told the time, and did not wait");
    let timed_out = done.iter().filter(|one| one.result == Err(AcceleratorError::TimedOut));
    // Four were with it, three waited for a slot.
    assert_eq!(timed_out.count(), 4);
    assert_eq!(worker.failed(), Some("it did not answer in time"));
}

#[test]
fn answers_that_cannot_be_are_failures() {
    let nobody = r"printf '\77\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >&0";
    let too_many = concat!(
        r"printf '\5\0\0\0\0\0\0\0\0\0\0\0\377\377\377\377",
        r"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >&0"
    );
    for (said, why) in
        [(nobody, "it answered what nobody asked"), (too_many, "it cuts more than there is")]
    {
        let script = format!("head -c 72 <&0 >/dev/null; {said}; sleep 1000");
        let mut worker = Process::start(&scripted(&script)).expect("it says hello");
        worker.submit(Nanos(0), Ticket(5), job(vec![1; 100]));
        let done = all(&mut worker, 1, Nanos(1));
        assert_eq!(done[0].result, Err(AcceleratorError::Failed));
        assert_eq!(worker.failed(), Some(why));
    }
}

#[test]
fn a_program_that_is_no_worker_is_refused_with_a_reason() {
    let mut options = ProcessOptions::new("/bin/echo".into());
    let error = Process::start(&options).map(|_| ()).unwrap_err();
    assert!(matches!(error, ProcessError::Hello { .. }), "{error}");
    options.program = "/nowhere/worker".into();
    assert!(matches!(Process::start(&options).map(|_| ()), Err(ProcessError::Start { .. })));
    options.slots = 0;
    assert!(matches!(Process::start(&options).map(|_| ()), Err(ProcessError::Options { .. })));
}
