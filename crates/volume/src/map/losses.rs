//! Chunks that lose something when pools die.

use crate::group_state::GroupState;
use crate::map::overlay::Side;
use crate::map::place::Place;
use std::collections::BTreeSet;
use thermocline_units::mutants::mutant;
use thermocline_units::{ChunkId, PoolId};

/// True if a chunk has something that is on dead pools only, and on one of `lost`. What pools
/// took with them that died before has been told.
pub(crate) fn has_lost_part(group: &GroupState, chunk: ChunkId, lost: &BTreeSet<PoolId>) -> bool {
    let again = !lost.is_empty() && mutant("losses_told_again");
    (again || any_place(group, chunk, |place| lost.contains(&place.pool)))
        && loses_part(group, chunk, |place| !group.pools[place.pool].is_alive())
}

/// True if some chunk has something that is on this pool only, or on pools that are dead.
pub(crate) fn is_needed(group: &GroupState, pool: PoolId) -> bool {
    let gone = |place: Place| place.pool == pool || !group.pools[place.pool].is_alive();
    group.map.chunks().any(|chunk| {
        any_place(group, chunk, |place| place.pool == pool) && loses_part(group, chunk, gone)
    })
}

/// True if some place of a chunk is so.
fn any_place(group: &GroupState, chunk: ChunkId, is: impl Fn(Place) -> bool) -> bool {
    let above = group.map.overlay(chunk).map(|overlay| overlay.place);
    group.map.copies(chunk).map(|copy| copy.place).chain(above).any(is)
}

/// True if a chunk has something that is on `dead` places only.
fn loses_part(group: &GroupState, chunk: ChunkId, dead: impl Fn(Place) -> bool) -> bool {
    let mut copies = group.map.copies(chunk).map(|copy| copy.place).peekable();
    let Some(overlay) = group.map.overlay(chunk) else {
        return copies.peek().is_some() && copies.all(dead);
    };
    let whole = 0..group.pools.chunk_bytes();
    let lost =
        |side| dead(group.map.place_on(chunk, side)) && overlay.blocks.any_only_on(side, &whole);
    let both = [Side::Base, Side::Above].iter().all(|&side| dead(group.map.place_on(chunk, side)));
    both || lost(Side::Base) || lost(Side::Above)
}

#[cfg(test)]
mod tests;
