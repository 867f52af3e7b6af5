//! Sides of a chunk in two parts: which of them holds a block, takes a write, and lacks a copy.

use super::{Blocks, Goal, Holder, Side};
use crate::map::presence::Presence;
use crate::settings::BLOCK;
use std::ops::Range;

const CHUNK: u32 = 16 * BLOCK;
const BASE: Holder = Holder::Only(Side::Base);
const ABOVE: Holder = Holder::Only(Side::Above);

fn blocks(range: Range<u32>) -> Range<u32> {
    range.start * BLOCK..range.end * BLOCK
}

/// Block 0 above alone, 1 and 2 on both sides, the others in the base.
fn mirrored() -> Blocks {
    let mut mirrored = Blocks::mirrored(CHUNK);
    mirrored.copied(&blocks(1..3));
    mirrored.written(Side::Above, &blocks(0..1));
    mirrored
}

#[test]
fn runs_cover_all_bytes_and_are_cut_where_the_holder_changes() {
    let runs = mirrored().runs(&(512..4 * BLOCK + 512));
    let both = (BLOCK..3 * BLOCK, Holder::Both);
    assert_eq!(runs, [(512..BLOCK, ABOVE), both, (3 * BLOCK..4 * BLOCK + 512, BASE)]);
}

#[test]
fn a_write_in_part_makes_the_whole_block_stale_on_the_other_side() {
    let mut sides = mirrored();
    assert!(sides.written(Side::Base, &(BLOCK + 512..BLOCK + 1024)));
    assert_eq!(sides.runs(&blocks(1..3)), [(blocks(1..2), BASE), (blocks(2..3), Holder::Both)]);
    assert!(!sides.written(Side::Base, &(BLOCK..BLOCK + 512)), "no holder changes twice");
    assert!(sides.written(Side::Above, &(2 * BLOCK..2 * BLOCK + 512)));
    assert_eq!(sides.runs(&blocks(2..3)), [(blocks(2..3), ABOVE)]);
}

#[test]
fn a_side_takes_whole_blocks_and_parts_of_those_that_it_has() {
    let sides = mirrored();
    let part = |block: u32| block * BLOCK + 512..block * BLOCK + 1024;
    assert!(sides.takes(Side::Base, &blocks(0..1)) && sides.takes(Side::Above, &blocks(3..9)));
    assert!(!sides.takes(Side::Base, &part(0)), "the rest of the block is above");
    assert!(sides.takes(Side::Base, &part(1)) && sides.takes(Side::Above, &part(1)));
    assert!(!sides.takes(Side::Above, &part(3)), "the rest of the block is in the base");
}

#[test]
fn a_goal_is_reached_by_copying_each_block_to_the_side_that_lacks_it() {
    let mut sides = mirrored();
    assert_eq!(sides.run_towards(Goal::Base, 0, CHUNK), Some((blocks(0..1), Side::Base)));
    assert_eq!(sides.run_towards(Goal::Above, 0, CHUNK), Some((blocks(3..16), Side::Above)));
    assert_eq!(sides.run_towards(Goal::Above, 0, 2 * BLOCK), Some((blocks(3..5), Side::Above)));
    let mut pieces = 0;
    while let Some((run, _)) = sides.run_towards(Goal::Both, 0, 4 * BLOCK) {
        assert!(!sides.is_at(Goal::Both) && sides.copied(&run));
        pieces += 1;
    }
    assert_eq!(pieces, 1 + 4, "one run to the base, the others above");
    assert!(Side::Base != Side::Above && [Goal::Both, Goal::Base].iter().all(|&g| sides.is_at(g)));
    assert!(sides.is_whole_on(Side::Base) && sides.is_whole_on(Side::Above));
}

#[test]
fn a_redirected_chunk_shares_no_block() {
    let mut sides = Blocks::redirected(CHUNK);
    sides.written(Side::Above, &blocks(0..8));
    assert!(sides.copied(&blocks(8..9)) && !sides.any_shared() && !sides.is_at(Goal::Above));
    assert!(sides.copied(&blocks(9..16)) && sides.is_at(Goal::Above));
    assert!(!sides.is_whole_on(Side::Base));
}

#[test]
fn after_a_crash_what_both_sides_held_counts_on_one_of_them() {
    for (side, holder) in [(Side::Base, BASE), (Side::Above, ABOVE)] {
        let mut sides = mirrored();
        sides.trust(side);
        assert_eq!(sides.runs(&blocks(1..3)), [(blocks(1..3), holder)]);
        assert_eq!(sides.runs(&blocks(0..1)), [(blocks(0..1), ABOVE)], "it is nowhere else");
    }
}

#[test]
fn bits_of_a_block_that_is_shared_but_not_above_are_refused() {
    let mut above = Presence::none(CHUNK);
    above.mark(&blocks(0..4));
    let mut shared = Presence::none(CHUNK);
    shared.mark(&blocks(2..4));
    assert!(Blocks::of_parts(above.clone(), Some(shared.clone())).is_some());
    shared.mark(&blocks(4..5));
    assert_eq!(Blocks::of_parts(above, Some(shared)), None);
}
