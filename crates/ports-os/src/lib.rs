//! The real ports: files and block devices through io_uring, buckets of object stores over HTTP,
//! accelerators in other processes, network interfaces, sockets that a service manager hands over.
//!
//! A [`FileDevice`] keeps the contract of [`thermocline_ports::Device`] on a file or a block
//! device. It goes past the page cache where the file system allows, and says which way it went.
//! [`Emulated`] slows a device to a profile. An [`objects::ObjectDevice`] keeps it in a bucket. A
//! [`Disk`] is any of these; a [`LiveDevice`] is whatever else tells by a descriptor when it has
//! answered, such as a volume of an engine in the same process. A [`Shaper`] is a link with time
//! and losses. Time is whatever the caller says; nothing here reads a clock or starts a thread, but
//! for what talks to an object store.

mod buffer;
mod closed_loop;
mod disk;
mod emulated;
mod file;
pub mod handed;
mod interface;
mod memory;
pub mod objects;
mod packet_socket;
mod patience;
mod ring;
mod shaper;
mod tun;
pub mod worker;

pub use buffer::Aligned;
pub use closed_loop::{Budget, LoadError, run_load};
pub use disk::{Disk, LiveDevice, Worth};
pub use emulated::Emulated;
pub use file::{
    FileDevice, Grower, OpenDeviceError, OpenOptions, lock_backing_file, take_back_file,
};
pub use interface::{Interface, Trouble};
pub use memory::lies_in_memory;
pub use patience::{Health, Patience};
pub use shaper::{Carried, Shaper};
