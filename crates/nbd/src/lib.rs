//! The NBD protocol, server side: newstyle handshake, structured replies, block status.
//!
//! Nothing here opens a socket: bytes go in, requests and bytes come out.

mod handshake;
mod holding;
mod outbox;
mod reply;
mod request;
mod session;
mod wire;

pub use handshake::{Export, Offer, Security};
pub use outbox::Out;
pub use request::{Ask, Cookie, Extent};
pub use session::Session;
pub use wire::Errno;

#[cfg(test)]
mod tests;
