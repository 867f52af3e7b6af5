//! One request's way: to a server, perhaps to another, and back.
//!
//! 1. The head is made a server's ([`headers`]); what is ambiguous is refused.
//! 2. The dispatcher places it. A connection of the thread's pool is taken, or one is made.
//! 3. An idle connection that the server closed meanwhile is nobody's failure: the request goes to
//!    the same server on a new one, unless it has been sent and may have been acted upon.
//! 4. A server that cannot be reached, or breaks off before answering, has failed. The request goes
//!    elsewhere when that is safe: nothing of it was sent, or it has no body and its method may be
//!    repeated (RFC 9110 §9.2.2); and when the budget allows.
//! 5. The answer's head is made the client's; its body streams behind ([`AnswerBody`]).
//!
//! Answers of servers, errors too, are passed on as they are. What has none is answered here:
//! 400, 502, 503 or 504, with a sentence. Nothing is retried after the first byte of an answer.

use super::answer::{AnswerBody, Flow};
use super::client::{Alarm, Client, Spoken};
use super::core::{Current, NoPlace, Sent};
use super::headers::{self, BadRequest};
use super::journal::Journal;
use super::report;
use super::tunnel;
use super::upstream::{self, Conn, ConnectError, Http1, ReqBody, Unanswered};
use super::watch::{Phase, nanos};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER, UPGRADE};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Uri, Version};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use thermocline_balancer::Outcome;
use thermocline_units::{Nanos, SiteId};

/// Why a request is not answered by a server.
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
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Refusal::Bad(_) => StatusCode::BAD_REQUEST,
            Refusal::NoPlace(_) => StatusCode::SERVICE_UNAVAILABLE,
            Refusal::Unreachable | Refusal::Broken => StatusCode::BAD_GATEWAY,
            Refusal::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

/// What went wrong at one server, and the request, where it can be had back.
struct Trouble {
    outcome: Outcome,
    request: Option<Box<Request<ReqBody>>>,
}

/// A request as servers are to get it.
struct Ready {
    request: Box<Request<ReqBody>>,
    /// Where the client's connection will be, should the server switch protocols as the client
    /// wants.
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
    journal: Journal,
    /// What is sent again when the first try is lost; `None`: the request must not be repeated.
    spare: Option<Box<Parts>>,
    tried: Vec<SiteId>,
}

/// Answers a request.
///
/// hyper keeps a place for what this returns with every connection and moves it there for every
/// request, so it is kept small: heads are made ready at once and travel in boxes, and so does
/// what few requests come to.
pub(super) fn exchange(
    client: Arc<Client>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<AnswerBody>, Infallible>> + use<> {
    let current = client.thread.shared.current();
    let timeouts = &current.live.timeouts;
    let alarm = client.alarm(timeouts.first_byte);
    let shared = &client.thread.shared;
    let latest = |limit| Nanos(shared.now().0.saturating_add(nanos(limit).0));
    alarm.watch.set_latest(timeouts.request.map(latest));
    let journal = Journal::new(&client, &request);
    let (spare, tried) = (None, Vec::new());
    let mut exchange = Exchange { client, current, alarm, journal, spare, tried };
    let ready = exchange.prepare(request);
    async move {
        let answered = match ready {
            Ok(ready) => exchange.run(ready).await,
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
    fn prepare(&mut self, mut request: Request<Incoming>) -> Result<Ready, BadRequest> {
        let switch = request.headers().contains_key(UPGRADE);
        let switch = switch.then(|| hyper::upgrade::on(&mut request));
        let (mut parts, body) = request.into_parts();
        let forwarded = self.current.live.forwarded;
        let upgrade = headers::to_server(&mut parts, &self.client.caller, forwarded)?;
        let body = if body.is_end_stream() { ReqBody::None } else { ReqBody::Of(body) };
        let may_repeat = matches!(body, ReqBody::None) && parts.method.is_idempotent();
        self.spare = may_repeat.then(|| Box::new(parts.clone()));
        let request = Box::new(Request::from_parts(parts, body));
        Ok(Ready { request, switch: switch.filter(|_| upgrade.is_some()) })
    }

    async fn run(&mut self, ready: Ready) -> Result<(Sent, Answered, Option<OnUpgrade>), Refusal> {
        let Ready { mut request, switch } = ready;
        let shared = self.client.thread.shared.clone();
        let mut sent = shared.place_first().await?;
        loop {
            self.journal.tries += 1;
            let trouble = match self.attempt(&sent, request).await {
                Ok(answered) => return Ok((sent, answered, switch)),
                Err(trouble) => trouble,
            };
            let (site, outcome) = (sent.site, trouble.outcome);
            self.journal.backend = Some(sent.target.clone());
            sent.finish(outcome);
            let refusal = match outcome {
                Outcome::TimedOut => return Err(Refusal::TimedOut),
                Outcome::Unreachable => Refusal::Unreachable,
                _ => Refusal::Broken,
            };
            let again = trouble.request.or_else(|| self.again());
            let Some(again) = again else { return Err(refusal) };
            let tries = self.journal.tries;
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
            self.alarm.watch.enter(Phase::Exchange, self.current.live.timeouts.first_byte);
        }
    }

    /// The request once more, when it may be repeated.
    fn again(&self) -> Option<Box<Request<ReqBody>>> {
        Some(Box::new(Request::from_parts(Parts::clone(self.spare.as_ref()?), ReqBody::None)))
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
                Err(Trouble { outcome: Outcome::Broken, request: unsent }) => {
                    let trouble = Trouble { outcome: Outcome::Broken, request: None };
                    request = unsent.or_else(|| self.again()).ok_or(trouble)?;
                }
                Err(trouble) => return Err(trouble),
            }
        }
        // In a box: each request's state would have room for it, and few connect.
        match Box::pin(self.connect(sent)).await {
            Ok(conn) => self.ask(conn, request).await,
            Err(_) => Err(Trouble { outcome: Outcome::Unreachable, request: Some(request) }),
        }
    }

    async fn connect(&mut self, sent: &Sent) -> Result<Conn, Option<ConnectError>> {
        let limit = self.current.live.timeouts.connect;
        let made = self.current.connector.connect_http(&sent.target);
        let conn = tokio::time::timeout(limit, made).await.map_err(|_| None)?.map_err(Some)?;
        if let Conn::Http2(sender) = &conn {
            self.client.thread.pool.share(sent.site, &sent.target, sender);
        }
        self.alarm.watch.enter(Phase::Exchange, self.current.live.timeouts.first_byte);
        Ok(conn)
    }

    /// Sends the request on a connection, and waits for the answer's head.
    async fn ask(
        &mut self,
        conn: Conn,
        mut request: Box<Request<ReqBody>>,
    ) -> Result<Answered, Trouble> {
        let timed_out = Trouble { outcome: Outcome::TimedOut, request: None };
        match conn {
            Conn::Http1(mut conn) => {
                let mut answer = pin!(upstream::send_http1(&mut conn, *request));
                let alarm = &mut self.alarm;
                let answer = std::future::poll_fn(|cx| {
                    match conn.drive_for(cx, |cx| answer.as_mut().poll(cx)) {
                        Poll::Ready(answer) => Poll::Ready(Some(answer)),
                        Poll::Pending if alarm.poll_over(cx) => Poll::Ready(None),
                        Poll::Pending => Poll::Pending,
                    }
                });
                let response = answer.await.ok_or(timed_out)?.map_err(trouble)?;
                Ok(Answered { response, conn: Some(conn) })
            }
            Conn::Http2(mut sender) => {
                for_http2(&mut request);
                let answer = Box::pin(upstream::send_http2(&mut sender, *request));
                let answer = self.alarm.race(answer).await;
                let response = answer.ok_or(timed_out)?.map_err(trouble)?;
                Ok(Answered { response, conn: None })
            }
        }
    }

    /// Makes a server's answer the client's.
    fn pass_on(
        mut self,
        cx: &mut Context<'_>,
        sent: Sent,
        answered: Answered,
        switch: Option<OnUpgrade>,
    ) -> Response<AnswerBody> {
        let Answered { response, conn } = answered;
        let (mut parts, body) = response.into_parts();
        self.take_report(&sent, &mut parts.headers);
        let switches = parts.status == StatusCode::SWITCHING_PROTOCOLS;
        headers::to_client(&mut parts.headers, switches);
        parts.version = Version::HTTP_11;
        self.journal.backend = Some(sent.target.clone());
        self.journal.status = parts.status.as_u16();
        if switches {
            let (Some(switch), Some(conn)) = (switch, conn) else {
                sent.finish(Outcome::Broken);
                return self.refuse(&Refusal::Broken);
            };
            self.alarm.watch.enter(Phase::Answer, self.current.live.timeouts.idle);
            tunnel::switch(switch, conn, sent, self.alarm.watch, self.journal);
            return Response::from_parts(parts, AnswerBody::empty());
        }
        let flow = Box::new(Flow {
            body,
            conn,
            sent: Some(sent),
            alarm: self.alarm,
            client: self.client,
            current: self.current,
            journal: self.journal,
            failed: None,
        });
        Response::from_parts(parts, AnswerBody::of(flow, cx))
    }

    /// A load report that came with the answer is for this proxy, not for the client.
    fn take_report(&self, sent: &Sent, headers: &mut hyper::HeaderMap) {
        let Some(field) = headers.remove(headers::LOAD) else { return };
        let Some(report) = field.to_str().ok().and_then(|text| report::from_field(text).ok())
        else {
            return;
        };
        let site = sent.site;
        // What is refused is counted by the dispatcher.
        let _ = self
            .client
            .thread
            .shared
            .dispatch(|dispatcher, now| dispatcher.reported(now, site, &report));
    }

    /// Answers without a server.
    fn refuse(mut self, refusal: &Refusal) -> Response<AnswerBody> {
        let (status, text) = (refusal.status(), format!("{refusal}\n"));
        if status == StatusCode::BAD_REQUEST {
            self.client.thread.shared.counts.bad_requests.fetch_add(1, Relaxed);
        }
        self.journal.status = status.as_u16();
        self.journal.bytes = text.len() as u64;
        self.journal.end(&self.client.thread.shared, Some(text.trim_end()));
        if self.client.spoken == Spoken::Http1 {
            self.alarm.watch.set_latest(None);
            self.alarm.watch.enter(Phase::Idle, self.current.live.timeouts.keep_alive);
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

/// The connection broke, or what came is no answer.
fn trouble(mut error: Unanswered) -> Trouble {
    Trouble { outcome: Outcome::Broken, request: error.take_message().map(Box::new) }
}

/// HTTP/2 names the host in the target.
fn for_http2(request: &mut Request<ReqBody>) {
    let host = request.headers_mut().remove(HOST);
    let host = host.as_ref().and_then(|host| host.to_str().ok()).filter(|host| !host.is_empty());
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_string();
    let uri = Uri::builder().scheme("http").authority(host.unwrap_or("localhost"));
    if let Ok(uri) = uri.path_and_query(path).build() {
        *request.uri_mut() = uri;
    }
    *request.version_mut() = Version::HTTP_2;
}
