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
        let cost = cost(name).map_or("–".to_string(), |ns| format!("{ns:.0}"));
        println!("| {name} | {cost} |");
    }
}

/// Nanoseconds of processor time for one modelled request; `None` where Linux does not say.
fn cost(name: &str) -> Option<f64> {
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
    let begin = processor_time()?;
    pattern::run(&mut device, &pattern, Nanos(0), REQUESTS, 1);
    Some((processor_time()? - begin) / REQUESTS as f64)
}

/// Nanoseconds this thread has run: the first word of its scheduler statistics.
fn processor_time() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
