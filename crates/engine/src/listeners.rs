//! Listeners for NBD clients: unix sockets and TCP addresses.

use crate::stream::Stream;
use rustix::io::Errno;
use rustix::net::sockopt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thermocline_admin::unix_socket::{self, SocketName};
use thermocline_nbd::Security;

/// Time without a word after which a TCP client is asked whether it is still there.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(60);
/// Time between such questions, and how many may go unanswered: two minutes in all.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TRIES: u32 = 6;

/// A socket that listens.
pub(crate) enum Listener {
    /// `_name` goes with it; a socket that was handed over keeps its name, which is not ours.
    Unix {
        listener: UnixListener,
        path: PathBuf,
        _name: Option<SocketName>,
    },
    Tcp {
        listener: TcpListener,
        security: Security,
    },
}

impl Listener {
    pub(crate) fn unix(path: &Path) -> io::Result<Listener> {
        let (listener, name) = unix_socket::listen(path)?;
        Ok(Listener::Unix { listener, path: path.to_path_buf(), _name: Some(name) })
    }

    /// A socket that listens at `path` already.
    pub(crate) fn handed_unix(path: &Path, listener: &UnixListener) -> io::Result<Listener> {
        let listener = listener.try_clone()?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix { listener, path: path.to_path_buf(), _name: None })
    }

    /// A TCP socket that listens already.
    pub(crate) fn handed_tcp(listener: &TcpListener, security: Security) -> io::Result<Listener> {
        let listener = listener.try_clone()?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Tcp { listener, security })
    }

    pub(crate) fn tcp(address: SocketAddr, security: Security) -> io::Result<Listener> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Tcp { listener, security })
    }

    /// Accepts a connection that waits, when one does, and says what is wanted of it.
    ///
    /// # Errors
    /// When the system has no room for another.
    pub(crate) fn accept(&self) -> io::Result<Option<(Stream, Security)>> {
        let accepted = match self {
            Listener::Unix { listener, .. } => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                Ok((Stream::Unix(stream), Security::Given))
            }),
            Listener::Tcp { listener, security } => listener.accept().and_then(|(stream, _)| {
                stream.set_nonblocking(true)?;
                // Replies are whole when they are sent: waiting for more only delays them.
                stream.set_nodelay(true)?;
                notice_death(&stream)?;
                Ok((Stream::Tcp(stream), *security))
            }),
        };
        match accepted {
            Ok(accepted) => Ok(Some(accepted)),
            Err(error) if is_exhaustion(&error) => Err(error),
            // Nobody waits, or who waited has gone.
            Err(_) => Ok(None),
        }
    }

    /// Its path or address.
    pub(crate) fn name(&self) -> String {
        match self {
            Listener::Unix { path, .. } => path.display().to_string(),
            Listener::Tcp { .. } => {
                self.address().map_or("a TCP address".to_string(), |address| address.to_string())
            }
        }
    }

    /// The address, when it is one of the network.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Unix { .. } => None,
            Listener::Tcp { listener, .. } => listener.local_addr().ok(),
        }
    }
}

/// Has the kernel find out when the other side of an idle connection is no more: a client that was
/// switched off would keep its place for ever.
fn notice_death(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_EVERY)?;
    Ok(sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_TRIES)?)
}

/// True if the system, or this process, has no room for another connection.
fn is_exhaustion(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| exhausted.contains(&errno))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix { listener, .. } => listener.as_fd(),
            Listener::Tcp { listener, .. } => listener.as_fd(),
        }
    }
}
