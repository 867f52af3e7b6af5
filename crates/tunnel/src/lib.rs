//! Redundancy elimination between two ends of a link: what was sent before is sent as a reference.
//!
//! A flow has two halves at each end. The sending half ([`encoder`](self)) cuts what a client says
//! into chunks, and sends references in place of chunks that the other end holds; the receiving
//! half puts the bytes together again. The ends' caches may differ in size, be lost, or come from
//! an older run: then more is sent, and nothing wrong is delivered.
//!
//! - `store`: the cache of one end, found by content and by name.
//! - `encoder`, `decoder`: the halves of a flow. `shared`: what the flows of an end share.
//! - `cutter`: the ends of a flow's chunks, whoever cuts it; `offload`: another unit that cuts, and
//!   when it has failed.
//! - `end`: one end of a connection with all its flows; `flow`, `talk` (what the ends say to each
//!   other), `classes` (which chunking a flow gets, by a controller of `policy::tunnel`).
//! - `events`: what clients are told; `fetching`: chunks that they wait for from a device.
//! - `shadow`: what choices that are not in force would have saved, from a sample.
//! - `config`: settings, targets, the cache that outlives connections.
//! - `saved`: a cache as bytes that outlive the process.
//! - `format`: the bytes, drawn in `docs/formats/tunnel.md`.
//! - [`Trial`]: the sending half alone, to say what a tunnel would save.
//!
//! Not here: sockets, clocks, threads, encryption.

mod chunkings;
mod classes;
mod config;
mod cutter;
mod decoder;
mod encoder;
mod end;
mod events;
mod fetching;
mod flow;
mod format;
mod offload;
mod saved;
mod shadow;
mod shared;
mod store;
mod talk;
#[cfg(test)]
mod tests;
mod trial;

pub use classes::{CLASSES_MAX, ClassReport, Costs};
pub use config::{Cache, Settings, Sharing, TARGET_BYTES_MAX, Target};
pub use encoder::{Encoded, Limits};
pub use end::{End, RESET_BROKEN_OFF, SettingsError, Stopwatch, TunnelError};
pub use events::{FlowEvent, FlowId};
pub use flow::FlowReport;
pub use format::{FormatError, SEGMENT_BYTES_MAX, SEGMENT_HEADER_BYTES};
pub use offload::{OffloadCounts, OffloadSettings, UnitFault};
pub use saved::SavedError;
pub use store::{
    CHUNK_BYTES_MAX, DiskCounts, DiskDone, DiskJob, Name, Owner, Store, StoreCounts, Ticket,
};
pub use trial::Trial;
