//! Sides of a chunk in two parts: from where runs are read, where they are written, and what
//! becomes of those that a device fails.

use super::{distrust, is_parting, other_side, side_at, side_for, sources_of, targets_of};
use crate::group_state::GroupState;
use crate::group_state::tests::{FAR, FAST, SLOW, chunk, group, mirror, put, take_slot};
use crate::io::busy_chunk::Verb;
use crate::io::busy_chunk::tests::{come, write};
use crate::io::routing::Routing;
use crate::map::overlay::{Blocks, Goal, Holder, Side};
use crate::map::place::Place;
use crate::moves::active::tests::{begin, bringing, copying, switching};
use crate::moves::operation::OperationKind;
use std::ops::Range;

const BLOCK: u32 = 4096;
const CHUNK: u32 = 16 * BLOCK;

/// A chunk with its base on the slow pool, and its first four blocks above as well.
fn mirrored() -> (GroupState, Place, Place) {
    let mut group = group();
    let base = put(&mut group, chunk(0), SLOW);
    let above = mirror(&mut group, chunk(0), FAST, 0..4);
    (group, base, above)
}

fn write_of(group: &mut GroupState, range: Range<u32>) -> u32 {
    let verb = write(&range);
    come(group, chunk(0), range, verb)
}

#[test]
fn each_byte_is_read_once_from_a_side_that_has_it() {
    let (group, ..) = mirrored();
    let range = 512..8 * BLOCK;
    let sources = sources_of(&group, &mut Routing::default(), chunk(0), &range);
    assert_eq!(sources.first().map(|(run, _)| run.start), Some(range.start));
    assert_eq!(sources.last().cloned().map(|(run, _)| run.end), Some(range.end));
    assert!(sources.is_sorted_by(|(one, _), (next, _)| one.end == next.start));
    let blocks = &group.map.overlay_of(chunk(0)).blocks;
    assert!(sources.iter().all(|(run, side)| !blocks.any_only_on(side.other(), run)));
}

#[test]
fn of_a_mirror_with_a_dead_side_the_other_answers() {
    for (dead, side) in [(SLOW, Side::Above), (FAST, Side::Base)] {
        let (mut group, ..) = mirrored();
        group.pools.bury(dead);
        let routing = &mut Routing::default();
        assert_eq!(side_for(&group, routing, chunk(0), false), Some(side));
        let shared = sources_of(&group, routing, chunk(0), &(0..4 * BLOCK));
        assert_eq!(shared, [(0..4 * BLOCK, side)]);
    }
}

#[test]
fn whole_blocks_are_written_to_the_side_of_choice_and_parts_where_the_rest_is() {
    let (mut group, ..) = mirrored();
    group.pools.bury(SLOW);
    let sub_request = write_of(&mut group, 512..8 * BLOCK + 512);
    let targets = targets_of(&group, &mut Routing::default(), sub_request);
    let last = (8 * BLOCK..8 * BLOCK + 512, Side::Base);
    assert_eq!(targets, [(512..8 * BLOCK, Side::Above), last]);
}

#[test]
fn blocks_of_a_redirected_chunk_change_sides_only_towards_its_goal() {
    let mut group = group();
    let base = put(&mut group, chunk(0), SLOW);
    let above = take_slot(&mut group, FAST);
    group.map.add_overlay(chunk(0), above, Blocks::redirected(CHUNK));
    let routing = &mut Routing::default();
    let sub_request = write_of(&mut group, 0..BLOCK);
    assert_eq!(side_for(&group, routing, chunk(0), true), None);
    assert_eq!(targets_of(&group, routing, sub_request), [(0..BLOCK, Side::Base)]);
    let redirection = copying(OperationKind::Redirect, chunk(0), base, above);
    begin(&mut group, bringing(Goal::Above, redirection));
    assert_eq!(side_for(&group, routing, chunk(0), false), None, "reads go where blocks are");
    assert_eq!(targets_of(&group, routing, sub_request), [(0..BLOCK, Side::Above)]);
}

#[test]
fn a_run_that_a_side_failed_goes_to_the_other_if_that_has_it_or_takes_it_whole() {
    let (mut group, base, _) = mirrored();
    let (shared, alone, part) = (0..BLOCK, 8 * BLOCK..9 * BLOCK, 8 * BLOCK..8 * BLOCK + 512);
    let read = come(&mut group, chunk(0), 0..CHUNK, Verb::Read);
    let write = write_of(&mut group, 0..CHUNK);
    assert_eq!(other_side(&group, read, &shared, FAST), Some(Side::Base));
    assert_eq!(other_side(&group, read, &alone, SLOW), None, "it is nowhere else");
    assert_eq!(other_side(&group, write, &alone, SLOW), Some(Side::Above));
    assert_eq!(other_side(&group, write, &part, SLOW), None, "the rest of the block is here");
    assert_eq!(other_side(&group, read, &shared, FAR), None, "the chunk has left that pool");
    group.sub_requests[read].avoided.push(base);
    assert_eq!(other_side(&group, read, &shared, FAST), None, "it failed, too");
    group.pools.bury(FAST);
    assert_eq!(other_side(&group, write, &alone, SLOW), None);
}

#[test]
fn no_write_goes_to_a_side_that_is_about_to_go() {
    let (mut group, base, above) = mirrored();
    let write = write_of(&mut group, 0..CHUNK);
    let towards = bringing(Goal::Above, copying(OperationKind::Migrate, chunk(0), base, above));
    let number = begin(&mut group, towards);
    assert!(!is_parting(&group, chunk(0)));
    assert_eq!(other_side(&group, write, &(0..BLOCK), FAST), Some(Side::Base));
    let copied = group.operations.remove(number);
    assert_eq!(group.operations.insert(switching(copied)), number);
    assert!(is_parting(&group, chunk(0)));
    assert_eq!(other_side(&group, write, &(0..BLOCK), FAST), None);
}

#[test]
fn what_a_side_failed_counts_on_the_other_once_the_journal_knows() {
    let (mut group, ..) = mirrored();
    distrust(&mut group, chunk(0), &(0..BLOCK), FAST);
    let blocks = |group: &GroupState| group.map.overlay_of(chunk(0)).blocks.runs(&(0..2 * BLOCK));
    let one = (0..BLOCK, Holder::Only(Side::Base));
    assert_eq!(blocks(&group), [one, (BLOCK..2 * BLOCK, Holder::Both)]);
    assert!(group.map.has_unsaved(), "the journal is to be told");
    assert!(group.busy_chunk(chunk(0)).is_some_and(|busy| busy.dropping == 1), "writes wait");
    assert_eq!(side_at(&group, chunk(0), SLOW), Some(Side::Base));
}

#[test]
fn a_side_that_failed_still_counts_where_the_other_is_dead() {
    let (mut group, ..) = mirrored();
    let before = group.map.state(chunk(0));
    group.pools.bury(SLOW);
    distrust(&mut group, chunk(0), &(0..BLOCK), FAST);
    assert_eq!(group.map.state(chunk(0)), before);
}

#[test]
fn while_a_side_is_about_to_go_the_one_that_stays_counts() {
    let (mut group, base, above) = mirrored();
    let towards = bringing(Goal::Above, copying(OperationKind::Migrate, chunk(0), base, above));
    begin(&mut group, switching(towards));
    distrust(&mut group, chunk(0), &(0..BLOCK), FAST);
    let runs = group.map.overlay_of(chunk(0)).blocks.runs(&(0..BLOCK));
    assert_eq!(runs, [(0..BLOCK, Holder::Only(Side::Above))], "the base could not be read again");
}
