//! Comparison of offload with the host's processor: the same jobs on a thread, on a Verilated core,
//! and on modelled cards.
//!
//! `cargo run --release -p thermocline-ports-os --example offload -- [--worker PROGRAM]
//! [--seconds 1] [--pays]`
//!
//! With `--pays`, only: what an end of a tunnel pays a GB when it cuts by itself, and when a worker
//! process cuts, by buffer and jobs in flight. This program is the worker, too.
//!
//! For each buffer size and number of jobs in flight: latency of a job and throughput; then what
//! chunking, checking and copying cost the processor. Threads and the core are measured by the wall
//! clock, models run in virtual time. The first table is VNRE's figures from the models.

// A program that measures and reports, not a decision.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_macros)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use thermocline_chunking::{BelowMin, Chunking, Claim, Method, UnderWay, check};
use thermocline_ports::accelerator::{Accelerator, Context, Done, Fingerprint, Function, Job};
use thermocline_ports::model::{AcceleratorProfile, ModelAccelerator};
use thermocline_ports::{Payload, Ticket};
use thermocline_ports_os::worker::{Process, ProcessOptions, Serving, Threads, simd};
use thermocline_units::{Bytes, Nanos, Rng};

/// The core of 8 bytes a cycle beside a link that moves 1 GB/s each way and takes 1 µs.
const PLACED: AcceleratorProfile = AcceleratorProfile {
    source: "our core at 8 bytes a cycle; 150 MHz; link of 1 GB/s and 1 us assumed",
    clock: 150e6,
    bytes_per_cycle: 8.0,
    cycles_a_job: 60.0,
    cycles_a_position: 0.0,
    transfer: (150.0, 0.15),
    hand_back: (150.0, 0.6),
    overlaps: true,
    buffer_max: Bytes::from_kib(256),
    queue_depth: 16,
    units: 1,
    only: Some(Fingerprint::RabinSource),
};

fn main() {
    let (mut worker, mut seconds) = (None, 1.0);
    let mut arguments = std::env::args().skip(1);
    let mut only_pays = false;
    while let Some(argument) = arguments.next() {
        if argument == "--pays" {
            only_pays = true;
            continue;
        }
        if argument == SERVE {
            let mut number = || arguments.next().and_then(|word| word.parse::<u64>().ok());
            let (slots, buffer) = (number().expect("slots"), number().expect("bytes"));
            let serving = Serving::standard(slots as u32, Bytes(buffer), None);
            return serving.expect("a host").run(&mut |job| simd(job)).expect("a host");
        }
        let value = arguments.next().expect("every option has a value");
        match argument.as_str() {
            "--worker" => worker = Some(value),
            "--seconds" => seconds = value.parse().expect("a number of seconds"),
            other => panic!("`{other}`: write --worker PROGRAM or --seconds N"),
        }
    }
    if only_pays {
        return pays(worker.as_deref(), seconds);
    }
    source();
    println!("\n{:<34} {:>9} {:>5} {:>12} {:>9}", "", "buffer", "jobs", "latency us", "GB/s");
    for buffer in [1500_u32, 4096, 65_536, 262_144] {
        for jobs in [1, 4, 16] {
            let mut threads = Threads::new(1, simd);
            real(
                "source's Rabin, one thread",
                &mut threads,
                buffer,
                jobs,
                seconds,
                &mut |threads| {
                    threads.wait(Duration::from_millis(100));
                },
            );
            for (name, units) in [("modelled card, 1 unit", 1), ("modelled card, 4 units", 4)] {
                modelled(name, AcceleratorProfile { units, ..PLACED }, buffer, jobs);
            }
            modelled("VNRE's card, by its cycles", AcceleratorProfile::VNRE_CYCLES, buffer, jobs);
            let Some(worker) = &worker else { continue };
            let mut options = ProcessOptions::new(worker.into());
            options.patience = Duration::from_secs(60);
            options.slots = 16;
            let mut process = Process::start(&options).expect("a worker");
            real("Verilated core", &mut process, buffer, jobs, seconds, &mut |process| {
                process.wait(Duration::from_millis(100));
            });
        }
    }
    processor(&bytes(262_144));
}

/// First argument of this program as a worker.
const SERVE: &str = "--serve";

/// Time that this process's thread was on a processor so far.
fn on_processor() -> Duration {
    let told = std::fs::read_to_string("/proc/self/schedstat").expect("Linux tells it");
    let nanos = told.split_whitespace().next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.expect("a number of nanoseconds"))
}

/// Costs of cutting here and elsewhere, by method, buffer and jobs in flight.
fn pays(verilated: Option<&str>, seconds: f64) {
    println!("{:<44} {:>8} {:>5} {:>12} {:>10}", "", "buffer", "jobs", "latency us", "own s/GB");
    for method in [Method::Rabin16, Method::RabinSource] {
        let chunking = Chunking::new(method, Bytes(2048)).expect("a size in range");
        for buffer in [1500, 4096, 16_384, 65_536, 262_144] {
            here(chunking, &bytes(buffer), seconds);
            for jobs in [1, 16] {
                let program = std::env::current_exe().expect("this program has a path");
                let mut options = ProcessOptions::new(program);
                options.arguments = vec![SERVE.into()];
                elsewhere("worker process", options, chunking, buffer, jobs, seconds);
                if method == Method::RabinSource {
                    for units in [1, 4] {
                        let name = format!("modelled card, {units} unit(s), GB/s");
                        modelled(&name, AcceleratorProfile { units, ..PLACED }, buffer, jobs);
                    }
                }
            }
            if let Some(program) = verilated.filter(|_| method == Method::RabinSource) {
                let options = ProcessOptions::new(program.into());
                elsewhere("Verilated core", options, chunking, buffer, 1, seconds);
            }
        }
    }
}

fn told(name: &str, chunking: Chunking, buffer: u32, jobs: u64, latency: f64, own: f64) {
    println!(
        "{:<44} {buffer:>8} {jobs:>5} {latency:>12.1} {own:>10.3}",
        format!("{chunking}, {name}")
    );
}

/// This processor cuts.
fn here(chunking: Chunking, bytes: &[u8], seconds: f64) {
    let (mut chunker, mut cuts, mut done) = (chunking.chunker(), Vec::new(), 0_u64);
    let (began, before) = (Instant::now(), on_processor());
    while began.elapsed().as_secs_f64() < seconds {
        for _ in 0..100 {
            cuts.clear();
            chunker.push(std::hint::black_box(bytes), &mut cuts);
        }
        done += 100;
    }
    let own = (on_processor() - before).as_secs_f64() / (done as f64 * bytes.len() as f64) * 1e9;
    let latency = began.elapsed().as_secs_f64() / done as f64 * 1e6;
    told("this processor", chunking, bytes.len() as u32, 1, latency, own);
}

/// A worker cuts. Its answers are checked as a tunnel's end does, one chunk in eight.
fn elsewhere(
    name: &str,
    mut options: ProcessOptions,
    chunking: Chunking,
    buffer: u32,
    jobs: u64,
    seconds: f64,
) {
    options.patience = Duration::from_secs(60);
    options.slots = 16;
    let mut process = Process::start(&options).expect("a worker");
    let tests = chunking.tests().expect("a core's function");
    let sizes = chunking.sizes();
    let function = Function {
        fingerprint: Some(match chunking.method() {
            Method::Rabin16 => Fingerprint::Rabin16,
            _ => Fingerprint::RabinSource,
        }),
        loose: tests.loose,
        strict: tests.strict,
        equals: tests.equals,
        min: sizes.min,
        expected: sizes.expected,
        max: sizes.max,
        at_min: false,
    };
    let (bytes, before, mut rng) = (bytes(buffer), UnderWay::default(), Rng::seeded(3));
    let (mut next, mut ended, mut latency) = (0, 0, 0.0);
    let (mut since, mut done) = (BTreeMap::new(), Vec::new());
    let (began, at_first) = (Instant::now(), on_processor());
    let is_time = |began: &Instant| began.elapsed().as_secs_f64() < seconds;
    while is_time(&began) || ended < next {
        while next - ended < jobs && is_time(&began) {
            since.insert(Ticket(next), began.elapsed());
            let data = Payload::from(bytes.clone());
            process.submit(
                Nanos(0),
                Ticket(next),
                Job { data, context: Context::default(), function },
            );
            next += 1;
        }
        process.wait(Duration::from_millis(100));
        process.poll(Nanos(0), &mut done);
        for Done { ticket, result } in done.drain(..) {
            let answer = result.expect("the unit works");
            let claim = Claim {
                tests,
                sizes,
                below_min: BelowMin::Ignore,
                before: &before,
                bytes: &bytes,
                positions: &answer.positions,
                length: answer.length.into(),
                early: answer.early,
            };
            check(&claim, 8, &mut rng).expect("it is right");
            latency +=
                (began.elapsed() - since.remove(&ticket).expect("it was asked")).as_secs_f64();
            ended += 1;
        }
    }
    let own = (on_processor() - at_first).as_secs_f64() / (ended as f64 * f64::from(buffer)) * 1e9;
    told(name, chunking, buffer, jobs, latency / ended as f64 * 1e6, own);
}

fn bytes(length: u32) -> Vec<u8> {
    let mut rng = Rng::seeded(1);
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

fn function(expected: u32) -> Function {
    let mask = (expected - 1) as u16;
    Function {
        fingerprint: Some(Fingerprint::RabinSource),
        loose: mask,
        strict: mask,
        equals: 1,
        min: expected / 4,
        expected,
        max: 4 * expected,
        at_min: false,
    }
}

fn job(buffer: u32, expected: u32) -> Job {
    Job {
        data: Payload::from(bytes(buffer)),
        context: Context::default(),
        function: function(expected),
    }
}

/// VNRE's printed figures beside the two models of its card.
fn source() {
    println!(
        "Mbit/s by chunk size; VNRE prints 200.6 (512 B) and 430.8 (1 KB) for one unit, 1692.7"
    );
    println!("(1 KB) for four. Its cycles and its throughput cannot both be true.");
    for (name, profile) in [
        ("cycles, 4 KiB buffers", AcceleratorProfile::VNRE_CYCLES),
        ("throughput, a cost per chunk", AcceleratorProfile::VNRE_THROUGHPUT),
    ] {
        for units in [1, 4] {
            let profile = AcceleratorProfile { units, queue_depth: 64, ..profile };
            let rates = [512, 1024, 2048].map(|expected| {
                let buffer = if name.starts_with("cycles") { 4096 } else { 262_144 };
                let (nanos, _) = run_model(profile, &job(buffer, expected), 64, 16);
                format!("{:>8.1}", 64.0 * f64::from(buffer) * 8e3 / nanos as f64)
            });
            println!("{name:<34} {units} unit(s) {}", rates.join(" "));
        }
    }
}

/// Time for `count` jobs with `depth` in flight, and the mean latency, ns.
fn run_model(profile: AcceleratorProfile, job: &Job, count: u64, depth: u64) -> (u64, f64) {
    // All jobs are alike: their answer is computed once.
    let answer = simd(job);
    let mut card = ModelAccelerator::new(profile, Box::new(move |_| answer.clone()));
    let (mut now, mut next, mut ended, mut latency) = (Nanos(0), 0, 0, 0.0);
    let (mut since, mut done) = (BTreeMap::new(), Vec::new());
    while ended < count {
        while next < count && next - ended < depth {
            since.insert(Ticket(next), now);
            card.submit(now, Ticket(next), job.clone());
            next += 1;
        }
        now = card.next_event().expect("jobs are in flight");
        card.poll(now, &mut done);
        for Done { ticket, .. } in done.drain(..) {
            latency += (now.0 - since[&ticket].0) as f64;
            ended += 1;
        }
    }
    (now.0, latency / count as f64)
}

fn modelled(name: &str, profile: AcceleratorProfile, buffer: u32, jobs: u64) {
    let count = 64;
    let (nanos, latency) = run_model(profile, &job(buffer, 2048), count, jobs);
    line(name, buffer, jobs, latency / 1e3, count as f64 * f64::from(buffer) / nanos as f64);
}

fn line(name: &str, buffer: u32, jobs: u64, latency: f64, rate: f64) {
    println!("{name:<34} {buffer:>9} {jobs:>5} {latency:>12.1} {rate:>9.3}");
}

fn real<A: Accelerator>(
    name: &str,
    accelerator: &mut A,
    buffer: u32,
    jobs: u64,
    seconds: f64,
    wait: &mut dyn FnMut(&mut A),
) {
    let job = job(buffer, 2048);
    let (mut next, mut ended, mut latency) = (0, 0, 0.0);
    let (mut since, mut done) = (BTreeMap::new(), Vec::new());
    let began = Instant::now();
    while began.elapsed().as_secs_f64() < seconds || ended < next {
        while next - ended < jobs && began.elapsed().as_secs_f64() < seconds {
            since.insert(Ticket(next), began.elapsed());
            accelerator.submit(Nanos(0), Ticket(next), job.clone());
            next += 1;
        }
        wait(accelerator);
        accelerator.poll(Nanos(0), &mut done);
        for Done { ticket, result } in done.drain(..) {
            result.expect("the unit works");
            latency += (began.elapsed() - since[&ticket]).as_secs_f64();
            ended += 1;
        }
    }
    let rate = ended as f64 * f64::from(buffer) / began.elapsed().as_secs_f64() / 1e9;
    line(name, buffer, jobs, latency / ended as f64 * 1e6, rate);
}

/// Work left to the processor when another device chunks.
fn processor(bytes: &[u8]) {
    println!("\nprocessor seconds a GB (wall clock of one busy thread, least of 20):");
    let mut rng = Rng::seeded(2);
    for method in [Method::RabinSource, Method::Rabin16] {
        let chunking = Chunking::new(method, Bytes(2048)).expect("a size in range");
        let tests = chunking.tests().expect("a core's function");
        let before = UnderWay::default();
        let (mut cuts, mut length) = (Vec::new(), 0);
        cost(&format!("{chunking}, chunking"), bytes, &mut || {
            let mut chunker = tests.chunker(chunking.sizes(), BelowMin::Ignore, &before);
            cuts.clear();
            chunker.push(bytes, &mut cuts);
            length = chunker.length();
        });
        let positions: Vec<u32> = cuts.iter().map(|&cut| cut as u32).collect();
        let claim = Claim {
            tests,
            sizes: chunking.sizes(),
            below_min: BelowMin::Ignore,
            before: &before,
            bytes,
            positions: &positions,
            length,
            early: false,
        };
        for one_in in [1, 8, 32] {
            let name = format!("{chunking}, checking one in {one_in}");
            let mut work = || check(&claim, one_in, &mut rng).expect("it is right");
            cost(&name, bytes, &mut work);
        }
    }
    cost("copying", bytes, &mut || drop(std::hint::black_box(bytes.to_vec())));
}

fn cost(name: &str, bytes: &[u8], work: &mut dyn FnMut()) {
    let least = (0..20).map(|_| {
        let began = Instant::now();
        (0..8).for_each(|_| work());
        began.elapsed().as_secs_f64() / 8.0
    });
    let least = least.fold(f64::INFINITY, f64::min);
    println!("{name:<34} {:>8.3}", least / bytes.len() as f64 * 1e9);
}
