//! The body of a request on its way to a server, and what becomes of it.
//!
//! When a request fails, somebody is to blame. A server that breaks off or does not answer is
//! ejected in the end; one whose client hung up in the middle of an upload must not be. So the
//! body writes down where it stands ([`Upload`]), and whoever judges a failure asks it
//! ([`Fate::upload`]).

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::error::Error;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::{Context, Poll};

/// State of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Upload {
    /// Bytes have come, and the server has not asked for more yet.
    Moving,
    /// The server would take more, and the client has not sent it.
    Awaited,
    /// All of it has come.
    Whole,
    /// The client hung up before its end.
    BrokenOff,
    /// The bytes that came are no HTTP: a chunk without a length, for instance.
    Malformed,
}

/// State of one request's upload, for whoever judges its failure.
#[derive(Debug, Default)]
pub(super) struct Fate(AtomicU8);

impl Fate {
    fn set(&self, upload: Upload) {
        if !self.is_spoiled() {
            self.0.store(upload as u8, Relaxed);
        }
    }

    pub(super) fn upload(&self) -> Upload {
        match self.0.load(Relaxed) {
            0 => Upload::Moving,
            1 => Upload::Awaited,
            2 => Upload::Whole,
            3 => Upload::BrokenOff,
            _ => Upload::Malformed,
        }
    }

    /// Returns true if the client has spoiled its request.
    pub(super) fn is_spoiled(&self) -> bool {
        matches!(self.upload(), Upload::BrokenOff | Upload::Malformed)
    }
}

/// Body that a server is sent behind the head.
pub(super) enum ReqBody {
    None,
    Of(Incoming, Arc<Fate>),
}

/// Tells a client that hung up from one that sent what is no HTTP.
fn fault(error: &hyper::Error) -> Upload {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<io::Error>() {
            return match cause.kind() {
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => Upload::Malformed,
                _ => Upload::BrokenOff,
            };
        }
        source = cause.source();
    }
    Upload::BrokenOff
}

impl Body for ReqBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let ReqBody::Of(body, fate) = &mut *self else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx);
        fate.set(match &polled {
            Poll::Pending => Upload::Awaited,
            Poll::Ready(Some(Ok(_))) => Upload::Moving,
            Poll::Ready(Some(Err(error))) => fault(error),
            Poll::Ready(None) => Upload::Whole,
        });
        polled
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReqBody::None => true,
            ReqBody::Of(body, fate) => {
                let is_end = body.is_end_stream();
                if is_end {
                    fate.set(Upload::Whole);
                }
                is_end
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReqBody::None => SizeHint::with_exact(0),
            ReqBody::Of(body, _) => body.size_hint(),
        }
    }
}
