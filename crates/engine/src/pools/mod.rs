//! The devices of a configuration: looked at, told apart, and put in the order of their pools.
//!
//! 1. Every device that is there is opened, and thereby locked; then the first bytes say what it
//!    is.
//! 2. When none is a pool it is a first start: what is there must be blank, the rest is made.
//! 3. Otherwise the labels say which device is which pool; the order in the configuration does not
//!    matter any more. A device that the group needs and nobody has is missing. One that the
//!    configuration names and the group has removed is left alone, with a warning.
//!
//! Nothing here writes to a device that has something on it, unless the caller permits it by name.

mod added;
mod config;
mod error;
mod inspect;
mod opened;
mod opener;
mod own_files;
mod salvage;
mod start;
mod tmpfs;

pub use added::AddedPools;
pub(crate) use config::place;
pub use config::{
    BucketConfig, CacheConfig, DeviceConfig, Emulation, GroupConfig, MovesADay, NamedBy,
    PoolConfig, added_pools_path, is_same_place,
};
pub use error::StartError;
pub use inspect::{Inspection, Look, ReadResult, at_full_speed, at_rest};
pub use opened::{Arranged, Found, Members, arrange, expected_size, open_all, refusal_of};
pub use opener::DeviceOpener;
pub use own_files::refuse_own_file;
pub use salvage::{Damage, losses};
pub use start::{DataFolder, Permission, Started, check_first_start, start};
pub(crate) use tmpfs::refuse_among_devices;
pub use tmpfs::{is_on_tmpfs, link_to_tmpfs};

#[cfg(test)]
mod tests;
