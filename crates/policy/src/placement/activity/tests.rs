//! Sequential accesses, overwrites, and places of chunks.

use super::Activity;
use crate::placement::ChunkAccess;
use crate::placement::tests::pools::{Pools, chunk};
use thermocline_units::{Bytes, Nanos, PoolId, Rng};

const KIB: u64 = 1024;

fn access(index: u32, offset_kib: u64, kib: u64, write: bool) -> ChunkAccess {
    let (offset, bytes) = (Bytes(offset_kib * KIB), Bytes(kib * KIB));
    ChunkAccess { at: Nanos(0), chunk: chunk(index), offset, bytes, write }
}

#[test]
fn an_access_near_the_end_of_the_one_before_in_its_volume_is_sequential() {
    let mut activity = Activity::default();
    let first = activity.record(&access(0, 500, 4, false));
    activity.record(&access(0, 1000, 24, false)); // 496 KiB on
    activity.record(&access(0, 100, 4, true)); // 924 KiB back
    let second = activity.record(&access(1, 600, 8, false)); // 1,520 KiB on
    let third = activity.record(&access(2, 50, 8, false)); // 466 KiB on, in the next chunk
    activity.catch_up();
    let counts = activity.counts(first);
    // Random reads and writes, sequential reads and writes.
    assert_eq!(counts.by_pattern(), [1, 1, 1, 0]);
    assert_eq!((counts.bytes(), counts.bytes_written()), (32 * KIB, 4 * KIB));
    assert_eq!(activity.counts(second).by_pattern(), [1, 0, 0, 0]);
    assert_eq!(activity.counts(third).by_pattern(), [0, 0, 1, 0]);
}

#[test]
fn streams_side_by_side_are_sequential_each() {
    let mut activity = Activity::default();
    for step in 0..8 {
        for stream in [0, 100, 200] {
            activity.record(&access(stream, step * 64, 64, false));
        }
    }
    activity.catch_up();
    for number in 0..3 {
        let counts = activity.counts(number);
        // Only a chunk's beginning counts as a continuation without having been one.
        assert_eq!(counts.by_pattern(), [0, 0, 8, 0]);
    }
    let demand = activity.counts(0).demand(0.5);
    assert_eq!((demand.sequential_read_bytes, demand.random_read_bytes), (262_144.0, 0.0));
}

#[test]
fn a_write_of_pages_that_were_all_written_is_an_overwrite() {
    let mut activity = Activity::default();
    let number = activity.record(&access(5, 0, 16, true));
    for (offset, kib, overwrites) in [(0, 4, 1), (12, 8, 1), (16, 16, 1), (0, 1024, 1), (1, 900, 2)]
    {
        activity.record(&access(5, offset, kib, true));
        activity.catch_up();
        assert_eq!(activity.counts(number).overwrites, overwrites, "{kib} KiB at {offset}");
    }
    activity.look(&Pools::new(&[1, 9], &[]));
    activity.advance();
    activity.record(&access(5, 0, 4, true));
    activity.catch_up();
    assert_eq!(activity.counts(number).overwrites, 0, "what earlier epochs wrote is forgotten");
}

#[test]
fn chunks_above_the_slowest_pool_count_though_nobody_touched_them() {
    let mut activity = Activity::default();
    activity.record(&access(7, 0, 4, false));
    activity.record(&access(3, 0, 4, false));
    activity.look(&Pools::new(&[9, 9, 9], &[(1, 0), (2, 1), (3, 1), (4, 2)]));
    let standing: Vec<(u32, PoolId)> = activity
        .standing()
        .map(|number| (activity.chunks.id(number).index, activity.pool_of(number)))
        .collect();
    let [fast, middle, slow] = [0, 1, 2].map(PoolId);
    assert_eq!(standing, [(7, slow), (3, middle), (1, fast), (2, middle)]);
}

#[test]
fn counters_saturate_instead_of_wrapping() {
    let mut activity = Activity::default();
    let whole = ChunkAccess { bytes: Bytes(1 << 40), ..access(0, 0, 0, true) };
    (0..5).for_each(|_| _ = activity.record(&whole));
    activity.catch_up();
    // The first is sequential, 2³¹ sectors of it; the other four are not, and too many.
    let sectors = (1 << 31) + u64::from(u32::MAX);
    assert_eq!(activity.counts(0).bytes_written(), sectors * 512);
}

#[test]
fn accesses_that_wait_are_counted_in_their_order() {
    let mut rng = Rng::seeded(4);
    let all: Vec<ChunkAccess> = (0..5000)
        .map(|_| {
            let (index, offset) = (rng.below(12) as u32, rng.below(60) * 16);
            access(index, offset, 4 << rng.below(4), rng.below(2) == 0)
        })
        .collect();
    let (mut eager, mut lazy) = (Activity::default(), Activity::default());
    for access in &all {
        eager.record(access);
        eager.catch_up();
        lazy.record(access);
    }
    lazy.catch_up();
    for number in 0..12 {
        let told = |activity: &Activity| format!("{:?}", activity.counts(number));
        assert!(eager.counts(number).accesses() > 300 && eager.counts(number).overwrites > 0);
        assert_eq!(told(&lazy), told(&eager), "chunk {number}");
    }
}

/// A chunk had 64 cells: of 20,000 random writes over 256 MiB, no page of which was written twice,
/// 99.7 % counted as overwrites at large chunks, and 42 % at chunks of 1 MiB.
#[test]
fn random_writes_of_which_none_comes_twice_overwrite_nothing() {
    let mut pages: Vec<u64> = (0..(256 << 20) / 4096).collect();
    Rng::seeded(9).shuffle(&mut pages);
    for chunk_mib in [1, 4, 64, 256] {
        let mut activity = Activity::default();
        activity.set_chunk_size(Bytes::from_mib(chunk_mib));
        let chunk_pages = chunk_mib * 256;
        for round in 0..2 {
            for page in &pages[..20_000] {
                let index = (page / chunk_pages) as u32;
                activity.record(&access(index, page % chunk_pages * 4, 4, true));
            }
            activity.catch_up();
            let chunks: Vec<u32> = activity.touched().collect();
            let overwrites: u32 = chunks.iter().map(|c| activity.counts(*c).overwrites).sum();
            assert_eq!(overwrites, 20_000 * round, "chunks of {chunk_mib} MiB");
        }
        activity.advance();
        activity.record(&access(0, 0, 4, true));
        activity.catch_up();
        assert_eq!(activity.counts(0).overwrites, 0, "another epoch knows nothing of this one");
    }
}
