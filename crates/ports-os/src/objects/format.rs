//! The bytes of a device in a bucket. Drawn in `docs/formats/bucket.md`.
//!
//! ```text
//! PREFIX/log/SEQUENCE           a record: the device was opened, or extents have new generations
//! PREFIX/map/SEQUENCE           a record: every extent's generation, as of that sequence
//! PREFIX/xN/EXTENT.GENERATION   an extent's contents; N is the number's last hexadecimal digit
//! PREFIX/lock                   who has the device, for people and for the next who opens it
//! ```
//! No key but `lock` is ever written twice with different contents. Every block of an extent
//! carries a checksum over its own name, so that a cut off, exchanged or rotten answer is found
//! whatever range of an object was asked for. A checksum is no signature: who may write to the
//! bucket and knows this layout can forge.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use std::ops::Range;
use thermocline_ports::SECTOR;
use thermocline_units::Bytes;
use thermocline_units::fields::{put_at, u16_at, u32_at, u64_at};
use thermocline_units::mutants::mutant;

/// Version of the layout; another one is refused.
const VERSION: u16 = 1;
const OBJECT_MAGIC: &[u8; 8] = b"THERMOOB";
const RECORD_MAGIC: &[u8; 8] = b"THERMOLG";
/// Bytes of an object's header.
pub const HEADER_BYTES: u64 = 64;
/// Contents of a block, and its checksum.
pub const BLOCK: u32 = 4096;
const CRC_BYTES: u32 = 4;
const STRIDE: u64 = (BLOCK + CRC_BYTES) as u64;
/// Bytes of a record in front of its entries, and of an entry.
const RECORD_BYTES: usize = 80;
const ENTRY_BYTES: usize = 12;
/// Extents of a device, at most: 8 B of memory each, 128 MiB in all.
pub const EXTENTS_MAX: u64 = 1 << 24;
/// Sizes that an extent may have.
pub const EXTENT_BYTES: std::ops::RangeInclusive<u32> = (64 << 10)..=(1 << 30);
/// Low bits of a generation that count within one opening.
const COUNT_BITS: u32 = 40;

const _: () = assert!(BLOCK.is_multiple_of(SECTOR));

/// A generation of an extent: which opening wrote it, and its number there. 0: there is none, and
/// the extent reads as zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

impl Generation {
    /// No object.
    pub const NONE: Generation = Generation(0);

    /// The `count`-th of opening `epoch`; none when either does not fit.
    pub fn new(epoch: u64, count: u64) -> Option<Generation> {
        let fits = epoch > 0 && epoch < 1 << (64 - COUNT_BITS) && count < 1 << COUNT_BITS;
        fits.then_some(Generation(epoch << COUNT_BITS | count))
    }

    /// Number of the opening that wrote it.
    pub fn epoch(self) -> u64 {
        self.0 >> COUNT_BITS
    }
}

/// Size of a device and of its extents; chosen when it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of the device; whole sectors.
    pub size: Bytes,
    /// Bytes of an extent; a power of two.
    pub extent: u32,
    /// Bytes of the first extent, so that the others begin where whoever is above has its own
    /// borders; 0: it is like the others. Below `extent`, a multiple of [`BLOCK`].
    pub lead: u32,
}

impl Shape {
    /// True if a device can be like this.
    pub fn is_sound(&self) -> bool {
        let extent = self.extent;
        EXTENT_BYTES.contains(&extent)
            && extent.is_power_of_two()
            && self.lead < extent
            && self.lead.is_multiple_of(BLOCK)
            && self.size.0 >= u64::from(SECTOR)
            && self.size.0.is_multiple_of(u64::from(SECTOR))
            && self.size.0 / u64::from(extent) < EXTENTS_MAX
    }

    /// Number of extents.
    pub fn extents(&self) -> u32 {
        let behind = self.size.0.saturating_sub(u64::from(self.lead));
        (behind.div_ceil(u64::from(self.extent)) + u64::from(self.lead > 0)) as u32
    }

    /// The extent that holds a byte.
    pub fn extent_of(&self, at: u64) -> u32 {
        let lead = u64::from(self.lead);
        match at.checked_sub(lead) {
            None => 0,
            Some(behind) => (behind / u64::from(self.extent)) as u32 + u32::from(lead > 0),
        }
    }

    /// The bytes of the device that an extent holds.
    pub fn bytes_of(&self, extent: u32) -> Range<u64> {
        let (lead, step) = (u64::from(self.lead), u64::from(self.extent));
        let end = |extent: u64| match lead {
            0 => (extent + 1) * step,
            _ => lead + extent * step,
        };
        let start = if extent == 0 { 0 } else { end(u64::from(extent) - 1) };
        start..end(u64::from(extent)).min(self.size.0)
    }

    /// Bytes that an extent has.
    pub fn length_of(&self, extent: u32) -> u32 {
        let bytes = self.bytes_of(extent);
        (bytes.end - bytes.start) as u32
    }
}

/// The names of an object: what its blocks' checksums are over, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// The device.
    pub identity: u64,
    /// The extent.
    pub extent: u32,
    /// The generation of it.
    pub generation: Generation,
}

impl Name {
    /// Its key, below the prefix.
    pub fn key(&self) -> String {
        let (extent, generation) = (self.extent, self.generation.0);
        format!("{}/{extent:08x}.{generation:016x}", shard(extent & 0xf))
    }

    /// Reads the last part of a key.
    pub fn parse_key(last: &str) -> Option<(u32, Generation)> {
        let (extent, generation) = last.split_once('.')?;
        let plain = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if !plain(extent, 8) || !plain(generation, 16) {
            return None;
        }
        let generation = u64::from_str_radix(generation, 16).ok()?;
        Some((u32::from_str_radix(extent, 16).ok()?, Generation(generation)))
    }

    /// Over a block: its name, its number, what it holds.
    fn block_crc(&self, block: u32, contents: &[u8]) -> u32 {
        let crc = crc32c::crc32c(&self.identity.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &self.extent.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &self.generation.0.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &block.to_le_bytes());
        crc32c::crc32c_append(crc, contents)
    }

    /// An object with these contents.
    pub fn encode(&self, contents: &[u8]) -> Vec<u8> {
        let blocks = contents.len().div_ceil(BLOCK as usize);
        let mut out = Vec::with_capacity(HEADER_BYTES as usize + contents.len() + 4 * blocks);
        out.extend_from_slice(OBJECT_MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.identity.to_le_bytes());
        out.extend_from_slice(&self.generation.0.to_le_bytes());
        out.extend_from_slice(&self.extent.to_le_bytes());
        out.extend_from_slice(&(contents.len() as u32).to_le_bytes());
        out.extend_from_slice(&BLOCK.to_le_bytes());
        out.resize(HEADER_BYTES as usize, 0);
        seal(&mut out, HEADER_BYTES as usize);
        for (number, block) in (0..).zip(contents.chunks(BLOCK as usize)) {
            out.extend_from_slice(block);
            out.extend_from_slice(&self.block_crc(number, block).to_le_bytes());
        }
        out
    }

    /// Range to ask of an object of `length` bytes of contents for some of its blocks; the header
    /// comes with the first one.
    pub fn range(blocks: &Range<u32>, length: u32) -> Range<u64> {
        let at = |block: u32| {
            let whole = HEADER_BYTES + u64::from(block) * STRIDE;
            whole.min(object_bytes(length))
        };
        let start = if blocks.start == 0 { 0 } else { at(blocks.start) };
        start..at(blocks.end)
    }

    /// The contents of `blocks` out of what [`Name::range`] asked for; none when it is not that of
    /// this object, whole.
    pub fn decode(&self, blocks: &Range<u32>, length: u32, bytes: &[u8]) -> Option<Vec<u8>> {
        let range = Name::range(blocks, length);
        if blocks.is_empty() || bytes.len() as u64 != range.end - range.start {
            return None;
        }
        let mut rest = bytes;
        if blocks.start == 0 {
            let (header, behind) = rest.split_at_checked(HEADER_BYTES as usize)?;
            (decode_header(header)? == (*self, length)).then_some(())?;
            rest = behind;
        }
        let mut out = Vec::with_capacity(blocks.len() * BLOCK as usize);
        for (number, block) in blocks.clone().zip(rest.chunks(STRIDE as usize)) {
            let (contents, crc) = block.split_last_chunk::<{ CRC_BYTES as usize }>()?;
            let sound = u32::from_le_bytes(*crc) == self.block_crc(number, contents);
            if !sound && !mutant("blocks_not_checked") {
                return None;
            }
            out.extend_from_slice(contents);
        }
        let at = |block: u32| (u64::from(block) * u64::from(BLOCK)).min(u64::from(length));
        (out.len() as u64 == at(blocks.end) - at(blocks.start)).then_some(out)
    }
}

/// Bytes of an object with so many of contents.
pub fn object_bytes(length: u32) -> u64 {
    HEADER_BYTES + u64::from(length) + u64::from(length.div_ceil(BLOCK) * CRC_BYTES)
}

/// The folder of extents whose number ends in a digit.
pub fn shard(digit: u32) -> String {
    format!("x{digit:x}")
}

/// An object's name and the bytes of its contents; none when it is no header of this version.
pub fn decode_header(header: &[u8]) -> Option<(Name, u32)> {
    let header: &[u8; HEADER_BYTES as usize] = header.try_into().ok()?;
    let sound = header.starts_with(OBJECT_MAGIC)
        && is_sealed(header, header.len())
        && u16_at(header, 12) == Some(VERSION)
        && u32_at(header, 40) == Some(BLOCK);
    let (identity, generation) = (u64_at(header, 16)?, Generation(u64_at(header, 24)?));
    let name = Name { identity, extent: u32_at(header, 32)?, generation };
    sound.then_some((name, u32_at(header, 36)?))
}

/// Kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Record of the log: somebody opened the device.
    Opened,
    /// Record of the log: these extents have new generations.
    Written,
    /// Map: the generations of all extents that have one.
    Map,
}

/// A record of the log, or a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its kind.
    pub kind: Kind,
    /// The device.
    pub identity: u64,
    /// Its place in the log; a map's is that of the last record in it.
    pub sequence: u64,
    /// Number of times that the device was opened to be written.
    pub epoch: u64,
    /// Its writer: chosen at each opening.
    pub owner: u64,
    /// The device's.
    pub shape: Shape,
    /// Extents and their generations.
    pub entries: Vec<(u32, Generation)>,
}

impl Record {
    /// Its key, below the prefix.
    pub fn key(&self) -> String {
        match self.kind {
            Kind::Opened | Kind::Written => log_key(self.sequence),
            Kind::Map => map_key(self.sequence),
        }
    }

    /// The record as an object.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(RECORD_BYTES + self.entries.len() * ENTRY_BYTES);
        out.extend_from_slice(RECORD_MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(self.kind as u16).to_le_bytes());
        for value in [self.identity, self.sequence, self.epoch, self.owner, self.shape.size.0] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        for value in [self.shape.extent, self.shape.lead, self.entries.len() as u32] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.resize(RECORD_BYTES, 0);
        for (extent, generation) in &self.entries {
            out.extend_from_slice(&extent.to_le_bytes());
            out.extend_from_slice(&generation.0.to_le_bytes());
        }
        let length = out.len();
        seal(&mut out, length);
        out
    }

    /// Reads an object; none when it is no whole record of this version, or names extents that
    /// there are not.
    pub fn decode(bytes: &[u8]) -> Option<Record> {
        let (head, entries) = bytes.split_at_checked(RECORD_BYTES)?;
        let kind = match u16_at(head, 14)? {
            0 => Kind::Opened,
            1 => Kind::Written,
            2 => Kind::Map,
            _ => return None,
        };
        let sound = head.starts_with(RECORD_MAGIC)
            && is_sealed(bytes, bytes.len())
            && u16_at(head, 12) == Some(VERSION)
            && entries.len() as u64 == u64::from(u32_at(head, 64)?) * ENTRY_BYTES as u64;
        if !sound {
            return None;
        }
        let size = Bytes(u64_at(head, 48)?);
        let shape = Shape { size, extent: u32_at(head, 56)?, lead: u32_at(head, 60)? };
        let entry = |entry| Some((u32_at(entry, 0)?, Generation(u64_at(entry, 4)?)));
        let entries = entries.chunks_exact(ENTRY_BYTES).map(entry);
        let entries: Vec<(u32, Generation)> = entries.collect::<Option<_>>()?;
        let fits = shape.is_sound()
            && entries.iter().all(|&(extent, _)| extent < shape.extents())
            && u64_at(head, 24)? > 0;
        let (identity, sequence) = (u64_at(head, 16)?, u64_at(head, 24)?);
        let (epoch, owner) = (u64_at(head, 32)?, u64_at(head, 40)?);
        fits.then_some(Record { kind, identity, sequence, epoch, owner, shape, entries })
    }
}

/// Key of a record of the log.
pub fn log_key(sequence: u64) -> String {
    format!("log/{sequence:016x}")
}

/// Key of a map.
pub fn map_key(sequence: u64) -> String {
    format!("map/{sequence:016x}")
}

/// The sequence in the last part of a record's key.
pub fn parse_sequence(last: &str) -> Option<u64> {
    let plain = last.len() == 16 && last.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(last, 16).ok().filter(|_| plain)
}

/// Writes the checksum of bytes 12 on where it belongs.
fn seal(out: &mut [u8], length: usize) {
    let crc = out.get(12..length).map_or(0, crc32c::crc32c);
    put_at(out, 8, &crc.to_le_bytes());
}

/// True if a checksum is the stored one.
fn is_sealed(bytes: &[u8], length: usize) -> bool {
    u32_at(bytes, 8).is_some_and(|crc| bytes.get(12..length).map(crc32c::crc32c) == Some(crc))
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
