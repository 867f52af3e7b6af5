//! The real ports: files and block devices through io_uring.
//!
//! A [`FileDevice`] keeps the contract of [`thermocline_ports::Device`] on a file or a block
//! device. It goes past the page cache where the file system allows, and says which way it went.
//! Time is whatever the caller says; nothing here reads a clock or starts a thread.

mod buffer;
mod file;
mod ring;

pub use buffer::Aligned;
pub use file::{FileDevice, OpenDeviceError, OpenOptions};
