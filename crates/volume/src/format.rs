//! The bytes on disk: blocks of records, and records; [`superblock`] has superblocks, [`table`]
//! tables of block checksums. Drawn in docs/formats/volume.md.
//!
//! All integers are little-endian. Every block of 4 KiB carries a magic number, the group's
//! identity and a CRC-32C, so that a stale, foreign, torn or rotten block is recognised. Nothing
//! here does I/O, and nothing read from a disk can make it panic.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

mod bits;
mod superblock;
mod table;

#[cfg(test)]
pub(crate) use bits::{decode_presence, encode_presence};
pub(crate) use superblock::{
    Membership, PoolRecord, Superblock, is_damaged_superblock, is_superblock,
};
pub(crate) use table::{TableName, decode_table, encode_table};

use crate::map::place::{ChunkCopy, Place, Role};
use bits::{decode_blocks, encode_blocks};

use crate::map::naming::is_volume_name;
use crate::map::{ChunkState, NONE, Table, Volume};
use crate::settings::{
    BLOCK, COPIES_MAX, POOLS_MAX, VOLUME_CHUNKS_MAX, VOLUME_NAME_BYTES_MAX, VOLUMES_MAX,
};
use crate::sizes::{
    AREA_BLOCKS_MAX, BLOCK_BYTES, HEADER_BYTES, NAME_BYTES_MAX, PAYLOAD_BYTES, RECORD_BYTES_MAX,
    RUNS_MAX,
};
use thermocline_ports::SECTOR;
use thermocline_units::fields::put_at;
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, PoolId, VolumeId};

/// Version of the layout, written; those before it are read, later ones are refused. Version 2 has
/// mirrored chunks. Version 3 says of each journal block which commit it belongs to, and continues
/// checkpoint areas in slots. Version 4 has pools that grew, with checksums in slots; a group
/// gets it when a pool grows so far. Version 5 says of each pool whether it has checksums; a group
/// gets it with the first pool that is unlike the others.
pub(crate) const VERSION: u16 = 5;
/// Version of groups that have neither.
const VERSION_WITHOUT_GROWTH: u16 = 3;
/// First version whose pools may be unlike in that they have tables of checksums.
const VERSION_WITH_UNLIKE_POOLS: u16 = 5;
/// First version whose journal tells a torn end from damage before it.
pub(crate) const VERSION_WITH_COMMITS: u16 = 3;
/// First version whose pools may have tables of checksums in slots.
pub(crate) const VERSION_WITH_TABLE_SLOTS: u16 = 4;
/// First version whose superblocks list slots that continue areas.
const VERSION_WITH_EXTENTS: u16 = 3;
const SUPER_MAGIC: &[u8; 8] = b"THERMOCL";
const JOURNAL_MAGIC: u32 = u32::from_le_bytes(*b"TCJL");
const CHECKPOINT_MAGIC: u32 = u32::from_le_bytes(*b"TCCP");
/// Bytes of a chunk's record that are zero: once meant for a stream and a pattern, and never used.
const CHUNK_RECORD_UNUSED: usize = 3;
const _: () = assert!(BLOCK_BYTES == BLOCK as usize, "metadata has the grain of chunks");
const _: () = assert!(BLOCK_BYTES.is_multiple_of(SECTOR as usize), "blocks are whole sectors");
const _: () = assert!(PAYLOAD_BYTES <= u16::MAX as usize, "a block says how much of it is used");
const _: () = assert!(RECORD_BYTES_MAX <= PAYLOAD_BYTES, "each record fits into a block");
const _: () = assert!(COPIES_MAX <= 7, "a record has three bits for the number of copies");
const _: () = assert!(2 * POOLS_MAX <= u8::MAX as usize, "a byte counts lists of extents");
const _: () = assert!(RUNS_MAX <= u8::MAX as usize, "a byte counts the runs of a list");
const _: () = assert!(NAME_BYTES_MAX <= u8::MAX as usize, "a byte counts those of a pool's name");
const _: () = assert!(VOLUME_NAME_BYTES_MAX <= u8::MAX as usize, "and those of a volume's");
const _: () = assert!(VOLUME_CHUNKS_MAX < NONE as u64, "the index of a chunk fits into 32 bits");
const _: () = assert!(
    VERSION_WITH_COMMITS <= VERSION_WITHOUT_GROWTH
        && VERSION_WITH_EXTENTS <= VERSION_WITHOUT_GROWTH
        && VERSION_WITHOUT_GROWTH < VERSION_WITH_TABLE_SLOTS
        && VERSION_WITH_TABLE_SLOTS < VERSION_WITH_UNLIKE_POOLS
        && VERSION_WITH_UNLIKE_POOLS <= VERSION,
    "versions that are written have all that those before them have"
);

/// A volume as the journal and checkpoints know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeRecord {
    /// Its number: free again when it is deleted.
    pub(crate) id: VolumeId,
    /// Never used again, whatever becomes of the volume; 0: not yet given (layouts 1 and 2).
    pub(crate) identity: u64,
    pub(crate) size: Bytes,
    /// Empty: not yet given (layouts 1 and 2).
    pub(crate) name: String,
}

/// One absolute statement; replaying it twice, or after a later one was seen, does no harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// All there is to say about a chunk. No copies: it is unmapped.
    Chunk(ChunkId, ChunkState),
    /// The volume exists and is so.
    Volume(VolumeRecord),
    /// The volume and all its chunks are gone.
    VolumeGone(VolumeId),
    /// The pool died: chunks with copies elsewhere have lost theirs there.
    PoolDead(PoolId),
}

impl Record {
    /// The record of a volume.
    pub(crate) fn of_volume(id: VolumeId, volume: &Volume) -> Record {
        let (identity, size, name) = (volume.identity(), volume.size(), volume.name().to_string());
        Record::Volume(VolumeRecord { id, identity, size, name })
    }
}

/// Place of a block in its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) identity: u64,
    pub(crate) generation: u64,
    pub(crate) sequence: u64,
}

/// Kind of a record block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BlockKind {
    Journal,
    Checkpoint,
}

impl BlockKind {
    fn magic(self) -> u32 {
        match self {
            BlockKind::Journal => JOURNAL_MAGIC,
            BlockKind::Checkpoint => CHECKPOINT_MAGIC,
        }
    }
}

/// Wraps encoded records into a block that stands for itself.
///
/// # Panics
/// When `payload` is longer than [`PAYLOAD_BYTES`].
pub(crate) fn frame_block(kind: BlockKind, stamp: Stamp, payload: &[u8], out: &mut Vec<u8>) {
    frame_commit_block(kind, stamp, 0, payload, out);
}

/// The same, for a block that has `before` others of its commit before it.
///
/// # Panics
/// When `payload` is longer than [`PAYLOAD_BYTES`].
pub(crate) fn frame_commit_block(
    kind: BlockKind,
    stamp: Stamp,
    before: u16,
    payload: &[u8],
    out: &mut Vec<u8>,
) {
    assert!(payload.len() <= PAYLOAD_BYTES, "records do not span blocks");
    let start = out.len();
    out.extend_from_slice(&kind.magic().to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&stamp.identity.to_le_bytes());
    out.extend_from_slice(&stamp.generation.to_le_bytes());
    out.extend_from_slice(&stamp.sequence.to_le_bytes());
    out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    out.extend_from_slice(&before.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    assert_eq!(out.len() - start, HEADER_BYTES, "records begin behind the header");
    out.extend_from_slice(payload);
    out.resize(start + BLOCK_BYTES, 0);
    let end = if mutant("block_crc_of_one_sector") { start + 512 } else { out.len() };
    let crc = out.get(start + 8..end).map_or(0, crc32c::crc32c);
    put_at(out, start + 4, &crc.to_le_bytes());
}

/// A block that is whole, whatever it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WholeBlock<'a> {
    pub(crate) stamp: Stamp,
    /// Blocks of the same commit that stand before it; zero before version 3.
    pub(crate) before: u16,
    /// The records' bytes.
    pub(crate) payload: &'a [u8],
}

impl WholeBlock<'_> {
    /// Sequence of the first block of its commit. That the block exists says that everything before
    /// this sequence was durable: a commit is written when the one before it has ended.
    pub(crate) fn commit_start(&self) -> u64 {
        self.stamp.sequence.saturating_sub(u64::from(self.before))
    }
}

/// Reads a block; `None` when it is torn, rotten, or of another kind.
pub(crate) fn read_block(kind: BlockKind, block: &[u8]) -> Option<WholeBlock<'_>> {
    let mut reader = Reader(block.get(..BLOCK_BYTES)?);
    let (magic, crc) = (reader.u32()?, reader.u32()?);
    let stamp =
        Stamp { identity: reader.u64()?, generation: reader.u64()?, sequence: reader.u64()? };
    let (used, before) = (usize::from(reader.u16()?), reader.u16()?);
    let end = if mutant("block_crc_of_one_sector") { 512 } else { BLOCK_BYTES };
    if magic != kind.magic() || !has_crc(block.get(8..end)?, crc) {
        return None;
    }
    let payload = block.get(HEADER_BYTES..HEADER_BYTES + used)?;
    Some(WholeBlock { stamp, before, payload })
}

/// The records' bytes of a block that is whole and carries exactly this stamp.
pub(crate) fn open_block(kind: BlockKind, stamp: Stamp, block: &[u8]) -> Option<&[u8]> {
    read_block(kind, block).filter(|whole| whole.stamp == stamp).map(|whole| whole.payload)
}

/// Appends `record` in bytes.
pub(crate) fn encode_record(record: &Record, out: &mut Vec<u8>) {
    let start = out.len();
    match record {
        Record::Chunk(chunk, state) => {
            out.push(1);
            out.extend_from_slice(&chunk.volume.0.to_le_bytes());
            out.extend_from_slice(&chunk.index.to_le_bytes());
            out.extend_from_slice(&[0; CHUNK_RECORD_UNUSED]);
            let overlay = u8::from(state.overlay.is_some());
            let dirty = u8::from(state.dirty);
            let table = if state.unsaid { Table::None } else { state.table };
            let (right, summed) = match table {
                Table::None => (0, 0),
                Table::Plain => (1, 0),
                Table::Summed(_) => (1, 1),
            };
            let pinned = u8::from(state.pinned);
            assert!(state.copies.len() <= COPIES_MAX, "no reader takes more copies");
            let count = state.copies.len() as u8;
            out.push(count | summed << 3 | dirty << 4 | overlay << 5 | right << 6 | pinned << 7);
            if let Table::Summed(sum) = table {
                out.extend_from_slice(&sum.to_le_bytes());
            }
            for copy in &state.copies {
                encode_place(copy.place, out);
                out.push(u8::from(copy.gives_way()));
            }
            if let Some((place, blocks)) = &state.overlay {
                encode_place(*place, out);
                let bits = encode_blocks(blocks);
                out.extend_from_slice(&(bits.len() as u16).to_le_bytes());
                out.extend_from_slice(&bits);
            }
        }
        Record::Volume(volume) => {
            out.push(5);
            out.extend_from_slice(&volume.id.0.to_le_bytes());
            out.extend_from_slice(&volume.identity.to_le_bytes());
            out.extend_from_slice(&volume.size.0.to_le_bytes());
            out.push(volume.name.len() as u8);
            out.extend_from_slice(volume.name.as_bytes());
        }
        Record::VolumeGone(volume) => {
            out.push(3);
            out.extend_from_slice(&volume.0.to_le_bytes());
        }
        Record::PoolDead(pool) => {
            out.push(4);
            out.extend_from_slice(&pool.0.to_le_bytes());
        }
    }
    assert!(out.len() - start <= PAYLOAD_BYTES, "records do not span blocks");
}

fn encode_place(place: Place, out: &mut Vec<u8>) {
    out.extend_from_slice(&place.pool.0.to_le_bytes());
    out.extend_from_slice(&place.slot.to_le_bytes());
}

/// Decodes all records of a block's payload; `None` when a byte is out of order.
pub(crate) fn decode_records(payload: &[u8], chunk_size: u32) -> Option<Vec<Record>> {
    let mut reader = Reader(payload);
    let mut records = Vec::new();
    while !reader.0.is_empty() {
        records.push(decode_record(&mut reader, chunk_size)?);
    }
    Some(records)
}

fn decode_record(reader: &mut Reader<'_>, chunk_size: u32) -> Option<Record> {
    match reader.u8()? {
        1 => {
            let chunk = ChunkId { volume: reader.volume()?, index: reader.u32()? };
            if reader.take(CHUNK_RECORD_UNUSED)?.iter().any(|&byte| byte != 0) {
                return None;
            }
            let flags = reader.u8()?;
            let pinned = flags >> 7 == 1;
            let count = usize::from(flags & 7);
            if count > COPIES_MAX {
                return None;
            }
            let table = match (flags >> 6 & 1, flags >> 3 & 1) {
                (0, 0) => Table::None,
                (1, 0) => Table::Plain,
                (1, 1) => Table::Summed(reader.u32()?),
                _ => return None,
            };
            let mut copies = Vec::with_capacity(count);
            for _ in 0..count {
                let place = reader.place()?;
                let role = if reader.u8()? != 0 { Role::Prefetched } else { Role::Wanted };
                copies.push(ChunkCopy { place, role });
            }
            let overlay = if flags >> 5 & 1 == 1 {
                let place = reader.place()?;
                let length = usize::from(reader.u16()?);
                Some((place, decode_blocks(chunk_size, reader.take(length)?)?))
            } else {
                None
            };
            if overlay.is_some() && copies.is_empty() {
                return None; // It lies over a copy.
            }
            let dirty = flags >> 4 & 1 == 1;
            let state = ChunkState { copies, dirty, table, unsaid: false, pinned, overlay };
            Some(Record::Chunk(chunk, state))
        }
        2 => {
            let (id, size) = (reader.volume()?, reader.volume_size(chunk_size)?);
            Some(Record::Volume(VolumeRecord { id, identity: 0, size, name: String::new() }))
        }
        3 => Some(Record::VolumeGone(reader.volume()?)),
        4 => Some(Record::PoolDead(PoolId(reader.u16()?))),
        5 => {
            let (id, identity) = (reader.volume()?, reader.u64()?);
            let size = reader.volume_size(chunk_size)?;
            let length = usize::from(reader.u8()?);
            let name = std::str::from_utf8(reader.take(length)?).ok()?.to_string();
            let sound = is_volume_name(&name) && identity < u64::MAX / 2;
            sound.then_some(Record::Volume(VolumeRecord { id, identity, size, name }))
        }
        _ => None,
    }
}

/// True if `bytes` have this checksum. A fuzzer is let through: what is forged must not harm
/// either.
fn has_crc(bytes: &[u8], crc: u32) -> bool {
    cfg!(fuzzing) || crc32c::crc32c(bytes) == crc
}

/// Bytes not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A place; the number by which the map says "none" is out of order.
    fn place(&mut self) -> Option<Place> {
        let (pool, slot) = (PoolId(self.u16()?), self.u32()?);
        (slot != NONE && usize::from(pool.0) < POOLS_MAX).then_some(Place { pool, slot })
    }

    /// The size of a volume, in bytes; one that no volume can have is out of order.
    fn volume_size(&mut self, chunk_size: u32) -> Option<Bytes> {
        let size = self.u64()?;
        (size.div_ceil(u64::from(chunk_size)) <= VOLUME_CHUNKS_MAX).then_some(Bytes(size))
    }

    /// A volume id; ids beyond what a group can have are out of order.
    fn volume(&mut self) -> Option<VolumeId> {
        self.u32().filter(|&id| (id as usize) < VOLUMES_MAX).map(VolumeId)
    }
}
