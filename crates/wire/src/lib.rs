//! Many two-way streams on one connection between two ends: bytes in, bytes out.
//!
//! A [`Session`] is one end. It is told the bytes that arrived ([`Session::receive`]) and the time,
//! and says what happened ([`Session::next_event`]), what to send ([`Session::transmit`]) and when
//! it wants to be told the time again ([`Session::next_deadline`]). The frames are drawn in
//! `docs/formats/wire.md`.
//!
//! What holds, whatever the other end sends:
//! - Any split of the bytes gives the same events. A broken rule is a [`WireError`]; it ends the
//!   session, and nothing is delivered after it. No bytes make it panic.
//! - Every stream may always send some: each has a window and a send queue of its own, whose floors
//!   are set aside for it. What is above the floors comes from two pools. So a stream that nobody
//!   reads holds no other one back, and memory has a bound: [`Config::received_bytes_max`] and
//!   [`Config::queued_bytes_max`].
//! - Streams that have something to send take turns of [`FRAME_PAYLOAD_BYTES_MAX`].
//! - Each end says when it sends nothing more on a stream. Until then its late frames are in order,
//!   and after that any frame on the stream is an error; so is one on a stream that never was.
//!
//! It has no socket, no clock and no thread, does not encrypt and does not check sums: it runs
//! inside TLS.

mod block;
mod config;
mod decoder;
mod error;
mod format;
mod heart;
mod pool;
mod queue;
mod session;
mod stream;
mod window;

pub use config::{Config, ConfigError, Role};
pub use error::{Gone, OpenError, WireError};
pub use format::{
    CHARGE_BYTES_MIN, FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX, HELLO_BYTES,
    PARAMETERS_BYTES_MAX, REASON_BYTES_MAX, VERSION_MAX, VERSION_MIN, WINDOW_BYTES_MAX,
    WINDOW_BYTES_MIN,
};
pub use session::{Event, RESET_REFUSED, Session, StreamId};

#[cfg(test)]
mod tests;
