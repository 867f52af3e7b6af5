//! The small parts of the machine against plain models.

use crate::map::NONE;
use crate::presence::{Presence, whole_blocks};
use crate::request::Priority;
use crate::scheduler::Scheduler;
use crate::settings::BLOCK;
use crate::slots::Slots;
use proptest::prelude::*;
use std::collections::BTreeSet;
use thermocline_units::Nanos;

const BLOCKS: u32 = 150;

proptest! {
    #[test]
    fn slots_are_given_once_until_given_back(
        total in 1_u32..300,
        moves in prop::collection::vec((any::<bool>(), any::<u16>(), any::<bool>()), 0..400),
    ) {
        let mut slots = Slots::new(total, true);
        let (mut taken, mut clean) = (BTreeSet::new(), (0..total).collect::<BTreeSet<u32>>());
        for (take, which, leave_clean) in moves {
            if take {
                match slots.take() {
                    Some((slot, is_clean)) => {
                        prop_assert!(slot < total && taken.insert(slot));
                        prop_assert_eq!(is_clean, clean.remove(&slot));
                    }
                    None => prop_assert_eq!(taken.len() as u32, total),
                }
            } else if let Some(&slot) = taken.iter().nth(usize::from(which) % taken.len().max(1)) {
                slots.give_back(slot, leave_clean);
                taken.remove(&slot);
                if leave_clean {
                    clean.insert(slot);
                }
            }
            prop_assert_eq!(slots.used(), taken.len() as u32);
        }
    }

    #[test]
    fn presence_is_a_set_of_blocks(
        moves in prop::collection::vec((any::<bool>(), 0..BLOCKS * BLOCK, 1..80_000_u32), 0..60),
        from in 0..BLOCKS * BLOCK,
    ) {
        let size = BLOCKS * BLOCK;
        let mut presence = Presence::none(size);
        let mut model: BTreeSet<u32> = BTreeSet::new();
        for (insert, start, length) in moves {
            let range = start..(start + length).min(size);
            let inner = whole_blocks(&range);
            if insert {
                presence.insert(&range);
                model.extend(inner.start / BLOCK..inner.end / BLOCK);
            } else {
                presence.remove(&range);
                let outer = start / BLOCK..range.end.div_ceil(BLOCK);
                model.retain(|block| !outer.contains(block));
            }
        }
        for block in 0..BLOCKS {
            prop_assert_eq!(presence.holds(block), model.contains(&block));
        }
        prop_assert_eq!(presence.is_full(), model.len() as u32 == BLOCKS);
        prop_assert_eq!(Presence::from_bytes(size, &presence.to_bytes()), Some(presence.clone()));
        let absent = (from / BLOCK..BLOCKS).find(|block| !model.contains(block));
        prop_assert_eq!(presence.absent_run(from, 3 * BLOCK).map(|run| run.start / BLOCK), absent);
    }
}

#[test]
fn background_parts_wait_until_the_work_queue_is_empty_or_their_deadline_has_come() {
    let mut scheduler = Scheduler::new(16);
    scheduler.push(1, Priority::Background { deadline: Nanos(100) });
    scheduler.push(2, Priority::Foreground);
    scheduler.push(3, Priority::Foreground);
    assert_eq!(scheduler.pop(Nanos(0), |_| true), Some(2));
    assert_eq!(scheduler.next_deadline(), Some(Nanos(100)));
    assert_eq!(scheduler.pop(Nanos(100), |_| true), Some(1), "its deadline has come");
    scheduler.push(4, Priority::Background { deadline: Nanos(500) });
    assert_eq!(scheduler.pop(Nanos(101), |_| true), Some(3));
    assert_eq!(scheduler.pop(Nanos(101), |_| true), Some(4), "nobody else is waiting");
    assert_eq!(scheduler.pop(Nanos(101), |_| true), None);
}

#[test]
fn background_parts_wait_while_their_pool_serves_the_foreground() {
    let mut scheduler = Scheduler::new(16);
    for part in 1..4 {
        scheduler.push(part, Priority::Background { deadline: Nanos(100) });
    }
    assert_eq!(scheduler.pop(Nanos(0), |_| false), None);
    assert_eq!(scheduler.pop(Nanos(0), |part| part == 2), Some(2), "its pool is free");
    assert_eq!(scheduler.pop(Nanos(100), |_| false), Some(1), "its deadline has come");
}

#[test]
fn background_parts_do_not_fill_the_depth() {
    let mut scheduler = Scheduler::new(16);
    (0..10).for_each(|part| scheduler.push(part, Priority::Background { deadline: Nanos(900) }));
    let started = std::iter::from_fn(|| scheduler.pop(Nanos(0), |_| true)).count();
    assert_eq!(started, 2, "an eighth of the depth");
    scheduler.push(77, Priority::Foreground);
    assert_eq!(scheduler.pop(Nanos(0), |_| true), Some(77));
    scheduler.ended(Priority::Background { deadline: Nanos(900) });
    assert!(scheduler.pop(Nanos(0), |_| true).is_some_and(|part| part < NONE));
}

#[test]
fn strict_parts_go_first_and_let_another_go_after_eight_in_a_row() {
    let mut scheduler = Scheduler::new(64);
    (100..103).for_each(|part| scheduler.push(part, Priority::Foreground));
    (0..12).for_each(|part| scheduler.push_strict(part, Priority::Foreground));
    assert_eq!(scheduler.queued(), (15, 0));
    let order: Vec<u32> = std::iter::from_fn(|| scheduler.pop(Nanos(0), |_| true)).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7, 100, 8, 9, 10, 11, 101, 102]);
    scheduler.push_strict(1, Priority::Background { deadline: Nanos(9) });
    scheduler.push(2, Priority::Foreground);
    assert_eq!(scheduler.pop(Nanos(0), |_| true), Some(2), "for whom nobody waits can wait");
}
