//! Order in which connections get memory.

use super::Budget;
use thermocline_units::{Bytes, Nanos};

#[test]
fn what_does_not_fit_waits_and_goes_in_the_order_of_asking() {
    let mut budget = Budget::new(Bytes(100));
    assert!(budget.ask(1, 60, Nanos(0)));
    assert!(!budget.ask(2, 60, Nanos(5)));
    assert!(!budget.ask(3, 10, Nanos(6)), "it would fit, but another asked before");
    assert_eq!((budget.waits_since(), budget.waiting()), (Some(Nanos(5)), 2));
    assert_eq!(budget.next(), None);
    budget.release(60);
    assert_eq!([budget.next(), budget.next(), budget.next()], [Some((2, 60)), Some((3, 10)), None]);
    assert_eq!((budget.used(), budget.waits_since()), (Bytes(70), None));
}

#[test]
fn a_connection_waits_once_however_often_it_asks() {
    let mut budget = Budget::new(Bytes(100));
    assert!(budget.ask(1, 100, Nanos(0)));
    assert!(!budget.ask(2, 50, Nanos(1)));
    assert!(!budget.ask(2, 20, Nanos(9)));
    assert_eq!((budget.waiting(), budget.waits_since()), (1, Some(Nanos(1))));
    budget.release(100);
    assert_eq!(budget.next(), Some((2, 20)));
}

#[test]
fn a_connection_that_goes_makes_room_but_for_what_is_on_devices() {
    let mut budget = Budget::new(Bytes(100));
    assert!(budget.ask(1, 80, Nanos(0)));
    assert!(!budget.ask(2, 60, Nanos(0)));
    assert!(!budget.ask(3, 60, Nanos(0)));
    budget.leave(2, 0, 0);
    assert_eq!(budget.waiting(), 1);
    budget.leave(1, 80, 50);
    assert_eq!(budget.next(), None);
    budget.release(50);
    assert_eq!(budget.next(), Some((3, 60)));
}

#[test]
fn a_request_larger_than_the_limit_goes_alone() {
    let mut budget = Budget::new(Bytes(100));
    assert!(budget.ask(1, 1, Nanos(0)));
    assert!(!budget.ask(2, 101, Nanos(0)));
    budget.release(1);
    assert_eq!(budget.next(), Some((2, 101)));
    assert!(!budget.ask(3, 1, Nanos(0)));
}
