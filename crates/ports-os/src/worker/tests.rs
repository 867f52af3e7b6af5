//! Workers keep the contract; one that dies, hangs or lies fails alone.

use super::format::{self, ANSWER_BYTES, Answered, HELLO_BYTES, ORDER_BYTES};
use super::verilated::{up_to_date, verilated};
use super::{Process, ProcessError, ProcessOptions, Serving, Threads, simd};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use thermocline_ports::accelerator::{
    Accelerator, AcceleratorError, Context, Done, Fingerprint, Function, Job,
};
use thermocline_ports::contract::check_accelerator;
use thermocline_ports::{Payload, Ticket};
use thermocline_units::{Bytes, Nanos};

const MOMENT: Duration = Duration::from_millis(20);

/// The cores that tests need, and what each computes.
const CORES: [(&str, Fingerprint); 2] =
    [("0-8", Fingerprint::RabinSource), ("1-8", Fingerprint::Rabin16)];

/// Holds both Verilated cores to the contract, with these settings of their memory.
fn check_cores(settings: &[&str], seed: u64) {
    for (core, _) in CORES {
        let Some(program) = verilated(core) else { continue };
        let mut options = ProcessOptions::new("/usr/bin/env".into());
        options.arguments = settings.iter().map(Into::into).collect();
        options.arguments.push(program.into());
        options.buffer = thermocline_units::Bytes::from_kib(64);
        options.patience = Duration::from_secs(600);
        let mut worker = Process::start(&options).expect("the core starts");
        let mut wait = |worker: &mut Process, now: Nanos| {
            worker.wait(MOMENT);
            Nanos(now.0 + 1)
        };
        check_accelerator(&mut worker, &mut simd, &mut wait, seed, 300);
        assert_eq!(worker.failed(), None, "core {core}");
    }
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
fn a_worker_older_than_one_of_its_sources_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str, seconds: u64| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let time = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::create(&path).unwrap().set_modified(time).unwrap();
        path
    };
    place("sim/worker.cpp", 10);
    place("rtl/a.sv", 20);
    place("rtl/b.sv", 30);
    let refused = |path: &std::path::Path| up_to_date(path, folder.path()).unwrap_err();
    assert!(refused(&folder.path().join("worker")).starts_with("no Verilated core at "));
    let worker = place("worker", 30);
    assert_eq!(up_to_date(&worker, folder.path()), Ok(()));
    for source in ["sim/worker.cpp", "rtl/a.sv", "rtl/b.sv"] {
        let newer = place(source, 31);
        assert!(refused(&worker).ends_with(&format!(" is older than {}", newer.display())));
        place(source, 30);
    }
}

#[test]
fn the_verilated_cores_keep_the_contract() {
    check_cores(&[], 4);
}

#[test]
fn the_cores_keep_the_contract_on_memory_that_stalls() {
    check_cores(&["TC_STALL=60"], 5);
}

/// Every other job is begun, ended by a reset anywhere in it, and offered again.
#[test]
fn the_cores_keep_the_contract_on_slow_memory_with_resets() {
    check_cores(&["TC_LATENCY=20", "TC_RESETS=50"], 6);
    check_cores(&["TC_LATENCY=45", "TC_RESETS=50", "TC_STALL=30"], 7);
}

#[test]
fn a_core_that_is_killed_is_a_failed_unit() {
    for (core, fingerprint) in CORES {
        let Some(program) = verilated(core) else { continue };
        let mut worker = Process::start(&ProcessOptions::new(program)).expect("the core starts");
        let of_core = |length: usize| {
            let mut job = job(vec![7; length]);
            job.function.fingerprint = Some(fingerprint);
            job
        };
        let mut done = Vec::new();
        for ticket in 0..10 {
            worker.submit(Nanos(0), Ticket(ticket), of_core(200_000));
        }
        worker.child.kill().expect("it runs");
        done.extend(all(&mut worker, 10, Nanos(1)));
        assert!(done.iter().any(|one| one.result == Err(AcceleratorError::Gone)));
        assert!(worker.failed().is_some());
        worker.submit(Nanos(0), Ticket(99), of_core(10));
        assert_eq!(all(&mut worker, 1, Nanos(1))[0].result, Err(AcceleratorError::Gone));
    }
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
    // A job's length has 24 bits.
    for (slots, buffer) in [(0, 1 << 18), (4, 1 << 24)] {
        (options.slots, options.buffer) = (slots, Bytes(buffer));
        assert!(matches!(Process::start(&options).map(|_| ()), Err(ProcessError::Options { .. })));
    }
}

#[test]
fn messages_are_read_as_they_were_written() {
    for only in [None, Some(Fingerprint::RabinSource), Some(Fingerprint::Rabin16)] {
        assert_eq!(format::hello(&format::put_hello(only, 3)), Some((only, 3)));
        let mut asked = job(Vec::new());
        asked.function.fingerprint = only;
        asked.function.at_min = true;
        asked.context = Context { tail: (1..32).collect(), length: 63, early: true };
        asked.data = Payload::EMPTY;
        let order = format::order(Ticket(u64::MAX - 1), 9, &asked);
        let (ticket, slot, length, read) = format::read_order(&order).unwrap();
        assert_eq!((ticket, slot, length), (Ticket(u64::MAX - 1), 9, 0));
        assert_eq!((read.function, read.context), (asked.function, asked.context));
    }
    let answered = Answered {
        ticket: Ticket(1 << 40),
        status: 2,
        count: 3,
        length: 4,
        early: true,
        cycles: 1 << 50,
    };
    assert_eq!(format::answer(&format::put_answer(&answered)), answered);
    assert_eq!(format::positions(&format::put_positions(&[1, 70_000])), [1, 70_000]);
}

/// A worker in Rust with two slots of 1 KiB, on a thread; its host's side.
fn serving() -> (UnixStream, std::thread::JoinHandle<std::io::Result<()>>) {
    let (mut host, socket) = UnixStream::pair().unwrap();
    let memory = File::from(memfd_create(c"test", MemfdFlags::CLOEXEC).unwrap());
    memory.set_len(2 * (5 * 1024 + 64)).unwrap();
    let buffer = thermocline_units::Bytes(1024);
    let serving = Serving { socket, memory, slots: 2, buffer, only: None };
    let thread = std::thread::spawn(move || serving.run(&mut |job| simd(job)));
    let mut hello = [0; HELLO_BYTES];
    host.read_exact(&mut hello).unwrap();
    assert_eq!(format::hello(&hello), Some((None, 1)));
    (host, thread)
}

#[test]
fn a_worker_in_rust_refuses_what_cannot_be_and_goes_on() {
    let (mut host, thread) = serving();
    let mut ask = |order: &[u8; ORDER_BYTES]| {
        host.write_all(order).unwrap();
        let mut answer = [0; ANSWER_BYTES];
        host.read_exact(&mut answer).unwrap();
        format::answer(&answer)
    };
    let right = format::order(Ticket(7), 1, &job(vec![1; 1024]));
    assert_eq!(ask(&right).status, 0);
    for bit in 0..8 * ORDER_BYTES {
        let mut order = right;
        order[bit / 8] ^= 1 << (bit % 8);
        let answered = ask(&order);
        assert!(answered.status <= 1, "bit {bit}: {answered:?}");
        assert_eq!(answered.ticket == Ticket(7), bit >= 64, "bit {bit}: {answered:?}");
    }
    let beyond = format::order(Ticket(8), 2, &job(vec![1; 10]));
    let too_long = format::order(Ticket(9), 0, &job(vec![1; 1025]));
    assert_eq!([ask(&beyond).status, ask(&too_long).status], [1, 1]);
    assert_eq!(ask(&right).status, 0, "it goes on");
    drop(host);
    thread.join().unwrap().expect("the host went");
}
