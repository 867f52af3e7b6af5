//! The bytes on the device. Drawn in docs/formats/content.md.
//!
//! All integers are little-endian. Every block of metadata carries a magic number, the store's
//! identity and a CRC-32C, so that a stale, foreign, torn or damaged block is recognised. Nothing
//! here does I/O, and nothing read from a device can make it panic.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use crate::layout::Layout;
use crate::name::{BLOCK, ContentId, Domain};
use crate::request::{Quotas, Tag};
use crate::settings::{FANOUT, NAME_BYTES_MAX};
use thermocline_ports::SECTOR;
use thermocline_units::fields::put_at;
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, VolumeId};

/// Version of the layout; others are refused.
pub(crate) const VERSION: u16 = 2;
pub(crate) const BLOCK_BYTES: usize = BLOCK as usize;
const SUPER_MAGIC: &[u8; 8] = b"THERMOCS";
/// Magic 4, CRC 4, identity 8, generation 8, sequence 8, bytes used 2, part 2, extra 4.
const HEADER_BYTES: usize = 40;
/// Bytes of contents in a block of metadata.
pub(crate) const PAYLOAD_BYTES: usize = BLOCK_BYTES - HEADER_BYTES;
/// Bytes of a block's entry in a trailer.
const ENTRY_BYTES: usize = 48;
/// Entries of a block of a trailer.
pub(crate) const TRAILER_ENTRIES: usize = PAYLOAD_BYTES / ENTRY_BYTES;
/// Blocks of one record of a map.
pub(crate) const MAP_RUN_MAX: usize = 256;

const _: () = {
    assert!(4 + 4 + 8 + 8 + 8 + 2 + 2 + 4 == HEADER_BYTES, "as its parts are long");
    assert!(4 * 4 + size_of::<ContentId>() == ENTRY_BYTES, "four numbers and the content's name");
    assert!(*FANOUT.end() as usize * 4 <= PAYLOAD_BYTES, "a node fits into a block");
    assert!(BLOCK_BYTES.is_multiple_of(SECTOR as usize), "blocks are whole sectors");
    assert!(PAYLOAD_BYTES <= u16::MAX as usize, "a block says how much of it is used");
    assert!(TRAILER_ENTRIES > 0, "a block of a trailer has entries");
    assert!(MAP_RUN_MAX <= u16::MAX as usize, "a record says how many blocks it maps");
    assert!(1 + 4 + 4 + 2 + MAP_RUN_MAX * 4 <= PAYLOAD_BYTES, "each record fits into a block");
    assert!(NAME_BYTES_MAX <= u8::MAX as usize, "a byte counts those of a name");
};

/// Structure that a block of metadata is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Journal,
    Root,
    Node,
    Trailer,
}

impl Kind {
    fn magic(self) -> u32 {
        u32::from_le_bytes(match self {
            Kind::Journal => *b"TCCJ",
            Kind::Root => *b"TCCR",
            Kind::Node => *b"TCCN",
            Kind::Trailer => *b"TCCT",
        })
    }
}

/// The head of a block of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) identity: u64,
    /// Generation of the journal; number of the superblock (root, node); sequence of the segment
    /// (trailer).
    pub(crate) generation: u64,
    /// Place in the journal; in the chain (root); own address (node); of the segment (trailer).
    pub(crate) sequence: u64,
    /// Blocks of the same commit before it (journal); block of the trailer.
    pub(crate) part: u16,
    /// Address of the next block (root); level (node); class (trailer).
    pub(crate) extra: u32,
}

/// Appends a block of metadata.
///
/// # Panics
/// When `payload` is longer than [`PAYLOAD_BYTES`].
pub(crate) fn seal_block(kind: Kind, head: Head, payload: &[u8], out: &mut Vec<u8>) {
    assert!(payload.len() <= PAYLOAD_BYTES, "contents do not span blocks");
    let start = out.len();
    out.extend_from_slice(&kind.magic().to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&head.identity.to_le_bytes());
    out.extend_from_slice(&head.generation.to_le_bytes());
    out.extend_from_slice(&head.sequence.to_le_bytes());
    out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
    out.extend_from_slice(&head.part.to_le_bytes());
    out.extend_from_slice(&head.extra.to_le_bytes());
    out.extend_from_slice(payload);
    out.resize(start + BLOCK_BYTES, 0);
    let end = if mutant("crc_of_one_sector") { start + 512 } else { out.len() };
    let crc = out.get(start + 8..end).map_or(0, crc32c::crc32c);
    put_at(out, start + 4, &crc.to_le_bytes());
}

/// Reads a block of metadata; `None` when it is torn, damaged, or of another kind.
pub(crate) fn open_block(kind: Kind, block: &[u8]) -> Option<(Head, &[u8])> {
    let mut reader = Reader(block.get(..BLOCK_BYTES)?);
    let (magic, crc) = (reader.u32()?, reader.u32()?);
    let (identity, generation, sequence) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let (used, part, extra) = (usize::from(reader.u16()?), reader.u16()?, reader.u32()?);
    let end = if mutant("crc_of_one_sector") { 512 } else { BLOCK_BYTES };
    if magic != kind.magic() || !has_crc(block.get(8..end)?, crc) {
        return None;
    }
    let payload = block.get(HEADER_BYTES..HEADER_BYTES + used)?;
    Some((Head { identity, generation, sequence, part, extra }, payload))
}

/// True if a block begins with the magic number of a trailer, even if it is damaged.
pub(crate) fn looks_like_trailer(block: &[u8]) -> bool {
    block.starts_with(&Kind::Trailer.magic().to_le_bytes())
}

/// True if a block begins with the magic number of a superblock, even if it is damaged or of
/// another version.
pub(crate) fn looks_like_superblock(block: &[u8]) -> bool {
    block.starts_with(SUPER_MAGIC)
}

/// The root of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) identity: u64,
    /// Counts superblocks; the highest that is whole is the store's state.
    pub(crate) number: u64,
    pub(crate) layout: Layout,
    pub(crate) fanout: u32,
    pub(crate) journal_generation: u64,
    /// Sequence of the first block of the journal to be replayed.
    pub(crate) journal_start: u64,
    /// Address of the first block of the root.
    pub(crate) root: u32,
}

impl Superblock {
    /// The superblock as a block.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BLOCK_BYTES);
        out.extend_from_slice(SUPER_MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        for number in [self.identity, self.number, self.journal_generation, self.journal_start] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let Layout { journal_blocks, segment_blocks, segments, .. } = self.layout;
        for number in [journal_blocks, segment_blocks, segments, self.fanout, self.root] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.resize(BLOCK_BYTES, 0);
        let crc = crc32c::crc32c(out.split_at(12).1);
        put_at(&mut out, 8, &crc.to_le_bytes());
        out
    }

    /// Reads a superblock of a device of `device_blocks` blocks; `None` when it is damaged, of
    /// another version, or has values that no store has.
    pub(crate) fn decode(block: &[u8], device_blocks: u64) -> Option<Superblock> {
        let mut reader = Reader(block.get(..BLOCK_BYTES)?);
        let (magic, crc) = (reader.array::<8>()?, reader.u32()?);
        let (version, _) = (reader.u16()?, reader.u16()?);
        if &magic != SUPER_MAGIC || !has_crc(block.get(12..)?, crc) || version != VERSION {
            return None;
        }
        let (identity, number) = (reader.u64()?, reader.u64()?);
        let (journal_generation, journal_start) = (reader.u64()?, reader.u64()?);
        let (journal_blocks, segment_blocks) = (reader.u32()?, reader.u32()?);
        let (segments, fanout, root) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let layout = Layout::found(journal_blocks, segment_blocks, segments, device_blocks)?;
        let sound = FANOUT.contains(&fanout)
            && number < u64::MAX / 2
            && journal_start < u64::MAX / 2
            && layout.segment_of(root).is_some();
        sound.then_some(Superblock {
            identity,
            number,
            layout,
            fanout,
            journal_generation,
            journal_start,
            root,
        })
    }
}

/// Entry of a stored block in trailers and records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) number: u32,
    pub(crate) generation: u32,
    pub(crate) domain: Domain,
    pub(crate) owner: VolumeId,
    pub(crate) content: ContentId,
}

impl Stored {
    fn encode(entry: Option<&Stored>, out: &mut Vec<u8>) {
        let Some(entry) = entry else { return out.extend_from_slice(&[0; ENTRY_BYTES]) };
        for number in [entry.number, entry.generation, entry.domain.0, entry.owner.0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&entry.content.0);
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Stored> {
        Some(Stored {
            number: reader.u32()?,
            generation: reader.u32()?,
            domain: Domain(reader.u32()?),
            owner: VolumeId(reader.u32()?),
            content: ContentId(reader.array()?),
        })
    }
}

/// The trailer of a segment; `entries` by slot, `None` where nothing was stored.
pub(crate) fn encode_trailer(head: Head, entries: &[Option<Stored>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (part, entries) in entries.chunks(TRAILER_ENTRIES).enumerate() {
        let mut payload = Vec::with_capacity(PAYLOAD_BYTES);
        entries.iter().for_each(|entry| Stored::encode(entry.as_ref(), &mut payload));
        seal_block(Kind::Trailer, Head { part: part as u16, ..head }, &payload, &mut out);
    }
    out
}

/// A trailer as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) head: Head,
    /// Entries by slot.
    pub(crate) entries: Vec<Option<Stored>>,
}

/// Reads the trailer of `segment` with so many slots; `None` when a block of it is not whole, or
/// they are not of one trailer.
pub(crate) fn decode_trailer(
    bytes: &[u8],
    identity: u64,
    segment: u32,
    slots: u32,
) -> Option<Trailer> {
    let mut found: Option<Head> = None;
    let mut entries = Vec::with_capacity(slots as usize);
    for (part, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
        let (head, payload) = open_block(Kind::Trailer, block)?;
        let first = *found.get_or_insert(head);
        let expected = Head { identity, sequence: u64::from(segment), ..first };
        if head != (Head { part: part as u16, ..expected }) {
            return None;
        }
        let mut reader = Reader(payload);
        while !reader.0.is_empty() {
            let entry = Stored::decode(&mut reader)?;
            entries.push((entry.number != 0).then_some(entry));
        }
    }
    let head = found.filter(|_| entries.len() == slots as usize)?;
    Some(Trailer { head, entries })
}

/// Entry of a volume in roots and in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeRecord {
    pub(crate) id: VolumeId,
    pub(crate) name: String,
    pub(crate) size: Bytes,
    pub(crate) domain: Domain,
    pub(crate) read_only: bool,
    pub(crate) quotas: Quotas,
    /// Blocks that are not zeroes.
    pub(crate) mapped: u64,
    pub(crate) version: u64,
    /// Address of its map's root; 0: all zeroes.
    pub(crate) root: u32,
    /// Volume that it was made of as a clone or snapshot; 0: none.
    pub(crate) origin: VolumeId,
    pub(crate) tag: Tag,
}

/// A record. Records are replayed in their order, beginning with the state of the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// The next volume number, the current generation, and the next segment sequence.
    Next { volume: u32, generation: u32, segment: u64 },
    /// The volume's entry.
    Volume(VolumeRecord),
    /// A new volume begins with the current map of another.
    Clone { id: VolumeId, from: VolumeId, read_only: bool, name: String },
    /// The volume was deleted.
    Deleted(VolumeId),
    /// The volume's bounds.
    Quotas(VolumeId, Quotas),
    /// The segment was opened: it is written from its first slot on.
    Open { segment: u32, sequence: u64, class: u8 },
    /// The block lies at this address.
    Block(u32, Stored),
    /// Blocks of a volume from `first` on have these numbers.
    Map { volume: VolumeId, first: u32, numbers: Vec<u32> },
    /// Blocks of a volume are zeroes.
    Zero { volume: VolumeId, first: u32, count: u32 },
    /// The generation after a sweep.
    Generation(u32),
    /// A volume has this tag.
    Tag(VolumeId, Tag),
}

fn put(out: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    out.push(name.len() as u8);
    out.extend_from_slice(name.as_bytes());
}

/// Appends `record` in bytes.
pub(crate) fn encode_record(record: &Record, out: &mut Vec<u8>) {
    match record {
        Record::Next { volume, generation, segment } => {
            out.push(1);
            put(out, &[*volume, *generation]);
            out.extend_from_slice(&segment.to_le_bytes());
        }
        Record::Volume(volume) => {
            out.push(2);
            put(out, &[volume.id.0, volume.domain.0, volume.root, u32::from(volume.read_only)]);
            let Quotas { logical, physical } = volume.quotas;
            for number in [volume.size.0, logical.0, physical.0, volume.mapped, volume.version] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            put(out, &[volume.origin.0]);
            out.extend_from_slice(&volume.tag);
            put_name(out, &volume.name);
        }
        Record::Clone { id, from, read_only, name } => {
            out.push(3);
            put(out, &[id.0, from.0, u32::from(*read_only)]);
            put_name(out, name);
        }
        Record::Deleted(volume) => {
            out.push(4);
            put(out, &[volume.0]);
        }
        Record::Quotas(volume, quotas) => {
            out.push(5);
            put(out, &[volume.0]);
            out.extend_from_slice(&quotas.logical.0.to_le_bytes());
            out.extend_from_slice(&quotas.physical.0.to_le_bytes());
        }
        Record::Open { segment, sequence, class } => {
            out.push(6);
            put(out, &[*segment, u32::from(*class)]);
            out.extend_from_slice(&sequence.to_le_bytes());
        }
        Record::Block(place, stored) => {
            out.push(7);
            put(out, &[*place]);
            Stored::encode(Some(stored), out);
        }
        Record::Map { volume, first, numbers } => {
            out.push(8);
            put(out, &[volume.0, *first]);
            out.extend_from_slice(&(numbers.len() as u16).to_le_bytes());
            put(out, numbers);
        }
        Record::Zero { volume, first, count } => {
            out.push(9);
            put(out, &[volume.0, *first, *count]);
        }
        Record::Generation(generation) => {
            out.push(10);
            put(out, &[*generation]);
        }
        Record::Tag(volume, tag) => {
            out.push(11);
            put(out, &[volume.0]);
            out.extend_from_slice(tag);
        }
    }
}

/// Decodes all records of a block; `None` when a byte is out of order.
pub(crate) fn decode_records(payload: &[u8]) -> Option<Vec<Record>> {
    let mut reader = Reader(payload);
    let mut records = Vec::new();
    while !reader.0.is_empty() {
        records.push(decode_record(&mut reader)?);
    }
    Some(records)
}

fn decode_record(reader: &mut Reader<'_>) -> Option<Record> {
    Some(match reader.array::<1>()?[0] {
        1 => Record::Next {
            volume: reader.u32()?,
            generation: reader.u32()?,
            segment: reader.u64()?,
        },
        2 => {
            let (id, domain) = (VolumeId(reader.u32()?), Domain(reader.u32()?));
            let (root, read_only) = (reader.u32()?, reader.flag()?);
            let size = Bytes(reader.u64()?);
            let quotas = Quotas { logical: Bytes(reader.u64()?), physical: Bytes(reader.u64()?) };
            let (mapped, version) = (reader.u64()?, reader.u64()?);
            let (origin, tag) = (VolumeId(reader.u32()?), reader.array()?);
            let name = reader.name()?;
            Record::Volume(VolumeRecord {
                id,
                name,
                size,
                domain,
                read_only,
                quotas,
                mapped,
                version,
                origin,
                tag,
                root,
            })
        }
        3 => Record::Clone {
            id: VolumeId(reader.u32()?),
            from: VolumeId(reader.u32()?),
            read_only: reader.flag()?,
            name: reader.name()?,
        },
        4 => Record::Deleted(VolumeId(reader.u32()?)),
        5 => {
            let volume = VolumeId(reader.u32()?);
            let quotas = Quotas { logical: Bytes(reader.u64()?), physical: Bytes(reader.u64()?) };
            Record::Quotas(volume, quotas)
        }
        6 => {
            let (segment, class) = (reader.u32()?, u8::try_from(reader.u32()?).ok()?);
            Record::Open { segment, sequence: reader.u64()?, class }
        }
        7 => Record::Block(reader.u32()?, Stored::decode(reader)?),
        8 => {
            let (volume, first) = (VolumeId(reader.u32()?), reader.u32()?);
            let count = usize::from(reader.u16()?);
            if count == 0 || count > MAP_RUN_MAX {
                return None;
            }
            let numbers = (0..count).map(|_| reader.u32()).collect::<Option<_>>()?;
            Record::Map { volume, first, numbers }
        }
        9 => Record::Zero {
            volume: VolumeId(reader.u32()?),
            first: reader.u32()?,
            count: reader.u32()?,
        },
        10 => Record::Generation(reader.u32()?),
        11 => Record::Tag(VolumeId(reader.u32()?), reader.array()?),
        _ => return None,
    })
}

/// Appends a node's entries.
pub(crate) fn encode_entries(entries: impl Iterator<Item = u32>, out: &mut Vec<u8>) {
    out.extend(entries.flat_map(u32::to_le_bytes));
}

/// A node's entries.
pub(crate) fn decode_entries(payload: &[u8]) -> Box<[u32]> {
    let (words, _) = payload.as_chunks::<4>();
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// True if `name` may be the name of a volume that is there; new ones keep to
/// [`crate::settings::is_volume_name`].
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.chars().any(char::is_control)
}

/// True if `bytes` have this checksum. Always true in a fuzzer, so that it reaches the code behind
/// the check.
fn has_crc(bytes: &[u8], crc: u32) -> bool {
    cfg!(fuzzing) || crc32c::crc32c(bytes) == crc
}

/// Bytes not read yet.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn flag(&mut self) -> Option<bool> {
        self.u32().filter(|&flag| flag < 2).map(|flag| flag == 1)
    }

    fn name(&mut self) -> Option<String> {
        let length = usize::from(self.array::<1>()?[0]);
        let name = std::str::from_utf8(self.take(length)?).ok()?;
        is_name(name).then(|| name.to_string())
    }
}
