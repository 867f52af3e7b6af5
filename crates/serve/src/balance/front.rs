//! Clients' connections: from the first byte to the last request.
//!
//! A plain connection that begins with HTTP/2's preface speaks HTTP/2 (prior knowledge); an
//! encrypted one speaks what ALPN settled; the rest is HTTP/1.1. Whoever drives a connection minds
//! its [`Watch`]: idle too long, or too slow with a head or a body, and it is closed. A request
//! that waits for a server minds the same deadline itself, because it owes an answer.

use super::answer::AnswerBody;
use super::client::{Client, Spoken, Thread};
use super::core::NoPlace;
use super::exchange::exchange;
use super::journal::Journal;
use super::proxy::Stop;
use super::stream::{Stream, Wire};
use super::tunnel;
use super::watch::{Phase, Watch};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;
use thermocline_balancer::Outcome;
use tokio::net::TcpStream;

/// What an HTTP/2 connection begins with that nothing else does (RFC 9113 §3.4): `PRI` is no
/// method.
const PREFACE_START: &[u8] = b"PRI";
/// Requests at once on one HTTP/2 connection.
const STREAMS_MAX: u32 = 128;
/// How often a silent HTTP/2 client is asked whether it is there, and how long it may think.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);
/// Bytes of a request's head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Serves HTTP to a client until one of both has enough.
pub(super) async fn serve_http(
    thread: Arc<Thread>,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
    stop: Arc<Stop>,
) {
    let header = thread.shared.current().live.timeouts.header;
    let encrypted = tls.is_some();
    let opened = tokio::time::timeout(header, open(stream, tls)).await;
    let Ok(Some((wire, spoken))) = opened else { return };
    let watch = Arc::new(Watch::new(&thread.shared.ticks, header));
    let client = Arc::new(Client::new(&thread, peer, encrypted, spoken, watch.clone()));
    match spoken {
        Spoken::Http1 => serve_http1(client, Stream::client(wire, Some(watch)), &stop).await,
        Spoken::Http2 => serve_http2(client, Stream::client(wire, None), &stop).await,
    }
}

/// Encrypts where that is wanted, and finds out what is spoken.
async fn open(stream: TcpStream, tls: Option<Arc<rustls::ServerConfig>>) -> Option<(Wire, Spoken)> {
    let Some(tls) = tls else {
        let mut start = [0; PREFACE_START.len()];
        let count = stream.peek(&mut start).await.ok()?;
        let http2 = start[..count] == *PREFACE_START;
        let spoken = if http2 { Spoken::Http2 } else { Spoken::Http1 };
        return Some((Wire::Plain(stream), spoken));
    };
    let stream = tokio_rustls::TlsAcceptor::from(tls).accept(stream).await.ok()?;
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let spoken = if http2 { Spoken::Http2 } else { Spoken::Http1 };
    Some((Wire::Accepted(Box::new(stream)), spoken))
}

async fn serve_http1(client: Arc<Client>, stream: Stream, stop: &Stop) {
    let watch = client.watch.clone();
    let service = service_fn(move |request: Request<Incoming>| exchange(client.clone(), request));
    let mut builder = http1::Builder::new();
    builder.auto_date_header(false).header_read_timeout(None).max_header_size(HEAD_BYTES_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = pin!(connection);
    let mut timer = pin!(tokio::time::sleep_until(watch.instant()));
    let mut stopping = pin!(stop.stopped());
    let mut is_told = false;
    std::future::poll_fn(|cx| {
        if !is_told && stopping.as_mut().poll(cx).is_ready() {
            is_told = true;
            connection.as_mut().graceful_shutdown();
        }
        // Twice when the timer rings: a request that waits answers when it sees that its time is
        // up.
        loop {
            // That a client broke off is nobody's fault here.
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if watch.is_over() && watch.phase() != Phase::Exchange {
                return Poll::Ready(());
            }
            watch.hurry(timer.as_mut());
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            timer.as_mut().reset(watch.instant());
        }
    })
    .await;
}

async fn serve_http2(client: Arc<Client>, stream: Stream, stop: &Stop) {
    let of = client.clone();
    let service = service_fn(move |request: Request<Incoming>| counted(of.clone(), request));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut stopping = pin!(stop.stopped());
    let keep_alive = client.thread.shared.current().live.timeouts.keep_alive;
    let (mut timer, mut seen) = (pin!(tokio::time::sleep(keep_alive)), 0);
    let mut is_told = false;
    std::future::poll_fn(|cx| {
        let is_stopping = !is_told && stopping.as_mut().poll(cx).is_ready();
        let mut is_idle = false;
        while timer.as_mut().poll(cx).is_ready() {
            let requests = client.requests.load(Relaxed);
            is_idle = requests == seen && client.active.load(Relaxed) == 0;
            seen = requests;
            timer.as_mut().reset(tokio::time::Instant::now() + keep_alive);
        }
        if is_stopping || (is_idle && !is_told) {
            is_told = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(cx).map(drop)
    })
    .await;
}

/// Counts a request of HTTP/2 while it is under way.
async fn counted(
    client: Arc<Client>,
    request: Request<Incoming>,
) -> Result<hyper::Response<AnswerBody>, std::convert::Infallible> {
    client.requests.fetch_add(1, Relaxed);
    client.active.fetch_add(1, Relaxed);
    let answer = exchange(client.clone(), request).await;
    client.active.fetch_sub(1, Relaxed);
    answer
}

/// Joins a client with a server, whatever they speak.
pub(super) async fn serve_tcp(
    thread: Arc<Thread>,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
) {
    let shared = &thread.shared;
    let current = shared.current();
    let timeouts = &current.live.timeouts;
    let wire = match tls {
        None => Wire::Plain(stream),
        Some(tls) => {
            let accepted = tokio_rustls::TlsAcceptor::from(tls).accept(stream);
            match tokio::time::timeout(timeouts.header, accepted).await {
                Ok(Ok(stream)) => Wire::Accepted(Box::new(stream)),
                _ => return,
            }
        }
    };
    let mut journal = Journal::tcp(shared, peer.ip());
    let mut tried = Vec::new();
    let mut placed = shared.place_first().await;
    let error = loop {
        let sent = match placed {
            Ok(sent) => sent,
            Err(NoPlace::Nowhere) if !tried.is_empty() => break "no server could be reached",
            Err(NoPlace::Nowhere) => break "no server is there",
            Err(NoPlace::Full | NoPlace::Late) => break "all servers are busy",
        };
        journal.tries += 1;
        journal.backend = Some(sent.target.clone());
        let connected =
            tokio::time::timeout(timeouts.connect, current.connector.connect(&sent.target)).await;
        if let Ok(Ok(mut server)) = connected {
            let watch = Arc::new(Watch::new(&shared.ticks, timeouts.idle));
            watch.enter(Phase::Answer, timeouts.idle);
            server.watched(&watch);
            let mut client = Stream::client(wire, Some(watch.clone()));
            let mut alarm = super::client::Alarm::own(watch);
            let result = alarm.race(tunnel::join(&mut client, &mut server)).await;
            tunnel::finish(sent, &mut journal, result);
            journal.end(shared, None);
            return;
        }
        let site = sent.site;
        sent.finish(Outcome::Unreachable);
        let tries = journal.tries;
        if !shared.dispatch(|dispatcher, now| dispatcher.retry(now, tries, site)) {
            break "no server could be reached";
        }
        tried.push(site);
        placed = shared.place_again(&tried).await;
    };
    journal.end(shared, Some(error));
}
