//! One request's way: to a server, perhaps to another, and back.
//!
//! 1. The head is made a server's ([`headers`]); what is ambiguous is refused.
//! 2. The dispatcher places it. A connection of the thread's pool is taken, or one is made.
//! 3. An idle connection that the server closed meanwhile is nobody's failure: the request goes to
//!    the same server on a new one, unless it has been sent and may have been acted upon.
//! 4. A server that cannot be reached, or breaks off before answering, has failed. The request goes
//!    elsewhere when that is safe: nothing of it was sent, or it has no body and its method may be
//!    repeated (RFC 9110 §9.2.2); and when the budget allows.
//! 6. The answer's head is made the client's; its body streams behind ([`AnswerBody`]).
//!
//! 5. The same after a server took longer than each try may; and, with any method, after one that
//!    declined the request before doing anything (HTTP/2's REFUSED_STREAM).
//!
//! A body that breaks off, stalls or is no HTTP is the client's fault: no server is blamed, and
//! nothing is tried again ([`super::upload`]).
//!
//! Answers of servers, errors too, are passed on as they are. What has none is answered here:
//! 400, 408, 501, 502, 503 or 504, with a sentence. Nothing is retried after the first byte of an
//! answer.

use super::answer::{AnswerBody, Flow};
use super::client::{Alarm, Client, Spoken};
use super::core::{Current, NoPlace, Sent};
use super::deadlines::{Phase, nanos};
use super::headers::{self, BadRequest, Framing};
use super::inbound::Inbound;
use super::interim::Interim;
use super::report;
use super::request_record::RequestRecord;
use super::tunnel;
use super::upload::{Fate, ReqBody, Upload};
use super::upstream::{self, Conn, ConnectError, Http1, Unanswered};
use hyper::body::{Body, Incoming};
use hyper::header::{
    CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, TE, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Uri, Version};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;
use thermocline_balancer::Outcome;
use thermocline_units::{Nanos, SiteId};

/// A reason that a request is not answered by a server.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("{0}")]
    Bad(#[from] BadRequest),
    #[error("{0}")]
    NoPlace(#[from] NoPlace),
    #[error("no server could be reached")]
    Unreachable,
    #[error("the server broke the connection off, or answered what is not HTTP")]
    Broken,
    #[error("the server took too long to answer")]
    TimedOut,
    #[error("the server declined the request for now")]
    Declined,
    #[error("the request's body is no HTTP/1.1")]
    Malformed,
    #[error("the client broke its request off")]
    BrokenOff,
    #[error("the client took too long to send its request")]
    Stalled,
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Refusal::Bad(BadRequest::Coding) => StatusCode::NOT_IMPLEMENTED,
            Refusal::Bad(_) | Refusal::Malformed | Refusal::BrokenOff => StatusCode::BAD_REQUEST,
            Refusal::Stalled => StatusCode::REQUEST_TIMEOUT,
            Refusal::NoPlace(_) | Refusal::Declined => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Unreachable | Refusal::Broken => StatusCode::BAD_GATEWAY,
            Refusal::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

/// Failure at one server, and the request, where it can be had back.
struct Trouble {
    outcome: Outcome,
    request: Option<Box<Request<ReqBody>>>,
    cause: String,
}

/// A request as servers are to get it.
struct Ready {
    request: Box<Request<ReqBody>>,
    /// Future connection of the client, should the server switch protocols as the client wants.
    switch: Option<OnUpgrade>,
}

/// A server's answer, and the connection that its body comes on.
struct Answered {
    response: Response<Incoming>,
    conn: Option<Box<Http1>>,
}

/// A request under way.
struct Exchange {
    client: Arc<Client>,
    current: Arc<Current>,
    alarm: Alarm,
    record: RequestRecord,
    /// Head that is sent again when the first try is lost; `None`: the request has a body.
    spare: Option<Box<Parts>>,
    /// State of the request's body; `None`: it has none.
    fate: Option<Arc<Fate>>,
    /// Place for interim answers; `None`: the client knows none.
    interim: Option<Arc<Interim>>,
    /// True if the client wants fields behind the body.
    takes_trailers: bool,
    tried: Vec<SiteId>,
}

/// A request that has come, and what it is answered with the help of.
pub(super) struct Asked {
    pub(super) request: Request<Inbound>,
    pub(super) current: Arc<Current>,
    pub(super) alarm: Alarm,
    pub(super) interim: Option<Arc<Interim>>,
}

/// Answers a request of HTTP/1.1.
pub(super) fn exchange_http1(
    client: Arc<Client>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<AnswerBody>, Infallible>> + use<> {
    // What was left for the answer before has been written by now, or never will be.
    client.outgoing.begin();
    let current = client.thread.shared.current();
    let alarm = client.alarm(current.live.timeouts.first_byte);
    let interim = (request.version() == Version::HTTP_11).then(|| client.interim.clone());
    let request = request.map(Inbound::Http1);
    exchange(client, Asked { request, current, alarm, interim })
}

/// Answers a request.
///
/// hyper keeps a place for what this returns with every connection and moves it there for every
/// request, so it is kept small: heads are made ready at once and travel in boxes, and so does
/// what few requests come to.
pub(super) fn exchange(
    client: Arc<Client>,
    asked: Asked,
) -> impl Future<Output = Result<Response<AnswerBody>, Infallible>> + use<> {
    let Asked { request, current, alarm, interim } = asked;
    let shared = &client.thread.shared;
    let latest = |limit| Nanos(shared.now().0.saturating_add(nanos(limit).0));
    alarm.deadlines.set_latest(current.live.timeouts.request.map(latest));
    let record = RequestRecord::new(&client, &request);
    let (spare, fate, tried, takes_trailers) = (None, None, Vec::new(), false);
    let mut exchange =
        Exchange { client, current, alarm, record, spare, fate, interim, takes_trailers, tried };
    let ready = exchange.prepare(request);
    async move {
        let answered = match ready {
            Ok(ready) => {
                if exchange.current.live.timeouts.each_try.is_some() {
                    exchange.alarm.deadlines.enter(Phase::Exchange, exchange.patience());
                }
                exchange.run(ready).await
            }
            Err(bad) => Err(bad.into()),
        };
        match answered {
            Ok((sent, answered, switch)) => {
                let task = std::future::poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
                let mut cx = Context::from_waker(&task);
                Ok(exchange.pass_on(&mut cx, sent, answered, switch))
            }
            Err(refusal) => Ok(exchange.refuse(&refusal)),
        }
    }
}

impl Exchange {
    /// Makes a client's request a server's.
    fn prepare(&mut self, mut request: Request<Inbound>) -> Result<Ready, BadRequest> {
        let switch = request.headers().contains_key(UPGRADE);
        let switch = switch.then(|| hyper::upgrade::on(&mut request));
        let (mut parts, body) = request.into_parts();
        let forwarded = self.current.live.forwarded;
        let may_have_trailers = parts.version == Version::HTTP_11;
        let upgrade = headers::to_server(&mut parts, &self.client.caller, forwarded)?;
        // HTTP/2 has frames for them, which cannot be taken for anything else.
        self.takes_trailers = self.client.spoken == Spoken::Http2
            || (may_have_trailers && parts.headers.contains_key(TE));
        let body = if body.is_end_stream() {
            self.spare = Some(Box::new(parts.clone()));
            ReqBody::None
        } else {
            // hyper sends a GET without a body when neither length nor coding is there.
            let is_chunked = !parts.headers.contains_key(CONTENT_LENGTH);
            if is_chunked {
                parts.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
            }
            let fate = Arc::<Fate>::default();
            let body = ReqBody::of(body, &fate, is_chunked);
            self.fate = Some(fate);
            body
        };
        let request = Box::new(Request::from_parts(parts, body));
        Ok(Ready { request, switch: switch.filter(|_| upgrade.is_some()) })
    }

    async fn run(&mut self, ready: Ready) -> Result<(Sent, Answered, Option<OnUpgrade>), Refusal> {
        let Ready { mut request, switch } = ready;
        let shared = self.client.thread.shared.clone();
        let mut sent = shared.place_first().await?;
        loop {
            self.record.tries += 1;
            let trouble = match self.attempt(&sent, request).await {
                Ok(answered) => return Ok((sent, answered, switch)),
                Err(trouble) => trouble,
            };
            let Trouble { outcome, request: unsent, cause } = trouble;
            let site = sent.site;
            self.record.failed_at(&sent.target, &cause);
            if outcome != Outcome::ClientFailed {
                sent.target.failed(cause);
            }
            sent.finish(outcome);
            let refusal = self.refusal(outcome);
            let Some(again) = unsent.or_else(|| self.again(outcome)) else { return Err(refusal) };
            let tries = self.record.tries;
            if !shared.dispatch(|dispatcher, now| dispatcher.retry(now, tries, site)) {
                return Err(refusal);
            }
            self.tried.push(site);
            sent = match shared.place_again(&self.tried).await {
                Ok(sent) => sent,
                Err(NoPlace::Nowhere) => return Err(refusal),
                Err(other) => return Err(other.into()),
            };
            request = again;
            self.alarm.deadlines.enter(Phase::Exchange, self.patience());
        }
    }

    /// The refusal for the client when this was the last try.
    fn refusal(&self, outcome: Outcome) -> Refusal {
        match outcome {
            Outcome::TimedOut => Refusal::TimedOut,
            Outcome::Unreachable => Refusal::Unreachable,
            Outcome::Declined => Refusal::Declined,
            Outcome::ClientFailed => match self.upload() {
                Upload::Malformed => Refusal::Malformed,
                Upload::BrokenOff => Refusal::BrokenOff,
                Upload::Moving | Upload::Awaited | Upload::Whole => Refusal::Stalled,
            },
            Outcome::Served(_) | Outcome::ServerError | Outcome::Broken => Refusal::Broken,
        }
    }

    fn upload(&self) -> Upload {
        self.fate.as_ref().map_or(Upload::Whole, |fate| fate.upload())
    }

    /// The request once more, when it may be repeated after this.
    fn again(&self, outcome: Outcome) -> Option<Box<Request<ReqBody>>> {
        let spare = self.spare.as_ref()?;
        let may_be = match outcome {
            // Nothing was done with it.
            Outcome::Declined => true,
            Outcome::TimedOut => {
                let is_limited = self.current.live.timeouts.each_try.is_some();
                is_limited && spare.method.is_idempotent() && !self.alarm.deadlines.is_past_latest()
            }
            _ => spare.method.is_idempotent(),
        };
        may_be.then(|| Box::new(Request::from_parts(Parts::clone(spare), ReqBody::None)))
    }

    /// Longest time for the server that is tried now; less when there can be another.
    fn patience(&self) -> Duration {
        let (timeouts, settings) = (&self.current.live.timeouts, &self.current.live.settings);
        let may_repeat = self.spare.as_ref().is_some_and(|spare| spare.method.is_idempotent());
        let is_last = self.record.tries >= settings.retries_max;
        let each = timeouts.each_try.filter(|_| may_repeat && !is_last);
        each.map_or(timeouts.first_byte, |each| each.min(timeouts.first_byte))
    }

    /// Asks one server.
    async fn attempt(
        &mut self,
        sent: &Sent,
        mut request: Box<Request<ReqBody>>,
    ) -> Result<Answered, Trouble> {
        let thread = self.client.thread.clone();
        let taken =
            std::future::poll_fn(|cx| Poll::Ready(thread.pool.take(sent.site, &sent.target, cx)));
        if let Some(conn) = taken.await {
            match self.ask(conn, request).await {
                Ok(answered) => return Ok(answered),
                Err(Trouble { outcome: Outcome::Broken, request: unsent, cause }) => {
                    let trouble = Trouble { outcome: Outcome::Broken, request: None, cause };
                    let again = unsent.or_else(|| self.again(Outcome::Broken));
                    request = again.ok_or(trouble)?;
                }
                Err(trouble) => return Err(trouble),
            }
        }
        // In a box: each request's state would have room for it, and few connect.
        match Box::pin(self.connect(sent)).await {
            Ok(conn) => self.ask(conn, request).await,
            Err(error) => {
                let cause = format!("cannot be reached: {error}");
                Err(Trouble { outcome: Outcome::Unreachable, request: Some(request), cause })
            }
        }
    }

    async fn connect(&mut self, sent: &Sent) -> Result<Conn, ConnectError> {
        let limit = self.current.live.timeouts.connect;
        let made = self.current.connector.connect_http(&sent.target);
        let made = tokio::time::timeout(limit, made).await;
        let conn = made.map_err(|_| ConnectError::TimedOut(limit))??;
        if let Conn::Http2(sender) = &conn {
            self.client.thread.pool.share(sent.site, &sent.target, sender);
        }
        self.alarm.deadlines.enter(Phase::Exchange, self.patience());
        Ok(conn)
    }

    /// Sends the request on a connection, and waits for the answer's head.
    async fn ask(
        &mut self,
        conn: Conn,
        mut request: Box<Request<ReqBody>>,
    ) -> Result<Answered, Trouble> {
        match conn {
            Conn::Http1(mut conn) => {
                if let Some(interim) = self.interim.clone() {
                    hyper::ext::on_informational(&mut *request, move |answer| {
                        interim.push(answer.status(), answer.headers());
                    });
                }
                for_http1(&mut request);
                let mut answer = pin!(upstream::send_http1(&mut conn, *request));
                let (alarm, interim) = (&mut self.alarm, self.interim.as_deref());
                let mut told = false;
                let answer = std::future::poll_fn(|cx| {
                    let driven = conn.drive_for(cx, |cx| answer.as_mut().poll(cx));
                    let is_waiting = interim.is_some_and(Interim::is_waiting);
                    if driven.is_pending() && is_waiting && !told {
                        // The connection writes it when it is polled next.
                        cx.waker().wake_by_ref();
                    }
                    told = is_waiting;
                    if driven.is_pending() && conn.has_written() {
                        // The server takes what it is sent.
                        alarm.deadlines.progress();
                    }
                    match driven {
                        Poll::Ready(answer) => Poll::Ready(Some(answer)),
                        Poll::Pending if alarm.poll_over(cx) => Poll::Ready(None),
                        Poll::Pending => Poll::Pending,
                    }
                });
                let response = answer.await.ok_or_else(|| self.timed_out())?;
                let response = response.map_err(|error| self.trouble(error))?;
                Ok(Answered { response, conn: Some(conn) })
            }
            Conn::Http2(mut sender) => {
                for_http2(&mut request, self.current.connector.is_encrypted());
                let answer = Box::pin(upstream::send_http2(&mut sender, *request));
                let answer = self.alarm.race(answer).await;
                let response = answer.ok_or_else(|| self.timed_out())?;
                let response = response.map_err(|error| self.trouble(error))?;
                Ok(Answered { response, conn: None })
            }
        }
    }

    /// Nothing has moved for too long: somebody has stopped.
    fn timed_out(&self) -> Trouble {
        let (outcome, cause) = match self.upload() {
            Upload::Awaited => (Outcome::ClientFailed, "the client stopped sending"),
            _ => (Outcome::TimedOut, "did not answer in time"),
        };
        Trouble { outcome, request: None, cause: cause.to_string() }
    }

    /// The connection broke, or what came is no answer.
    fn trouble(&self, mut error: Unanswered) -> Trouble {
        let request = error.take_message().map(Box::new);
        let spoiled = self.fate.as_ref().is_some_and(|fate| fate.is_spoiled());
        let error = error.into_error();
        let outcome = match () {
            () if spoiled => Outcome::ClientFailed,
            () if upstream::is_refused(&error) => Outcome::Declined,
            () => Outcome::Broken,
        };
        let request = request.filter(|_| !spoiled);
        Trouble { outcome, request, cause: upstream::reason(&error) }
    }

    /// Makes a server's answer the client's.
    fn pass_on(
        mut self,
        cx: &mut Context<'_>,
        sent: Sent,
        answered: Answered,
        switch: Option<OnUpgrade>,
    ) -> Response<AnswerBody> {
        self.end_interim();
        let Answered { response, conn } = answered;
        let (mut parts, body) = response.into_parts();
        self.take_report(&sent, &mut parts.headers);
        let switches = parts.status == StatusCode::SWITCHING_PROTOCOLS;
        let framing = match headers::to_client(&mut parts.headers, switches) {
            Ok(framing) => framing,
            Err(bad) => {
                sent.target.failed(bad.to_string());
                sent.finish(Outcome::Broken);
                return self.refuse(&Refusal::Broken);
            }
        };
        parts.version = Version::HTTP_11;
        self.record.backend = Some(sent.target.clone());
        self.record.status = parts.status.as_u16();
        if switches {
            let (Some(switch), Some(conn)) = (switch, conn) else {
                sent.finish(Outcome::Broken);
                return self.refuse(&Refusal::Broken);
            };
            self.alarm.deadlines.enter(Phase::Answer, self.current.live.timeouts.idle);
            let admission = self.client.admission.clone();
            tunnel::switch(switch, conn, sent, self.alarm.deadlines, self.record, admission);
            return Response::from_parts(parts, AnswerBody::empty());
        }
        // A length is written in the head, be it known there or of the body.
        let is_chunked =
            !parts.headers.contains_key(CONTENT_LENGTH) && body.size_hint().exact().is_none();
        let is_http2 = self.client.spoken == Spoken::Http2;
        let flow = Box::new(Flow {
            body,
            conn,
            sent: Some(sent),
            alarm: self.alarm,
            client: self.client,
            current: self.current,
            record: self.record,
            fate: self.fate,
            is_kept: framing == Framing::Plain,
            takes_trailers: self.takes_trailers && (is_http2 || is_chunked),
            failed: None,
        });
        Response::from_parts(parts, AnswerBody::of(flow, cx))
    }

    /// A load report that came with the answer is for this proxy, not for the client.
    fn take_report(&self, sent: &Sent, headers: &mut hyper::HeaderMap) {
        let Some(field) = headers.remove(headers::LOAD) else { return };
        let Ok(text) = field.to_str() else { return };
        let Ok(report) = report::from_field(text) else { return };
        let told = report::latency_from_field(text).ok().flatten();
        let (site, sent_at) = (sent.site, sent.at);
        let is_probing = self.current.live.probe.is_some();
        // What is refused is counted by the dispatcher.
        let _ = self.client.thread.shared.dispatch(|dispatcher, now| {
            let used = dispatcher.reported(now, site, &report);
            // Without probes nobody would ask a server again that was busy once.
            if used.is_ok() && is_probing {
                let took = told.unwrap_or(now.saturating_sub(sent_at));
                dispatcher.told_with_answer(now, site, &report, Some(took));
            }
            used
        });
    }

    /// The final answer comes: interim ones go directly before it, or never.
    fn end_interim(&self) {
        if self.client.spoken == Spoken::Http1 && !self.client.deadlines.is_flushed() {
            self.client.interim.take();
        }
    }

    /// Answers without a server.
    fn refuse(mut self, refusal: &Refusal) -> Response<AnswerBody> {
        self.end_interim();
        let (status, text) = (refusal.status(), format!("{refusal}\n"));
        if status.is_client_error() || status == StatusCode::NOT_IMPLEMENTED {
            self.client.thread.shared.counts.bad_requests.fetch_add(1, Relaxed);
        }
        self.record.status = status.as_u16();
        self.record.bytes = text.len() as u64;
        self.record.end(&self.client.thread.shared, Some(text.trim_end()));
        let timeouts = &self.current.live.timeouts;
        if self.client.spoken == Spoken::Http1 {
            self.alarm.deadlines.set_latest(None);
            self.alarm.deadlines.enter(Phase::Idle, timeouts.keep_alive);
        } else {
            self.alarm.deadlines.enter(Phase::Answer, timeouts.idle);
        }
        let mut response = Response::new(AnswerBody::text(text));
        *response.status_mut() = status;
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, plain);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// HTTP/2 names the host in the target. A request that a connection gave back unsent has it there
/// already.
fn for_http2<B>(request: &mut Request<B>, is_encrypted: bool) {
    request.headers_mut().remove(TRANSFER_ENCODING);
    let host = request.headers_mut().remove(HOST);
    let host = host.as_ref().and_then(|host| host.to_str().ok()).filter(|host| !host.is_empty());
    let earlier = request.uri().authority().cloned();
    let host = host.or(earlier.as_ref().map(Authority::as_str));
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_string();
    let uri = Uri::builder()
        .scheme(if is_encrypted { "https" } else { "http" })
        .authority(host.unwrap_or("localhost"));
    if let Ok(uri) = uri.path_and_query(path).build() {
        *request.uri_mut() = uri;
    }
    *request.version_mut() = Version::HTTP_2;
}

/// HTTP/1.1 names the host in a field: of a request that a connection of HTTP/2 gave back unsent,
/// it has to go back there.
fn for_http1<B>(request: &mut Request<B>) {
    let Some(authority) = request.uri().authority().cloned() else { return };
    if let Ok(host) = HeaderValue::from_str(authority.as_str()) {
        request.headers_mut().entry(HOST).or_insert(host);
    }
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_string();
    if let Ok(uri) = path.parse() {
        *request.uri_mut() = uri;
    }
    *request.version_mut() = Version::HTTP_11;
}

#[cfg(test)]
mod tests;
