//! A block cache: lines of 4 KiB on a fast device in front of a slow one; both together are one
//! device.
//!
//! A pool's chunk is a MiB, because a map of a TiB must fit into memory. A random load on a small
//! fast device needs a finer grain: there a chunk that is hot for one block of 256 wastes the other
//! 255. Instead of a finer map, a pool gets a cache in front, whose lines know where they are by
//! their slot: 5 to 8 B a line, by the policy (0.12 to 0.2 % of the fast device), and nothing for
//! lines that are not cached.
//!
//! The machine above sees a [`thermocline_ports::Device`], which keeps its contract: [`BlockCache`]
//! is a device made of two devices. It is written back: a write is done when the fast device has
//! it. It loses nothing in a crash: what a flush promised is found again, wherever it is.
//!
//! Start at `cache`, which routes. The parts are `requests`, which cuts requests into lines,
//! `commit`, which makes the table of dirty lines durable, `writeback`, which takes dirty lines to
//! the slow device, and `opening`, which formats and finds all of it again. They share `state`, of
//! which `lines` and `locks` are the largest pieces, and know neither each other nor the devices.
//! `format` is the bytes.

mod answers;
mod cache;
mod commit;
mod device;
mod format;
mod lines;
mod locks;
mod open_error;
mod opening;
mod pair;
mod requests;
mod segments;
mod settings;
mod slots;
mod state;
mod status;
mod tasks;
mod writeback;

pub use cache::BlockCache;
pub use device::PoolDevice;
pub use open_error::OpenError;
pub use opening::is_unfinished;
pub use settings::Settings;
pub use status::Status;

/// Bytes of a line.
pub const LINE: u32 = 4096;
/// Bytes at the start of the slow device that carry its label.
pub const ORIGIN_LABEL_BYTES: u64 = format::ORIGIN_OFFSET;

/// True if a device begins with the label of a block cache, whole or not, of whatever version: it
/// is half of a pair, and of no use alone.
pub fn is_labelled(start: &[u8]) -> bool {
    format::is_label(start)
}
