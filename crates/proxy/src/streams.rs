//! Clients that speak HTTP/2: a connection, and its streams.
//!
//! h2 is spoken to directly. hyper's server of HTTP/2 lies between h2 and us, has no way to send an
//! interim answer, and costs a request more than what it does for it.
//!
//! 1. The connection's task reads frames and writes them; each request becomes a task of its own.
//! 2. A stream asks a server ([`exchange`]), and sends each interim answer as it comes. Then it
//!    sends the head and the frames of the body, as the client's windows allow.
//! 3. Each stream has deadlines. One whose client takes nothing, sends nothing, or resets it, is
//!    dropped, which resets it; the connection goes on.
//! 4. The connection itself must bring its first request within the time for a head, and later ones
//!    within the time for keeping it; frames that are no requests do not count. A client is asked
//!    from time to time whether it is there.

use super::answer::AnswerBody;
use super::client::Client;
use super::exchange::{Asked, exchange};
use super::front::{HEAD_BYTES_MAX, poll_in_time};
use super::inbound::Inbound;
use super::interim::Interim;
use super::proxy::Stop;
use super::stream::Stream;
use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use hyper::body::Body;
use hyper::header::{CONTENT_LENGTH, HeaderValue};
use hyper::{Method, Request, Response};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Requests at once on one connection.
const STREAMS_MAX: u32 = 128;
/// Bytes of bodies on their way here, of a stream and of a connection: 100 MB/s over 10 ms.
const WINDOW: u32 = 1 << 20;
/// Bytes of answers that wait to be sent, for each stream.
const SEND_BUFFER_MAX: usize = 400 * 1024;
/// Time between two questions to a client whether it is there, and the time that it has to answer.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);

/// Serves a client until one of both has enough.
pub(super) async fn serve(client: Arc<Client>, stream: Stream, stop: &Stop) {
    let handshake = Builder::new()
        .initial_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .max_send_buffer_size(SEND_BUFFER_MAX)
        .handshake(stream);
    let opened = tokio::time::timeout_at(client.http2_deadline().0, handshake).await;
    let Ok(Ok(mut connection)) = opened else { return };
    let Some(ping_pong) = connection.ping_pong() else { return };
    let beat = pin!(sleep_until(Instant::now() + PING));
    let mut pulse = Pulse { ping_pong, timer: beat, asked: None };
    let mut stopping = pin!(stop.stopped());
    let mut timer = pin!(sleep_until(client.http2_deadline().0));
    let (mut is_stopping, mut is_told, mut is_last) = (false, false, false);
    std::future::poll_fn(|cx| {
        is_stopping = is_stopping || stopping.as_mut().poll(cx).is_ready();
        let was_new = client.asked() == 0;
        if is_stopping && !is_told && !was_new {
            is_told = true;
            connection.graceful_shutdown();
        }
        if poll_streams(&client, &mut connection, cx).is_ready() || pulse.poll_lost(cx) {
            return Poll::Ready(());
        }
        if is_stopping && was_new && client.asked() > 0 {
            cx.waker().wake_by_ref();
        }
        while timer.as_mut().poll(cx).is_ready() {
            let (deadline, header) = client.http2_deadline();
            if deadline > Instant::now() {
                timer.as_mut().reset(deadline);
            } else if is_last || client.asked() == 0 {
                return Poll::Ready(());
            } else {
                // It may say goodbye: requests that are on their way have this time.
                (is_told, is_last) = (true, true);
                connection.graceful_shutdown();
                cx.waker().wake_by_ref();
                timer.as_mut().reset(Instant::now() + header);
            }
        }
        Poll::Pending
    })
    .await;
}

/// Moves frames both ways, and begins a task for each request. Ready when the connection is over.
fn poll_streams(
    client: &Arc<Client>,
    connection: &mut Connection<Stream, Bytes>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    // That a client broke off is nobody's fault here.
    loop {
        // It has no state of its own: what has come so far is the connection's.
        let accepted = pin!(connection.accept()).poll(cx);
        let Some(Ok((request, respond))) = ready!(accepted) else { return Poll::Ready(()) };
        tokio::spawn(begin(client, request, respond));
    }
}

/// Questions whether a client is there.
struct Pulse<'a> {
    ping_pong: PingPong,
    timer: Pin<&'a mut Sleep>,
    /// Time by which the last must be answered.
    asked: Option<Instant>,
}

impl Pulse<'_> {
    /// True if the client did not answer in time.
    fn poll_lost(&mut self, cx: &mut Context<'_>) -> bool {
        if self.asked.is_some() && self.ping_pong.poll_pong(cx).is_ready() {
            self.asked = None;
            self.timer.as_mut().reset(Instant::now() + PING);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if self.asked.is_some() || self.ping_pong.send_ping(Ping::opaque()).is_err() {
                return true;
            }
            let deadline = Instant::now() + PONG;
            self.asked = Some(deadline);
            self.timer.as_mut().reset(deadline);
            if self.ping_pong.poll_pong(cx).is_ready() {
                return true;
            }
        }
        false
    }
}

/// Takes a request in; what is returned answers it, until it is done or its time is over.
fn begin(
    client: &Arc<Client>,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
) -> impl Future<Output = ()> + use<> {
    let active = client.begin_stream();
    let current = client.thread.shared.current();
    let alarm = client.alarm(current.live.timeouts.first_byte);
    let deadlines = alarm.deadlines.clone();
    let interim = Arc::<Interim>::default();
    let is_head = request.method() == Method::HEAD;
    let request = request.map(|frames| Inbound::http2(frames, &deadlines));
    let asked = Asked { request, current, alarm, interim: Some(interim.clone()) };
    // In a box: a task has room for what it is given twice, once on its way to be pinned.
    let exchange = Box::pin(exchange(client.clone(), asked));
    let stream = answer(exchange, interim, respond, is_head);
    async move {
        let _active = active;
        let mut stream = pin!(stream);
        let mut timer = pin!(sleep_until(deadlines.instant()));
        std::future::poll_fn(|cx| poll_in_time(cx, stream.as_mut(), &deadlines, timer.as_mut()))
            .await;
    }
}

/// Answers a request with what `exchange` comes to; `None`: the client has gone.
async fn answer<E>(
    mut exchange: Pin<Box<impl Future<Output = Result<Response<AnswerBody>, E>>>>,
    interim: Arc<Interim>,
    mut respond: SendResponse<Bytes>,
    is_head: bool,
) -> Option<()> {
    let response = std::future::poll_fn(|cx| {
        let polled = exchange.as_mut().poll(cx);
        for (status, fields) in interim.take_some() {
            let mut hint = Response::new(());
            (*hint.status_mut(), *hint.headers_mut()) = (status, fields);
            // A client that has gone away is told of below.
            let _ = respond.send_informational(hint);
        }
        match polled {
            Poll::Ready(response) => Poll::Ready(response.ok()),
            Poll::Pending => respond.poll_reset(cx).map(|_| None),
        }
    })
    .await?;
    drop(exchange);
    let (parts, body) = response.into_parts();
    let mut head = Response::from_parts(parts, ());
    if !body.is_end_stream()
        && let Some(length) = body.size_hint().exact()
    {
        head.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    if is_head || body.is_end_stream() {
        return respond.send_response(head, true).ok().map(|_| ());
    }
    let sender = respond.send_response(head, false).ok()?;
    let mut pipe = Pipe { sender, body, waiting: None };
    std::future::poll_fn(|cx| pipe.poll(cx)).await
}

/// The body of an answer on its way into frames.
struct Pipe {
    sender: SendStream<Bytes>,
    body: AnswerBody,
    /// Bytes that the client's windows have no room for yet, and whether they are the last.
    waiting: Option<(Bytes, bool)>,
}

impl Pipe {
    /// Ready when all was sent, or with `None` when it never will be.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        loop {
            if self.waiting.is_some() && ready!(self.poll_room(cx)).is_none() {
                return Poll::Ready(None);
            }
            if let Some((bytes, is_last)) = self.waiting.take() {
                let sent = self.sender.send_data(bytes, is_last).ok();
                if is_last || sent.is_none() {
                    return Poll::Ready(sent);
                }
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                return self.sender.poll_reset(cx).map(|_| None);
            };
            let frame = match frame {
                Some(Ok(frame)) => frame,
                Some(Err(_)) => {
                    // Cut off, visibly.
                    self.sender.send_reset(Reason::INTERNAL_ERROR);
                    return Poll::Ready(None);
                }
                None => return Poll::Ready(self.sender.send_data(Bytes::new(), true).ok()),
            };
            match frame.into_data() {
                Ok(bytes) => {
                    // Not for all of it: another stream may have need of the connection's window.
                    self.sender.reserve_capacity(bytes.len().min(1));
                    self.waiting = Some((bytes, self.body.is_end_stream()));
                }
                Err(frame) => {
                    self.sender.reserve_capacity(0);
                    let fields = frame.into_trailers().unwrap_or_default();
                    return Poll::Ready(self.sender.send_trailers(fields).ok());
                }
            }
        }
    }

    /// Ready when the client's windows have room for a byte: h2 cuts what it is given, and asks for
    /// more room itself. `None`: the client has gone.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Option<()>> {
        let needs_none = self.waiting.as_ref().is_none_or(|(bytes, _)| bytes.is_empty());
        while !needs_none && self.sender.capacity() == 0 {
            match self.sender.poll_capacity(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return Poll::Ready(None),
                Poll::Pending => return self.sender.poll_reset(cx).map(|_| None),
            }
        }
        Poll::Ready(Some(()))
    }
}
