//! Bits of blocks: what counts as there when bytes are marked, and what is still absent.

use super::{Presence, around_blocks, whole_blocks};
use crate::settings::BLOCK;

const CHUNK: u32 = 100 * BLOCK;

/// Blocks 2 to 4 and 70 are there.
fn presence() -> Presence {
    let mut presence = Presence::none(CHUNK);
    presence.mark(&(2 * BLOCK..5 * BLOCK));
    presence.mark(&(70 * BLOCK..71 * BLOCK));
    presence
}

#[test]
fn only_whole_blocks_become_present_and_parts_make_a_block_absent() {
    let mut presence = presence();
    assert!(!presence.mark(&(6 * BLOCK + 512..7 * BLOCK)), "it is a part of a block");
    assert!(presence.mark(&(6 * BLOCK + 512..9 * BLOCK + 512)));
    assert_eq!(presence.count(), 6, "two whole blocks have come");
    presence.unmark(&(4 * BLOCK + 512..7 * BLOCK + 512));
    assert_eq!((presence.count(), presence.holds(4), presence.holds(7)), (4, false, false));
    assert!(presence.holds(3) && presence.holds(8));
}

#[test]
fn bytes_are_there_when_each_block_that_they_touch_is() {
    let presence = presence();
    assert!(presence.all_in(&(2 * BLOCK + 512..5 * BLOCK)));
    assert!(!presence.all_in(&(2 * BLOCK..5 * BLOCK + 1)));
    assert!(presence.any_in(&(5 * BLOCK - 1..9 * BLOCK)) && !presence.any_in(&(0..2 * BLOCK)));
}

#[test]
fn absent_runs_end_where_something_is_and_spans_where_nothing_more_is_absent() {
    let presence = presence();
    assert_eq!(presence.absent_run(0, CHUNK), Some(0..2 * BLOCK));
    assert_eq!(presence.absent_run(3 * BLOCK, 4 * BLOCK), Some(5 * BLOCK..9 * BLOCK));
    assert_eq!(presence.absent_span(0, 8 * BLOCK), Some(0..8 * BLOCK));
    assert_eq!(presence.absent_span(0, 5 * BLOCK), Some(0..2 * BLOCK), "the rest is there");
    assert_eq!(presence.absent_run(0, 512), Some(0..BLOCK), "one block at least");
}

#[test]
fn nothing_is_absent_in_what_is_full() {
    let mut presence = presence();
    presence.mark(&(0..CHUNK));
    assert!(presence.is_full() && presence.all_in(&(0..CHUNK)));
    assert_eq!((presence.absent_run(0, CHUNK), presence.absent_span(0, CHUNK)), (None, None));
    presence.unmark(&(99 * BLOCK..99 * BLOCK + 1));
    assert_eq!(presence.absent_run(0, CHUNK), Some(99 * BLOCK..CHUNK));
}

#[test]
fn bytes_are_cut_down_or_widened_to_blocks() {
    assert_eq!(whole_blocks(&(512..2 * BLOCK + 512)), BLOCK..2 * BLOCK);
    assert!(whole_blocks(&(512..BLOCK)).is_empty());
    assert_eq!(around_blocks(&(512..BLOCK + 512)), 0..2 * BLOCK);
}
