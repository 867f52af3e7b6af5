//! The greedy placements against hand-worked epochs on three pools.

use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::tests::{build, propose_to, touch};
use crate::placement::{ChunkAccess, Placement};
use thermocline_units::{Bytes, Nanos};

fn read(placement: &mut dyn Placement, index: u32, bytes: u64, times: u32) {
    let access = ChunkAccess {
        at: Nanos(0),
        chunk: chunk(index),
        offset: Bytes(0),
        bytes: Bytes(bytes),
        write: false,
    };
    (0..times).for_each(|_| placement.observe(&access));
}

#[test]
fn the_busiest_chunks_fill_pool_after_pool() {
    let mut placement = build("iops-only");
    let at: Vec<_> = (0..6).map(|index| (index, 2)).collect();
    let mut view = Pools::new(&[1, 2, 9], &at);
    for (index, times) in [(0, 3), (1, 9), (2, 5), (3, 7), (4, 1)] {
        touch(placement.as_mut(), chunk(index), times);
    }
    let moves = propose_to(placement.as_mut(), &view);
    assert_eq!(moves, [(1, 0), (3, 1), (2, 1)]);
    view.at.extend(moves);
    // Chunk 0 becomes the busiest, 1 the second: 1 makes room, and so does one of those that were
    // not touched.
    touch(placement.as_mut(), chunk(0), 8);
    touch(placement.as_mut(), chunk(1), 7);
    assert_eq!(propose_to(placement.as_mut(), &view), [(3, 2), (1, 1), (0, 0)]);
}

#[test]
fn nothing_moves_without_accesses_and_equals_do_not_chase_each_other() {
    for name in ["iops-only", "edt-strawman"] {
        let mut placement = build(name);
        let view = Pools::new(&[1, 1, 9], &[(8, 0), (9, 1), (0, 2), (1, 2)]);
        assert_eq!(propose_to(placement.as_mut(), &view), [], "{name}");
        (0..10).for_each(|index| touch(placement.as_mut(), chunk(index), 2));
        assert_eq!(propose_to(placement.as_mut(), &view), [], "{name}");
    }
}

#[test]
fn the_strawman_counts_bytes_where_the_other_counts_requests() {
    // On the slowest pool, a disk: 35,000 units of 4 KiB a second in a stream, 80 random requests.
    let view = Pools::new(&[1, 9], &[(0, 1), (1, 1)]);
    let requests = |placement: &mut dyn Placement| {
        read(placement, 0, 1 << 20, 3); // the first from the chunk's beginning on: 3 × 256 units
        read(placement, 1, 4096, 5);
    };
    let (mut iops, mut strawman) = (build("iops-only"), build("edt-strawman"));
    requests(iops.as_mut());
    requests(strawman.as_mut());
    assert_eq!(propose_to(iops.as_mut(), &view), [(1, 0)]);
    assert_eq!(propose_to(strawman.as_mut(), &view), [(0, 0)]);
}
