//! The copy of a chunk that a read uses.

use crate::core::Core;
use crate::map::Place;
use crate::moves::switching::arriving_copy;
use std::ops::Range;
use thermocline_policy::choice;
use thermocline_units::ChunkId;

/// The copy to read `range` from, among those on pools that live that have not failed.
pub(crate) fn best_copy(
    core: &Core,
    chunk: ChunkId,
    range: &Range<u32>,
    failed: impl Fn(Place) -> bool,
) -> Option<Place> {
    let arriving = arriving_copy(core, chunk, range);
    let copies = core.map.copies(chunk).map(|copy| copy.place).chain(arriving);
    let copies = copies.filter(|&place| core.pools[place.pool].is_alive() && !failed(place));
    choice::soonest(copies, |place| core.pools[place.pool].expected_wait(core.now))
}
