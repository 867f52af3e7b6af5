//! Settings of a store, and its limits.

use crate::name::BLOCK;
use std::ops::RangeInclusive;
use thermocline_policy::tactics::StoreTactics;
use thermocline_units::Bytes;

/// Blocks of a segment, trailer included.
pub const SEGMENT_BLOCKS: RangeInclusive<u32> = 16..=16_384;
/// Blocks of the journal ring.
pub const JOURNAL_BLOCKS: RangeInclusive<u32> = 16..=65_536;
/// Entries of a node of a map.
pub const FANOUT: RangeInclusive<u32> = 8..=1_008;
/// The longest request, bytes.
pub const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Blocks of a volume: 16 TiB.
pub const VOLUME_BLOCKS_MAX: u64 = u32::MAX as u64;
/// Blocks of a device: 16 TiB.
pub const DEVICE_BLOCKS_MAX: u64 = u32::MAX as u64;
/// Volumes, clones and snapshots of a store.
pub const VOLUMES_MAX: usize = 4_096;
/// The longest name of a volume, bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// True for what a new volume may be called: 1 to [`NAME_BYTES_MAX`] of `a-z`, `A-Z`, `0-9`, `.`,
/// `_`, `-`, `@` and `+`, that begin with none of `.` and `-`. A name is part of a path of the API,
/// of the name of an NBD export and of a message between a host and a store, so what would end one
/// of these is no name.
pub fn is_volume_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+');
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.chars().all(fits)
        && !name.starts_with(['.', '-'])
}
/// Free segments that only cleaning takes: one to write to, and a second one that it may need.
pub const CLEANING_RESERVE: u32 = 2;
/// Further free segments that clients leave for nodes of maps.
pub const MAP_RESERVE: u32 = 1;
/// Free places for nodes that writes leave to trims, so that a full store can be emptied.
pub const TRIM_RESERVE: u32 = 24;
/// Reads and writes in flight at most; further requests are refused with
/// [`RequestError::TooMany`](crate::RequestError::TooMany).
pub const REQUESTS_MAX: usize = 4_096;
/// Pins of clients at most.
pub const PINS_MAX: usize = 1 << 20;

/// Settings of a store. Plain data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of a segment, trailer included; a multiple of 4 KiB within [`SEGMENT_BLOCKS`]. Kept on
    /// the device.
    pub segment: Bytes,
    /// Blocks of the journal, within [`JOURNAL_BLOCKS`]. Kept on the device.
    pub journal_blocks: u32,
    /// Entries of a node of a map, within [`FANOUT`]. Kept on the device.
    pub fanout: u32,
    /// Blocks whose full hashes are remembered, so that writing one of them again needs no read; 40
    /// B each. A power of two.
    pub known_blocks: u32,
    /// Bits of a block's hash that the index in memory has, 1 to 64. With fewer than 64, different
    /// blocks collide until they are compared; tests use that.
    pub index_bits: u8,
    /// True to compare the hashes of blocks when they are read.
    pub verify_reads: bool,
    /// True to discard segments on the device when they become free.
    pub discard: bool,
    /// Free segments, in percent of all (0 to 50), below which the store begins to clean by itself.
    pub clean_below_percent: u8,
    /// Choice of the segment that is cleaned next.
    pub tactics: StoreTactics,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            segment: Bytes::from_mib(64),
            journal_blocks: 4_096,
            fanout: 1_008,
            known_blocks: 1 << 16,
            index_bits: 64,
            verify_reads: true,
            discard: true,
            clean_below_percent: 5,
            tactics: StoreTactics::default(),
        }
    }
}

impl Settings {
    /// Blocks of a segment.
    pub(crate) fn segment_blocks(&self) -> u32 {
        u32::try_from(self.segment.0 / u64::from(BLOCK)).unwrap_or(u32::MAX)
    }

    /// True if every number is within its range.
    pub(crate) fn are_sound(&self) -> bool {
        self.segment.0.is_multiple_of(u64::from(BLOCK))
            && SEGMENT_BLOCKS.contains(&self.segment_blocks())
            && JOURNAL_BLOCKS.contains(&self.journal_blocks)
            && FANOUT.contains(&self.fanout)
            && self.known_blocks.is_power_of_two()
            && (1..=64).contains(&self.index_bits)
            && self.clean_below_percent <= 50
    }
}
