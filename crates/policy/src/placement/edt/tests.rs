//! EDT against hand-worked epochs on three pools.

use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::tests::{build, propose_to, touch};
use crate::placement::{ChunkAccess, Placement, PoolLoad};
use thermocline_units::{Bytes, Nanos};

/// Reads the whole of a chunk of 1 MiB, in pieces of 64 KiB.
fn stream(edt: &mut dyn Placement, index: u32, times: u32) {
    for piece in (0..times).flat_map(|_| 0..16) {
        let (offset, bytes) = (Bytes(piece << 16), Bytes(1 << 16));
        let (at, chunk) = (Nanos(0), chunk(index));
        edt.observe(&ChunkAccess { at, chunk, offset, bytes, write: false });
    }
}

/// One of 40 chunks on each of the faster pools, the others on the disk.
fn pools() -> Pools {
    let at: Vec<_> = (0..40).map(|index| (index, index.min(2) as u16)).collect();
    Pools::new(&[4, 8, 100], &at)
}

#[test]
fn by_power_each_chunk_goes_where_what_it_consumes_takes_least_watts() {
    let mut edt = build("edt:by=power:memory=0");
    let view = pools();
    // An epoch of a second. A chunk takes 1/4, 1/8 and 1/100 of space: at 12, 4 and 8 W that are 3,
    // 0.5 and 0.08 W. Of six reads the first, at the chunk's beginning, counts as sequential; the
    // other five are 5/80 of the disk, 0.5 W, so all six are more, and the SATA SSD is cheaper. A
    // stream of 1 MiB, 256 of 35,000 units, is 0.06 W.
    touch(edt.as_mut(), chunk(10), 4);
    touch(edt.as_mut(), chunk(11), 1);
    let random = |edt: &mut dyn Placement, index: u32, times: u64| {
        // Another chunk between two reads makes them random.
        for _ in 0..times {
            touch(edt, chunk(index), 1);
            touch(edt, chunk(39), 1);
        }
    };
    random(edt.as_mut(), 12, 6);
    stream(edt.as_mut(), 13, 1);
    let moves = propose_to(edt.as_mut(), &view);
    // The idle chunks 0 and 1 sink to the disk, 12 and 39 rise to the SSD; the fastest pool, at 3 W
    // a chunk, is for nobody.
    assert_eq!(moves, [(12, 1), (39, 1), (1, 2), (0, 2)]);
}

#[test]
fn by_time_the_heaviest_fill_the_fastest_pool_and_idle_chunks_stay() {
    let mut edt = build("edt:memory=0");
    let mut view = pools();
    view.places = vec![2, 8, 100];
    for index in [20, 21, 22] {
        stream(edt.as_mut(), index, index - 19);
    }
    // Streams of 1, 2 and 3 MiB. Two places above all: the idle chunk 0 makes room for 21, and 20
    // goes to the second pool.
    assert_eq!(propose_to(edt.as_mut(), &view), [(22, 0), (20, 1), (0, 2), (21, 0)]);
}

#[test]
fn a_pool_without_time_left_takes_no_more_chunks() {
    let mut edt = build("edt:by=power:watts=1000/100/1:memory=0:headroom=0.5");
    let at: Vec<_> = (0..4).map(|index| (index, 2)).collect();
    let view = Pools::new(&[9, 9, 9], &at);
    // At these powers everybody wants to stay on the disk. 20 random reads are a quarter of its
    // time, and half of it is to be had.
    for round in (0..20).rev() {
        for index in 0..4 {
            let (offset, bytes) = (Bytes(4096 + round * 8192), Bytes(4096));
            let (at, chunk) = (Nanos(0), chunk(index));
            edt.observe(&ChunkAccess { at, chunk, offset, bytes, write: false });
        }
    }
    assert_eq!(propose_to(edt.as_mut(), &view), [(2, 1), (3, 1)]);
}

#[test]
fn an_overloaded_pool_takes_nothing_and_sheds_its_heaviest() {
    let mut edt = build("edt:memory=0:shed=0.3");
    let mut view = Pools::new(&[9, 9, 9], &[(0, 0), (1, 0), (2, 0), (3, 2)]);
    let feed = |edt: &mut dyn Placement| {
        for (index, times) in [(0, 1), (1, 3), (2, 2), (3, 5)] {
            stream(edt, index, times);
        }
    };
    feed(edt.as_mut());
    let calm = PoolLoad {
        reads: 96,
        read_bytes: Bytes(96 << 16),
        read_latency: Nanos(70_000),
        ..PoolLoad::default()
    };
    view.loads[0] = calm;
    assert_eq!(propose_to(edt.as_mut(), &view), [(3, 0)]);
    feed(edt.as_mut());
    view.loads[0] = PoolLoad { read_latency: Nanos(7_000_000), ..calm };
    // The heaviest, 3 of 6 MiB, is more than three tenths; it goes to the next pool, as does 3.
    assert_eq!(propose_to(edt.as_mut(), &view), [(3, 1), (1, 1)]);
}

#[test]
fn a_pool_that_never_was_as_fast_as_its_traits_say_is_not_overloaded() {
    let mut edt = build("edt:memory=0");
    let mut view = Pools::new(&[9, 9, 9], &[(0, 0), (3, 2)]);
    let slow = PoolLoad {
        reads: 96,
        read_bytes: Bytes(96 << 16),
        read_latency: Nanos(7_000_000),
        ..PoolLoad::default()
    };
    view.loads[0] = slow;
    for _ in 0..2 {
        stream(edt.as_mut(), 0, 1);
        stream(edt.as_mut(), 3, 5);
        assert_eq!(propose_to(edt.as_mut(), &view), [(3, 0)]);
    }
}

#[test]
fn demand_fades_by_half_and_is_gone_in_the_end() {
    let mut edt = build("edt");
    let mut view = Pools::new(&[1, 9], &[(0, 1), (1, 1)]);
    stream(edt.as_mut(), 0, 4);
    view.at.extend(propose_to(edt.as_mut(), &view));
    assert_eq!(view.at[&0], 0);
    stream(edt.as_mut(), 1, 1); // half of 1 MiB against half of half of 4
    assert_eq!(propose_to(edt.as_mut(), &view), []);
    stream(edt.as_mut(), 1, 1); // half of 1 and half of half, against half of half of half of 4
    assert_eq!(propose_to(edt.as_mut(), &view), [(0, 1), (1, 0)]);
}

/// The fastest pool has two chunks more than it should: those that leave it make no room before
/// there are places again.
#[test]
fn a_pool_that_is_more_than_full_keeps_what_it_has_places_for() {
    let mut edt = build("edt:memory=0");
    let at: Vec<_> = (0..40).map(|index| (index, if index < 4 { 0 } else { 2 })).collect();
    let view = Pools::new(&[2, 8, 100], &at);
    for (index, times) in [(0, 1), (1, 2), (2, 3), (3, 4), (20, 5)] {
        stream(edt.as_mut(), index, times);
    }
    assert_eq!(propose_to(edt.as_mut(), &view), [(0, 1), (1, 1), (2, 1), (20, 0)]);
}
