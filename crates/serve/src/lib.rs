//! The doors of the engine. One event loop serves one volume group: sockets on one side, devices on
//! the other, the volume machine between them.
//!
//! The loop is the only place that knows the wall clock; everything it drives is told the time.

mod engine;
pub mod nbd;

pub use engine::{Engine, ServeError};
pub use nbd::Export;
