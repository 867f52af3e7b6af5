//! Cost of recording: processor time and bytes a request, and time an epoch.
//!
//! `cargo run --release -p thermocline-sim --example recording_cost [REQUESTS]`
//!
//! Runs `fileserver` on the assumed pools under `static`, so that nothing but requests takes time,
//! with and without a recorder, alternately, five times each; then takes down views of many chunks.

#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thermocline_policy::placement::{Budget, PoolLoad, PoolTraits, VolumeView};
use thermocline_policy::registry::PolicySpec;
use thermocline_ports::Geometry;
use thermocline_recording::Recorder;
use thermocline_sim::machine::{Arrivals, Load, MachineOptions, PoolPlan, run, run_observed};
use thermocline_sim::synth::from_words;
use thermocline_trace::recording::Packer;
use thermocline_trace::synth::Synth;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};
use thermocline_volume::{Decision, Group, Observer, PoolSpec, Settings};

const REPEATS: usize = 5;

/// Bytes of records, and of the file.
#[derive(Default)]
struct Sizes {
    plain: AtomicU64,
    packed: AtomicU64,
}

fn recorder(group: &Group, sizes: &Arc<Sizes>, pack: bool) -> Box<dyn Observer> {
    let sizes = Arc::clone(sizes);
    let mut packer = Packer::default();
    Box::new(Recorder::new(group, move |block: Vec<u8>| {
        sizes.plain.fetch_add(block.len() as u64, Ordering::Relaxed);
        if pack {
            sizes.packed.fetch_add(packer.pack(&block).len() as u64, Ordering::Relaxed);
        }
        true
    }))
}

/// `chunks` chunks of one volume; every hundredth changes its pool when `turn` changes.
struct Many {
    chunks: u32,
    turn: u32,
}

impl VolumeView for Many {
    fn chunk_size(&self) -> Bytes {
        Bytes::from_mib(1)
    }

    fn epoch(&self) -> Nanos {
        Nanos::from_secs(300)
    }

    fn traits(&self, pool: PoolId) -> PoolTraits {
        PoolTraits::assumed(pool, self.pool_count())
    }

    fn load(&self, _: PoolId) -> PoolLoad {
        PoolLoad::default()
    }

    fn volume_count(&self) -> u32 {
        1
    }

    fn pool_count(&self) -> u16 {
        3
    }

    fn capacity_chunks(&self, _: PoolId) -> u64 {
        self.chunks.into()
    }

    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        let turn = if chunk.index.is_multiple_of(100) { self.turn } else { 0 };
        PoolId(((chunk.index / 1000 + turn) % 3) as u16)
    }

    fn used_chunks(&self, _: PoolId) -> u64 {
        u64::from(self.chunks) / 3
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        let chunks = (0..self.chunks).map(|index| ChunkId { volume: VolumeId(0), index });
        chunks.filter(|&chunk| self.pool_of(chunk) == pool).for_each(visit);
    }
}

fn main() {
    let requests = std::env::args()
        .nth(1)
        .map_or(1_000_000, |text| text.parse().expect("a number of requests"));
    let words = from_words(&format!("fileserver,requests={requests}")).expect("a preset");
    let load = {
        let mut synth = Synth::new(&words).expect("a preset can be made");
        Load::read(&mut synth, &|_| ()).expect("it fits in memory")
    };
    let spec = PolicySpec::parse("static").expect("it is in the registry");
    let arrivals = Arrivals::Closed { outstanding: 8 };
    let (pools, options) =
        (PoolPlan::assumed(), MachineOptions { arrivals, ..MachineOptions::default() });
    let sizes = Arc::new(Sizes::default());
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..REPEATS {
        let ran = run(&load, &pools, std::slice::from_ref(&spec), &options, &|_| ());
        let ran = ran.expect("the pools hold it");
        without.push(ran[0].cpu_s);
        let observer = |group: &Group| recorder(group, &sizes, false);
        with.push(
            run_observed(&load, &pools, &spec, &options, &observer).expect("as without").cpu_s,
        );
    }
    let (without, with) = (median(without), median(with));
    let each = |seconds: f64| seconds * 1e9 / requests as f64;
    println!("a request: {:.0} ns without, {:.0} ns with a recorder", each(without), each(with));
    let sizes = Arc::new(Sizes::default());
    let observer = |group: &Group| recorder(group, &sizes, true);
    run_observed(&load, &pools, &spec, &options, &observer).expect("as before");
    let bytes = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64 / requests as f64;
    println!(
        "a request: {:.1} B of records, {:.1} B packed",
        bytes(&sizes.plain),
        bytes(&sizes.packed)
    );
    views();
}

/// Seconds that this thread has spent on a processor; Linux counts it.
fn processor_s() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    let word = text.split_whitespace().next().expect("the first number is the time");
    word.parse::<f64>().expect("nanoseconds") / 1e9
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_unstable_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Takes down views of a million chunks, as a group of one pool would show them.
fn views() {
    let pool = PoolSpec {
        name: "pool".to_string(),
        geometry: Geometry { size: Bytes::from_gib(1), discard_zeroes: true, far: false },
        zeroed: true,
        reserve_chunks: 0,
    };
    let group = Group::create(Settings::default(), &[pool], 1).expect("a pool of 1 GiB will do");
    let sizes = Arc::new(Sizes::default());
    let mut observer = recorder(&group, &sizes, false);
    for turn in 0..3 {
        let view = Many { chunks: 1 << 20, turn };
        let from = processor_s();
        let at = Nanos(u64::from(turn) + 1);
        observer.decided(&Decision { at, view: &view, budget: Budget::UNLIMITED, moves: &[] });
        let (took, bytes) = (processor_s() - from, sizes.plain.swap(0, Ordering::Relaxed));
        println!("an epoch's view of 1,048,576 chunks: {:.1} ms, {bytes} B of records", took * 1e3);
    }
}
