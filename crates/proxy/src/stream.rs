//! Connections as hyper and tokio see them: plain or encrypted, with a [`Deadlines`] that hears of
//! every byte.

use super::deadlines::{Deadlines, Phase};
use super::interim::Interim;
use super::outgoing::{LAST_CHUNK, Outgoing};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Pieces that are this long together are copied and sent as one: sending a list costs the kernel
/// more than copying so little.
const GATHERED_MAX: usize = 2048;

/// One connection.
pub(super) enum Wire {
    Plain(TcpStream),
    /// The server's side of TLS.
    Accepted(Box<tokio_rustls::server::TlsStream<TcpStream>>),
    /// The client's side of TLS.
    Connected(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// One connection, watched.
pub(super) struct Stream {
    wire: Wire,
    deadlines: Option<Arc<Deadlines>>,
    /// True if bytes read may begin a request.
    is_client: bool,
    /// Messages that are written between two others; `None`: none ever is.
    interim: Option<Arc<Interim>>,
    /// Fields for the last chunk of a body, and a count of what was written; `None`: neither.
    outgoing: Option<Arc<Outgoing>>,
    /// Bytes to be written before any others, and how many of them have been.
    sending: (Vec<u8>, usize),
    /// The last bytes that came, while the last chunk is waited for.
    tail: Vec<u8>,
    /// True if writing to a neighbour that has closed is no error: it may have answered before.
    is_forgiving: bool,
}

/// Does the same to whatever the wire is.
macro_rules! on_wire {
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut $self.wire {
            Wire::Plain($stream) => $call,
            Wire::Accepted($stream) => $call,
            Wire::Connected($stream) => $call,
        }
    };
}

/// Returns true if an error says that the other side has closed.
fn has_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

impl Stream {
    /// A client's.
    pub(super) fn client(wire: Wire, deadlines: Option<Arc<Deadlines>>) -> Stream {
        Stream::new(wire, deadlines, true)
    }

    fn new(wire: Wire, deadlines: Option<Arc<Deadlines>>, is_client: bool) -> Stream {
        let sending = (Vec::new(), 0);
        let (interim, outgoing, tail) = (None, None, Vec::new());
        Stream { wire, deadlines, is_client, interim, outgoing, sending, tail, is_forgiving: false }
    }

    /// Writes what comes to `interim` between two messages.
    pub(super) fn with_interim(mut self, interim: &Arc<Interim>) -> Stream {
        self.interim = Some(interim.clone());
        self
    }

    /// Puts fields that are left there into the last chunk of a body, and counts what is written.
    pub(super) fn with_outgoing(mut self, outgoing: &Arc<Outgoing>) -> Stream {
        self.outgoing = Some(outgoing.clone());
        self
    }

    /// Writes interim answers, if this is a moment for them, and all else that is to be written
    /// first. Ready when nothing of it is left.
    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(interim) = &self.interim
            && interim.is_waiting()
            && self.sending.0.is_empty()
            && self.deadlines.as_ref().is_some_and(|deadlines| deadlines.is_flushed())
        {
            self.sending = (interim.take(), 0);
        }
        if self.sending.0.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while self.sending.1 < self.sending.0.len() {
            let (bytes, from) = (std::mem::take(&mut self.sending.0), self.sending.1);
            let slice = &bytes[from..];
            let result = on_wire!(self, stream => Pin::new(stream).poll_write(cx, slice));
            // An interim answer is not what the request waits for.
            if self.deadlines.as_ref().is_none_or(|deadlines| deadlines.phase() != Phase::Exchange)
            {
                self.wrote(&result);
            }
            let result = self.forgive(result, slice.len());
            self.sending.0 = bytes;
            match ready!(result)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.sending.1 += count,
            }
        }
        self.sending = (Vec::new(), 0);
        match on_wire!(self, stream => Pin::new(stream).poll_flush(cx)) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// True while the last bytes are held back: fields are left for the last chunk.
    fn is_holding(&self) -> bool {
        !self.tail.is_empty() || self.outgoing.as_ref().is_some_and(|outgoing| outgoing.is_left())
    }

    /// Takes bytes, and holds the last of them back.
    fn hold(&mut self, bytes: &[u8]) -> usize {
        self.tail.extend(bytes);
        let sure = self.tail.len().saturating_sub(LAST_CHUNK.len());
        let held = self.tail.split_off(sure);
        self.sending = (std::mem::replace(&mut self.tail, held), 0);
        bytes.len()
    }

    /// Lets go of what was held back, when all of a message has come: with the fields that were
    /// left, which belong into the last chunk and nowhere else.
    fn let_go(&mut self) -> io::Result<()> {
        let lines = self.outgoing.as_ref().map(|outgoing| outgoing.take()).unwrap_or_default();
        let tail = std::mem::take(&mut self.tail);
        if lines.is_empty() {
            self.sending.0.extend(tail);
            return Ok(());
        }
        if tail != LAST_CHUNK {
            return Err(io::Error::other("fields were left behind what is no last chunk"));
        }
        let (before, behind) = LAST_CHUNK.split_at(LAST_CHUNK.len() - 2);
        self.sending.0.extend([before, &lines, behind].concat());
        Ok(())
    }

    /// A server's.
    pub(super) fn server(wire: Wire) -> Stream {
        Stream::new(wire, None, false)
    }

    /// Takes writing to a neighbour that has closed for done: a server may answer before it has
    /// the whole request, and close. Its answer, or the end, is what reading brings.
    pub(super) fn forgiving(mut self) -> Stream {
        self.is_forgiving = true;
        self
    }

    /// Has `deadlines` hear of every byte from now on; whoever writes hears of every error.
    pub(super) fn watched(&mut self, deadlines: &Arc<Deadlines>) {
        self.deadlines = Some(deadlines.clone());
        self.is_forgiving = false;
    }

    fn forgive(&self, result: Poll<io::Result<usize>>, count: usize) -> Poll<io::Result<usize>> {
        match result {
            Poll::Ready(Err(error)) if self.is_forgiving && has_closed(&error) => {
                Poll::Ready(Ok(count))
            }
            other => other,
        }
    }

    fn set_flushed(&self, is_flushed: bool) {
        if let Some(deadlines) = &self.deadlines {
            deadlines.set_flushed(is_flushed);
        }
    }

    fn wrote(&self, result: &Poll<io::Result<usize>>) {
        let Poll::Ready(Ok(count)) = result else { return };
        if let Some(outgoing) = &self.outgoing {
            outgoing.wrote(*count);
        }
        if let Some(deadlines) = &self.deadlines
            && *count > 0
        {
            deadlines.progress();
        }
    }
}

/// All of these bytes in one piece.
fn gather(slices: &[io::IoSlice<'_>]) -> Vec<u8> {
    slices.iter().flat_map(|slice| slice.iter().copied()).collect()
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Whoever waits for an answer reads.
        if let Poll::Ready(Err(error)) = self.poll_first(cx) {
            return Poll::Ready(Err(error));
        }
        let before = buffer.filled().len();
        let result = on_wire!(self, stream => Pin::new(stream).poll_read(cx, buffer));
        if let Some(deadlines) = &self.deadlines
            && buffer.filled().len() > before
        {
            if self.is_client { deadlines.moved() } else { deadlines.progress() }
        }
        result
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_first(cx))?;
        self.set_flushed(false);
        if self.is_holding() {
            return Poll::Ready(Ok(self.hold(bytes)));
        }
        let result = on_wire!(self, stream => Pin::new(stream).poll_write(cx, bytes));
        self.wrote(&result);
        self.forgive(result, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        if total > GATHERED_MAX {
            ready!(self.poll_first(cx))?;
            if self.is_holding() {
                self.set_flushed(false);
                return Poll::Ready(Ok(self.hold(&gather(slices))));
            }
            self.set_flushed(false);
            let result = on_wire!(self, stream => Pin::new(stream).poll_write_vectored(cx, slices));
            self.wrote(&result);
            return self.forgive(result, total);
        }
        let (mut gathered, mut length) = ([0; GATHERED_MAX], 0);
        for slice in slices {
            gathered[length..length + slice.len()].copy_from_slice(slice);
            length += slice.len();
        }
        self.poll_write(cx, &gathered[..length])
    }

    fn is_write_vectored(&self) -> bool {
        match &self.wire {
            Wire::Plain(stream) => stream.is_write_vectored(),
            Wire::Accepted(stream) => stream.is_write_vectored(),
            Wire::Connected(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_holding() {
            ready!(self.poll_first(cx))?;
            self.let_go()?;
        }
        ready!(self.poll_first(cx))?;
        let result = on_wire!(self, stream => Pin::new(stream).poll_flush(cx));
        if matches!(result, Poll::Ready(Ok(()))) {
            self.set_flushed(true);
        }
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_wire!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
