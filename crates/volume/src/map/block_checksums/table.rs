//! The owner of a chunk's table of checksums, and the places where its tables are.

use crate::format::TableName;
use crate::group_state::GroupState;
use crate::map::place::Place;
use thermocline_units::ChunkId;
use thermocline_units::mutants::mutant;

/// Owner of a chunk's table.
pub(crate) fn table_name(group: &GroupState, chunk: ChunkId) -> TableName {
    let volume = group.map.volume(chunk.volume).map_or(0, |volume| volume.identity);
    TableName { group: group.journal.identity(), chunk, volume }
}

/// The copies of a chunk that have room for a table.
pub(crate) fn table_places(group: &GroupState, chunk: ChunkId) -> impl Iterator<Item = Place> + '_ {
    let places = group.map.copies(chunk).map(|copy| copy.place);
    let anywhere = mutant("table_where_there_is_no_room");
    places.filter(move |place| group.pools[place.pool].checksums || anywhere)
}

/// True if a table of the chunk has room at one of its copies, and all of them are here.
pub(crate) fn can_have_tables(group: &GroupState, chunk: ChunkId) -> bool {
    let far = group.map.copies(chunk).any(|copy| group.pools[copy.place.pool].is_far());
    !far && table_places(group, chunk).next().is_some()
}
