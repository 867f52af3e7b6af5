//! Limits by listener, deadlines, and who gives way.

use super::{Admission, ClientLimits, Refusal, TurnedAway};
use thermocline_units::Nanos;

/// Two listeners: two attached and three half-open connections each, 10 ns for a handshake.
fn admission() -> Admission {
    let limits = ClientLimits {
        connections: 2,
        handshakes: 3,
        handshake: Nanos(10),
        ..ClientLimits::default()
    };
    let mut admission = Admission::new(limits);
    assert_eq!(["tcp", "unix"].map(|name| admission.add_listener(name.to_string())), [0, 1]);
    admission
}

#[test]
fn the_oldest_half_open_connection_of_the_same_listener_gives_way() {
    let mut admission = admission();
    let gone: Vec<_> =
        (1..=5).filter_map(|client| admission.arrived(client, 0, Nanos(0))).collect();
    assert_eq!(gone, [1, 2]);
    assert_eq!(admission.arrived(6, 1, Nanos(0)), None, "another listener has room");
    assert!(admission.attached(3) && !admission.attached(3));
    assert_eq!(admission.arrived(7, 0, Nanos(0)), None, "3 is half-open no more");
    assert_eq!(admission.arrived(8, 0, Nanos(0)), Some(4));
    assert_eq!(admission.listeners()[0].turned_away(Refusal::GaveWay), 3);
    assert_eq!(admission.arrived(9, 0, Nanos(7)), Some(5));
    assert_eq!(admission.oldest_gives_way(Nanos(6)), Some(6), "the oldest of all listeners");
    let _ = (admission.attached(7), admission.attached(8));
    assert_eq!(admission.oldest_gives_way(Nanos(6)), None, "9 has hardly come");
}

#[test]
fn a_full_listener_refuses_until_somebody_leaves_and_the_other_goes_on() {
    let mut admission = admission();
    for client in 1..=3 {
        let _ = admission.arrived(client, 0, Nanos(0));
    }
    assert!(admission.attached(1) && admission.refusal(2).is_none() && admission.attached(2));
    assert!(admission.refusal(3).is_some_and(|text| text.contains("all 2 connections")));
    assert!(admission.refusal(1).is_none(), "it is in already");
    let _ = admission.arrived(4, 1, Nanos(0));
    assert_eq!(admission.refusal(4), None);
    assert!(admission.left(1));
    assert_eq!(admission.refusal(3), None);
}

#[test]
fn a_handshake_ends_in_time_or_is_cut_off_and_an_attached_client_stays() {
    let mut admission = admission();
    for (client, listener, at) in [(1, 1, 0), (2, 0, 3), (3, 0, 4)] {
        let _ = admission.arrived(client, listener, Nanos(at));
    }
    assert_eq!(admission.next_deadline(), Some(Nanos(10)));
    assert_eq!(admission.overdue(Nanos(9)), None);
    assert!(admission.attached(2));
    assert_eq!((admission.overdue(Nanos(14)), admission.overdue(Nanos(14))), (Some(1), Some(3)));
    assert_eq!((admission.overdue(Nanos(99)), admission.next_deadline()), (None, None));
    assert!(!admission.left(1) && admission.left(2) && !admission.left(2));
}

#[test]
fn who_was_turned_away_is_told_once_by_listener_and_reason() {
    let mut admission = admission();
    for client in 1..=5 {
        let _ = admission.arrived(client, 0, Nanos(0));
    }
    let _ = admission.arrived(6, 1, Nanos(0));
    admission.turn_away(6, Refusal::Stalled);
    admission.turn_away(77, Refusal::Full);
    let told =
        |listener: &str, why, count| TurnedAway { listener: listener.to_string(), why, count };
    let wanted = [told("tcp", Refusal::GaveWay, 2), told("unix", Refusal::Stalled, 1)];
    assert_eq!(admission.news(), wanted);
    assert_eq!(admission.news(), []);
}
