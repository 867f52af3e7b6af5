//! Clients' connections: from the first byte to the last request.
//!
//! A plain connection that begins with HTTP/2's preface speaks HTTP/2 (prior knowledge); an
//! encrypted one speaks what ALPN settled; the rest is HTTP/1.1. Whoever drives a connection minds
//! its [`Deadlines`]: idle too long, or too slow with a head or a body, and it is closed. A request
//! that waits for a server minds the same deadline itself, because it owes an answer.
//!
//! HTTP/2 is in [`streams`].

use super::client::{Admission, Client, Spoken, Thread};
use super::config::FIELDS_MAX;
use super::core::NoPlace;
use super::deadlines::{Deadlines, Phase};
use super::exchange::exchange_http1;
use super::proxy::Stop;
use super::request_record::RequestRecord;
use super::stream::{Stream, Wire};
use super::{streams, tunnel};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use thermocline_balancer::Outcome;
use tokio::net::TcpStream;
use tokio::time::Sleep;

/// First bytes of an HTTP/2 connection, with which nothing else begins (RFC 9113 §3.4): `PRI` is no
/// method.
const PREFACE_START: &[u8] = b"PRI";
/// A pause before a client is looked at again that has begun to say what it speaks.
const BREATH: Duration = Duration::from_millis(5);
/// Bytes of a request's head.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Serves HTTP to a client until one of both has enough.
pub(super) async fn serve_http(
    thread: Arc<Thread>,
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<rustls::ServerConfig>>,
    stop: Arc<Stop>,
    admission: Arc<Admission>,
) {
    let header = thread.shared.current().live.timeouts.header;
    let encrypted = tls.is_some();
    // In boxes, each: a task is as large as the largest of these would be, for as long as the
    // connection lives.
    let opened = tokio::time::timeout(header, Box::pin(open(stream, tls))).await;
    let Ok(Some((wire, spoken))) = opened else { return };
    let deadlines = Arc::new(Deadlines::new(&thread.shared.ticks, header));
    let client =
        Arc::new(Client::new(&thread, peer, encrypted, spoken, deadlines.clone(), admission));
    match spoken {
        Spoken::Http1 => {
            let stream = Stream::client(wire, Some(deadlines))
                .with_interim(&client.interim)
                .with_outgoing(&client.outgoing);
            serve_http1(client, stream, &stop).await;
        }
        Spoken::Http2 => {
            Box::pin(streams::serve(client, Stream::client(wire, None), &stop)).await;
        }
    }
}

/// Encrypts where that is wanted, and finds out what is spoken.
async fn open(stream: TcpStream, tls: Option<Arc<rustls::ServerConfig>>) -> Option<(Wire, Spoken)> {
    let Some(tls) = tls else {
        let http2 = begins_http2(&stream).await.ok()?;
        let spoken = if http2 { Spoken::Http2 } else { Spoken::Http1 };
        return Some((Wire::Plain(stream), spoken));
    };
    let stream = tokio_rustls::TlsAcceptor::from(tls).accept(stream).await.ok()?;
    let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let spoken = if http2 { Spoken::Http2 } else { Spoken::Http1 };
    Some((Wire::Accepted(Box::new(stream)), spoken))
}

/// True if a client begins with HTTP/2's preface, as soon as that can be told.
async fn begins_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut start = [0; PREFACE_START.len()];
    loop {
        let count = stream.peek(&mut start).await?;
        let is_prefix = count > 0 && PREFACE_START.starts_with(&start[..count]);
        if !is_prefix || count == start.len() {
            return Ok(is_prefix);
        }
        // The socket stays readable while no more comes: look again in a moment.
        tokio::time::sleep(BREATH).await;
    }
}

async fn serve_http1(client: Arc<Client>, stream: Stream, stop: &Stop) {
    let (deadlines, of) = (client.deadlines.clone(), client.clone());
    let fields_max = client.thread.shared.current().live.limits.fields_max;
    let service =
        service_fn(move |request: Request<Incoming>| exchange_http1(client.clone(), request));
    let mut builder = http1::Builder::new();
    builder.auto_date_header(false).header_read_timeout(None).max_header_size(HEAD_BYTES_MAX);
    // Another number than hyper's own costs an allocation for each head.
    if fields_max != FIELDS_MAX {
        builder.max_headers(fields_max);
    }
    let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
    let mut connection = pin!(connection);
    let mut timer = pin!(tokio::time::sleep_until(deadlines.instant()));
    let mut stopping = pin!(stop.stopped());
    let (mut is_stopping, mut is_told) = (false, false);
    std::future::poll_fn(|cx| {
        is_stopping = is_stopping || stopping.as_mut().poll(cx).is_ready();
        loop {
            // Who has been let in may ask once: a request may be on its way.
            if is_stopping && !is_told && of.asked() > 0 {
                is_told = true;
                connection.as_mut().graceful_shutdown();
            }
            // That a client broke off is nobody's fault here.
            let polled = poll_in_time(cx, connection.as_mut(), &deadlines, timer.as_mut());
            if polled.is_ready() || !is_stopping || is_told || of.asked() == 0 {
                return polled;
            }
        }
    })
    .await;
}

/// Drives what has deadlines, and gives it up when its time is over. A request that waits for a
/// server answers by itself when it sees that: it is polled once more when the timer rings.
pub(super) fn poll_in_time(
    cx: &mut Context<'_>,
    mut work: Pin<&mut impl Future>,
    deadlines: &Deadlines,
    mut timer: Pin<&mut Sleep>,
) -> Poll<()> {
    loop {
        if work.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if deadlines.is_over() && deadlines.phase() != Phase::Exchange {
            return Poll::Ready(());
        }
        deadlines.hurry(timer.as_mut());
        if timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        timer.as_mut().reset(deadlines.instant());
    }
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
    let mut record = RequestRecord::tcp(shared, peer.ip());
    let mut tried = Vec::new();
    let mut placed = shared.place_first().await;
    let error = loop {
        let sent = match placed {
            Ok(sent) => sent,
            Err(NoPlace::Nowhere) if !tried.is_empty() => break "no server could be reached",
            Err(NoPlace::Nowhere) => break "no server is there",
            Err(NoPlace::Full | NoPlace::Late) => break "all servers are busy",
        };
        record.tries += 1;
        record.backend = Some(sent.target.clone());
        let connected =
            tokio::time::timeout(timeouts.connect, current.connector.connect(&sent.target)).await;
        if let Ok(Ok(mut server)) = connected {
            let deadlines = Arc::new(Deadlines::new(&shared.ticks, timeouts.idle));
            deadlines.enter(Phase::Answer, timeouts.idle);
            server.watched(&deadlines);
            let mut client = Stream::client(wire, Some(deadlines.clone()));
            let mut alarm = super::client::Alarm::own(deadlines);
            let result = alarm.race(tunnel::join(&mut client, &mut server)).await;
            tunnel::finish(sent, &mut record, result);
            record.end(shared, None);
            return;
        }
        let site = sent.site;
        sent.finish(Outcome::Unreachable);
        let tries = record.tries;
        if !shared.dispatch(|dispatcher, now| dispatcher.retry(now, tries, site)) {
            break "no server could be reached";
        }
        tried.push(site);
        placed = shared.place_again(&tried).await;
    };
    record.end(shared, Some(error));
}
