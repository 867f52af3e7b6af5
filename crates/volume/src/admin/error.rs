//! Reasons for which administrators are refused.

use crate::opening::error::CreateError;
use crate::pools::pool::PoolState;
use crate::settings::{VOLUME_NAME_BYTES_MAX, VOLUMES_MAX};
use thermocline_units::{Bytes, PoolId, VolumeId};

/// Reason why an administrator's wish was not granted. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The group is not in service.
    #[error("the volume group is not in service")]
    NotReady,
    /// A size is zero, or not in sectors.
    #[error("{} bytes are no size for a volume: give a multiple of 512 bytes above 0", .0.0)]
    Size(Bytes),
    /// A size is smaller than the volume's.
    #[error("a volume never shrinks: it has {old}, and {size} were asked for")]
    Shrinks {
        /// Size of the volume.
        old: Bytes,
        /// Size that was asked for.
        size: Bytes,
    },
    /// A size is of too many chunks.
    #[error("{size} are too much for a volume: chunks of this group allow {most} at most")]
    SizeMax {
        /// Size that was asked for.
        size: Bytes,
        /// The largest volume of this group.
        most: Bytes,
    },
    /// There is no such volume.
    #[error("there is no volume {0}")]
    NoVolume(VolumeId),
    /// A name that no volume can have.
    #[error(
        "`{0}` is no name for a volume; give 1 to {VOLUME_NAME_BYTES_MAX} letters, digits, dots, \
         hyphens or underscores that do not begin with a dot or a hyphen"
    )]
    VolumeName(String),
    /// Another volume has that name.
    #[error("there is a volume `{0}` already; give another name, or delete it first")]
    NameTaken(String),
    /// Too many.
    #[error("there are {VOLUMES_MAX} volumes, and no room for more")]
    TooManyVolumes,
    /// The metadata has no room for another volume's record, and cannot grow.
    #[error(
        "no pool has enough free chunks for the metadata of another volume; free some of the \
         fastest pool's, or delete a volume first"
    )]
    VolumeRoom,
    /// There is no such pool.
    #[error("there is no pool {}", .0.0)]
    NoPool(PoolId),
    /// The pool is in the wrong state for that.
    #[error("pool {} is {state:?}; it must be drained, or dead, before it is removed", pool.0)]
    PoolState {
        /// The pool.
        pool: PoolId,
        /// Its state.
        state: PoolState,
    },
    /// Only active pools are drained.
    #[error("pool {} is {state:?}; only an active pool can be drained", pool.0)]
    NotActive {
        /// The pool.
        pool: PoolId,
        /// Its state.
        state: PoolState,
    },
    /// Only a pool that is being drained, or is drained, can be undrained.
    #[error(
        "pool {} is {state:?}; only one that is being drained or is drained can be undrained",
        pool.0
    )]
    NotDraining {
        /// The pool.
        pool: PoolId,
        /// Its state.
        state: PoolState,
    },
    /// Only active pools grow.
    #[error("pool {} is {state:?}; only an active pool can grow", pool.0)]
    CannotGrow {
        /// The pool.
        pool: PoolId,
        /// Its state.
        state: PoolState,
    },
    /// One at a time.
    #[error("pool `{0}` is growing already; ask again when that is done")]
    Growing(String),
    /// The device has no room for another chunk.
    #[error(
        "the device of pool `{name}` has {size}, and the pool ends at {pool_ends}: there is no \
         room for another chunk; a pool never shrinks"
    )]
    NotLarger {
        /// The pool's name.
        name: String,
        /// Bytes of the device.
        size: Bytes,
        /// Bytes that the pool has of it.
        pool_ends: Bytes,
    },
    /// The last pool.
    #[error("pool {} is the last that takes chunks, or that has room for the metadata", .0.0)]
    LastPool(PoolId),
    /// The pool does not fit into the group.
    #[error(transparent)]
    Pool(#[from] CreateError),
    /// No pool has free chunks for the larger map.
    #[error(
        "no pool has enough free chunks for the map that pool `{0}` would need; free some of the \
         fastest pool's, or add a smaller pool first"
    )]
    MetadataRoom(String),
}
