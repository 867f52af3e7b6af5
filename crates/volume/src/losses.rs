//! What pools took with them when they died: which chunks lose something, and who is to be told.

use crate::core::Core;
use crate::map::Place;
use crate::overlay::Side;
use std::collections::BTreeSet;
use thermocline_units::mutants::mutant;
use thermocline_units::{ChunkId, PoolId, VolumeId};

/// Writes that were not flushed when their pool died: who flushes next is told.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Pools that died so since a commit was last durable.
    pub(crate) pools: BTreeSet<PoolId>,
    /// Volumes whose next flush fails: a pool died with something that only it had, and nobody was
    /// told yet.
    pub(crate) untold: BTreeSet<VolumeId>,
}

impl Losses {
    /// Unflushed writes to `pool` are gone.
    pub(crate) fn note(&mut self, pool: PoolId) {
        self.pools.insert(pool);
    }

    /// The volume is deleted: what it lost concerns nobody.
    pub(crate) fn forget(&mut self, volume: VolumeId) {
        self.untold.remove(&volume);
    }
}

/// True if a chunk has something that is on dead pools only, and on one of `lost`. What pools
/// took with them that died before has been told.
pub(crate) fn has_lost_part(core: &Core, chunk: ChunkId, lost: &BTreeSet<PoolId>) -> bool {
    let again = !lost.is_empty() && mutant("losses_told_again");
    (again || any_place(core, chunk, |place| lost.contains(&place.pool)))
        && loses_part(core, chunk, |place| !core.pools[place.pool].is_alive())
}

/// True if some chunk has something that is on this pool only, or on pools that are dead.
pub(crate) fn is_needed(core: &Core, pool: PoolId) -> bool {
    let gone = |place: Place| place.pool == pool || !core.pools[place.pool].is_alive();
    core.map.chunks().any(|chunk| {
        any_place(core, chunk, |place| place.pool == pool) && loses_part(core, chunk, gone)
    })
}

/// True if some place of a chunk is so.
fn any_place(core: &Core, chunk: ChunkId, is: impl Fn(Place) -> bool) -> bool {
    let above = core.map.overlay(chunk).map(|overlay| overlay.place);
    core.map.copies(chunk).map(|copy| copy.place).chain(above).any(is)
}

/// True if a chunk has something that is on `dead` places only.
fn loses_part(core: &Core, chunk: ChunkId, dead: impl Fn(Place) -> bool) -> bool {
    let mut copies = core.map.copies(chunk).map(|copy| copy.place).peekable();
    let Some(overlay) = core.map.overlay(chunk) else {
        return copies.peek().is_some() && copies.all(dead);
    };
    let whole = 0..core.pools.chunk_bytes();
    let lost =
        |side| dead(core.map.place_on(chunk, side)) && overlay.blocks.any_only_on(side, &whole);
    let both = [Side::Base, Side::Above].iter().all(|&side| dead(core.map.place_on(chunk, side)));
    both || lost(Side::Base) || lost(Side::Above)
}
