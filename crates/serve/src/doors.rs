//! Where NBD clients come in: unix sockets and TCP addresses.

use crate::nbd::Security;
use crate::stream::Stream;
use crate::unix_socket::{self, SocketName};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// A socket that listens.
pub(crate) enum Door {
    Unix { listener: UnixListener, _name: SocketName },
    Tcp { listener: TcpListener, security: Security },
}

impl Door {
    pub(crate) fn unix(path: &Path) -> io::Result<Door> {
        let (listener, name) = unix_socket::listen(path)?;
        Ok(Door::Unix { listener, _name: name })
    }

    pub(crate) fn tcp(address: SocketAddr, security: Security) -> io::Result<Door> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Door::Tcp { listener, security })
    }

    /// Somebody who waits to come in, and what is wanted of them.
    pub(crate) fn accept(&self) -> Option<(Stream, Security)> {
        match self {
            Door::Unix { listener, .. } => {
                let (stream, _) = listener.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                Some((Stream::Unix(stream), Security::Given))
            }
            Door::Tcp { listener, security } => {
                let (stream, _) = listener.accept().ok()?;
                stream.set_nonblocking(true).ok()?;
                // Replies are whole when they are sent: waiting for more only delays them.
                stream.set_nodelay(true).ok()?;
                Some((Stream::Tcp(stream), *security))
            }
        }
    }

    /// The address, when it is one of the network.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Door::Unix { .. } => None,
            Door::Tcp { listener, .. } => listener.local_addr().ok(),
        }
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Door::Unix { listener, .. } => listener.as_fd(),
            Door::Tcp { listener, .. } => listener.as_fd(),
        }
    }
}
