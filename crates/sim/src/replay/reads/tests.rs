//! Reads entered at once make the same books as reads entered one by one.

use crate::replay::{CacheReplay, Counts, ReplayOptions, SweepReplay};
use crate::workload::tests::{LINES_4K, request, workload_of};
use crate::workload::{Cut, Unit, Workload};
use thermocline_policy::registry::{Built, Geometry, PolicySpec};
use thermocline_trace::{Op, Request};
use thermocline_units::{Bytes, Rng};

/// Skewed reads inside single lines of two volumes, with sequential stretches.
fn reads() -> Vec<Request> {
    let mut rng = Rng::seeded(5);
    let mut one = |i: u64| {
        let volume = (i / 1000 % 2) as u32;
        let line = if i % 40 < 20 { i } else { (rng.unit_f64().powi(3) * 3000.0) as u64 };
        let (skip, length) = if rng.below(2) == 0 { (0, 4096) } else { (512, 1024) };
        request(i / 100, volume, Op::Read, line * 4096 + skip, length)
    };
    (0..60_000).map(&mut one).collect()
}

/// The workload, and the same with blocks that claim to hold writes.
fn plain_and_suspected(cut: Cut) -> [Workload; 2] {
    [false, true].map(|writes| {
        let mut workload = workload_of(reads(), cut).unwrap();
        for block in &mut workload.blocks {
            assert!(block.mix.is_reads_of_one_line());
            block.mix.writes = writes;
        }
        workload
    })
}

fn replayed(workload: &Workload, policy: &str) -> Counts {
    let geometry = Geometry { lines: 500, line_bytes: Bytes::from_kib(4), volumes: 2, seed: 1 };
    let spec = PolicySpec::parse(policy).unwrap();
    let Ok(Built::Cache(policy)) = spec.build(&geometry, None) else { panic!("a cache") };
    let mut replay = CacheReplay::new(policy, workload.names.unit(), &ReplayOptions::default());
    workload.blocks.iter().for_each(|block| replay.feed(&workload.names, block));
    replay.finish().0
}

fn swept(workload: &Workload) -> Vec<Counts> {
    let sizes = [10, 100, 101, 1500];
    let options = ReplayOptions::default();
    let mut replay = SweepReplay::new(&sizes, workload.names.unit(), &options).unwrap();
    workload.blocks.iter().for_each(|block| replay.feed(&workload.names, block));
    replay.finish().0
}

#[test]
fn reads_entered_at_once_make_the_same_books_as_one_by_one() {
    for cut in [LINES_4K, Cut { unit: Unit::Objects, chunk: None }] {
        let [plain, suspected] = plain_and_suspected(cut);
        for policy in ["fifo", "larc+lru", "arc"] {
            let counts = replayed(&plain, policy);
            assert_eq!(counts, replayed(&suspected, policy), "{policy}");
            assert!(counts.disk.reads.sequential > 0 && counts.evicted > 0);
            assert_eq!(counts.volumes.len(), 2);
        }
    }
}

#[test]
fn reads_entered_at_once_in_many_sizes_make_the_same_books_as_one_by_one() {
    for cut in [LINES_4K, Cut { unit: Unit::Objects, chunk: None }] {
        let [plain, suspected] = plain_and_suspected(cut);
        assert_eq!(swept(&plain), swept(&suspected));
    }
}
