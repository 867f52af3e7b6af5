//! The engine: NBD for data, HTTP for those who look after it.
//!
//! One event loop serves one volume group ([`Engine`]): sockets on one side, devices on the other,
//! the volume machine between them. It is the only place that knows the clock; everything it drives
//! is told the time. The HTTP side ([`http`]) lives on a thread of its own and reaches the loop by
//! [`Mailbox`]; nothing that it does can hold up a request for longer than one task takes.

pub mod api;
mod error;
mod event_loop;
mod growing;
pub mod http;
pub mod joining;
mod kept_hints;
pub mod learnt;
mod listeners;
mod mailbox;
mod metrics;
pub mod pools;
pub mod probe;
mod sample;
mod stream;
pub mod surveys;
mod volume_device;

pub use error::ServeError;
pub use event_loop::{AdminApi, ClientLimits, Engine, Listeners, OnEvent, Reach, watch_room};
pub use mailbox::{Mailbox, Stopped};
pub use volume_device::VolumeDevice;
