//! Order of the parts, and the pools whose places they take.

use super::{Lane, Scheduler};
use crate::io::request::Priority;
use thermocline_units::{Nanos, PoolId};

const FAST: Lane = Lane(1);
const SLOW: Lane = Lane(2);
const FOREGROUND: Priority = Priority::Foreground;

fn background(deadline: u64) -> Priority {
    Priority::Background { deadline: Nanos(deadline) }
}

#[test]
fn a_full_pool_keeps_no_part_from_another() {
    let mut scheduler = Scheduler::new(2);
    (0..5).for_each(|sub_request| scheduler.push(sub_request, SLOW, FOREGROUND));
    (10..14).for_each(|sub_request| scheduler.push(sub_request, FAST, FOREGROUND));
    let mut pop = || scheduler.pop(Nanos(0), |_| true);
    assert_eq!([pop(), pop(), pop(), pop(), pop()], [Some(0), Some(1), Some(10), Some(11), None]);
    scheduler.ended(FAST, FOREGROUND);
    assert!(scheduler.has_work());
    assert_eq!(scheduler.pop(Nanos(0), |_| true), Some(12));
    assert!(!scheduler.has_work(), "what is queued has no place");
    assert_eq!(scheduler.queued(), (4, 0));
}

#[test]
fn parts_go_in_the_order_of_their_arrival_where_all_pools_have_room() {
    let mut scheduler = Scheduler::new(64);
    let lanes = [SLOW, FAST, FAST, Lane::NONE, SLOW, Lane::of(PoolId(7)), FAST];
    (0..).zip(lanes).for_each(|(sub_request, lane)| scheduler.push(sub_request, lane, FOREGROUND));
    let order: Vec<u32> = std::iter::from_fn(|| scheduler.pop(Nanos(0), |_| true)).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_place_moves_with_a_part_that_is_sent_elsewhere() {
    let mut scheduler = Scheduler::new(1);
    (0..2).for_each(|sub_request| scheduler.push(sub_request, FAST, FOREGROUND));
    scheduler.push(9, SLOW, FOREGROUND);
    assert_eq!(scheduler.pop(Nanos(0), |_| true), Some(0));
    scheduler.moved(FAST, SLOW, FOREGROUND);
    assert_eq!(scheduler.pop(Nanos(0), |_| true), Some(1), "the fast pool is free again");
    assert_eq!(scheduler.pop(Nanos(0), |_| true), None, "the slow one is full");
    scheduler.ended(SLOW, FOREGROUND);
    assert_eq!(scheduler.pop(Nanos(0), |_| true), Some(9));
}

#[test]
fn background_parts_wait_until_the_work_queue_is_empty_or_their_deadline_has_come() {
    let mut scheduler = Scheduler::new(16);
    scheduler.push(1, FAST, background(100));
    scheduler.push(2, FAST, FOREGROUND);
    scheduler.push(3, FAST, FOREGROUND);
    assert_eq!(scheduler.pop(Nanos(0), |_| true), Some(2));
    assert_eq!(scheduler.next_deadline(), Some(Nanos(100)));
    assert_eq!(scheduler.pop(Nanos(100), |_| true), Some(1), "its deadline has come");
    scheduler.push(4, FAST, background(500));
    assert_eq!(scheduler.pop(Nanos(101), |_| true), Some(3));
    assert_eq!(scheduler.pop(Nanos(101), |_| true), Some(4), "nobody else is waiting");
    assert_eq!(scheduler.pop(Nanos(101), |_| true), None);
}

#[test]
fn background_parts_wait_while_their_pool_serves_the_foreground() {
    let mut scheduler = Scheduler::new(16);
    scheduler.push(1, FAST, background(100));
    scheduler.push(2, SLOW, background(100));
    assert_eq!(scheduler.pop(Nanos(0), |_| false), None);
    assert_eq!(scheduler.pop(Nanos(0), |lane| lane == SLOW), Some(2), "its pool is free");
    assert_eq!(scheduler.pop(Nanos(100), |_| false), Some(1), "its deadline has come");
}

#[test]
fn a_pool_may_have_a_depth_of_its_own() {
    let mut scheduler = Scheduler::new(4);
    scheduler.set_depth(SLOW, Some(1));
    (0..8).for_each(|sub_request| scheduler.push(sub_request, SLOW, FOREGROUND));
    (10..18).for_each(|sub_request| scheduler.push(sub_request, FAST, FOREGROUND));
    let started = |scheduler: &mut Scheduler| -> Vec<u32> {
        std::iter::from_fn(|| scheduler.pop(Nanos(0), |_| true)).collect()
    };
    assert_eq!(started(&mut scheduler), [0, 10, 11, 12, 13]);
    assert!(!scheduler.has_work());
    scheduler.set_depth(SLOW, Some(3));
    assert!(scheduler.has_work(), "it can be changed while parts wait");
    assert_eq!(started(&mut scheduler), [1, 2]);
    scheduler.set_depth(SLOW, None);
    assert_eq!(started(&mut scheduler), [3]);
}

#[test]
fn background_parts_do_not_fill_the_depth() {
    let mut scheduler = Scheduler::new(16);
    (0..10).for_each(|sub_request| scheduler.push(sub_request, FAST, background(900)));
    let started = std::iter::from_fn(|| scheduler.pop(Nanos(0), |_| true)).count();
    assert_eq!(started, 2, "an eighth of the depth");
    scheduler.push(77, FAST, FOREGROUND);
    assert_eq!(scheduler.pop(Nanos(0), |_| true), Some(77));
    scheduler.ended(FAST, background(900));
    assert!(scheduler.pop(Nanos(0), |_| true).is_some_and(|sub_request| sub_request < 10));
}

#[test]
fn strict_parts_go_first_and_let_another_go_after_eight_in_a_row() {
    let mut scheduler = Scheduler::new(64);
    (100..103).for_each(|sub_request| scheduler.push(sub_request, FAST, FOREGROUND));
    (0..12).for_each(|sub_request| scheduler.push_strict(sub_request, FAST, FOREGROUND));
    assert_eq!(scheduler.queued(), (15, 0));
    let order: Vec<u32> = std::iter::from_fn(|| scheduler.pop(Nanos(0), |_| true)).collect();
    assert_eq!(order, [0, 1, 2, 3, 4, 5, 6, 7, 100, 8, 9, 10, 11, 101, 102]);
    scheduler.push_strict(1, FAST, background(9));
    scheduler.push(2, FAST, FOREGROUND);
    assert_eq!(scheduler.pop(Nanos(0), |_| true), Some(2), "for whom nobody waits can wait");
}
