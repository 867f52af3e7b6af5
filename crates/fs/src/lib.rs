//! Survey of a file system: reads the location of files and metadata from the bytes of the volume.
//!
//! A [`Survey`] of ext2, ext3, ext4, XFS or btrfs streams statements ([`Found`]): these bytes are a
//! bitmap, these an inode table, these belong to a file of 12 KiB called `report.txt`. It reads the
//! structures themselves, so it needs no mount, no kernel and no cooperation, and it may run while
//! the file system is mounted and written to. A second run of the same survey reads less and says
//! only what changed. Who listens may keep it all in a [`Catalog`].
//!
//! Invariants:
//! - Every range said lies inside the volume.
//! - No panic, no endless loop and no allocation by an unchecked count, whatever the bytes are:
//!   trees descend by levels that must shrink, lists have a most, and reading has a budget
//!   ([`Limits`]).
//! - What contradicts itself (a checksum in the middle of a write) is skipped and counted as torn.
//!   It costs a statement until the next run, nothing else.
//! - Nothing is written. No file, clock or thread: who calls owns the device ([`Blocks`]).
//!
//! It does not: read the contents of files, decrypt or decompress, replay XFS's log or btrfs's log
//! tree, or assemble file systems of several devices. What each reader knows and does not is in
//! `docs/guides/file-systems.md`; why no library is used, in decision record 0037.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

mod blocks;
mod btrfs;
mod catalog;
mod detect;
mod error;
mod ext;
mod field;
mod found;
mod limits;
mod memory;
mod partitions;
mod pass;
mod survey;
mod xfs;

pub use blocks::{Blocks, Image, ReadError};
pub use catalog::{Catalog, ChunkContents, Entry};
pub use detect::{Kind, System, detect, systems};
pub use error::FsError;
pub use found::{Extent, File, FileId, FileKind, Found, State, Stretch, What};
pub use limits::Limits;
pub use partitions::{Partition, PartitionKind, partitions};
pub use survey::{Summary, Survey, survey};

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
