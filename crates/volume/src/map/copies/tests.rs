//! Copies that go: which do, what the journal is told, and who waits for it.

use super::{
    copy_failed, drop_copy, forget_copies_on, has_spare_copy_on, keep_prefetched,
    settle_quiet_copies,
};
use crate::format::Record;
use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::group_state::tests::{FAST, SLOW, add_copy, chunk, effects, group, put, said};
use crate::map::block_checksums::BlockChecksums;
use crate::map::place::{Place, Role};
use crate::moves::operation::{Operation, OperationKind};
use thermocline_units::{Nanos, PoolId};

const SECOND: u64 = 1_000_000_000;

/// Places of the chunk's copies.
fn places(group: &GroupState) -> Vec<Place> {
    group.map.copies(chunk(0)).map(|copy| copy.place).collect()
}

#[test]
fn the_last_copy_is_not_dropped_and_nothing_is_said() {
    let (mut group, mut checksums) = (group(), BlockChecksums::default());
    let place = put(&mut group, chunk(0), FAST);
    assert!(!drop_copy(&mut group, &mut checksums, chunk(0), FAST, false));
    copy_failed(&mut group, &mut checksums, chunk(0), FAST);
    assert_eq!(places(&group), [place]);
    assert!(!group.journal.is_queued() && !group.has_effects());
}

#[test]
fn a_slot_stays_taken_until_the_record_of_the_drop_is_durable() {
    let (mut group, mut checksums) = (group(), BlockChecksums::default());
    let first = put(&mut group, chunk(0), FAST);
    let second = add_copy(&mut group, chunk(0), SLOW, Role::Wanted);
    assert!(drop_copy(&mut group, &mut checksums, chunk(0), FAST, false));
    assert_eq!(places(&group), [second], "the other one is the first now");
    assert_eq!(group.journal.places_left().collect::<Vec<_>>(), [first]);
    assert!(group.pools[FAST].slots.is_taken(first.slot));
    assert!(group.map.is_busy(chunk(0)), "writes wait: a crash would bring the copy back");
}

#[test]
fn nobody_waits_for_a_drop_where_the_journal_calls_no_copy_equal() {
    let (mut group, mut checksums) = (group(), BlockChecksums::default());
    put(&mut group, chunk(0), FAST);
    add_copy(&mut group, chunk(0), SLOW, Role::Wanted);
    group.map.call_differing(chunk(0));
    assert!(drop_copy(&mut group, &mut checksums, chunk(0), SLOW, false));
    assert!(!group.map.is_busy(chunk(0)) && !group.map.is_called_differing(chunk(0)));
}

#[test]
fn a_copy_that_failed_is_wished_again_unless_nobody_wanted_it() {
    let wished = |role, fails: PoolId| {
        let (mut group, mut checksums) = (group(), BlockChecksums::default());
        put(&mut group, chunk(0), FAST);
        add_copy(&mut group, chunk(0), SLOW, role);
        copy_failed(&mut group, &mut checksums, chunk(0), fails);
        assert_eq!(places(&group).len(), 1);
        let wish = |effect| if let Effect::Wish(wish) = effect { Some(wish) } else { None };
        effects(&mut group).into_iter().find_map(wish)
    };
    let again = |kind, to| Some(Operation { kind, chunk: chunk(0), to });
    assert_eq!(wished(Role::Wanted, SLOW), again(OperationKind::Replicate, SLOW));
    assert_eq!(wished(Role::Kept, FAST), again(OperationKind::Migrate, FAST));
    assert_eq!(wished(Role::Prefetched, SLOW), None);
}

#[test]
fn only_a_copy_that_gives_way_is_dropped_for_its_room() {
    let (mut group, mut checksums) = (group(), BlockChecksums::default());
    put(&mut group, chunk(0), SLOW);
    add_copy(&mut group, chunk(0), FAST, Role::Prefetched);
    assert!(!drop_copy(&mut group, &mut checksums, chunk(0), SLOW, true));
    assert_eq!((places(&group).len(), group.pools[FAST].prefetched), (2, 1));
    drop_copy(&mut group, &mut checksums, chunk(0), FAST, true);
    assert_eq!((places(&group).len(), group.pools[FAST].prefetched), (1, 0));
}

#[test]
fn a_prefetched_copy_that_is_kept_becomes_the_first_where_the_chunk_moves() {
    let (mut group, mut checksums) = (group(), BlockChecksums::default());
    let home = put(&mut group, chunk(0), SLOW);
    let there = add_copy(&mut group, chunk(0), FAST, Role::Prefetched);
    keep_prefetched(&mut group, &mut checksums, chunk(0), FAST, true);
    assert_eq!(places(&group), [there]);
    assert_eq!(group.pools[FAST].prefetched, 0);
    assert_eq!(group.journal.places_left().collect::<Vec<_>>(), [home]);
}

#[test]
fn a_prefetched_copy_that_is_kept_beside_the_first_gives_way_no_more() {
    let (mut group, mut checksums) = (group(), BlockChecksums::default());
    let home = put(&mut group, chunk(0), SLOW);
    let there = add_copy(&mut group, chunk(0), FAST, Role::Prefetched);
    keep_prefetched(&mut group, &mut checksums, chunk(0), FAST, false);
    assert_eq!(places(&group), [home, there]);
    assert!(group.map.copies(chunk(0)).all(|copy| !copy.gives_way()));
    assert_eq!(said(&mut group), [Record::Chunk(chunk(0), group.map.state(chunk(0)))]);
}

#[test]
fn copies_are_called_equal_when_they_have_rested_and_nobody_is_on_them() {
    let mut group = group();
    put(&mut group, chunk(0), FAST);
    add_copy(&mut group, chunk(0), SLOW, Role::Wanted);
    group.map.call_differing(chunk(0));
    group.map.touch_copies(Nanos(SECOND), chunk(0));
    settle_quiet_copies(&mut group, Nanos(2 * SECOND - 1));
    assert!(group.map.is_called_differing(chunk(0)) && !group.journal.is_queued());
    group.busy_chunk_of(chunk(0)).begin_repair();
    settle_quiet_copies(&mut group, Nanos(2 * SECOND));
    assert!(group.map.is_called_differing(chunk(0)), "somebody is on it");
    group.busy_chunk_of(chunk(0)).end_repair();
    group.forget_if_idle(chunk(0));
    settle_quiet_copies(&mut group, Nanos(2 * SECOND));
    assert!(!group.map.is_called_differing(chunk(0)) && group.journal.is_queued());
    assert!(!group.map.has_differing());
}

#[test]
fn a_dead_pool_takes_its_copies_along_where_there_are_others() {
    let (mut group, mut checksums) = (group(), BlockChecksums::default());
    let lost = put(&mut group, chunk(0), SLOW);
    let stays = add_copy(&mut group, chunk(0), FAST, Role::Prefetched);
    let alone = put(&mut group, chunk(1), SLOW);
    assert!(has_spare_copy_on(&group, SLOW));
    group.pools.bury(SLOW);
    forget_copies_on(&mut group, &mut checksums, SLOW);
    assert_eq!(places(&group), [stays]);
    assert!(group.map.copies(chunk(0)).all(|copy| copy.role == Role::Wanted));
    assert_eq!((group.pools[FAST].prefetched, has_spare_copy_on(&group, SLOW)), (0, false));
    let slots = &group.pools[SLOW].slots;
    assert!(!slots.is_taken(lost.slot) && slots.is_taken(alone.slot));
    assert_eq!(group.map.entry(chunk(1)).first(), Some(alone), "it may come back");
    assert!(group.map.is_busy(chunk(0)) && !group.map.is_busy(chunk(1)));
}
