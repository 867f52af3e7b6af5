//! HeMem's hotness against hand-worked epochs.

use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::tests::{build, propose_to, touch, write};

#[test]
fn eight_reads_or_four_writes_make_a_chunk_hot_and_the_first_goes_first() {
    let mut hemem = build("hemem");
    let view = Pools::new(&[9, 9], &[(0, 1), (1, 1), (2, 1), (3, 1)]);
    touch(hemem.as_mut(), chunk(0), 7);
    touch(hemem.as_mut(), chunk(1), 8);
    write(hemem.as_mut(), chunk(2), 4);
    write(hemem.as_mut(), chunk(3), 3);
    assert_eq!(propose_to(hemem.as_mut(), &view), [(1, 0), (2, 0)]);
    touch(hemem.as_mut(), chunk(0), 1);
    assert_eq!(
        propose_to(hemem.as_mut(), &view),
        [(1, 0), (2, 0), (0, 0)],
        "who was not moved keeps its place in the queue"
    );
}

/// A move of it was refused, and a chunk that was there had gone for it.
#[test]
fn a_chunk_on_no_pool_is_not_moved_and_nobody_makes_room_for_it() {
    let mut hemem = build("hemem");
    let mut view = Pools::new(&[1, 9], &[(0, 0)]);
    touch(hemem.as_mut(), chunk(5), 9);
    assert_eq!(propose_to(hemem.as_mut(), &view), []);
    view.at.insert(5, 1);
    touch(hemem.as_mut(), chunk(5), 1);
    assert_eq!(propose_to(hemem.as_mut(), &view), [(0, 1), (5, 0)]);
}

#[test]
fn a_counter_at_the_limit_halves_all_of_them() {
    let mut hemem = build("hemem");
    let view = Pools::new(&[9, 9], &[(0, 1), (1, 1)]);
    touch(hemem.as_mut(), chunk(0), 8);
    touch(hemem.as_mut(), chunk(1), 18);
    // The clock has ticked once: chunk 0 has 4 reads left, chunk 1 has 9.
    assert_eq!(propose_to(hemem.as_mut(), &view), [(1, 0)]);
    touch(hemem.as_mut(), chunk(0), 4);
    assert_eq!(propose_to(hemem.as_mut(), &view), [(1, 0), (0, 0)]);
}

#[test]
fn the_coldest_makes_room_and_a_hot_one_never() {
    let mut hemem = build("hemem");
    let view = Pools::new(&[3, 9, 9], &[(0, 0), (1, 0), (2, 0), (7, 2), (8, 2), (9, 2)]);
    touch(hemem.as_mut(), chunk(0), 8);
    touch(hemem.as_mut(), chunk(1), 2);
    (7..10).for_each(|index| touch(hemem.as_mut(), chunk(index), 8));
    assert_eq!(propose_to(hemem.as_mut(), &view), [(2, 1), (7, 0), (1, 1), (8, 0)]);
}
