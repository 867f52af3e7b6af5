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

/// Bytes that somebody keeps with a volume; a store knows nothing of what they mean.
pub type Tag = [u8; 16];

/// Which quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaKind {
    /// What the volume maps.
    Logical,
    /// What is stored for it.
    Physical,
}

/// What is asked for. Offsets and lengths are bytes, multiples of 512; lengths are not 0 and at
/// most [`crate::settings::REQUEST_BYTES_MAX`], but for `Zero`, which may be as long as the volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Read.
    Read {
        /// Which volume.
        volume: VolumeId,
        /// The first byte.
        offset: Bytes,
        /// Bytes, not 0.
        length: u32,
    },
    /// Write; below 4 KiB the rest of the block is read first.
    Write {
        /// Which volume.
        volume: VolumeId,
        /// The first byte.
        offset: Bytes,
        /// What.
        data: Payload,
        /// True if the answer promises durability.
        fua: bool,
    },
    /// Write blocks whose contents the store is believed to have, by name ("hash first"). Either
    /// all of them are there and are written, or nothing is, and the answer is
    /// [`Completed::Unknown`].
    WriteKnown {
        /// Which volume.
        volume: VolumeId,
        /// The first byte; a multiple of 4 KiB.
        offset: Bytes,
        /// The blocks' names, one after the other.
        contents: Vec<ContentId>,
        /// True if the answer promises durability.
        fua: bool,
    },
    /// Make a range read as zeroes and give its blocks back (TRIM, WRITE_ZEROES).
    Zero {
        /// Which volume.
        volume: VolumeId,
        /// The first byte.
        offset: Bytes,
        /// Bytes, not 0.
        length: Bytes,
        /// True if the answer promises durability.
        fua: bool,
    },
    /// Make everything answered so far durable. Costs one flush of the device and one forced write
    /// of the journal (4 KiB for about 70 new blocks), or nothing if nothing has changed.
    Flush,
    /// Names of the blocks in a range of whole blocks; reads them unless the names are remembered.
    Identify {
        /// Which volume.
        volume: VolumeId,
        /// The first byte; a multiple of 4 KiB.
        offset: Bytes,
        /// Blocks.
        blocks: u32,
    },
    /// Read a stored block by its number, as long as it is stored; the answer is
    /// [`Completed::Read`], or [`Completed::Unknown`] when it was swept.
    Fetch {
        /// The block.
        block: BlockId,
    },
    /// Keep a block, if the store has it, until it is unpinned or the store is closed: it is not
    /// swept although nothing maps it yet.
    Pin {
        /// For whom.
        domain: Domain,
        /// Which contents.
        content: ContentId,
    },
    /// Make an empty volume.
    Create {
        /// Its name, unique.
        name: String,
        /// Its size; a multiple of 512.
        size: Bytes,
        /// Whom its blocks are shared with.
        domain: Domain,
        /// Its bounds.
        quotas: Quotas,
    },
    /// Make a volume that begins as `from` is now. O(1), whatever its size.
    Clone {
        /// Of which volume.
        from: VolumeId,
        /// The new one's name.
        name: String,
        /// True for a snapshot, which cannot be written.
        read_only: bool,
    },
    /// Delete a volume.
    Delete {
        /// Which.
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
    /// Change a volume's bounds; what is above them stays.
    SetQuotas {
        /// Which.
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
    /// What is asked for.
    pub action: Action,
}

/// What a volume maps a block to.
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
        /// Counts the volume's changed blocks; what a host was told under a lower version may be
        /// out of date.
        version: u64,
    },
    /// Flushed, deleted, or changed.
    Done,
    /// Some of the contents are not here (or not in this domain): the data must be sent.
    Unknown,
    /// What blocks are mapped to.
    Identified(Vec<Mapped>),
    /// The block that is pinned.
    Pinned(BlockId),
    /// The new volume.
    Created(VolumeId),
}

/// Why a request failed.
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
    /// What the device has is not what was stored there.
    #[error("block {number} is damaged on the device: its contents have another hash")]
    Damaged {
        /// Number of the block.
        number: u32,
    },
    /// A name is empty, too long, or taken.
    #[error("the name is empty, longer than 64 bytes, has control characters, or is taken")]
    Name,
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
    /// Which one.
    pub id: RequestId,
    /// Its outcome.
    pub result: Result<Completed, RequestError>,
}
