//! The engine's interfaces: NBD for data, HTTP for those who look after it.
//!
//! One event loop serves one volume group ([`Engine`]): sockets on one side, devices on the other,
//! the volume machine between them. It is the only place that knows the clock; everything it drives
//! is told the time. The HTTP side ([`http`]) lives on a thread of its own and reaches the loop by
//! [`Mailbox`]; nothing that it does can hold up a request for longer than one order takes.

pub mod api;
pub mod balance;
pub mod client;
mod engine;
mod error;
mod growing;
pub mod hosting;
pub mod http;
pub mod joining;
mod listeners;
mod mailbox;
mod metrics;
pub mod nbd;
mod past;
pub mod probe;
mod stream;
pub mod surveys;
mod tls;
pub mod tunnel;
pub mod unix_socket;

pub use engine::{AdminApi, ClientLimits, Engine, Listeners, OnEvent, Reach, watch_room};
pub use error::ServeError;
pub use mailbox::{Mailbox, Stopped};
pub use nbd::Export;
pub use tls::{TlsError, TlsFiles, tls};
