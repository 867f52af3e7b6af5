//! De-duplicated volumes on one device: blocks of 4 KiB named by their contents (the server's half
//! of SeaCache: Li et al., Cooperative Storage-Level De-duplication, 2012).
//!
//! A [`Store`] has volumes and blocks. A volume is a tree that maps its blocks to numbers of stored
//! ones; clones and snapshots share the tree until they differ. Blocks lie in segments that are
//! written from one end to the other; what nothing maps any more is swept, and segments that are
//! full of holes are cleaned. It is a machine over [`thermocline_ports::Device`]: no I/O of its
//! own, no clock, no threads.
//!
//! Invariants
//! - Acknowledged after a flush, or with FUA: survives any crash. Otherwise each block is old or
//!   new.
//! - A block is durable before a record names it; its place is not written again before the record
//!   that leaves it is durable and the last read of it has ended.
//! - Nothing that a read returns has another hash than the one under which it was stored.
//! - Volumes of different domains share nothing, and cannot tell what others hold.
//! - Every queue has a bound with a name ([`settings`]).
//!
//! Start at `store`; `writing` is the way of a write, `commit` and `checkpoint` how changes become
//! durable, `opening` how they are found again, `sweep` and `clean` how room comes back, `format`
//! and `layout` are the bytes (docs/formats/content.md).

mod admin;
mod blocks;
mod check;
mod checkpoint;
mod clean;
mod commit;
mod durability;
mod format;
mod index;
mod layout;
mod locks;
mod name;
mod open_error;
mod opening;
mod reading;
mod request;
mod room;
mod segments;
pub mod settings;
mod status;
mod store;
mod sweep;
mod tree;
mod writing;

pub use check::Flaw;
pub use name::{BLOCK, BlockId, ContentId, Domain};
pub use open_error::OpenError;
pub use request::{
    Action, Answer, Completed, Mapped, QuotaKind, Quotas, Request, RequestError, RequestId, Tag,
};
pub use settings::Settings;
pub use status::{Counters, Status, VolumeStatus};
pub use store::{BACKGROUND, Service, Store};
