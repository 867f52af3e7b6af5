//! Chunks with several places, and what the journal is still to be told of them.

use crate::map::overlay::Blocks;
use crate::map::place::{ChunkCopy, Place, Role};
use crate::map::{ChunkMap, ChunkState};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

const CHUNK: u32 = 64 << 10;
const BLOCK: u32 = 4096;
const BASE: Place = Place { pool: PoolId(1), slot: 4 };
const ABOVE: Place = Place { pool: PoolId(0), slot: 2 };

fn chunk() -> ChunkId {
    ChunkId { volume: VolumeId(0), index: 1 }
}

fn with_copies(others: &[ChunkCopy]) -> ChunkMap {
    let mut map = ChunkMap::new(1);
    map.set_volume(VolumeId(0), Bytes(2 * u64::from(CHUNK)), CHUNK);
    let copies = [&[ChunkCopy::wanted(BASE)], others].concat();
    map.set_state(chunk(), &ChunkState { copies, ..ChunkState::default() });
    map
}

/// A mirrored chunk of which the journal knows.
fn mirrored() -> ChunkMap {
    let mut map = with_copies(&[]);
    map.add_overlay(chunk(), ABOVE, Blocks::mirrored(CHUNK));
    assert_eq!(map.take_unsaved(), [chunk()]);
    map
}

#[test]
fn the_journal_is_told_once_of_blocks_that_changed_sides() {
    let mut map = mirrored();
    let write = [(0..BLOCK, ABOVE), (BLOCK..2 * BLOCK, BASE)];
    assert!(map.blocks_written(chunk(), &write, CHUNK));
    map.blocks_copied(chunk(), &(2 * BLOCK..3 * BLOCK));
    assert_eq!((map.take_unsaved(), map.take_unsaved()), (vec![chunk()], vec![]));
    assert!(!map.blocks_written(chunk(), &write, CHUNK), "they are there already");
    assert!(!map.has_unsaved());
}

#[test]
fn blocks_stay_untold_when_only_the_copies_are_told_of() {
    let mut map = mirrored();
    map.blocks_written(chunk(), &[(0..BLOCK, ABOVE)], CHUNK);
    let state = map.state(chunk());
    map.set_state(chunk(), &state);
    assert!(map.overlay_of(chunk()).unsaved);
    assert_eq!(map.take_unsaved(), [chunk()]);
}

#[test]
fn a_chunk_that_has_lost_its_second_part_is_not_told_of() {
    let mut map = mirrored();
    map.blocks_written(chunk(), &[(0..BLOCK, ABOVE)], CHUNK);
    map.set_state(chunk(), &ChunkState::default());
    assert!(map.has_unsaved() && map.take_unsaved().is_empty());
    assert!(!map.blocks_written(chunk(), &[(0..BLOCK, ABOVE)], CHUNK), "it has one part");
}

#[test]
fn copies_that_differ_are_followed_once_until_they_are_called_equal() {
    let mut map = with_copies(&[ChunkCopy::wanted(ABOVE)]);
    map.call_differing(chunk());
    map.call_differing(chunk());
    assert!(map.is_called_differing(chunk()) && map.follows_differing(chunk()));
    assert_eq!(map.take_differing(), [chunk()]);
    map.call_equal(chunk());
    assert!(!map.is_called_differing(chunk()) && !map.has_differing());
}

#[test]
fn the_last_write_is_noted_of_chunks_in_several_places_only() {
    let mut simple = with_copies(&[]);
    simple.touch_copies(Nanos(9), chunk());
    assert!(simple.is_simple(chunk()) && simple.last_write(chunk()) == Nanos(0));
    let mut mirrored = mirrored();
    mirrored.touch_copies(Nanos(9), chunk());
    assert_eq!(mirrored.last_write(chunk()), Nanos(9));
}

#[test]
fn only_what_a_move_left_behind_is_a_kept_copy() {
    let copy = |role| ChunkCopy { place: ABOVE, role };
    assert_eq!(with_copies(&[copy(Role::Kept)]).kept_copy(chunk()), Some(ABOVE));
    for role in [Role::Wanted, Role::Prefetched] {
        assert_eq!(with_copies(&[copy(role)]).kept_copy(chunk()), None, "{role:?}");
    }
}

#[test]
fn only_what_stands_in_two_places_may_differ() {
    assert!(!with_copies(&[]).may_differ(chunk()));
    assert!(with_copies(&[ChunkCopy::wanted(ABOVE)]).may_differ(chunk()));
    let mut map = mirrored();
    assert!(!map.may_differ(chunk()), "no block is on both sides");
    map.blocks_copied(chunk(), &(0..BLOCK));
    assert!(map.may_differ(chunk()));
}
