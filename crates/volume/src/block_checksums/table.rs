//! A table of checksums as it is stored, and the places where a chunk's tables are.

use crate::group_state::GroupState;
use crate::layout::table_bytes;
use crate::map::{Place, Table};
use crate::settings::BLOCK;
use thermocline_ports::Payload;
use thermocline_units::ChunkId;
use thermocline_units::mutants::mutant;

const TABLE_MAGIC: &[u8; 4] = b"TCSM";
/// Magic 4, CRC 4, group 8, volume 4, chunk 4, volume's identity 8, zero 8.
const TABLE_HEADER_BYTES: usize = 40;

/// Owner of a table of checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableName {
    pub(crate) group: u64,
    pub(crate) chunk: ChunkId,
    /// The volume's identity, which no other volume of the group ever has.
    pub(crate) volume: u64,
}

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

/// A table as stored, and the checksum of it.
pub(crate) fn encode_table(name: TableName, sums: &[u32], chunk_size: u32) -> (Payload, u32) {
    let mut bytes = Vec::with_capacity(table_bytes(chunk_size) as usize);
    bytes.extend_from_slice(TABLE_MAGIC);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&name.group.to_le_bytes());
    bytes.extend_from_slice(&name.chunk.volume.0.to_le_bytes());
    bytes.extend_from_slice(&name.chunk.index.to_le_bytes());
    bytes.extend_from_slice(&name.volume.to_le_bytes());
    assert!(bytes.len() <= TABLE_HEADER_BYTES, "sums begin behind the header");
    bytes.resize(TABLE_HEADER_BYTES, 0);
    bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
    assert!(bytes.len() as u64 <= table_bytes(chunk_size), "a table has room for every block");
    bytes.resize(table_bytes(chunk_size) as usize, 0);
    let crc = crc32c::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    (Payload::from(bytes), crc)
}

/// The sums in a stored table; `None` when it is damaged or not the one that the journal means.
pub(crate) fn decode_table(
    name: TableName,
    table: Table,
    bytes: &[u8],
    chunk_size: u32,
) -> Option<Box<[u32]>> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let blocks = (chunk_size / BLOCK) as usize;
    match table {
        Table::None => None,
        Table::Plain => {
            let whole = word(0)? == crc32c::crc32c(bytes.get(4..)?);
            let own = word(4)? == name.chunk.index;
            let sums = (0..blocks).map(|block| word(8 + 4 * block)).collect::<Option<_>>();
            sums.filter(|_| whole && own)
        }
        Table::Summed(sum) => {
            let sums = (0..blocks).map(|block| word(TABLE_HEADER_BYTES + 4 * block));
            let sums: Vec<u32> = sums.collect::<Option<_>>()?;
            let (again, _) = encode_table(name, &sums, chunk_size);
            let whole = word(4)? == sum && crc32c::crc32c(bytes.get(8..)?) == sum;
            (whole && again.to_vec() == bytes).then(|| sums.into_boxed_slice())
        }
    }
}

#[cfg(test)]
mod tests;
