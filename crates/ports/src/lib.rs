//! Ports, through which a machine reaches the world: block devices, links, accelerators, network
//! interfaces.
//!
//! Completion style: `submit` never blocks and never fails, what becomes of it comes out of `poll`
//! later. Time is an argument everywhere, so the same machine runs on the wall clock, in virtual
//! time and under a simulator that crashes it. Each port has a modelled twin, which costs virtual
//! time as the real medium would, and a faulty twin, which misbehaves by seed.
//!
//! Nothing here opens a file, sleeps or starts a thread; real ports live in a room of their own.

pub mod accelerator;
pub mod calibration;
pub mod contract;
mod device;
pub mod faulty;
mod link;
pub mod model;
pub mod packets;
pub mod pattern;
mod payload;
mod scratch;

pub use accelerator::Accelerator;
pub use device::{Completion, Device, DeviceError, Geometry, Io, SECTOR, Ticket};
pub use link::{Link, Packet};
pub use packets::{Medium, Packets};
pub use payload::Payload;
pub use scratch::ScratchDevice;
