//! Extents of a file on the device of its file system: the FIEMAP ioctl (the kernel's
//! `Documentation/filesystems/fiemap.rst`).
//!
//! Only what has a place of its own is told: ranges in order, neighbours as one. Space that is
//! allocated but not written, data that has no place yet, lies in the file's inode, or is
//! compressed is counted and left out.

use fiemap::{Fiemap, FiemapExtentFlags as Flags};
use std::io;
use std::ops::{AddAssign, Range};
use std::os::fd::AsFd;

/// Extents of a file that are looked at; a file in more pieces gets hints for these.
const EXTENTS_MAX: usize = 1 << 16;

/// Extents of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Extents {
    /// Bytes of the device, in order, neither touching nor overlapping.
    pub ranges: Vec<Range<u64>>,
    /// The rest.
    pub left_out: LeftOut,
}

/// Bytes without a place of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    /// Allocated, never written.
    pub unwritten_bytes: u64,
    /// Written, but not on its way to the device yet.
    pub delayed_bytes: u64,
    /// Within the file's inode, or in a block with other files.
    pub inline_bytes: u64,
    /// Compressed; what is only encrypted has a place.
    pub encoded_bytes: u64,
}

impl AddAssign for LeftOut {
    fn add_assign(&mut self, other: LeftOut) {
        self.unwritten_bytes += other.unwritten_bytes;
        self.delayed_bytes += other.delayed_bytes;
        self.inline_bytes += other.inline_bytes;
        self.encoded_bytes += other.encoded_bytes;
    }
}

impl LeftOut {
    /// Counts for people; `None`: there are none.
    pub fn text(&self) -> Option<String> {
        let parts = [
            (self.unwritten_bytes, "allocated but never written"),
            (self.delayed_bytes, "not written out yet (`sync` does that)"),
            (self.inline_bytes, "inside inodes"),
            (self.encoded_bytes, "compressed"),
        ];
        let told = parts.into_iter().filter(|(bytes, _)| *bytes > 0);
        let told: Vec<String> = told
            .map(|(bytes, what)| format!("{} {what}", thermocline_units::Bytes(bytes)))
            .collect();
        (!told.is_empty()).then(|| told.join(", "))
    }
}

/// Extents of the bytes `within` a file.
///
/// # Errors
/// When the file system does not say.
pub fn of(file: impl AsFd, within: Range<u64>) -> io::Result<Extents> {
    let mut found = Extents::default();
    for extent in Fiemap::new(file.as_fd()).take(EXTENTS_MAX) {
        let extent = extent?;
        if extent.fe_logical >= within.end {
            break;
        }
        let end = extent.fe_logical.saturating_add(extent.fe_length);
        let part = extent.fe_logical.max(within.start)..end.min(within.end);
        if part.is_empty() {
            continue;
        }
        let start = extent.fe_physical.saturating_add(part.start - extent.fe_logical);
        found.add(extent.fe_flags, start..start.saturating_add(part.end - part.start));
    }
    found.ranges.sort_unstable_by_key(|range| range.start);
    found.ranges = joined(&found.ranges);
    Ok(found)
}

impl Extents {
    fn add(&mut self, flags: Flags, range: Range<u64>) {
        let length = range.end - range.start;
        let left_out = &mut self.left_out;
        if flags.intersects(Flags::DATA_INLINE | Flags::DATA_TAIL) {
            left_out.inline_bytes += length;
        } else if flags.intersects(Flags::DELALLOC | Flags::UNKNOWN) {
            left_out.delayed_bytes += length;
        } else if flags.contains(Flags::ENCODED) && !flags.contains(Flags::DATA_ENCRYPTED) {
            left_out.encoded_bytes += length;
        } else if flags.contains(Flags::UNWRITTEN) {
            left_out.unwritten_bytes += length;
        } else {
            self.ranges.push(range);
        }
    }
}

/// Ranges in order with those that touch or overlap made one.
fn joined(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut out: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => out.push(range.clone()),
        }
    }
    out
}
