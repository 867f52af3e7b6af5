//! SOCKS version 5 (RFC 1928), the server's side: CONNECT, without authentication.
//!
//! Bytes in, steps out; no socket. Whoever owns the socket writes what a step or a refusal says,
//! and closes after a refusal.
#![deny(clippy::indexing_slicing, clippy::expect_used)]

use crate::address::{Host, HostPort};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xFF;
const COMMAND_CONNECT: u8 = 1;

/// Bytes of its request at most: four, a length, 255 of a name, a port.
pub const REQUEST_BYTES_MAX: usize = 4 + 1 + 255 + 2;

/// The reply to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The server is there.
    Connected,
    /// Something that has no code of its own.
    Failure,
    /// A rule forbids it.
    NotAllowed,
    /// The way is not there.
    NetworkUnreachable,
    /// The host is not there, or has no such name.
    HostUnreachable,
    /// The host refuses.
    Refused,
    /// A client that took too long.
    TimedOut,
    /// Something other than CONNECT.
    Command,
    /// An address of a kind that is not known.
    AddressType,
}

impl Reply {
    /// The message.
    pub fn message(self) -> [u8; 10] {
        let code = match self {
            Reply::Connected => 0,
            Reply::Failure => 1,
            Reply::NotAllowed => 2,
            Reply::NetworkUnreachable => 3,
            Reply::HostUnreachable => 4,
            Reply::Refused => 5,
            Reply::TimedOut => 6,
            Reply::Command => 7,
            Reply::AddressType => 8,
        };
        // The address that the server sees is not told: all zeros.
        [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

/// A client that is not served.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A client that speaks something else.
    #[error("the client does not speak SOCKS5: it began with byte {found:#04x}, expected 0x05")]
    Stranger {
        /// Its version.
        found: u8,
    },
    /// A client that insists on authentication.
    #[error("the client offers no way without authentication; have it send no user name")]
    Methods,
    /// Its request breaks the format.
    #[error("the client's request breaks SOCKS5: {what} is {found}, expected {expected}")]
    Request {
        /// The field.
        what: &'static str,
        /// Its value.
        found: u8,
        /// The values that would be right.
        expected: &'static str,
        /// The reply to the client.
        reply: Reply,
    },
    /// A host that is none.
    #[error("the client asks for a host that is none, or for port 0")]
    Host,
}

impl Refusal {
    /// The message for the client; empty for one that speaks something else.
    pub fn message(&self) -> Vec<u8> {
        match self {
            Refusal::Stranger { .. } => Vec::new(),
            Refusal::Methods => vec![VERSION, NO_METHOD],
            Refusal::Request { reply, .. } => reply.message().to_vec(),
            Refusal::Host => Reply::HostUnreachable.message().to_vec(),
        }
    }
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Say this, and go on.
    Say([u8; 2]),
    /// The client wants to be connected there.
    Connect(HostPort),
}

/// The words with one client before it is connected.
#[derive(Debug, Default)]
pub struct Handshake {
    input: Vec<u8>,
    is_greeted: bool,
}

impl Handshake {
    /// Takes in bytes. Give at most [`REQUEST_BYTES_MAX`] between calls of [`Handshake::step`].
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next step; `None`: more has to come.
    ///
    /// # Errors
    /// The client is not served.
    pub fn step(&mut self) -> Result<Option<Step>, Refusal> {
        if !self.is_greeted {
            let Some(length) = greeting(&self.input)? else { return Ok(None) };
            self.input.drain(..length);
            self.is_greeted = true;
            return Ok(Some(Step::Say([VERSION, NO_AUTHENTICATION])));
        }
        let Some((target, length)) = request(&self.input)? else { return Ok(None) };
        self.input.drain(..length);
        Ok(Some(Step::Connect(target)))
    }

    /// Bytes that came behind the request: the first ones for the server.
    pub fn rest(self) -> Vec<u8> {
        self.input
    }
}

/// Length of the first message, once it is all there.
fn greeting(input: &[u8]) -> Result<Option<usize>, Refusal> {
    let Some(&version) = input.first() else { return Ok(None) };
    if version != VERSION {
        return Err(Refusal::Stranger { found: version });
    }
    let Some(&count) = input.get(1) else { return Ok(None) };
    let Some(methods) = input.get(2..2 + usize::from(count)) else { return Ok(None) };
    if !methods.contains(&NO_AUTHENTICATION) {
        return Err(Refusal::Methods);
    }
    Ok(Some(2 + usize::from(count)))
}

/// The target and the length of the request, once it is all there.
fn request(input: &[u8]) -> Result<Option<(HostPort, usize)>, Refusal> {
    let field = |at: usize, what, right: u8, expected, reply| match input.get(at) {
        Some(&found) if found != right => Err(Refusal::Request { what, found, expected, reply }),
        _ => Ok(()),
    };
    field(0, "the version", VERSION, "5", Reply::Failure)?;
    field(1, "the command", COMMAND_CONNECT, "1, CONNECT", Reply::Command)?;
    field(2, "the reserved byte", 0, "0", Reply::Failure)?;
    let Some((&[_, _, _, kind], rest)) = input.split_first_chunk() else { return Ok(None) };
    let (host, length) = match kind {
        1 => match rest.first_chunk::<4>() {
            Some(octets) => (Host::from(IpAddr::V4(Ipv4Addr::from(*octets))), 4),
            None => return Ok(None),
        },
        4 => match rest.first_chunk::<16>() {
            Some(octets) => (Host::from(IpAddr::V6(Ipv6Addr::from(*octets))), 16),
            None => return Ok(None),
        },
        3 => {
            let Some((&length, rest)) = rest.split_first() else { return Ok(None) };
            let Some(name) = rest.get(..usize::from(length)) else { return Ok(None) };
            let name = std::str::from_utf8(name).map_err(|_| Refusal::Host)?;
            (Host::parse(name).map_err(|_| Refusal::Host)?, 1 + usize::from(length))
        }
        found => {
            let (what, expected) = ("the address's kind", "1, 3 or 4");
            return Err(Refusal::Request { what, found, expected, reply: Reply::AddressType });
        }
    };
    let port = rest.get(length..).and_then(|rest| rest.first_chunk::<2>());
    let Some(port) = port else { return Ok(None) };
    let port = u16::from_be_bytes(*port);
    if port == 0 {
        return Err(Refusal::Host);
    }
    Ok(Some((HostPort { host, port }, 4 + length + 2)))
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
