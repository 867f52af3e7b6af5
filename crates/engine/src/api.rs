//! Data types of the API: one definition for the server, the OpenAPI document and the command-line
//! client. Sizes are bytes, latencies microseconds, moments milliseconds since 1970.

mod clients;
mod forecasts;
mod hints;
mod scrub;
mod shadows;
mod volumes;

pub use clients::{Clients, Listener};
pub use forecasts::{
    Forecast, ForecastFigures, ForecastMeasured, ForecastTrial, ForecastVerdict, NewForecast,
};
pub use hints::{
    HINTS_AT_ONCE, HINTS_VERSION, HintLevel, HintScore, HintSource, HintsDone, HintsStatus,
    HintsTaken, JudgedRange, NewClasses, NewHint, NewHints, PoolPins, RefusedHint, hints_schema,
};
pub(crate) use hints::{HINTS_BYTES_MAX, HINTS_MAX};
pub use scrub::{NewScrub, Scrub};
pub use shadows::{
    Adopted, Adoption, Explanation, NewShadow, PlacementFigures, PoolWritten, Shadow,
};
pub use volumes::{NewVolume, Volume, VolumeSize, VolumeSla};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thermocline_admin::api::{Latency, Tactic};
use thermocline_policy::placement::Account;
use thermocline_units::Bytes;
use utoipa::ToSchema;

/// The engine at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// The volume group's identity, in hexadecimal.
    pub identity: String,
    /// State of the service: opening, ready, closing, closed, failed. Requests are taken when it is
    /// ready.
    pub service: String,
    /// Time since the engine was started.
    pub uptime_seconds: f64,
    /// Unit of placement.
    pub chunk_bytes: u64,
    /// Seconds between two questions to the policy.
    pub epoch_seconds: f64,
    /// Policy that decides about moves.
    pub policy: Policy,
    /// Other policies, and what they would have done (shadows).
    #[serde(default)]
    pub shadows: Vec<Shadow>,
    /// Volumes that exist.
    pub volumes: Vec<Volume>,
    /// Pools, fastest first.
    pub pools: Vec<Pool>,
    /// Operations queued and under way, with the moves that the policy still wants.
    pub operations_pending: u64,
    /// Tactics in force, one of each kind, with their shadows.
    #[serde(default)]
    pub tactics: Vec<Tactic>,
    /// Bytes a second that operations may copy on a pool now; null: no limit.
    #[serde(default)]
    pub copy_rate_bytes: Option<u64>,
    /// Moves of the policy, running or last; null: none yet.
    #[serde(default)]
    pub moves: Option<Moves>,
    /// Moves of policies that were given up since the start.
    #[serde(default)]
    pub moves_dropped: MovesDropped,
    /// Bytes that clients' own reads have brought to where chunks move, since the start.
    #[serde(default)]
    pub moves_fed_bytes: u64,
    /// Lines: copies of single blocks of 4 KiB on the fastest pool.
    #[serde(default)]
    pub lines: Lines,
    /// Chunks in two parts: mirrored, or redirected.
    #[serde(default)]
    pub parts: Parts,
    /// Scrubs, and what verifying has found.
    #[serde(default)]
    pub scrub: Scrub,
    /// The journal.
    pub journal: Journal,
    /// NBD connections, those with an unfinished handshake included.
    pub connections: u64,
    /// NBD clients by listener, and what they take.
    #[serde(default)]
    pub clients: Clients,
    /// Requests of clients under way.
    pub in_flight: u64,
    /// Memory of the chunk map.
    pub map_bytes: u64,
    /// Latencies of client requests since the start, by kind: read, write, zero, flush.
    pub requests: BTreeMap<String, Latency>,
    /// Shares of client reads, by bytes, that the fastest pool has served since the start; null:
    /// nothing was read.
    pub fastest_pool_share: Option<f64>,
}

impl Status {
    /// Bytes of all volumes, and bytes that pools in service have for them.
    pub fn promised_and_room_bytes(&self) -> (u64, u64) {
        let promised = self.volumes.iter().map(|volume| volume.size_bytes).sum();
        let serves = |pool: &&Pool| matches!(pool.state.as_str(), "active" | "suspect" | "joining");
        let chunks: u64 = self.pools.iter().filter(serves).map(|pool| pool.chunks_total).sum();
        (promised, chunks.saturating_mul(self.chunk_bytes))
    }
}

/// Lines: clean copies of single blocks of 4 KiB of chunks on slower pools, in slots of the fastest
/// pool that no chunk needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Lines {
    /// Number of the pool whose slots are lent to them; null: none ever was.
    pub pool: Option<u16>,
    /// Slots, each of a chunk, that are wanted for them.
    pub slots_wanted: u64,
    /// Slots that are lent to them.
    pub slots_lent: u64,
    /// Lines that can be read now.
    pub lines: u64,
    /// Memory of their index.
    pub memory_bytes: u64,
    /// Reads that they have answered since the start.
    pub hits: u64,
    /// Reads of up to 32 KiB that they could have answered, and did not.
    pub misses: u64,
    /// Bytes written to them.
    pub filled_bytes: u64,
    /// Lines that could not be read, or had other contents than were written.
    pub wrong: u64,
}

/// Chunks in two parts: mirrored on two pools that share their requests, or redirected.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct Parts {
    /// Number of chunks.
    pub chunks: u64,
    /// Greatest number of chunks: the map has room for no more.
    pub most: u64,
    /// Share of reads of mirrored chunks that the slower side answers; null: no policy says.
    pub diverted_reads: Option<f64>,
    /// The same of writes.
    pub diverted_writes: Option<f64>,
}

/// Moves of a policy that followed each other without a pause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Moves {
    /// Policy that decided.
    pub policy: String,
    /// Time since the first of them was proposed; until the last had ended, when it has.
    pub seconds: f64,
    /// Epochs in which the policy proposed something.
    pub epochs: u64,
    /// From where to where, and how much.
    pub flows: Vec<MoveFlow>,
    /// Bytes of chunks that are still to be moved.
    pub pending_bytes: u64,
    /// Chunks that stayed where they were because a device failed.
    pub failed_chunks: u64,
    /// True if all of it has ended.
    pub over: bool,
}

/// Traffic from one pool to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MoveFlow {
    /// Number of the pool it comes from.
    pub from: u16,
    /// Number of the pool it goes to.
    pub to: u16,
    /// Bytes that were proposed; what a later proposal repeats counts again.
    pub planned_bytes: u64,
    /// Bytes that have arrived.
    pub moved_bytes: u64,
}

/// Moves of policies that were given up, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MovesDropped {
    /// They had not begun by their deadline.
    pub expired: u64,
    /// The part of the chunk that was brought first was slower there.
    pub slower: u64,
    /// The day's budget of their pool (`moves-a-day`) was used up.
    #[serde(default)]
    pub worn: u64,
}

/// A placement policy and its settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Policy {
    /// The policy as it was asked for, `name[:key=value:…]`; "none": nothing moves by itself.
    pub spec: String,
    /// All its settings, as they are in force.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Its account of what its moves have saved and cost; null: it keeps none.
    #[serde(default)]
    pub account: Option<PolicyAccount>,
}

/// Account of what a policy's moves have saved and cost since it began, what it learnt in
/// earlier runs included. Times are seconds that users waited, or did not have to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PolicyAccount {
    /// False if it only recommends: nothing moves.
    pub acts: bool,
    /// Time that users waited, as measured.
    pub waited_seconds: f64,
    /// Time that moves have saved, by the prices of pools; below 0: lost.
    pub saved_seconds: f64,
    /// Time for which copies made users wait, by the prices of pools.
    pub spent_seconds: f64,
    /// Time that moves were to save.
    pub promised_seconds: f64,
    /// Time that the same moves have saved.
    pub came_seconds: f64,
    /// Bytes of chunks that came to another pool.
    pub moved_bytes: u64,
    /// Exchanges of chunks that were proposed, or recommended, when it was last asked.
    pub proposed: u64,
    /// Seconds in each second that these are to save users.
    pub would_save_ratio: f64,
}

impl PolicyAccount {
    /// An account of chunks of so many bytes.
    pub(crate) fn of(account: &Account, chunk: Bytes) -> PolicyAccount {
        PolicyAccount {
            acts: account.acts,
            waited_seconds: account.waited,
            saved_seconds: account.saved,
            spent_seconds: account.spent,
            promised_seconds: account.promised,
            came_seconds: account.came,
            moved_bytes: account.moved_chunks * chunk.0,
            proposed: account.proposed,
            would_save_ratio: account.would_save,
        }
    }
}

/// A policy that shall decide from now on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPolicy {
    /// `name[:key=value:…]`, or "none".
    pub spec: String,
    /// Seconds between two questions to it; null: as it wants it (`auto`: 10), or as before.
    #[serde(default)]
    pub epoch_seconds: Option<f64>,
}

/// A policy that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct PolicyDescription {
    /// Its name.
    pub name: String,
    /// Summary of what it does.
    pub summary: String,
    /// Its source.
    pub source: String,
    /// Its settings.
    pub settings: Vec<PolicySetting>,
}

/// A setting of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicySetting {
    /// Its name.
    pub name: String,
    /// The default.
    pub default: String,
    /// Its meaning, with its unit.
    pub summary: String,
}

/// Work that is left to people when a pool was removed.
pub const TAKE_OUT: &str =
    "its device may be taken away; where a configuration names it, take it out there";

/// A pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its number, which it keeps for good.
    pub id: u16,
    /// Its place in the order of speed; 0 is the fastest. Pools that were removed are behind all
    /// others.
    #[serde(default)]
    pub rank: u16,
    /// Its name.
    pub name: String,
    /// State: joining, active, draining, drained, dead, removing, removed; or suspect: its device
    /// has not answered a request for longer than it should take.
    pub state: String,
    /// Seconds for which the device of a suspect pool has not answered its oldest request; null:
    /// it answers in time.
    #[serde(default)]
    pub unanswered_seconds: Option<f64>,
    /// True while the device has no room for writes: the pool gets no new chunks.
    #[serde(default)]
    pub full: bool,
    /// The file or block device; null: it is missing.
    pub path: Option<String>,
    /// True if requests go past the page cache.
    pub direct: bool,
    /// True if it is slowed to a profile.
    pub emulated: bool,
    /// True if chunks get block checksums on it.
    #[serde(default)]
    pub checksums: bool,
    /// Chunks that it can hold.
    pub chunks_total: u64,
    /// Chunks that it holds.
    pub chunks_used: u64,
    /// Those of them that are prefetched copies.
    pub chunks_prefetched: u64,
    /// Those of them that are slow copies that moves to faster pools left behind. They give up
    /// their room when it is wanted.
    #[serde(default)]
    pub chunks_kept: u64,
    /// Client requests on the device now.
    pub in_flight: u64,
    /// Counts since the engine was started.
    pub counters: Counters,
    /// Latencies of client reads on the device since the start.
    pub read_latency: Latency,
    /// Latencies of client writes on the device since the start.
    pub write_latency: Latency,
    /// The block cache in front of its device; null: there is none.
    pub cache: Option<BlockCache>,
    /// The bucket that it is in; null: it is a file or a block device.
    pub bucket: Option<Bucket>,
    /// Room on the file system under its file, and its cache's; null: it is on no file system.
    #[serde(default)]
    pub backing: Option<Backing>,
}

impl Pool {
    /// True if it was removed: its row stays, since numbers of pools are given once, and its name
    /// may be another pool's.
    pub fn is_removed(&self) -> bool {
        self.state == "removed"
    }
}

/// Room on the file system under the sparse file of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Backing {
    /// Bytes that the files of this pool may still take there.
    pub may_grow_bytes: u64,
    /// Bytes that are left there, for all files.
    pub free_bytes: u64,
}

/// A bucket of an object store; counts are since the engine was started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bucket {
    /// Requests that write: objects, parts of them, records.
    pub puts: u64,
    /// Requests that read.
    pub gets: u64,
    /// Pages that were listed.
    pub lists: u64,
    /// Requests that delete.
    pub deletes: u64,
    /// Requests of these that failed or were not answered in time; most were tried again.
    pub failed: u64,
    /// Bytes sent, headers aside.
    pub sent_bytes: u64,
    /// Bytes received, headers aside.
    pub received_bytes: u64,
    /// Objects that hold contents.
    pub objects: u64,
    /// Bytes of these.
    pub stored_bytes: u64,
    /// Bytes that are only in memory until the next flush.
    pub unsent_bytes: u64,
    /// Bytes that were asked for ahead of streams of reads.
    #[serde(default)]
    pub read_ahead_bytes: u64,
    /// Bytes of these that were read, as far as they are out of memory again.
    #[serde(default)]
    pub read_ahead_used_bytes: u64,
    /// Cost of the requests by the configured prices; null: there are none.
    pub cost: Option<f64>,
    /// Cost of a month of the objects by them; null: there are none.
    pub cost_month: Option<f64>,
    /// The last thing that went wrong; null: nothing did.
    pub last_error: Option<String>,
}

/// A block cache in front of a pool's device; bytes are counted since the engine was started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BlockCache {
    /// The fast file or block device.
    pub path: String,
    /// Name of the policy by which lines leave.
    pub policy: String,
    /// Room of the cache.
    pub size_bytes: u64,
    /// Part of it that holds something.
    pub cached_bytes: u64,
    /// Part of this that the pool's device does not have yet.
    pub dirty_bytes: u64,
    /// Share of the bytes read that the fast device answered, of those that did not go around it;
    /// null before the first read.
    pub hit_ratio: Option<f64>,
    /// Bytes of reads that the fast device answered.
    pub hit_bytes: u64,
    /// Bytes of reads that the pool's device answered, long ones aside.
    pub missed_bytes: u64,
    /// Bytes of long reads that went around it.
    pub read_around_bytes: u64,
    /// Bytes of writes that the fast device took.
    pub written_bytes: u64,
    /// Bytes of writes that went around it.
    pub written_around_bytes: u64,
    /// Bytes kept after a read of the pool's device.
    pub filled_bytes: u64,
    /// Bytes taken back to the pool's device.
    pub written_back_bytes: u64,
    /// Bytes written to the table of dirty lines.
    pub table_bytes: u64,
    /// Memory of the index.
    pub memory_bytes: u64,
}

/// Counts of a pool since the engine was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct Counters {
    /// Client reads.
    pub reads: u64,
    /// Client writes.
    pub writes: u64,
    /// Bytes read for clients.
    pub read_bytes: u64,
    /// Bytes written for clients.
    pub written_bytes: u64,
    /// Bytes that operations have read.
    pub moved_out_bytes: u64,
    /// Bytes that operations have written.
    pub moved_in_bytes: u64,
    /// Bytes of journal, checkpoints and superblocks.
    pub metadata_bytes: u64,
    /// Flushes of the device.
    pub flushes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Blocks whose contents did not have their checksum.
    pub checksum_errors: u64,
}

/// The journal ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Journal {
    /// Blocks of 4 KiB.
    pub blocks: u64,
    /// Blocks that a recovery would replay.
    pub used: u64,
    /// Blocks written since the group was made.
    pub written: u64,
}

/// A pool that shall be added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPool {
    /// For people; 1 to 16 bytes, and no other pool's.
    pub name: String,
    /// A file or block device of the engine's machine, from the root on.
    pub path: String,
    /// Makes the file, of this size, when there is none; what is there must have it.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// Slows it to this profile.
    #[serde(default)]
    pub emulate: Option<String>,
    /// Goes through the page cache.
    #[serde(default)]
    pub buffered: bool,
    /// Destroys what is on the device; without it a device that holds something is refused.
    #[serde(default)]
    pub erase: bool,
    /// Name or number of the next slower pool; null: a pool that is slowed to a profile goes before
    /// the first one that its profile says is slower, any other before the first from which on all
    /// take at least twice its time for a random read, as measured now.
    #[serde(default)]
    pub before: Option<String>,
    /// True if it is the slowest, whatever was measured.
    #[serde(default)]
    pub slowest: bool,
    /// Name or number of a pool that it shall replace: it goes right before that one, and is
    /// refused when it has no room for what that one holds. Nothing is drained yet.
    #[serde(default)]
    pub replaces: Option<String>,
}

impl NewPool {
    /// The pool that it shall come right before, where that is said.
    pub(crate) fn next_slower(&self) -> Option<&String> {
        self.before.as_ref().or(self.replaces.as_ref())
    }
}

/// Growth of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolGrowth {
    /// Makes the pool's file so large; null: the file or block device has its new size already.
    #[serde(default)]
    pub size_bytes: Option<u64>,
}

/// A pool that grows: chunks get the new room in a moment, when it is durable that it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrownPool {
    /// Its name.
    pub name: String,
    /// Bytes that its file or block device has now.
    pub size_bytes: u64,
    /// Chunks that the pool has room for beside those that it had.
    pub chunks_added: u64,
    /// The same in bytes.
    pub bytes_added: u64,
}

/// A run of a volume that lives in one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Extent {
    /// Bytes from the volume's start.
    pub offset_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
    /// Numbers of the pools with a whole copy, the first copy first; empty: it reads as zeroes.
    pub pools: Vec<u16>,
    /// The one among them whose copy a move left behind; it goes with the next write, or when the
    /// pool needs the room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_on: Option<u16>,
    /// The pool that takes its writes, when they are redirected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirected_to: Option<u16>,
    /// The pool of its other side, when it is mirrored: the two share its requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirrored_on: Option<u16>,
    /// True if placements leave it where it is.
    #[serde(default)]
    pub pinned: bool,
    /// Reads in this epoch.
    pub reads: u64,
    /// Writes in this epoch.
    pub writes: u64,
}

/// Kind of a job on the chunks of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Move them.
    Migrate,
    /// Add copies.
    Replicate,
    /// Add copies that go away first when space runs short.
    Prefetch,
    /// Send their writes to the pool from now on, and the rest after them.
    Redirect,
    /// Share their requests between where they are and the pool.
    Mirror,
    /// Keep placements from moving them.
    Pin,
    /// Let placements move them again.
    Unpin,
}

/// A job that shall be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// Kind of the job.
    pub kind: Kind,
    /// The volume's name.
    pub volume: String,
    /// Bytes from its start; every chunk that the range touches is meant.
    #[serde(default)]
    pub offset_bytes: u64,
    /// Bytes; null: to the end.
    #[serde(default)]
    pub length_bytes: Option<u64>,
    /// The destination, by name or number; pins need none.
    #[serde(default)]
    pub pool: Option<String>,
}

/// An operation over a range, chunk by chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// Kind of the job.
    pub kind: Kind,
    /// The volume's name.
    pub volume: String,
    /// The destination.
    pub pool: Option<String>,
    /// Chunks in the range.
    pub chunks: u64,
    /// Chunks dealt with: done, failed, cancelled or skipped.
    pub ended: u64,
    /// Chunks done.
    pub done: u64,
    /// Chunks whose operation failed; they are where they were.
    pub failed: u64,
    /// Chunks whose operation was cancelled.
    pub cancelled: u64,
    /// Chunks for which there was nothing to do, or no room: how many, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// True if it has ended.
    pub over: bool,
}

/// One chunk's operation under way or queued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Operation {
    /// Kind of the operation: migrate, replicate, prefetch, redirect, mirror.
    pub kind: String,
    /// The volume's name.
    pub volume: String,
    /// The chunk's place in the volume, in bytes.
    pub offset_bytes: u64,
    /// Number of the pool it is read from; null: it has not begun.
    pub from: Option<u16>,
    /// Number of the pool it goes to.
    pub to: u16,
    /// Bytes of the chunk that have arrived.
    pub copied_bytes: u64,
}

/// Everything that moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Operations {
    /// Jobs, the newest last; ended ones are kept for a while.
    pub jobs: Vec<Job>,
    /// The first of the operations under way and queued, those of the policy included.
    pub chunks: Vec<Operation>,
    /// Operations queued and under way, with the moves that the policy still wants.
    pub pending: u64,
}

/// One second of one pool.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct PoolSecond {
    /// Client reads.
    pub reads: u64,
    /// Client writes.
    pub writes: u64,
    /// Bytes read for clients.
    pub read_bytes: u64,
    /// Bytes written for clients.
    pub written_bytes: u64,
    /// Bytes that operations have read and written.
    pub moved_bytes: u64,
    /// Median latency of reads and writes together; 0: there were none.
    pub p50_us: f64,
    /// 99th percentile of the same.
    pub p99_us: f64,
    /// Share of its chunks in use.
    pub fill: f64,
}

/// One second of the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Second {
    /// Its number since the start.
    pub number: u64,
    /// Time of its end, in milliseconds since 1970.
    pub at_ms: u64,
    /// Client requests answered: reads.
    pub reads: u64,
    /// Client requests answered: writes.
    pub writes: u64,
    /// 99th percentile of the latency of client reads and writes.
    pub p99_us: f64,
    /// Figures by pool.
    pub pools: Vec<PoolSecond>,
}

/// Accesses to a volume by place and time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Heat {
    /// The volume's name.
    pub volume: String,
    /// Bytes of the volume that one column stands for.
    pub column_bytes: u64,
    /// Seconds that one row stands for.
    pub row_seconds: f64,
    /// The number of the first row that is told.
    pub first_row: u64,
    /// Accesses by row (the oldest first) and column.
    pub rows: Vec<Vec<u32>>,
    /// For every column, the share of its chunks on each pool; what holds nothing is the rest.
    /// Large columns are sampled.
    pub pools: Vec<Vec<f64>>,
}
