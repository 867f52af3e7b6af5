//! Settings of a volume group: plain data, with units, ranges and reasons.

use crate::sizes::{COMMIT_BLOCKS_MAX, PAYLOAD_BYTES, RECORD_BYTES_MAX};
use thermocline_policy::migration::Copying;
use thermocline_policy::placement::{CHUNK, EPOCH};
use thermocline_policy::tactics::VolumeTactics;
use thermocline_units::{Bytes, Nanos};

/// Requests that may be in flight in one group; beyond it, or beyond the share of the pool that it
/// waits for, `submit` hands the request back.
pub const REQUESTS_IN_FLIGHT_MAX: usize = 4096;
/// Operations that may be queued or running in one group.
pub const OPERATIONS_QUEUED_MAX: usize = 65_536;
/// Copies of one chunk, the original included.
pub const COPIES_MAX: usize = 3;
/// Pools of one group, removed ones included.
pub const POOLS_MAX: usize = 64;
/// Volumes of one group.
pub const VOLUMES_MAX: usize = 4096;
/// Bytes of a volume's name.
pub const VOLUME_NAME_BYTES_MAX: usize = 48;
/// Chunks of one volume: 64 TiB in chunks of 1 MiB. A fuzzer may not fill the memory.
pub const VOLUME_CHUNKS_MAX: u64 = if cfg!(fuzzing) { 1 << 16 } else { 1 << 26 };
/// Blocks that a journal ring may have.
pub const JOURNAL_BLOCKS: std::ops::RangeInclusive<u32> = 64..=65_536;
/// The grain of presence within a chunk: 4 KiB.
pub const BLOCK: u32 = 4096;
/// The smallest chunk: below it the map costs more than 0.1 % of the space.
pub const CHUNK_MIN: Bytes = Bytes::from_kib(64);
/// The largest chunk.
pub const CHUNK_MAX: Bytes = Bytes::from_gib(1);

/// Settings of a group. Those that are written at creation are read back on opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Unit of placement; a power of two in [`CHUNK_MIN`]..=[`CHUNK_MAX`]. Set at creation.
    pub chunk_size: Bytes,
    /// Blocks of 4 KiB of the journal ring, 64..=65,536. Bounds recovery: at most this much is
    /// replayed. Set at creation.
    pub journal_blocks: u32,
    /// Length of an epoch: heat is counted, and the placement asked, once in each.
    pub epoch: Nanos,
    /// Answers to small questions: which pool takes a new chunk, which copy answers, how fast moves
    /// go.
    pub tactics: VolumeTactics,
    /// Sub-requests on their way to each pool at once; the rest waits in the pool's queues.
    pub depth: u32,
    /// Settings of copying.
    pub copying: Copying,
    /// Keeps a checksum of each block of 4 KiB, verified on reading, on the pools that a group is
    /// made with. Set at creation.
    pub checksums: bool,
    /// The same, on pools that are added from now on, whatever the others have.
    pub added_checksums: bool,
    /// Per cent of the fastest pool's slots that are lent to lines of 4 KiB, as far as no chunk
    /// needs them, where the placement says nothing of it; 0 to 100, of which more counts as 100.
    pub lent_percent: u8,
    /// Bounds of the metadata; [`Limits::REAL`] everywhere but in tests.
    pub limits: Limits,
}

/// Bounds of the metadata that a test may lower, so that a small map takes as many blocks, batches
/// and evictions as a large one does. A group is opened with the limits of its creation; they are
/// not on disk, and not for users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of records in a block of the journal or a checkpoint; at most what a block holds.
    pub block_payload: usize,
    /// Bytes of the longest record, with the record of its volume.
    pub record: usize,
    /// Blocks of the journal that one commit may write; at least 2.
    pub commit_blocks: u64,
    /// Blocks of a checkpoint that are written at a time.
    pub checkpoint_batch: usize,
    /// Times that the map may have its first size before areas must go on in slots.
    pub area_growth: u64,
    /// Volumes of one group, at most [`VOLUMES_MAX`].
    pub volumes: usize,
    /// Bytes of a volume's name, at most [`VOLUME_NAME_BYTES_MAX`].
    pub volume_name: usize,
    /// Chunks with tables of checksums, and as many without, whose checksums are kept in memory:
    /// 1 KiB each for chunks of 1 MiB; beside this bound there is one in bytes.
    pub tables_cached: usize,
    /// Chunks of a region in which the first write to data at rest speaks for all, at least 1.
    pub region_chunks: u32,
    /// Such regions that may be open at once.
    pub regions_open: usize,
    /// Requests in flight in one group, at least 2 and at most [`REQUESTS_IN_FLIGHT_MAX`].
    pub requests: usize,
}

impl Limits {
    /// Those of every real group.
    pub const REAL: Limits = Limits {
        block_payload: PAYLOAD_BYTES,
        record: RECORD_BYTES_MAX,
        commit_blocks: COMMIT_BLOCKS_MAX,
        checkpoint_batch: 16,
        area_growth: 2,
        volumes: VOLUMES_MAX,
        volume_name: VOLUME_NAME_BYTES_MAX,
        tables_cached: 1 << 16,
        region_chunks: 64,
        regions_open: 4096,
        requests: REQUESTS_IN_FLIGHT_MAX,
    };

    /// Bytes of a block's records that are never wasted on one that does not fit.
    pub(crate) fn usable(&self) -> usize {
        self.block_payload - self.record
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            chunk_size: CHUNK,
            journal_blocks: 2048,
            epoch: EPOCH,
            tactics: VolumeTactics::default(),
            depth: 256,
            copying: Copying::default(),
            checksums: true,
            added_checksums: true,
            lent_percent: 0,
            limits: Limits::REAL,
        }
    }
}
