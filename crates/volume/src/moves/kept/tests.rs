//! Copies that moves left behind: which may stay, which go first, and what writes do to them.

use super::{GONE_MAX, KeptCopies, may_stay, places_to_write};
use crate::group_state::GroupState;
use crate::group_state::tests::{
    FAR, FAST, SLOW, add_copy, chunk, fill, group, group_with, put, settings, take_slot,
};
use crate::map::block_checksums::BlockChecksums;
use crate::map::overlay::Goal;
use crate::map::place::{Place, Role};
use crate::moves::active::ActiveOperation;
use crate::moves::active::tests::{begin, copying};
use crate::moves::operation::OperationKind;
use crate::pools::pool::PoolState;
use crate::settings::Settings;
use crate::tests::tactics;
use thermocline_units::{Nanos, PoolId};

/// The first three chunks are on the fast pool, and each has left a copy on the slow one, in this
/// order; so many slots of that are free, of the four that it keeps free.
fn left_behind(order: [u32; 3], free: u32) -> (GroupState, KeptCopies) {
    let total = group().pools[SLOW].slots.total();
    let tactics = tactics(&[&format!("keep-old:one-in={}", total / 4)]);
    let mut group = group_with(Settings { tactics, ..settings() });
    let mut kept = KeptCopies::default();
    for index in order {
        put(&mut group, chunk(index), FAST);
        add_copy(&mut group, chunk(index), SLOW, Role::Kept);
        kept.add(&group, chunk(index), SLOW);
    }
    let slots = fill(&mut group, SLOW);
    let last = group.pools[SLOW].slots.total();
    (0..free.min(slots)).for_each(|n| group.pools[SLOW].slots.give_back(last - 1 - n, false));
    (group, kept)
}

/// Chunks that still have their slow copies.
fn with_copies(group: &GroupState) -> Vec<u32> {
    (0..3).filter(|&index| group.map.kept_copy(chunk(index)).is_some()).collect()
}

#[test]
fn a_copy_stays_only_where_a_placement_has_moved_a_whole_chunk_up() {
    let mut group = group();
    let [slow, fast, far] = [SLOW, FAST, FAR].map(|pool| take_slot(&mut group, pool));
    let moved = |from: Place, to: Place| {
        let operation = copying(OperationKind::Migrate, chunk(0), from, to);
        ActiveOperation { proposed: true, ..operation }
    };
    assert!(may_stay(&group, &moved(slow, fast)));
    let ordered = ActiveOperation { proposed: false, ..moved(slow, fast) };
    let sides = ActiveOperation { goal: Some(Goal::Above), ..moved(slow, fast) };
    for (what, operation) in [
        ("it was ordered", ordered),
        ("the chunk was in two parts", sides),
        ("the chunk went down", moved(fast, slow)),
        ("the copy is across a network", moved(far, fast)),
    ] {
        assert!(!may_stay(&group, &operation), "{what}");
    }
    group.pools[SLOW].state = PoolState::Draining;
    assert!(!may_stay(&group, &moved(slow, fast)), "its pool is drained");
    group.pools[SLOW].state = PoolState::Active;
    fill(&mut group, SLOW);
    assert!(!may_stay(&group, &moved(slow, fast)), "its room is wanted");
}

#[test]
fn the_oldest_copies_go_and_no_more_than_are_wanted() {
    let (mut group, mut kept) = left_behind([2, 0, 1], 2);
    assert!(kept.are_in_the_way(&group));
    kept.make_room(&mut group, &mut BlockChecksums::default());
    assert_eq!((with_copies(&group), kept.len()), (vec![1], 1));
    assert_eq!(group.pools[SLOW].kept, 1);
    kept.make_room(&mut group, &mut BlockChecksums::default());
    assert_eq!(with_copies(&group), [1], "slots are counted when a commit has freed them");
    group.now = Nanos(1_000_000_000);
    kept.make_room(&mut group, &mut BlockChecksums::default());
    assert_eq!((with_copies(&group), kept.len()), (vec![], 0));
}

#[test]
fn copies_stay_where_there_is_room_and_under_operations() {
    let (mut group, mut kept) = left_behind([0, 1, 2], 4);
    kept.make_room(&mut group, &mut BlockChecksums::default());
    assert!(!kept.are_in_the_way(&group) && with_copies(&group).len() == 3);
    let (mut group, mut kept) = left_behind([0, 1, 2], 3);
    let places: Vec<Place> = group.map.copies(chunk(0)).map(|copy| copy.place).collect();
    begin(&mut group, copying(OperationKind::Replicate, chunk(0), places[0], places[1]));
    kept.make_room(&mut group, &mut BlockChecksums::default());
    assert_eq!(with_copies(&group), [0, 2], "the next one goes in its place");
}

#[test]
fn a_write_drops_the_copy_that_the_journal_calls_different_and_writes_others() {
    let (mut group, mut checksums) = (group(), BlockChecksums::default());
    let first = put(&mut group, chunk(0), FAST);
    let kept = add_copy(&mut group, chunk(0), SLOW, Role::Kept);
    assert_eq!(places_to_write(&mut group, &mut checksums, chunk(0)), [first, kept]);
    group.map.call_differing(chunk(0));
    assert_eq!(places_to_write(&mut group, &mut checksums, chunk(0)), [first]);
    assert!(group.map.kept_copy(chunk(0)).is_none() && group.pools[SLOW].kept == 0);
    assert!(!group.map.is_busy(chunk(0)), "nothing is waited for");
}

#[test]
fn a_copy_that_is_left_again_is_the_youngest_and_those_that_went_are_forgotten() {
    let (mut group, mut kept) = left_behind([0, 1, 2], 3);
    kept.add(&group, chunk(0), SLOW);
    assert_eq!(kept.len(), 3);
    kept.make_room(&mut group, &mut BlockChecksums::default());
    assert_eq!(with_copies(&group), [0, 2]);
    let there = kept.len();
    for pool in 0..2 * GONE_MAX as u16 {
        kept.add(&group, chunk(3), PoolId(100 + pool));
    }
    assert!(kept.len() < there + GONE_MAX + 3, "{}", kept.len());
    assert!(kept.order.values().filter(|(of, _)| *of != chunk(3)).count() == there);
}
