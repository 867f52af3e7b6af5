//! Bodies of requests as they come from clients, whatever these speak.

use super::deadlines::Deadlines;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A request's body.
pub(super) enum Inbound {
    Http1(Incoming),
    Http2(Frames),
}

/// A body of HTTP/2.
pub(super) struct Frames {
    frames: h2::RecvStream,
    /// Hears of each frame.
    deadlines: Arc<Deadlines>,
    /// True if only trailers may follow.
    is_behind: bool,
}

/// A reason that a body came to no end.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("{0}")]
    Http1(#[from] hyper::Error),
    #[error("{0}")]
    Http2(#[from] h2::Error),
}

impl Inbound {
    pub(super) fn http2(frames: h2::RecvStream, deadlines: &Arc<Deadlines>) -> Inbound {
        Inbound::Http2(Frames { frames, deadlines: deadlines.clone(), is_behind: false })
    }
}

impl Frames {
    /// The next frame. A stream that its client has reset has no end, for whatever reason it gave.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.is_behind {
            match ready!(self.frames.poll_data(cx)) {
                Some(Ok(bytes)) => {
                    self.deadlines.progress();
                    // It fails only for more than came.
                    let _ = self.frames.flow_control().release_capacity(bytes.len());
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => self.is_behind = true,
            }
        }
        let trailers = ready!(self.frames.poll_trailers(cx));
        Poll::Ready(trailers.map(|fields| fields.map(Frame::trailers)).transpose())
    }
}

impl Body for Inbound {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Inbound::Http1(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|frame| Ok(frame?)))
            }
            Inbound::Http2(body) => body.poll(cx).map(|frame| frame.map(|frame| Ok(frame?))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Inbound::Http1(body) => body.is_end_stream(),
            Inbound::Http2(body) => body.frames.is_end_stream(),
        }
    }
}
