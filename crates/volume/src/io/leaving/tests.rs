//! Slots that chunks leave: when they are free, and who is told.

use super::Leaving;
use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::group_state::tests::{FAST, SLOW, chunk, effects, group, land, sent, take_slot};
use crate::io::busy_chunk::Verb;
use crate::io::busy_chunk::tests::{begin, come, leave};
use crate::map::place::Place;
use crate::pools::flight::Owner;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::Nanos;

const NOW: Nanos = Nanos(3);

fn is_free(group: &GroupState, place: Place) -> bool {
    !group.pools[place.pool].slots.is_taken(place.slot)
}

/// A read of the first chunk that has begun.
fn read(group: &mut GroupState) -> u32 {
    let read = come(group, chunk(0), 0..512, Verb::Read);
    begin(group, read);
    read
}

#[test]
fn a_slot_whose_chunk_nobody_is_on_is_free_when_its_record_is_durable() {
    let (mut group, mut leaving) = (group(), Leaving::default());
    let place = take_slot(&mut group, FAST);
    leaving.leave(&mut group, NOW, chunk(0), place);
    assert!(is_free(&group, place) && leaving.slots == 0);
    assert!(matches!(effects(&mut group)[..], [Effect::SlotFree]));
    assert_eq!(sent(&mut group), [], "its device discards nothing");
}

#[test]
fn a_slot_stays_taken_until_the_last_sub_request_from_before_has_ended() {
    let (mut group, mut leaving) = (group(), Leaving::default());
    let place = take_slot(&mut group, FAST);
    let [first, second] = [read(&mut group), read(&mut group)];
    leaving.leave(&mut group, NOW, chunk(0), place);
    let later = read(&mut group);
    leave(&mut group, first);
    assert!(!leaving.free_left_slots(&mut group, NOW, chunk(0)) && !is_free(&group, place));
    leave(&mut group, second);
    assert!(leaving.free_left_slots(&mut group, NOW, chunk(0)) && is_free(&group, place));
    assert!(!leaving.free_left_slots(&mut group, NOW, chunk(0)), "it leaves once");
    assert_eq!(group.busy_chunk(chunk(0)).map(|busy| busy.running().to_vec()), Some(vec![later]));
}

#[test]
fn who_seeks_a_slot_is_on_none_and_repairs_are_on_all() {
    let (mut group, mut leaving) = (group(), Leaving::default());
    let place = take_slot(&mut group, FAST);
    let opener = read(&mut group);
    group.busy_chunk_of(chunk(0)).opening = Some((opener, None));
    group.busy_chunk_of(chunk(0)).begin_repair();
    leaving.leave(&mut group, NOW, chunk(0), place);
    assert!(!leaving.free_left_slots(&mut group, NOW, chunk(0)));
    group.busy_chunk_of(chunk(0)).end_repair();
    assert!(leaving.free_left_slots(&mut group, NOW, chunk(0)) && is_free(&group, place));
}

#[test]
fn a_slot_is_discarded_before_it_is_free_and_reads_as_zeroes_if_that_went_well() {
    for (result, clean) in [(Ok(Payload::EMPTY), true), (Err(DeviceError::Io), false)] {
        let (mut group, mut leaving) = (group(), Leaving::default());
        let place = take_slot(&mut group, SLOW);
        leaving.leave(&mut group, NOW, chunk(0), place);
        let requests = sent(&mut group);
        let [(SLOW, ticket, Io::Discard { .. })] = requests[..] else { panic!("{requests:?}") };
        assert!(!is_free(&group, place) && leaving.slots == 1);
        let flight = land(&mut group, SLOW, ticket, result.clone());
        assert_eq!(flight.owner, Owner::Clean { slot: place.slot });
        leaving.clean_done(&mut group, place, result.is_ok());
        assert!(is_free(&group, place) && leaving.slots == 0);
        let mut again = std::iter::from_fn(|| group.pools[SLOW].slots.take());
        assert_eq!(again.find(|&(slot, _)| slot == place.slot), Some((place.slot, clean)));
    }
}

#[test]
fn a_slot_of_a_dead_pool_is_given_back_unasked() {
    let (mut group, mut leaving) = (group(), Leaving::default());
    let place = take_slot(&mut group, SLOW);
    group.pools.bury(SLOW);
    leaving.leave(&mut group, NOW, chunk(0), place);
    assert!(is_free(&group, place) && sent(&mut group).is_empty());
}

#[test]
fn who_waits_for_a_slot_is_told_once() {
    let (mut group, mut leaving) = (group(), Leaving::default());
    leaving.waiting.extend([4, 2]);
    leaving.slots_came(&mut group);
    let told = effects(&mut group);
    assert!(matches!(told[..], [Effect::SlotFree, Effect::Space(4), Effect::Space(2)]), "{told:?}");
    leaving.slots_came(&mut group);
    assert!(matches!(effects(&mut group)[..], [Effect::SlotFree]));
}
