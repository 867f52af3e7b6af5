//! Connections as hyper and tokio see them: plain or encrypted, with a [`Watch`] that hears of
//! every byte.

use super::interim::Interim;
use super::watch::Watch;
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
    watch: Option<Arc<Watch>>,
    /// True if bytes read may begin a request.
    is_client: bool,
    /// Messages that are written between two others; `None`: none ever is.
    interim: Option<Arc<Interim>>,
    /// Of that, what is being written, and how much has been.
    sending: (Vec<u8>, usize),
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
    pub(super) fn client(wire: Wire, watch: Option<Arc<Watch>>) -> Stream {
        Stream::new(wire, watch, true)
    }

    fn new(wire: Wire, watch: Option<Arc<Watch>>, is_client: bool) -> Stream {
        let sending = (Vec::new(), 0);
        Stream { wire, watch, is_client, interim: None, sending, is_forgiving: false }
    }

    /// Writes what comes to `interim` between two messages.
    pub(super) fn with_interim(mut self, interim: &Arc<Interim>) -> Stream {
        self.interim = Some(interim.clone());
        self
    }

    /// Writes interim answers, if this is a moment for them. Ready when none is half written.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(interim) = &self.interim else { return Poll::Ready(Ok(())) };
        let is_flushed = self.watch.as_ref().is_some_and(|watch| watch.is_flushed());
        if is_flushed && self.sending.0.is_empty() && interim.is_waiting() {
            self.sending = (interim.take(), 0);
        }
        while self.sending.1 < self.sending.0.len() {
            let (bytes, from) = (std::mem::take(&mut self.sending.0), self.sending.1);
            let slice = &bytes[from..];
            let result = on_wire!(self, stream => Pin::new(stream).poll_write(cx, slice));
            self.sending.0 = bytes;
            match result {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => self.sending.1 += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
            if self.sending.1 == self.sending.0.len() {
                self.sending = (Vec::new(), 0);
                let flushed = on_wire!(self, stream => Pin::new(stream).poll_flush(cx));
                if let Poll::Ready(Err(error)) = flushed {
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(Ok(()))
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

    /// Has `watch` hear of every byte from now on; whoever writes hears of every error.
    pub(super) fn watched(&mut self, watch: &Arc<Watch>) {
        self.watch = Some(watch.clone());
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
        if let Some(watch) = &self.watch {
            watch.set_flushed(is_flushed);
        }
    }

    fn wrote(&self, result: &Poll<io::Result<usize>>) {
        if let (Poll::Ready(Ok(count)), Some(watch)) = (result, &self.watch)
            && *count > 0
        {
            watch.progress();
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Whoever waits for an answer reads.
        if let Poll::Ready(Err(error)) = self.poll_interim(cx) {
            return Poll::Ready(Err(error));
        }
        let before = buffer.filled().len();
        let result = on_wire!(self, stream => Pin::new(stream).poll_read(cx, buffer));
        if let Some(watch) = &self.watch
            && buffer.filled().len() > before
        {
            if self.is_client { watch.moved() } else { watch.progress() }
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
        ready!(self.poll_interim(cx))?;
        self.set_flushed(false);
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
            ready!(self.poll_interim(cx))?;
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
        let result = on_wire!(self, stream => Pin::new(stream).poll_flush(cx));
        if matches!(result, Poll::Ready(Ok(()))) && self.sending.0.is_empty() {
            self.set_flushed(true);
        }
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_wire!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
