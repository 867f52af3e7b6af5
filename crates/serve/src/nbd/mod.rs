//! The NBD protocol, server side: newstyle handshake, structured replies, block status.
//!
//! Nothing here opens a socket: bytes go in, requests and bytes come out.

mod handshake;
mod session;
mod wire;

pub use handshake::{Export, Security};
pub use session::{Ask, Cookie, Extent, Out, Session};
pub use wire::Errno;

#[cfg(test)]
mod tests;
