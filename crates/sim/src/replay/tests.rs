//! Small traces worked out by hand: who hits, and what each device is made to do.

use super::cost::Profile;
use super::counts::SourceIos;
use super::{
    CacheReplay, Counts, FlashReplay, ReplayOptions, SweepReplay, Traffic, Warmup, WriteMode,
};
use crate::workload::tests::{LINES_4K, request, workload_of};
use crate::workload::{Cut, Workload};
use thermocline_policy::cache::CachePolicy;
use thermocline_policy::placement::{Budget, ChunkAccess, Move, Placement, VolumeView};
use thermocline_policy::registry::{Built, Geometry, PolicySpec};
use thermocline_trace::Op::{Read, Trim, Write};
use thermocline_trace::Request;
use thermocline_units::{Bytes, Nanos, PoolId};

const KIB: u64 = 1024;

fn lru_cache(lines: u32) -> Box<dyn CachePolicy> {
    let geometry = Geometry { lines, line_bytes: Bytes::from_kib(4), volumes: 2, seed: 1 };
    let spec = PolicySpec::parse("lru").unwrap();
    let Ok(Built::Cache(policy)) = spec.build(&geometry, None) else { panic!("lru is a cache") };
    policy
}

fn lru_over(workload: &Workload, lines: u32, options: &ReplayOptions) -> Counts {
    let options = ReplayOptions { warmup: options.warmup.of(workload.heads()), ..*options };
    let mut replay = CacheReplay::new(lru_cache(lines), workload.names.unit(), &options);
    workload.blocks.iter().for_each(|block| replay.feed(&workload.names, block));
    replay.finish().0
}

fn lru(requests: Vec<Request>, lines: u32, options: &ReplayOptions) -> Counts {
    lru_over(&workload_of(requests, LINES_4K).unwrap(), lines, options)
}

fn back() -> ReplayOptions {
    ReplayOptions::default()
}

fn random(ios: u64, bytes: u64) -> Traffic {
    Traffic { random: ios, random_bytes: bytes, ..Traffic::default() }
}

#[test]
fn a_request_hits_only_when_all_its_lines_are_there() {
    let requests = vec![
        request(0, 0, Read, 0, 4 * KIB),
        request(1, 0, Read, 0, 8 * KIB),
        request(2, 0, Read, 0, 8 * KIB),
    ];
    let counts = lru(requests, 8, &back());
    assert_eq!((counts.reads.requests, counts.reads.request_hits), (3, 1));
    assert_eq!((counts.reads.lines, counts.reads.line_hits), (5, 3));
    assert_eq!((counts.reads.bytes, counts.reads.byte_hits), (20 * KIB, 12 * KIB));
}

#[test]
fn table_10_is_charged_case_by_case() {
    let requests = vec![
        request(0, 0, Read, 0, 4 * KIB),  // read miss: MD read, SSD write
        request(1, 0, Read, 0, 4 * KIB),  // read hit: SSD read
        request(2, 0, Write, 0, 4 * KIB), // write hit: SSD write
        request(3, 0, Write, 40 * KIB, 4 * KIB), // write miss: SSD write
        request(4, 0, Read, 80 * KIB, 4 * KIB), // evicts dirty line 0: SSD read, MD write
    ];
    let counts = lru(requests, 2, &back());
    let expected = SourceIos { flash_reads: 2, flash_writes: 4, disk_reads: 2, disk_writes: 1 };
    assert_eq!(counts.source, expected);
    assert_eq!((counts.evicted, counts.written_back), (1, 1));
    // Eq. 21 with Table 11's random 4 KiB row, in µs.
    let cost = Profile::source().cost(&counts, Bytes::from_kib(4));
    assert_eq!(cost.source, Nanos((2 * 135 + 4 * 58 + 2 * 7671 + 3922) * 1000));
    assert_eq!(cost.real, cost.source, "all I/Os are random and of 4 KiB");
    assert_eq!(cost.flash_written, Bytes(16 * KIB));
}

#[test]
fn at_real_sizes_contiguous_lines_are_one_io() {
    let requests = vec![request(0, 0, Read, 0, 64 * KIB), request(1, 0, Read, 0, 64 * KIB)];
    let counts = lru(requests, 64, &back());
    assert_eq!(counts.disk.reads, random(1, 64 * KIB));
    assert_eq!(counts.flash_writes, random(1, 64 * KIB));
    assert_eq!(counts.flash_reads, random(1, 64 * KIB));
    assert_eq!(counts.source.disk_reads, 16);
}

#[test]
fn a_disk_read_that_starts_at_the_head_is_sequential() {
    let requests = vec![
        request(0, 0, Read, 0, 8 * KIB),
        request(1, 0, Read, 8 * KIB, 8 * KIB),
        request(2, 1, Read, 16 * KIB, 8 * KIB),
    ];
    let counts = lru(requests, 64, &back());
    assert_eq!((counts.disk.reads.random, counts.disk.reads.sequential), (2, 1));
}

#[test]
fn a_partial_write_of_an_absent_line_reads_the_line_first() {
    let counts = lru(vec![request(0, 0, Write, 512, 512)], 8, &back());
    assert_eq!(counts.disk.reads, random(1, 4 * KIB));
    assert_eq!(counts.flash_writes, random(1, 4 * KIB));
    let counts = lru(vec![request(0, 0, Write, 0, 4 * KIB)], 8, &back());
    assert_eq!(counts.disk.reads, Traffic::default());
}

#[test]
fn a_long_write_reads_only_the_lines_that_it_covers_in_part() {
    let write = |offset, bytes| lru(vec![request(0, 0, Write, offset, bytes)], 64, &back());
    // Lines 0 to 8, of which the first and the last are covered in part: 4 of 36 KiB each.
    let both = write(512, 32 * KIB).disk.reads;
    assert_eq!((both.random + both.sequential, both.random_bytes), (2, 8 * KIB));
    assert_eq!(write(512, 32 * KIB - 512).disk.reads, random(1, 4 * KIB), "the first");
    assert_eq!(write(0, 32 * KIB + 512).disk.reads, random(1, 4 * KIB), "the last");
    assert_eq!(write(512, 4 * KIB).disk.reads, random(1, 8 * KIB), "two neighbours");
    assert_eq!(write(512, 4 * KIB).flash_writes, random(1, 8 * KIB));
}

#[test]
fn dirty_neighbours_evicted_together_are_written_back_as_one_io() {
    let requests =
        vec![request(0, 0, Write, 0, 16 * KIB), request(1, 0, Read, 400 * KIB, 16 * KIB)];
    let counts = lru(requests, 4, &back());
    assert_eq!((counts.written_back, counts.source.disk_writes), (4, 4));
    assert_eq!(counts.disk.writes, random(1, 16 * KIB));
}

#[test]
fn write_through_leaves_nothing_dirty() {
    let requests = vec![request(0, 0, Write, 0, 4 * KIB), request(1, 0, Read, 40 * KIB, 4 * KIB)];
    let options = ReplayOptions { write_mode: WriteMode::Through, ..back() };
    let counts = lru(requests, 1, &options);
    assert_eq!((counts.evicted, counts.written_back), (1, 0));
    assert_eq!(counts.disk.writes, random(1, 4 * KIB));
}

#[test]
fn a_write_around_the_cache_drops_the_cached_copy() {
    let requests = vec![
        request(0, 0, Read, 0, 4 * KIB),
        request(1, 0, Write, 0, 4 * KIB),
        request(2, 0, Read, 0, 4 * KIB),
    ];
    let options = ReplayOptions { write_mode: WriteMode::Around, ..back() };
    let counts = lru(requests, 8, &options);
    assert_eq!(counts.total().request_hits, 0);
    assert_eq!(counts.disk.writes, random(1, 4 * KIB));
    assert_eq!(counts.flash_writes, random(2, 8 * KIB));
}

#[test]
fn a_discarded_dirty_line_is_never_written_back() {
    let requests = vec![
        request(0, 0, Write, 0, 4 * KIB),
        request(1, 0, Trim, 0, 4 * KIB),
        request(2, 0, Read, 40 * KIB, 4 * KIB),
        request(3, 0, Read, 80 * KIB, 4 * KIB),
    ];
    let counts = lru(requests, 1, &back());
    assert_eq!((counts.evicted, counts.written_back), (1, 0));
    assert_eq!(counts.total().requests, 3);
}

#[test]
fn the_warm_up_is_played_but_not_counted() {
    let requests = vec![request(0, 0, Read, 0, 4 * KIB), request(100, 0, Read, 0, 4 * KIB)];
    let warmups = [Warmup::Fraction(0.5), Warmup::Requests(1), Warmup::Time(Nanos::from_secs(10))];
    for warmup in warmups {
        let counts = lru(requests.clone(), 8, &ReplayOptions { warmup, ..back() });
        assert_eq!((counts.reads.requests, counts.reads.request_hits), (1, 1), "{warmup:?}");
        assert_eq!(counts.volumes[0].requests, 1);
    }
}

#[test]
fn volumes_are_told_apart() {
    let requests = vec![
        request(0, 0, Read, 0, 4 * KIB),
        request(1, 1, Read, 0, 4 * KIB),
        request(2, 1, Read, 0, 4 * KIB),
    ];
    let counts = lru(requests, 8, &back());
    assert_eq!((counts.volumes[0].requests, counts.volumes[0].request_hits), (1, 0));
    assert_eq!((counts.volumes[1].requests, counts.volumes[1].request_hits), (2, 1));
}

/// Puts every chunk it saw in the last epoch on flash, and takes the others off first.
#[derive(Default)]
struct LastEpoch {
    seen: std::collections::BTreeSet<thermocline_units::ChunkId>,
    here: std::collections::BTreeSet<thermocline_units::ChunkId>,
}

impl Placement for LastEpoch {
    fn observe(&mut self, access: &ChunkAccess) {
        self.seen.insert(access.chunk);
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, _: Budget, moves: &mut Vec<Move>) {
        let seen = std::mem::take(&mut self.seen);
        for &chunk in self.here.difference(&seen) {
            moves.push(Move::to(chunk, PoolId(1)));
        }
        for &chunk in seen.difference(&self.here) {
            assert_eq!(view.pool_of(chunk), PoolId(1));
            moves.push(Move::to(chunk, PoolId(0)));
        }
        self.here = seen;
    }

    fn footprint(&self) -> thermocline_policy::Footprint {
        thermocline_policy::Footprint::default()
    }
}

fn chunked(requests: Vec<Request>) -> Workload {
    workload_of(requests, Cut { chunk: Some(Bytes::from_mib(1)), ..LINES_4K }).unwrap()
}

#[test]
fn migrations_move_whole_chunks_in_ios_of_128_kib_at_the_end_of_the_epoch() {
    let mib = 1 << 20;
    let workload = chunked(vec![
        request(0, 0, Read, 0, 4 * KIB),               // miss: on disk
        request(301, 0, Write, 0, 4 * KIB),            // hit: migrated in at 300 s
        request(302, 0, Read, mib - 4 * KIB, 8 * KIB), // second chunk not there: no hit
        request(601, 0, Read, 9 * mib, 4 * KIB),
        request(901, 0, Read, 20 * mib, 4 * KIB), // chunk 0 left dirty at 900 s
    ]);
    let placement = Box::new(LastEpoch::default());
    let mut replay = FlashReplay::new(placement, 8, &ReplayOptions::default());
    workload.blocks.iter().for_each(|block| replay.feed(&workload.names, block));
    let (counts, _) = replay.finish();
    let total = counts.total();
    assert_eq!((total.requests, total.request_hits), (5, 1));
    assert_eq!((total.lines, total.line_hits), (6, 2), "in lines of 4 KiB, not in chunks");
    assert_eq!((counts.admitted, counts.evicted, counts.written_back), (3, 2, 1));
    assert_eq!(counts.moved, 4 * mib);
    let expected = SourceIos {
        flash_reads: 8 + 1,
        flash_writes: 3 * 8 + 1,
        disk_reads: 3 * 8 + 4,
        disk_writes: 8,
    };
    assert_eq!(counts.source, expected);
    // A chunk is read as one seek and seven sequential I/Os; the request at 302 s continues
    // where the migration of chunk 0 left the head.
    assert_eq!(counts.disk.reads.sequential, 3 * 7 + 1);
}

#[test]
fn moves_of_the_warm_up_are_not_counted() {
    let mib = 1 << 20;
    let workload = chunked(vec![
        request(0, 0, Read, 0, 4 * KIB),
        request(301, 0, Read, 9 * mib, 4 * KIB), // chunk 0 comes at 300 s
        request(601, 0, Read, 9 * mib, 4 * KIB), // chunk 9 comes at 600 s, and counts
    ]);
    for (warmup, admitted) in [(0, 2), (1, 1), (2, 0)] {
        let placement = Box::new(LastEpoch::default());
        let options = ReplayOptions { warmup: Warmup::Requests(warmup), ..back() };
        let mut replay = FlashReplay::new(placement, 8, &options);
        workload.blocks.iter().for_each(|block| replay.feed(&workload.names, block));
        let (counts, _) = replay.finish();
        assert_eq!((counts.admitted, counts.moved), (admitted, admitted * mib), "{warmup}");
    }
}

/// Reads, writes and discards of all shapes over two volumes, in a few hundred lines.
fn jumble(seed: u64, count: u64) -> Vec<Request> {
    let mut rng = thermocline_units::Rng::seeded(seed);
    let mut one = |i| {
        let op = match rng.below(20) {
            0 => Trim,
            1..=8 => Write,
            _ => Read,
        };
        let offset = (rng.unit_f64().powi(3) * 400.0) as u64 * 2 * KIB;
        request(i / 3, rng.below(2) as u32, op, offset, 512 * (1 + rng.below(40)))
    };
    (0..count).map(&mut one).collect()
}

#[test]
fn a_sweep_counts_for_every_size_what_its_own_replay_counts() {
    let sizes = [1, 2, 3, 5, 8, 13, 40, 100, 230, 10_000];
    let workload = workload_of(jumble(4, 30_000), LINES_4K).unwrap();
    for write_mode in [WriteMode::Back, WriteMode::Through, WriteMode::Around] {
        for warmup in [Warmup::Fraction(0.0), Warmup::Requests(7_000)] {
            let options = ReplayOptions { write_mode, warmup, ..back() };
            let mut sweep = SweepReplay::new(&sizes, workload.names.unit(), &options).unwrap();
            workload.blocks.iter().for_each(|block| sweep.feed(&workload.names, block));
            for (size, swept) in sizes.iter().zip(sweep.finish().0) {
                let alone = lru_over(&workload, *size, &options);
                assert_eq!(swept, alone, "{write_mode} at {size} lines");
            }
        }
    }
}

#[test]
fn hits_and_misses_add_up_to_what_was_asked_for() {
    let requests = jumble(8, 5_000);
    let bytes: u64 = requests.iter().filter(|r| r.op != Trim).map(|r| r.length.0).sum();
    let count = requests.iter().filter(|r| r.op != Trim).count() as u64;
    let counts = lru(requests, 50, &back());
    let total = counts.total();
    assert_eq!((total.requests, total.bytes), (count, bytes));
    assert!(total.byte_hits <= bytes && total.line_hits <= total.lines);
    let by_volume: u64 = counts.volumes.iter().map(|volume| volume.request_hits).sum();
    assert_eq!(by_volume, total.request_hits);
    assert_eq!(counts.admitted, total.lines - total.line_hits, "LRU admits every miss");
}
