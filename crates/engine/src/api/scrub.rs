//! Scrubs: asked for, under way, and what they have found.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A scrub that shall begin.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NewScrub {
    /// The only pool whose chunks are read, by name or number; null: all but those across a
    /// network.
    pub pool: Option<String>,
}

/// Scrubs: the one under way or the last one, and what has been found since the engine was started,
/// by scrubs and by reads.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Scrub {
    /// The state of the last scrub: none, running, ended.
    pub state: String,
    /// The only pool that it reads; null: all but those across a network.
    pub pool: Option<String>,
    /// Share of the volumes' chunks that it has passed, from 0 to 1.
    pub progress: f64,
    /// Chunks that it could not look at, because they were moving or stand on two pools.
    pub skipped_chunks: u64,
    /// Chunks read to the end.
    pub chunks: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Blocks found with other contents than their checksum says.
    pub checksum_errors: u64,
    /// Pieces of copies that could not be read.
    pub unreadable: u64,
    /// Blocks written again from a right copy.
    pub repaired_blocks: u64,
    /// Copies that could not be repaired in place, and were made anew.
    pub replaced_copies: u64,
    /// Blocks that no copy has right.
    pub unrepairable_blocks: u64,
    /// Blocks in which copies differ without a checksum that decides.
    pub undecided_blocks: u64,
    /// Tables of checksums written for chunks that had come to rest.
    pub written_tables: u64,
    /// Tables that ceased to count since, by writes and moves.
    pub outdated_tables: u64,
    /// Tables of checksums written again.
    pub repaired_tables: u64,
    /// Chunks whose checksums were lost on all copies.
    pub lost_tables: u64,
    /// Seconds between two scrubs of all pools by themselves; null: there are none.
    pub every_seconds: Option<f64>,
    /// Time of the end of the last scrub of all pools, in milliseconds since 1970; null: none
    /// has ended, or it is not known.
    pub last_end_ms: Option<u64>,
}
