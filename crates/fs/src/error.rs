//! Reasons why a survey ends without an answer. Rules: a message says what was found, where, and
//! what to do next; whatever can be skipped is no error (see [`crate::Summary::torn`]).

use crate::{Kind, ReadError};
use thermocline_units::Bytes;

/// A reason that a survey ended early. The next run of the same survey starts anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FsError {
    /// No file system that is known here.
    #[error("no ext2, ext3, ext4, XFS or btrfs begins at byte {}: look for partitions first", .at.0)]
    Unknown {
        /// Offset at which one was expected.
        at: Bytes,
    },
    /// A feature that decides where things are, and that this reader does not know.
    #[error("{kind} at byte {} {what}; it is served without knowledge of its files", .at.0)]
    Unsupported {
        /// Its kind.
        kind: Kind,
        /// Offset of its beginning.
        at: Bytes,
        /// Property of it: "lies on 3 devices".
        what: String,
    },
    /// The head of the file system cannot be right.
    #[error("{kind} at byte {}: {what}; run its checker (e2fsck, xfs_repair, btrfs check)", .at.0)]
    Damaged {
        /// Its kind.
        kind: Kind,
        /// Offset of its beginning.
        at: Bytes,
        /// The fault.
        what: String,
    },
    /// The volume could not be read.
    #[error("the volume cannot be read at byte {}: {source}", .at.0)]
    Read {
        /// Its offset.
        at: Bytes,
        /// The medium's error.
        source: ReadError,
    },
    /// More of something than the caller allows.
    #[error("more than {most} {what}: the file system is damaged, or raise the limit")]
    TooMany {
        /// Plural of what there is too much of.
        what: &'static str,
        /// The limit.
        most: u64,
    },
}
