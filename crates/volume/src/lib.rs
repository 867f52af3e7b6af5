//! The volume machine: block volumes made of unlike pools (HintStor's block storage data
//! manager, Ge et al. 2022 §3.2 and §3.5), event-driven over ports.
//!
//! A [`Group`] has pools of slots and volumes of chunks; a map says which slots hold a chunk. It
//! takes requests, sends device requests, takes their completions, and answers. It does no I/O
//! itself, has no clock and no threads: the live engine, the laboratory and the crash simulation
//! drive the same code.
//!
//! Invariants
//! - Acknowledged after a flush, or with FUA: survives any crash. Otherwise each sector is old or
//!   new, never garbage, never another chunk's, and stays what it was first read as.
//! - Data is durable before a record names its place; a slot is not reused before the record that
//!   frees it is durable and the last request on it has ended.
//! - An operation never makes a request wait for longer than one piece's copy.
//! - Every queue has a bound with a name ([`settings`]).

mod admin;
mod as_device;
mod below;
mod creation;
mod deletion;
mod epoch;
mod finding;
mod format;
mod fsck;
mod group;
mod group_state;
mod housekeeping;
mod io;
mod journal;
mod lines;
mod machines;
mod map;
mod moves;
mod opening;
mod pools;
mod report;
mod scrub;
pub mod settings;
mod sizes;

pub use admin::AdminError;
pub use as_device::device_result;
pub use epoch::hinting::{HINT_WISHES_MAX, HintCounts, HintRefusal};
pub use epoch::observer::{Decision, Observer};
pub use epoch::pool_traits::traits_of;
pub use epoch::slas::SlaRecord;
pub use finding::{Finding, FindingKind};
pub use fsck::Flaw;
pub use group::Group;
pub use group_state::service::Service;
pub use io::request::{Action, Fragment, Priority, Reply, Request, RequestError, RequestId};
pub use lines::LinesStatus;
pub use map::block_checksums::ChecksumStatus;
pub use map::naming::is_volume_name;
pub use map::place::{ChunkCopy, Place, Role};
pub use moves::operation::{
    Finished, MovesDropped, Operation, OperationId, OperationKind, OperationStatus, Outcome,
    Refusal,
};
pub use moves::{Flow, Proposed};
pub use opening::error::{CreateError, OpenError};
pub use opening::replicas::DamagedReplica;
pub use opening::salvage::Salvage;
pub use pools::label::{LABEL_BYTES, Label, MemberLabel, PoolLabel};
pub use pools::pool::{PoolCounters, PoolSpec, PoolState, PoolStatus, check_pool_name};
pub use report::{ChunkStatus, JournalStatus, PartsStatus, PoolLatencies, VolumeStatus};
pub use scrub::{ScrubRun, ScrubStatus};
pub use settings::{Limits, Settings};
/// Part of the settings.
pub use thermocline_policy::migration::Copying;

#[cfg(test)]
mod tests;
