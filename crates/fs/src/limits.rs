//! Limits of a survey: a maximum for every count that an image may lie about.

use thermocline_units::Bytes;

/// Bounds of a survey's work and memory. A bound on a total ends the survey with
/// [`crate::FsError::TooMany`]; a bound on a part cuts that part off and counts it
/// ([`crate::Summary::cut`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most files of a file system; their fingerprints are remembered, 4 B to 8 B each.
    /// Default 67,108,864 (2²⁶).
    pub files: u64,
    /// Most extents of one file that are told, and held while it is read, 40 B each.
    /// Default 1,048,576.
    pub extents_per_file: usize,
    /// Most metadata ranges that belong to no file and are remembered, about 40 B each (btrfs: tree
    /// nodes, about 120 B more). Default 16,777,216.
    pub ranges: usize,
    /// Most bytes read in one run; who surveys large volumes of strangers sets it to what a run may
    /// cost. Default: twice the volume and 16 MiB, which no sound file system
    /// needs, because each of its structures is read once.
    pub read: Option<Bytes>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { files: 1 << 26, extents_per_file: 1 << 20, ranges: 1 << 24, read: None }
    }
}
