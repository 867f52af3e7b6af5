//! Prints the built-in device models beside what is published, and what a modelled request costs.
//!
//! `cargo run --release -p thermocline-ports --example patterns`; the table is in
//! docs/results/device-models.md.

#![expect(clippy::print_stdout, clippy::disallowed_macros, reason = "a program that prints")]

use thermocline_ports::model::published::FIGURES;
use thermocline_ports::model::{ModelDevice, Profile};
use thermocline_ports::pattern::{self, Order, Pattern};
use thermocline_units::{Bytes, Nanos};

fn main() {
    println!("| profile | load | published | model | deviation | source |");
    println!("|---|---|---:|---:|---:|---|");
    for figure in FIGURES.iter().take(if std::env::args().len() > 1 { 0 } else { 99 }) {
        let modelled = figure.modelled(1);
        println!(
            "| {} | {}: {} | {} | {} | {:+.1} % | {} |",
            figure.profile,
            figure.load(),
            figure.measure.name(),
            figure.measure.show(figure.published),
            figure.measure.show(modelled),
            100.0 * (modelled / figure.published - 1.0),
            figure.source
        );
    }
    println!("\n| profile | 4 KiB, random, 70 % reads, QD32: ns of CPU a request |");
    println!("|---|---:|");
    for name in Profile::names() {
        println!("| {name} | {:.0} |", cost(name));
    }
}

/// Nanoseconds of this machine's time for one modelled request.
#[expect(clippy::disallowed_types, reason = "measures the model itself")]
fn cost(name: &str) -> f64 {
    const REQUESTS: u64 = 1_000_000;
    let profile = Profile::built_in(name).expect("built-in profiles are readable");
    let mut device = ModelDevice::new(&profile, 1);
    let pattern = Pattern {
        order: Order::Random,
        block: 4096,
        reads: 0.7,
        depth: 32,
        range: Bytes::from_gib(16),
    };
    let begin = std::time::Instant::now();
    pattern::run(&mut device, &pattern, Nanos(0), REQUESTS, 1);
    begin.elapsed().as_nanos() as f64 / REQUESTS as f64
}
