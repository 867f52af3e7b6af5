//! Requests to a store, and what comes back.

use crate::name::{BlockId, ContentId, Domain};
use thermocline_ports::{DeviceError, Payload};
use thermocline_units::{Bytes, VolumeId};

/// Names a request in flight; chosen by who submits, unique while in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Bounds of a volume's space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Bytes that the volume may map (zeroes are nothing).
    pub logical: Bytes,
    /// Bytes of stored blocks that it may be charged: a block is charged to the volume whose write
    /// stored it, as long as any volume maps it.
    pub physical: Bytes,
}

impl Default for Quotas {
    /// No bounds.
    fn default() -> Quotas {
        Quotas { logical: Bytes(u64::MAX), physical: Bytes(u64::MAX) }
    }
}

/// Bytes that a client keeps with a volume; the store does not interpret them.
pub type Tag = [u8; 16];

/// Kind of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaKind {
    /// Bytes that the volume maps.
    Logical,
    /// Bytes of stored blocks that are charged to it.
    Physical,
}

/// Operation of a request. Offsets and lengths are bytes and multiples of 512. A length is at least
/// 512 and at most [`crate::settings::REQUEST_BYTES_MAX`]; that of `Zero` may be as long as the
/// volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Read.
    Read {
        /// The volume.
        volume: VolumeId,
        /// The first byte.
        offset: Bytes,
        /// Bytes, not 0.
        length: u32,
    },
    /// Write. Of blocks that are written in part, the rest is read first.
    Write {
        /// The volume.
        volume: VolumeId,
        /// The first byte.
        offset: Bytes,
        /// Bytes to write, 512 B to 1 MiB.
        data: Payload,
        /// True if the write must be durable when it is answered.
        fua: bool,
    },
    /// Write blocks whose contents the store is believed to have, by name ("hash first"). Either
    /// all of them are there and are written, or nothing is, and the answer is
    /// [`Completed::Unknown`].
    WriteKnown {
        /// The volume.
        volume: VolumeId,
        /// The first byte; a multiple of 4 KiB.
        offset: Bytes,
        /// Names of 1 to 256 blocks, one after the other.
        contents: Vec<ContentId>,
        /// True if the write must be durable when it is answered.
        fua: bool,
    },
    /// Make a range read as zeroes and give its blocks back (TRIM, WRITE_ZEROES).
    Zero {
        /// The volume.
        volume: VolumeId,
        /// The first byte.
        offset: Bytes,
        /// Bytes, not 0.
        length: Bytes,
        /// True if the write must be durable when it is answered.
        fua: bool,
    },
    /// Make everything answered so far durable. Costs one flush of the device and one forced write
    /// of the journal (4 KiB for about 70 new blocks), or nothing if nothing has changed.
    Flush,
    /// Names of the blocks in a range of whole blocks; reads them unless the names are remembered.
    Identify {
        /// The volume.
        volume: VolumeId,
        /// The first byte; a multiple of 4 KiB.
        offset: Bytes,
        /// Blocks, 1 to 256.
        blocks: u32,
    },
    /// Read a stored block by its number, as long as it is stored; the answer is
    /// [`Completed::Read`], or [`Completed::Unknown`] when it was swept.
    Fetch {
        /// The block.
        block: BlockId,
    },
    /// Pin a block: it is not swept, although no map names it yet, until it is unpinned or the
    /// store is closed. The answer is [`Completed::Pinned`], or [`Completed::Unknown`] when the
    /// store does not have the block.
    Pin {
        /// Domain in which the block must be stored.
        domain: Domain,
        /// Name of its contents.
        content: ContentId,
    },
    /// Make an empty volume.
    Create {
        /// Its name, unique, 1 to 64 bytes without control characters.
        name: String,
        /// Its size; a multiple of 512, at most 16 TiB.
        size: Bytes,
        /// Domain within which its blocks are shared.
        domain: Domain,
        /// Its bounds.
        quotas: Quotas,
    },
    /// Make a volume with the current contents of `from`. O(1), whatever its size.
    Clone {
        /// Volume to clone.
        from: VolumeId,
        /// The new one's name.
        name: String,
        /// True for a snapshot, which cannot be written.
        read_only: bool,
    },
    /// Delete a volume.
    Delete {
        /// The volume.
        volume: VolumeId,
    },
    /// Keep some bytes with a volume, durably, and with everything that was answered so far. A
    /// clone begins with none.
    SetTag {
        /// The volume.
        volume: VolumeId,
        /// The bytes.
        tag: Tag,
    },
    /// Change a volume's bounds. Data beyond them stays.
    SetQuotas {
        /// The volume.
        volume: VolumeId,
        /// The new ones.
        quotas: Quotas,
    },
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// Its operation.
    pub action: Action,
}

/// Contents that a volume's map has for a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mapped {
    /// Zeroes: nothing is stored.
    Zeroes,
    /// A stored block, and the name of its contents.
    Block(BlockId, ContentId),
}

/// Outcomes of requests that succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completed {
    /// A read's contents.
    Read(Payload),
    /// Done, with the version of the volume's map after it.
    Written {
        /// Count of changed blocks of the volume. Information that a host got under a lower
        /// version may be out of date.
        version: u64,
    },
    /// Flushed, deleted, or changed.
    Done,
    /// Some of the contents are not here (or not in this domain): the data must be sent.
    Unknown,
    /// The mapped contents of each block.
    Identified(Vec<Mapped>),
    /// The block that is pinned.
    Pinned(BlockId),
    /// The new volume.
    Created(VolumeId),
}

/// Reason why a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// There is no such volume.
    #[error("there is no volume {}; list them with `status`", .0.0)]
    NoVolume(VolumeId),
    /// The range is empty, too long, misaligned, or ends behind the volume.
    #[error("the range is empty, too long, not in whole sectors, or ends behind the volume")]
    Range,
    /// The volume is a snapshot.
    #[error("the volume is a snapshot and cannot be written; clone it first")]
    ReadOnly,
    /// The store is full.
    #[error("the store has no space left; trim or delete volumes, or add a larger device")]
    NoSpace,
    /// The volume is at one of its bounds.
    #[error("the volume is at its {0:?} quota; raise it, or trim the volume")]
    Quota(QuotaKind),
    /// The device failed.
    #[error("the device failed: {0}")]
    Device(#[from] DeviceError),
    /// The block on the device has another hash than the one under which it was stored.
    #[error("block {number} is damaged on the device: its contents have another hash")]
    Damaged {
        /// Number of the block.
        number: u32,
    },
    /// No name for a volume ([`crate::settings::is_volume_name`]).
    #[error(
        "a volume's name has 1 to 64 of a-z, A-Z, 0-9, `.`, `_`, `-`, `@` and `+`, and begins with \
         none of `.` and `-`"
    )]
    Name,
    /// Another volume has the name.
    #[error("there is a volume of that name already; give another name, or delete it first")]
    NameTaken,
    /// There are too many volumes, requests or pins.
    #[error("too many volumes, requests or pins at once")]
    TooMany,
    /// The store failed earlier, or is not open: it must be opened again.
    #[error("the store has stopped after a failure of its device; open it again")]
    Stopped,
}

/// The end of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The request.
    pub id: RequestId,
    /// Its outcome.
    pub result: Result<Completed, RequestError>,
}
