//! Reasons that a block cache cannot be opened, or has failed.

use thermocline_ports::DeviceError;
use thermocline_units::Bytes;

/// A reason that a block cache cannot be opened, or has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The fast device has no room for the smallest cache.
    #[error("the cache device has {0}; the smallest cache takes 2 MiB")]
    CacheTooSmall(Bytes),
    /// The slow device has no room behind its label.
    #[error("the slow device has {0}; there is no room behind its label of 64 KiB")]
    OriginTooSmall(Bytes),
    /// The slow device has more lines than can be numbered.
    #[error("the slow device has {0}; a cache takes less than 16 TiB")]
    OriginTooLarge(Bytes),
    /// A device carries no label of a cache.
    #[error("the {0} device carries no label of a block cache")]
    NoLabel(&'static str),
    /// A device carries a label that cannot be read.
    #[error("the label on the {0} device is damaged, or of another version of this program")]
    BadLabel(&'static str),
    /// The devices belong to different caches.
    #[error("the cache device and the slow device do not belong together")]
    Strangers,
    /// A device has become smaller.
    #[error("the {0} device is smaller than its label says")]
    Shrunk(&'static str),
    /// The table of dirty lines cannot be believed.
    #[error("sector {0} of the table of dirty lines is damaged")]
    Table(u32),
    /// A device failed.
    #[error("a device of the block cache failed: {0}")]
    Device(DeviceError),
}
