//! The joint between files and how a file system lays them out.

use crate::machine::Step;
use std::ops::Range;
use thermocline_units::Nanos;

/// Block size of the file systems here.
pub(super) const BLOCK: u64 = 4096;

/// Whole blocks for so many bytes.
pub(super) fn blocks_of(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK)
}

/// A file system's ways: where data goes, what beside it is written, and when.
pub(super) trait Layout {
    /// Places for so many more bytes of a file in `directory`; `None` when the volume is full.
    fn place(&mut self, directory: u32, bytes: u64) -> Option<Vec<Range<u64>>>;

    /// A file does not need a range any more.
    fn release(&mut self, extent: Range<u64>);

    /// True if bytes that are written again stay where they are.
    fn rewrites_in_place(&self) -> bool;

    /// A file's size or extents changed.
    fn change_file(&mut self, directory: u32, inode: u64);

    /// A file came to a directory or left it.
    fn change_directory(&mut self, directory: u32, inode: u64);

    /// Time between its commits.
    fn interval(&self) -> Nanos;

    /// Appends what a commit writes now.
    fn commit(&mut self, out: &mut Vec<Step>);

    /// Ranges of its own structures.
    fn metadata(&self) -> Vec<Range<u64>>;
}
