//! Deleted volumes: what waits for whom, and what is free afterwards.

use super::Deletion;
use crate::group_state::GroupState;
use crate::group_state::tests::{
    FAST, SLOW, add_copy, add_volume, chunk, group, mirror, put, settle,
};
use crate::io::leaving::Leaving;
use crate::journal::Outcome;
use crate::journal::settling::Settlement;
use crate::map::block_checksums::BlockChecksums;
use crate::map::place::{Place, Role};
use thermocline_units::{ChunkId, VolumeId};

const VOLUME: VolumeId = VolumeId(0);

fn bury(group: &mut GroupState, deletion: &mut Deletion) {
    let (mut settlement, mut leaving) = (Settlement::default(), Leaving::default());
    deletion.bury_volumes(group, &mut BlockChecksums::default(), &mut settlement, &mut leaving);
}

#[test]
fn a_volume_is_gone_for_the_next_flush_and_its_slots_stay_until_it_is_buried() {
    let (mut group, mut deletion) = (group(), Deletion::default());
    let place = put(&mut group, chunk(0), FAST);
    deletion.begin(&mut group, VOLUME);
    assert!(deletion.is_dying(VOLUME) && deletion.is_under_way());
    assert!(group.map.living(VOLUME).is_none() && group.map.volume(VOLUME).is_some());
    assert!(group.journal.is_queued() && !group.journal.will_free());
    settle(&mut group);
    assert!(group.pools[FAST].slots.is_taken(place.slot), "somebody may be on it");
}

#[test]
fn a_volume_goes_when_the_last_that_is_under_way_on_it_has_ended() {
    let (mut group, mut deletion) = (group(), Deletion::default());
    add_volume(&mut group, 1, 3);
    group.map.hold(VOLUME);
    deletion.begin(&mut group, VOLUME);
    deletion.begin(&mut group, VolumeId(1));
    bury(&mut group, &mut deletion);
    assert!(deletion.is_dying(VOLUME) && !deletion.is_dying(VolumeId(1)));
    assert!(group.map.volume(VOLUME).is_some() && group.map.volume(VolumeId(1)).is_none());
    group.map.let_go(VOLUME);
    bury(&mut group, &mut deletion);
    assert!(!deletion.is_under_way() && group.map.living_volumes() == 0);
}

#[test]
fn every_slot_of_the_volume_is_let_go_by_one_record() {
    let (mut group, mut deletion) = (group(), Deletion::default());
    let places = [
        put(&mut group, chunk(0), SLOW),
        add_copy(&mut group, chunk(0), FAST, Role::Prefetched),
        put(&mut group, chunk(5), SLOW),
        mirror(&mut group, chunk(5), FAST, 0..3),
    ];
    add_volume(&mut group, 1, 1);
    let other = ChunkId { volume: VolumeId(1), index: 0 };
    let stays = put(&mut group, other, FAST);
    deletion.begin(&mut group, VOLUME);
    bury(&mut group, &mut deletion);
    assert_eq!((group.pools[FAST].prefetched, group.map.overlays()), (0, 0));
    let taken = |place: &Place| group.pools[place.pool].slots.is_taken(place.slot);
    assert!(places.iter().all(taken), "not before that is durable");
    let outcomes = settle(&mut group);
    let [Outcome::Durable { left, .. }] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(left.iter().map(|(_, place)| *place).collect::<Vec<_>>(), places);
    assert_eq!(group.map.entry(other).first(), Some(stays));
}

#[test]
fn a_number_is_free_for_another_volume_afterwards() {
    let (mut group, mut deletion) = (group(), Deletion::default());
    let before = group.map.volume(VOLUME).map(|volume| volume.identity());
    put(&mut group, chunk(0), FAST);
    deletion.begin(&mut group, VOLUME);
    bury(&mut group, &mut deletion);
    add_volume(&mut group, 0, 2);
    assert!(group.map.living(VOLUME).is_some_and(|volume| Some(volume.identity()) != before));
    assert!(group.map.entry(chunk(0)).first().is_none(), "it begins with zeroes");
}
