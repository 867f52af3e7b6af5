//! Codes by which an end says why it gave a flow up. They are part of the protocol between
//! gateways; 1 is the tunnel's own, 2^32 − 1 the connection's.

use crate::socks5::Reply;
use std::io::ErrorKind;

/// A client, or a server, broke its connection off.
pub(crate) const BROKEN_OFF: u32 = 16;
/// This end has no more use for the flow: it stops, or takes no flows.
pub(crate) const GIVEN_UP: u32 = 17;
/// No rule of the exit allows the target.
pub(crate) const NOT_ALLOWED: u32 = 18;
/// The target's name is not known.
pub(crate) const NO_SUCH_HOST: u32 = 19;
/// The server refuses connections.
pub(crate) const REFUSED: u32 = 20;
/// The server's host or network cannot be reached.
pub(crate) const UNREACHABLE: u32 = 21;
/// No answer came in time.
pub(crate) const TIMED_OUT: u32 = 22;
/// Connecting failed in another way.
pub(crate) const FAILED: u32 = 23;

/// The reply to a client of SOCKS.
pub(crate) fn reply(code: u32) -> Reply {
    match code {
        NOT_ALLOWED => Reply::NotAllowed,
        NO_SUCH_HOST => Reply::HostUnreachable,
        REFUSED => Reply::Refused,
        UNREACHABLE => Reply::NetworkUnreachable,
        TIMED_OUT => Reply::TimedOut,
        _ => Reply::Failure,
    }
}

/// The reason for people.
pub(crate) fn text(code: u32) -> String {
    let known = match code {
        BROKEN_OFF => "the other side broke it off",
        GIVEN_UP => "the other end gave it up",
        NOT_ALLOWED => "the exit does not allow this target: pass it there with --allow",
        NO_SUCH_HOST => "the exit knows no host of that name",
        REFUSED => "the server refuses connections",
        UNREACHABLE => "the exit has no way to the server",
        TIMED_OUT => "the server did not answer the exit in time",
        FAILED => "the exit could not connect",
        thermocline_tunnel::RESET_BROKEN_OFF => "its bytes broke off",
        u32::MAX => "the exit takes no new flows",
        other => return format!("it was reset with code {other}"),
    };
    known.to_string()
}

/// The code of a failed connect.
pub(crate) fn of_connect(kind: ErrorKind) -> u32 {
    match kind {
        ErrorKind::ConnectionRefused => REFUSED,
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => UNREACHABLE,
        ErrorKind::TimedOut => TIMED_OUT,
        _ => FAILED,
    }
}
