//! A live link between two TUN devices, until it is killed.
//!
//! `link NAME NAME MBIT MS LOST_PER_MILLION [SEED]`, as root, before or after the devices are made.
//! Each direction gets the bandwidth and the delay; what would wait longer than 50 ms is dropped.
//! Bring the devices up in network namespaces of their own once this runs.
#![allow(clippy::print_stdout)]

use std::time::Instant;
use thermocline_ports::model::LinkProfile;
use thermocline_ports_os::Shaper;
use thermocline_units::Nanos;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| {
        arguments[at].parse::<u64>().expect("a measurement stops at what does not work")
    };
    let latency = Nanos::from_micros(number(3) * 1000);
    let profile = LinkProfile {
        queue: Some(Nanos::from_micros(50_000)),
        lost_per_million: number(4) as u32,
        ..LinkProfile::new(number(2) * 125_000, latency)
    };
    let seed = if arguments.len() > 5 { number(5) } else { 1 };
    let names = [arguments[0].as_str(), arguments[1].as_str()];
    let mut shaper =
        Shaper::new(names, profile, seed).expect("a measurement stops at what does not work");
    println!("link between {} and {}", names[0], names[1]);
    let began = Instant::now();
    let clock = || Nanos(began.elapsed().as_nanos() as u64);
    shaper.run(clock, || true).expect("a measurement stops at what does not work");
}
