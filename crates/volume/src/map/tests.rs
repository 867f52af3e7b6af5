//! The map alone: what a chunk was said to be, the side table, heat, and volumes.

use super::overlay::Blocks;
use super::place::{ChunkCopy, Place, Role};
use super::{ChunkMap, ChunkState, Table};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

const CHUNK: u32 = 64 << 10;

fn chunk(index: u32) -> ChunkId {
    ChunkId { volume: VolumeId(1), index }
}

fn copy(pool: u16, slot: u32) -> ChunkCopy {
    ChunkCopy::wanted(Place { pool: PoolId(pool), slot })
}

/// A chunk in whole copies, which the journal calls different.
fn copies(copies: &[ChunkCopy]) -> ChunkState {
    ChunkState { copies: copies.to_vec(), dirty: true, ..ChunkState::default() }
}

/// One volume of four chunks.
fn map() -> ChunkMap {
    let mut map = ChunkMap::new(1);
    map.set_volume(VolumeId(1), Bytes(4 * u64::from(CHUNK)), CHUNK);
    map
}

#[test]
fn a_chunk_is_what_it_was_said_to_be() {
    let mut map = map();
    let kept = ChunkCopy { role: Role::Kept, ..copy(1, 9) };
    let state = ChunkState {
        copies: vec![copy(2, 7), kept],
        dirty: true,
        table: Table::Summed(77),
        unsaid: true,
        pinned: true,
        overlay: Some((Place { pool: PoolId(0), slot: 3 }, Blocks::redirected(CHUNK))),
    };
    map.set_state(chunk(1), &state);
    assert_eq!(map.state(chunk(1)), state);
    assert_eq!(map.entry(chunk(1)).first(), Some(copy(2, 7).place), "the first stays the first");
    map.set_state(chunk(1), &ChunkState::default());
    assert_eq!(map.state(chunk(1)), ChunkState::default());
    assert!(map.entry(chunk(1)).first().is_none() && map.overlays() == 0);
}

#[test]
fn one_copy_does_not_differ_and_no_table_is_not_left_unsaid() {
    let mut map = map();
    map.set_state(chunk(0), &ChunkState { unsaid: true, ..copies(&[copy(0, 1)]) });
    assert!(!map.is_called_differing(chunk(0)) && map.is_simple(chunk(0)));
    assert!(!map.entry(chunk(0)).is_unsaid() && !map.entry(chunk(0)).is_called_right());
}

#[test]
fn a_place_of_the_side_table_is_used_again_and_brings_nothing_along() {
    let mut map = map();
    map.set_state(chunk(0), &copies(&[copy(0, 1), copy(1, 1)]));
    map.touch_copies(Nanos(50), chunk(0));
    map.set_state(chunk(0), &copies(&[copy(0, 1)]));
    map.set_state(chunk(3), &ChunkState { dirty: false, ..copies(&[copy(0, 2), copy(1, 2)]) });
    assert_eq!(map.extras.len(), 1);
    assert_eq!((map.last_write(chunk(3)), map.is_called_differing(chunk(3))), (Nanos(0), false));
    assert!(map.is_simple(chunk(0)));
}

#[test]
fn a_pool_that_is_lost_takes_its_copies_but_never_the_last() {
    let mut state = copies(&[copy(0, 1), copy(1, 1), copy(1, 5)]);
    assert_eq!(state.lose_pool(PoolId(1)), [copy(1, 1), copy(1, 5)]);
    assert_eq!((state.copies.len(), state.dirty), (1, false), "one copy does not differ");
    assert_eq!(state.lose_pool(PoolId(0)), []);
    assert_eq!(state.copies, [copy(0, 1)]);
}

#[test]
fn heat_is_that_of_one_epoch() {
    let mut map = map();
    for (epoch, write) in [(4, false), (4, true), (4, false)] {
        map.count_access(chunk(2), epoch, write);
    }
    assert_eq!((map.entry(chunk(2)).heat_in(4), map.entry(chunk(2)).heat_in(5)), ((2, 1), (0, 0)));
    map.count_access(chunk(2), 5, false);
    assert_eq!((map.entry(chunk(2)).heat_in(4), map.entry(chunk(2)).heat_in(5)), ((0, 0), (1, 0)));
}

#[test]
fn an_identity_is_never_given_again() {
    let mut map = map();
    assert_eq!([map.take_identity(), map.take_identity()], [1, 2]);
    map.note_identity(9);
    map.note_identity(4);
    assert_eq!((map.take_identity(), map.next_identity()), (10, 11));
}

#[test]
fn a_volume_that_becomes_shorter_forgets_what_its_last_chunks_had() {
    let mut map = map();
    map.set_state(chunk(3), &copies(&[copy(0, 1)]));
    map.add_overlay(chunk(3), Place { pool: PoolId(1), slot: 1 }, Blocks::redirected(CHUNK));
    map.set_volume(VolumeId(1), Bytes(u64::from(CHUNK) + 512), CHUNK);
    assert!(map.has(chunk(1)) && !map.has(chunk(2)), "a part of a chunk is a chunk");
    assert_eq!((map.overlays(), map.extras_free.len()), (0, 1));
    map.set_volume(VolumeId(1), Bytes(4 * u64::from(CHUNK)), CHUNK);
    assert_eq!(map.state(chunk(3)), ChunkState::default());
}

#[test]
fn a_volume_is_busy_until_it_was_let_go_as_often_as_it_was_held() {
    let mut map = map();
    let is_busy = |map: &ChunkMap| map.volume(VolumeId(1)).is_some_and(|volume| volume.is_busy());
    map.hold(VolumeId(1));
    map.hold(VolumeId(1));
    map.let_go(VolumeId(1));
    assert!(is_busy(&map));
    map.let_go(VolumeId(1));
    assert!(!is_busy(&map));
    map.remove_volume(VolumeId(1));
    assert!(!map.has(chunk(0)) && map.living_volumes() == 0 && map.chunks().next().is_none());
}
