//! CPU time of the platform itself by packet and hop: classify, switch, tag, batch, and answers.
//!
//! `cargo run --release -p thermocline-accel --example platform_cost`. Workers are part of this
//! program and pass every packet at once, so what is counted is the platform and the lists of
//! verdicts that they make. Packets come in rows of 32, as from a device. Median of seven runs,
//! with the least and the greatest.

#![allow(clippy::print_stdout, clippy::disallowed_macros)]

use bytes::Bytes;
use thermocline_accel::{
    Answer, CardSettings, FlowKey, FunctionSettings, GroupId, Platform, Settings, Verdict, Work,
};
use thermocline_policy::accel::NothingComing;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Nanos, Rng};

const ROUNDS: usize = 7;
const ROW: usize = 32;
const PACKETS: usize = 2_000_000;

/// CPU time of this thread, seconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    text.split_whitespace().next().expect("Linux has it").parse::<f64>().expect("a number") / 1e9
}

/// A platform with a chain of so many functions on its processor.
fn platform(functions: usize, flows: usize) -> Platform {
    // There are no images, so that all stay on the processor.
    let spec = PolicySpec::parse("by-cost").expect("a scheduler");
    let scheduler = spec.build_scheduler(Box::new(NothingComing)).expect("a scheduler");
    let cards = vec![CardSettings::new("card0", 2, 1)];
    let settings = Settings { flows_max: flows, ..Settings::default() };
    let mut platform = Platform::new(Nanos(0), settings, cards, scheduler);
    let chain: Vec<_> = (0..functions)
        .map(|nth| {
            let settings = FunctionSettings {
                name: format!("f{nth}"),
                stateful: true,
                alters: false,
                processor: Some(100.0),
            };
            platform.declare(settings).expect("a new name")
        })
        .collect();
    platform.set_chain(Nanos(0), GroupId(1), &chain).expect("functions that are known");
    platform
}

/// Carries packets; nanoseconds of CPU time for each.
fn run(functions: usize, flows: usize) -> f64 {
    let mut platform = platform(functions, flows);
    let mut rng = Rng::seeded(1);
    let bytes = Bytes::from(vec![0; 64]);
    let keys: Vec<FlowKey> = (0..flows).map(|_| FlowKey(rng.next_u64())).collect();
    let order: Vec<u32> = (0..1 << 16).map(|_| rng.below(flows as u64) as u32).collect();
    let (mut passed, mut now) = (0, 0);
    let start = cpu();
    for row in 0..PACKETS / ROW {
        now += 10_000;
        for nth in 0..ROW {
            let key = keys[order[(row * ROW + nth) % order.len()] as usize];
            platform.offer(Nanos(now), GroupId(1), key, bytes.clone());
        }
        while let Some(work) = platform.next_work() {
            let ticket = work.ticket();
            let Work::Process { packets, .. } = work else { panic!("no slot is loaded") };
            let verdicts = packets.iter().map(|_| Verdict::Pass).collect();
            platform.complete(Nanos(now), ticket, Answer::Processed(verdicts));
        }
        while platform.next_packet().is_some() {
            passed += 1;
        }
        if Nanos(now) >= platform.next_tick() {
            platform.tick(Nanos(now));
        }
    }
    let took = cpu() - start;
    assert_eq!(passed, PACKETS / ROW * ROW, "no packet is lost");
    took * 1e9 / passed as f64
}

fn main() {
    println!("flows  functions  ns a packet (least to greatest)");
    for flows in [16, 1000, 100_000] {
        for functions in [1, 2, 3] {
            let mut all: Vec<f64> = (0..ROUNDS).map(|_| run(functions, flows)).collect();
            all.sort_by(f64::total_cmp);
            let (median, least, greatest) = (all[ROUNDS / 2], all[0], all[ROUNDS - 1]);
            println!("{flows:>6} {functions:>9}  {median:.0} ({least:.0} to {greatest:.0})");
        }
    }
}
