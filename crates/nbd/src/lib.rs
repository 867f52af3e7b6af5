//! The NBD protocol, server side: newstyle handshake, structured replies, block status.
//!
//! Nothing here opens a socket: bytes go in, requests and bytes come out.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

mod handshake;
mod holding;
mod outbox;
mod reply;
mod request;
mod session;
mod wire;

pub use handshake::{Export, Offer, Security};
pub use request::{Ask, Cookie, Extent};
pub use session::Session;
pub use wire::Errno;

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
