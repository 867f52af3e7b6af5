//! A client's socket: unix, TCP, or TCP under TLS. Never blocks.
//!
//! Under TLS both directions go on without the other: what was decrypted can be read while the
//! socket takes nothing, and the reverse. What was encrypted and the socket did not take yet is
//! kept; [`Stream::has_unsent`] says so, and [`Stream::push_out`] tries again.

use rustls::{ServerConfig, ServerConnection};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A client's connection: TCP, TLS or a unix socket.
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<Tls>),
}

/// A TCP connection under TLS.
pub(crate) struct Tls {
    connection: ServerConnection,
    socket: TcpStream,
}

impl Tls {
    /// Gives what was decrypted; reads and decrypts more only when there is nothing left. So
    /// whoever stops before this would block has to come back without being told.
    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read_vectored(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            if self.connection.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            let decrypted = self.connection.process_new_packets();
            // Also an alert that says what was wrong; it may not find a listener.
            let pushed = self.push_out();
            decrypted.map_err(io::Error::other)?;
            if let Err(error) = pushed
                && error.kind() != io::ErrorKind::WouldBlock
            {
                return Err(error);
            }
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let taken = self.connection.writer().write_vectored(slices)?;
        match self.push_out() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ if taken == 0 => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(taken),
        }
    }

    /// True if the socket took all there was.
    fn push_out(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut self.socket)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

impl Stream {
    pub(crate) fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read_vectored(into),
            Stream::Tcp(stream) => stream.read_vectored(into),
            Stream::Tls(tls) => tls.read_vectored(into),
        }
    }

    pub(crate) fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write_vectored(slices),
            Stream::Tcp(stream) => stream.write_vectored(slices),
            Stream::Tls(tls) => tls.write_vectored(slices),
        }
    }

    /// Peer at the other end, as an administrator can find it.
    pub(crate) fn peer(&self) -> String {
        let address = |socket: &TcpStream| match socket.peer_addr() {
            Ok(address) => address.to_string(),
            Err(_) => "an address that is gone".to_string(),
        };
        match self {
            Stream::Tcp(socket) => address(socket),
            Stream::Tls(tls) => address(&tls.socket),
            Stream::Unix(socket) => match rustix::net::sockopt::socket_peercred(socket) {
                Ok(peer) => process(peer.pid.as_raw_nonzero().get()),
                Err(_) => "an unknown process".to_string(),
            },
        }
    }

    /// True if encrypted bytes wait for the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        matches!(self, Stream::Tls(tls) if tls.connection.wants_write())
    }

    /// Hands encrypted bytes to the socket until all are gone.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when some are left, and what the socket says.
    pub(crate) fn push_out(&mut self) -> io::Result<()> {
        match self {
            Stream::Tls(tls) => tls.push_out(),
            Stream::Unix(_) | Stream::Tcp(_) => Ok(()),
        }
    }

    /// The same connection under TLS; the client speaks first.
    ///
    /// # Errors
    /// When the stream is not a plain TCP one, or the configuration does not hold.
    pub(crate) fn encrypt(self, tls: Arc<ServerConfig>) -> io::Result<Stream> {
        let Stream::Tcp(socket) = self else { return Err(io::ErrorKind::InvalidInput.into()) };
        let connection = ServerConnection::new(tls).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(Tls { connection, socket })))
    }
}

/// A process by its number, and its name while it runs.
fn process(number: i32) -> String {
    match std::fs::read_to_string(format!("/proc/{number}/comm")) {
        Ok(name) => format!("process {number}, {}", name.trim_end()),
        Err(_) => format!("process {number}"),
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Tls(tls) => tls.socket.as_fd(),
        }
    }
}
