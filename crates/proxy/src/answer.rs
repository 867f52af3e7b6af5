//! The body of an answer: read from the server as fast as the client takes it.
//!
//! Whoever polls the body drives the server's connection, so nothing is read that has no room; a
//! slow client slows the server down, not this proxy's memory. With the last byte the connection
//! goes back to the pool and the dispatcher hears of the end, before the client has it.

use super::client::{Alarm, Client, Spoken};
use super::core::{Current, Sent};
use super::deadlines::Phase;
use super::outgoing;
use super::request_record::RequestRecord;
use super::upload::{Fate, Upload};
use super::upstream::Http1;
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use thermocline_balancer::Outcome;

/// A server's answer came to an end too soon; what the client has got is cut off.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct CutOff(&'static str);

/// The body of an answer.
pub(super) enum AnswerBody {
    Text(Option<Bytes>),
    Flow(Box<Flow>),
}

/// A body on its way.
pub(super) struct Flow {
    pub(super) body: Incoming,
    /// Connection that drives it; `None`: it is HTTP/2, which drives itself.
    pub(super) conn: Option<Box<Http1>>,
    /// `None` once its end was told.
    pub(super) sent: Option<Sent>,
    pub(super) alarm: Alarm,
    pub(super) client: Arc<Client>,
    pub(super) current: Arc<Current>,
    pub(super) record: RequestRecord,
    /// State of the request's body, which may still be under way.
    pub(super) fate: Option<Arc<Fate>>,
    /// True if the server's connection may be used again.
    pub(super) is_kept: bool,
    /// True if the client can be sent fields behind the body, and wants them.
    pub(super) takes_trailers: bool,
    /// The reason that it failed, once it has, until that has been told.
    pub(super) failed: Option<&'static str>,
}

impl AnswerBody {
    pub(super) fn empty() -> AnswerBody {
        AnswerBody::Text(None)
    }

    pub(super) fn text(text: String) -> AnswerBody {
        AnswerBody::Text(Some(text.into()))
    }

    /// A server's body; one without bytes ends here.
    pub(super) fn of(mut flow: Box<Flow>, cx: &mut Context<'_>) -> AnswerBody {
        if !flow.body.is_end_stream() {
            flow.alarm.deadlines.enter(Phase::Answer, flow.current.live.timeouts.idle);
            return AnswerBody::Flow(flow);
        }
        flow.end(cx);
        AnswerBody::empty()
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        match &mut *self {
            AnswerBody::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            AnswerBody::Flow(flow) => flow.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Text(text) => text.is_none(),
            AnswerBody::Flow(flow) => flow.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Text(text) => {
                SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64))
            }
            AnswerBody::Flow(flow) => flow.body.size_hint(),
        }
    }
}

impl Flow {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        if let Some(why) = self.failed {
            return Poll::Ready(Some(Err(CutOff(why))));
        }
        let body = &mut self.body;
        let polled = match &mut self.conn {
            Some(conn) => conn.drive_for(cx, |cx| Pin::new(&mut *body).poll_frame(cx)),
            None => Pin::new(body).poll_frame(cx),
        };
        match polled {
            Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => {
                let fields = frame.into_trailers().unwrap_or_default();
                Poll::Ready(self.trailers(cx, fields).map(Ok))
            }
            Poll::Ready(Some(Ok(frame))) => {
                self.record.bytes += frame.data_ref().map_or(0, |bytes| bytes.len() as u64);
                self.alarm.deadlines.progress();
                if self.body.is_end_stream() {
                    self.end(cx);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.end(cx);
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(_))) => {
                self.fail(cx, Outcome::Broken, "the server broke its answer off")
            }
            Poll::Pending if self.is_over(cx) => {
                self.fail(cx, Outcome::TimedOut, "the server's answer stopped")
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// True if nothing has moved for too long, in either direction.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        if self.conn.as_mut().is_some_and(|conn| conn.has_written()) {
            self.alarm.deadlines.progress();
        }
        self.alarm.poll_over(cx)
    }

    /// The answer has ended, with these fields. hyper does not get them for HTTP/1.1.
    fn trailers(&mut self, cx: &mut Context<'_>, mut fields: HeaderMap) -> Option<Frame<Bytes>> {
        outgoing::strip(&mut fields);
        self.end(cx);
        if fields.is_empty() || !self.takes_trailers {
            return None;
        }
        if self.client.spoken == Spoken::Http2 {
            return Some(Frame::trailers(fields));
        }
        self.client.outgoing.leave(&fields);
        None
    }

    /// The whole answer has come.
    fn end(&mut self, cx: &mut Context<'_>) {
        let Some(sent) = self.sent.take() else { return };
        let thread = &self.client.thread;
        if let Some(conn) = self.conn.take().filter(|_| self.is_kept) {
            let idle_max = self.current.live.upstream.idle_max;
            thread.pool.put(sent.site, &sent.target, conn, idle_max, cx);
        }
        sent.answered(self.record.status);
        thread.shared.counts.bytes_out.fetch_add(self.record.bytes, Relaxed);
        self.record.end(&thread.shared, None);
        if self.client.spoken == Spoken::Http1 {
            self.alarm.deadlines.set_latest(None);
            self.alarm.deadlines.enter(Phase::Idle, self.current.live.timeouts.keep_alive);
        }
    }

    /// Gives the answer up. What has come is written first: hyper drops it when it hears of an
    /// error, so that is told at the next poll.
    fn fail<T>(
        &mut self,
        cx: &mut Context<'_>,
        outcome: Outcome,
        why: &'static str,
    ) -> Poll<Option<Result<T, CutOff>>> {
        self.conn = None;
        if let Some(sent) = self.sent.take() {
            let upload = self.fate.as_ref().map_or(Upload::Whole, |fate| fate.upload());
            let is_client = match upload {
                Upload::BrokenOff | Upload::Malformed => true,
                Upload::Awaited => outcome == Outcome::TimedOut,
                Upload::Moving | Upload::Whole => false,
            };
            if !is_client {
                sent.target.failed(why.to_string());
            }
            sent.finish(if is_client { Outcome::ClientFailed } else { outcome });
            self.record.end(&self.client.thread.shared, Some(why));
        }
        self.failed = Some(why);
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Flow {
    /// The client went away, or took too long.
    fn drop(&mut self) {
        if let Some(sent) = self.sent.take() {
            sent.finish(Outcome::ClientFailed);
            self.record.end(&self.client.thread.shared, Some("the client went away"));
        }
    }
}
