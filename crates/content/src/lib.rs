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
//! Start at `store`, which routes; requests come in through `calls`, and those about volumes go on
//! to `admin`. The parts stand beside each other on `state`, which has what all share, and leave
//! effects: `reading`; `writing`, the way of a write; `room`, which writes wait for; `sweep` and
//! `clean`, which give room back; `sealing`; `commit` and `checkpoint`, which make changes durable;
//! `formatting` and `opening`. `check` has the invariants, `format` and `layout` are the bytes
//! (docs/formats/content.md).

mod admin;
mod blocks;
mod calls;
mod check;
mod checkpoint;
mod clean;
mod commit;
mod counters;
mod differences;
mod format;
mod formatting;
mod index;
mod journal;
mod known;
mod layout;
mod locks;
mod name;
mod open_error;
mod opening;
mod pins;
mod reading;
mod request;
mod room;
mod root;
mod sealing;
mod segments;
mod service;
pub mod settings;
mod state;
mod status;
mod store;
mod sweep;
mod tasks;
mod tree;
mod volume;
mod worth;
mod writing;

pub use check::Flaw;
pub use counters::Counters;
pub use differences::Differences;
pub use name::{BLOCK, BlockId, ContentId, Domain};
pub use open_error::OpenError;
pub use request::{
    Action, Answer, Completed, Mapped, QuotaKind, Quotas, Request, RequestError, RequestId, Tag,
};
pub use service::Service;
pub use settings::{REQUESTS_MAX, Settings};
pub use status::{Status, VolumeStatus};
pub use store::{Store, check_room};
pub use worth::Worth;
