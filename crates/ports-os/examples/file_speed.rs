//! Cost of a request to a file: rate, latency and processor time of random 4 KiB, by depth.
//!
//! `cargo run --release -p thermocline-ports-os --example file_speed FOLDER…`; makes a file of
//! 256 MiB in each
//! folder, and removes it. Processor time is this thread's, the kernel's work for it included.

#![expect(clippy::print_stdout, reason = "a program that prints")]

use std::path::Path;
use std::time::Instant;
use thermocline_ports::pattern::{Load, Order, Outcome, Pattern};
use thermocline_ports_os::{Budget, FileDevice, OpenOptions, Patience, run_load};
use thermocline_units::{Bytes, Nanos};

const SIZE: Bytes = Bytes::from_mib(256);
const TIME: Nanos = Nanos::from_secs(1);

fn main() {
    println!("folder operation depth direct kIOPS mean_us p99_us cpu_us");
    for folder in std::env::args().skip(1) {
        let path = Path::new(&folder).join(".thermocline-file-speed");
        measure(&folder, &path);
        std::fs::remove_file(&path).expect("it was made above");
    }
}

fn measure(folder: &str, path: &Path) {
    let options = OpenOptions { create: Some(SIZE), buffered: false, patience: Patience::DEFAULT };
    let mut device = FileDevice::open(path, options).expect("the folder can be written to");
    let fill =
        Pattern { order: Order::Sequential, block: 1 << 20, reads: 0.0, depth: 4, range: SIZE };
    run(&mut device, &fill, SIZE.0 >> 20);
    for (name, reads) in [("read", 1.0), ("write", 0.0)] {
        for depth in [1, 32] {
            let pattern = Pattern { order: Order::Random, block: 4096, reads, depth, range: SIZE };
            let before = processor_time();
            let outcome = run(&mut device, &pattern, u64::MAX);
            let count = outcome.reads.len() + outcome.writes.len();
            let cpu = (processor_time() - before) / count as f64 / 1e3;
            let latencies = if reads == 1.0 { &outcome.reads } else { &outcome.writes };
            println!(
                "{folder} {name} {depth} {} {:.1} {:.1} {:.1} {cpu:.2}",
                device.is_direct(),
                outcome.iops() / 1e3,
                outcome.mean().0 as f64 / 1e3,
                Outcome::quantile(latencies, 0.99).0 as f64 / 1e3,
            );
        }
    }
}

fn run(device: &mut FileDevice, pattern: &Pattern, requests: u64) -> Outcome {
    let started = Instant::now();
    let clock = || Nanos(started.elapsed().as_nanos() as u64);
    let load = Load::new(pattern, clock(), requests, 1);
    run_load(device, load, Budget { time: TIME }, clock).expect("nothing fails")
}

/// Nanoseconds this thread has run: the first word of its scheduler statistics.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
}
