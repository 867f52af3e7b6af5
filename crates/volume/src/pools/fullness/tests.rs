//! Full devices: when they are asked again, and what follows from their answers.

use super::next_probe;
use crate::group_state::GroupState;
use crate::group_state::tests::{FAST, fill, group_with, land, sent, settings};
use crate::io::leaving::Leaving;
use crate::map::place::Place;
use crate::pools::flight::Owner;
use crate::settings::Settings;
use crate::tests::tactics;
use thermocline_ports::{DeviceError, Io, Payload, Ticket};
use thermocline_units::Nanos;

const SECOND: u64 = 1_000_000_000;

/// The fast pool has answered "no space" at time 0; it is asked after 1 s, then after twice that.
fn full() -> GroupState {
    let tactics = tactics(&["probe-back-off:first=1s:most=10s"]);
    let mut group = group_with(Settings { tactics, ..settings() });
    let probing = group.settings.tactics.probing.clone();
    group.pools[FAST].note_no_space(Nanos(0), &probing);
    group.pools[FAST].note_no_space(Nanos(SECOND / 2), &probing);
    group
}

/// Asks the pool; the request, and the slot that it writes to.
fn probe(group: &mut GroupState, leaving: &mut Leaving, now: u64) -> Option<(Ticket, Io)> {
    leaving.probe_full_pools(group, Nanos(now));
    let mut requests = sent(group);
    assert!(requests.len() <= 1, "{requests:?}");
    requests.pop().map(|(_, ticket, io)| (ticket, io))
}

/// The pool has answered.
fn answer(
    group: &mut GroupState,
    leaving: &mut Leaving,
    ticket: Ticket,
    result: Result<Payload, DeviceError>,
) {
    let flight = land(group, FAST, ticket, result.clone());
    let Owner::Probe { slot } = flight.owner else { panic!("{flight:?}") };
    leaving.probe_done(group, Nanos(3 * SECOND), Place { pool: FAST, slot }, result);
}

#[test]
fn a_full_pool_is_asked_once_with_bytes_in_a_free_slot_when_its_time_has_come() {
    let (mut group, mut leaving) = (full(), Leaving::default());
    assert_eq!(next_probe(&group), Some(Nanos(SECOND)), "the first refusal counts");
    assert_eq!(probe(&mut group, &mut leaving, SECOND - 1), None);
    let free = group.pools[FAST].slots.free();
    let (_, io) = probe(&mut group, &mut leaving, SECOND).expect("it is time");
    let Io::Write { data: Payload::Bytes(bytes), .. } = io else { panic!("{io:?}") };
    assert_eq!((bytes.len(), group.pools[FAST].slots.free()), (4096, free - 1));
    assert_eq!(probe(&mut group, &mut leaving, SECOND), None, "it has not answered");
}

#[test]
fn a_pool_that_takes_the_probe_takes_chunks_again() {
    let (mut group, mut leaving) = (full(), Leaving::default());
    let free = group.pools[FAST].slots.free();
    assert!(!group.pools[FAST].has_space());
    let (ticket, _) = probe(&mut group, &mut leaving, SECOND).expect("it is time");
    answer(&mut group, &mut leaving, ticket, Ok(Payload::EMPTY));
    assert!(group.pools[FAST].has_space() && next_probe(&group).is_none());
    assert_eq!(group.pools[FAST].slots.free(), free, "the slot is free again");
}

#[test]
fn a_pool_that_is_still_full_is_left_alone_for_longer_each_time() {
    let (mut group, mut leaving) = (full(), Leaving::default());
    for (now, next) in [(1, 3), (3, 7), (7, 15), (15, 25), (25, 35)] {
        let (ticket, _) = probe(&mut group, &mut leaving, now * SECOND).expect("it is time");
        answer(&mut group, &mut leaving, ticket, Err(DeviceError::NoSpace));
        assert_eq!(next_probe(&group), Some(Nanos(next * SECOND)));
        assert!(group.pools[FAST].is_full());
    }
}

#[test]
fn a_pool_without_a_free_slot_or_a_device_is_not_asked() {
    let (mut group, mut leaving) = (full(), Leaving::default());
    fill(&mut group, FAST);
    assert_eq!(probe(&mut group, &mut leaving, SECOND), None);
    assert_eq!(next_probe(&group), None);
    let mut group = full();
    group.pools.bury(FAST);
    assert_eq!((next_probe(&group), probe(&mut group, &mut leaving, SECOND)), (None, None));
}
