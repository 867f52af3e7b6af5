//! Telling the service manager how far this process is: sd_notify(3), a datagram to the socket that
//! `NOTIFY_SOCKET` names. Without that variable nothing is sent.
//!
//! A manager that cannot be told is no reason to stop serving: failures are said on stderr.

use crate::listeners;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// State of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State<'a> {
    /// Serving; `status` is one line for people. A process that follows another one is the main
    /// process from here on.
    Ready {
        /// Summary of what is served.
        status: &'a str,
    },
    /// Stopping, while what is under way is finished.
    Stopping,
}

impl State<'_> {
    fn message(self) -> String {
        match self {
            State::Ready { status } => {
                let status = status.lines().next().unwrap_or_default();
                format!("READY=1\nMAINPID={}\nSTATUS={status}\n", std::process::id())
            }
            State::Stopping => "STOPPING=1\n".to_string(),
        }
    }
}

/// Tells the service manager, if there is one.
pub(crate) fn tell(state: State<'_>) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&socket, state)
    {
        let socket = socket.display();
        listeners::say(&format!("the service manager at {socket} cannot be told: {error}"));
    }
}

fn send(socket: &OsStr, state: State<'_>) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    let address = address(socket)?;
    sender.send_to_addr(state.message().as_bytes(), &address).map(|_| ())
}

/// A path, or with `@` in front a name in the abstract namespace.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name),
        Some((b'/', _)) => SocketAddr::from_pathname(socket),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a path and not @NAME")),
    }
}

#[cfg(test)]
mod tests;
