//! Tables of block checksums. Drawn in docs/formats/volume.md.

use crate::map::Table;
use crate::pools::layout::table_bytes;
use crate::settings::BLOCK;
use thermocline_ports::Payload;
use thermocline_units::ChunkId;
use thermocline_units::fields::{put_at, u32_at};

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
    let crc = bytes.get(8..).map_or(0, crc32c::crc32c);
    put_at(&mut bytes, 4, &crc.to_le_bytes());
    (Payload::from(bytes), crc)
}

/// The sums in a stored table; `None` when it is damaged or not the one that the journal means.
pub(crate) fn decode_table(
    name: TableName,
    table: Table,
    bytes: &[u8],
    chunk_size: u32,
) -> Option<Box<[u32]>> {
    let word = |at: usize| u32_at(bytes, at);
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
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
