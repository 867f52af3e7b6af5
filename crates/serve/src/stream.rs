//! A client's socket: unix, TCP, or TCP under TLS. Never blocks.
//!
//! What TLS has encrypted and the socket did not take yet is kept by the TLS connection;
//! [`Stream::has_unsent`] says so, and [`Stream::push_out`] tries again.

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// See the module.
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Stream {
    pub(crate) fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.read_vectored(into),
            Stream::Tcp(stream) => stream.read_vectored(into),
            Stream::Tls(stream) => stream.read_vectored(into),
        }
    }

    pub(crate) fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => stream.write_vectored(slices),
            Stream::Tcp(stream) => stream.write_vectored(slices),
            Stream::Tls(stream) => stream.write_vectored(slices),
        }
    }

    /// Whether encrypted bytes wait for the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        matches!(self, Stream::Tls(stream) if stream.conn.wants_write())
    }

    /// Hands encrypted bytes to the socket; whether any were taken.
    pub(crate) fn push_out(&mut self) -> io::Result<bool> {
        match self {
            Stream::Tls(stream) if stream.conn.wants_write() => {
                stream.conn.write_tls(&mut stream.sock).map(|count| count > 0)
            }
            _ => Ok(false),
        }
    }

    /// The same connection under TLS; the client speaks first.
    ///
    /// # Errors
    /// When the stream is not a plain TCP one, or the configuration does not hold.
    pub(crate) fn encrypt(self, tls: Arc<ServerConfig>) -> io::Result<Stream> {
        let Stream::Tcp(stream) = self else { return Err(io::ErrorKind::InvalidInput.into()) };
        let connection = ServerConnection::new(tls).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(connection, stream))))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Tls(stream) => stream.sock.as_fd(),
        }
    }
}
