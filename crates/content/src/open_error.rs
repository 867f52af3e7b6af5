//! Reasons for which a store cannot be made or opened.

use thermocline_ports::DeviceError;

/// Reason why a store cannot be made or opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The settings are out of range.
    #[error("the settings are out of range: see `thermocline_content::settings`")]
    Settings,
    /// The device is too small.
    #[error("the device has {have} blocks of 4 KiB; a store with these segments needs {need}")]
    TooSmall {
        /// Blocks that it has.
        have: u64,
        /// Blocks that it needs.
        need: u64,
    },
    /// There is no superblock.
    #[error("there is no store on the device; make one first")]
    NoStore,
    /// All superblocks are damaged, of another version, or of a larger device.
    #[error(
        "the device begins as a store does, but no superblock can be used: all copies are damaged, \
         of another version, or of a larger device"
    )]
    Superblock,
    /// The device failed.
    #[error("the device failed while the store was opened: {0}")]
    Device(DeviceError),
    /// A block of the root is damaged.
    #[error("block {0} of the device, part of the store's root, is damaged")]
    Root(u32),
    /// A node is damaged.
    #[error("block {0} of the device, a node of a map, is damaged or another one")]
    Node(u32),
    /// A durable part of the journal is damaged.
    #[error("block {block} of the journal is damaged, although later ones are durable")]
    Journal {
        /// Sequence of the block.
        block: u64,
    },
    /// The newest superblock is lost, and only an older one is left.
    #[error("the journal is younger than every superblock that can be read")]
    SuperblockLost,
    /// A record contradicts those before it.
    #[error("a record says what cannot be: {0}")]
    Record(&'static str),
    /// A map names a block that no segment holds.
    #[error(
        "a map names block {number}, which is in no segment; trailers of {damaged} segments are \
         damaged"
    )]
    MissingBlock {
        /// Number of the block.
        number: u32,
        /// Segments whose trailers cannot be read.
        damaged: u32,
    },
    /// Two structures claim the same block of the device.
    #[error("block {0} of the device is said to hold two things")]
    Contradiction(u32),
    /// There is no room for a checkpoint.
    #[error("the store has no room for the checkpoint that opening it needs")]
    NoRoom,
}
