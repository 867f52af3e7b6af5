//! The body of a request on its way to a server, and what becomes of it.
//!
//! When a request fails, somebody is to blame. A server that breaks off or does not answer is
//! ejected in the end; one whose client hung up in the middle of an upload must not be. So the
//! body writes down where it stands ([`Upload`]), and whoever judges a failure asks it
//! ([`Fate::upload`]).

use super::inbound::{BodyError, Inbound};
use super::outgoing::{self, Outgoing};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
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
    Of(Sending),
}

/// A body on its way to a server.
pub(super) struct Sending {
    body: Inbound,
    fate: Arc<Fate>,
    /// Place for fields behind the body; `None`: it goes on as HTTP/2, which has frames for them.
    outgoing: Option<Arc<Outgoing>>,
    /// True if it goes to servers of HTTP/1.1 in chunks; behind others no fields can stand.
    is_chunked: bool,
}

impl ReqBody {
    pub(super) fn of(body: Inbound, fate: &Arc<Fate>, is_chunked: bool) -> ReqBody {
        ReqBody::Of(Sending { body, fate: fate.clone(), outgoing: None, is_chunked })
    }

    /// Takes note that it is sent on this connection of HTTP/1.1, or on one of HTTP/2.
    pub(super) fn go_on(&mut self, connection: Option<&Arc<Outgoing>>) {
        if let ReqBody::Of(sending) = self {
            sending.outgoing = connection.cloned();
        }
    }
}

impl Sending {
    /// The frame of fields behind the body; `None` where hyper would not write them.
    fn trailers(&self, mut fields: hyper::HeaderMap) -> Option<Frame<Bytes>> {
        outgoing::strip(&mut fields);
        let Some(outgoing) = &self.outgoing else {
            return (!fields.is_empty()).then(|| Frame::trailers(fields));
        };
        if self.is_chunked {
            outgoing.leave(&fields);
        }
        None
    }
}

/// Tells a client that hung up from one that sent what is no HTTP.
fn fault(error: &BodyError) -> Upload {
    let mut source = match error {
        BodyError::Http1(error) => error.source(),
        // Frames that do not come to the length that the head said, for instance.
        BodyError::Http2(error) if error.is_library() => return Upload::Malformed,
        BodyError::Http2(_) => return Upload::BrokenOff,
    };
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
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let ReqBody::Of(sending) = &mut *self else { return Poll::Ready(None) };
        let polled = Pin::new(&mut sending.body).poll_frame(cx);
        sending.fate.set(match &polled {
            Poll::Pending => Upload::Awaited,
            Poll::Ready(Some(Ok(_))) => Upload::Moving,
            Poll::Ready(Some(Err(error))) => fault(error),
            Poll::Ready(None) => Upload::Whole,
        });
        match polled {
            Poll::Ready(Some(Ok(frame))) => match frame.into_trailers() {
                Ok(fields) => {
                    sending.fate.set(Upload::Whole);
                    Poll::Ready(sending.trailers(fields).map(Ok))
                }
                Err(frame) => Poll::Ready(Some(Ok(frame))),
            },
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReqBody::None => true,
            ReqBody::Of(sending) => {
                let is_end = sending.body.is_end_stream();
                if is_end {
                    sending.fate.set(Upload::Whole);
                }
                is_end
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReqBody::None => SizeHint::with_exact(0),
            // A length is said in the head, if there is one.
            ReqBody::Of(_) => SizeHint::default(),
        }
    }
}
