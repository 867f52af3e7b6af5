//! Connections to servers: how they are made, driven and kept.
//!
//! An HTTP/1.1 connection belongs to one request at a time and is driven by it: hyper's state is
//! polled by the task of the client's connection, without a task, a channel hop or a wake-up
//! between the two. When the answer has been read to its end it goes back to the thread's pool,
//! where nobody drives it; whoever takes it out looks first whether the server has closed it.
//! HTTP/2 connections are shared, one a server and thread, and drive themselves.

use super::config::{FIELDS_MAX, Live};
use super::core::Target;
use super::outgoing::Outgoing;
use super::stream::{Stream, Wire};
use super::upload::ReqBody;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{
    AtomicU8,
    Ordering::{AcqRel, Acquire},
};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use thermocline_units::SiteId;
use tokio::net::TcpStream;

type H1Driver = http1::Connection<TokioIo<Stream>, ReqBody>;

/// A connection that a request can be sent on.
pub(super) enum Conn {
    Http1(Box<Http1>),
    Http2(http2::SendRequest<ReqBody>),
}

/// An HTTP/1.1 connection, undriven.
pub(super) struct Http1 {
    sender: http1::SendRequest<ReqBody>,
    driver: H1Driver,
    wakeup: Arc<DriverWakeup>,
    waker: Waker,
    is_over: bool,
    pub(super) outgoing: Arc<Outgoing>,
    /// Bytes that had been written at the last look.
    written: u64,
}

/// Most rounds that a connection is driven on its own ringing before others have their turn.
const ROUNDS_MAX: u32 = 8;

/// Waker of an HTTP/1.1 connection.
///
/// hyper's state has channels inside, which wake whoever polls at every step of a request. That is
/// the task that is polling already: woken, it would run once more for nothing. So while a
/// connection is driven its wakes are only noted, and it is driven on until there are none; at
/// other times they go to the task that drove it last.
#[derive(Default)]
struct DriverWakeup {
    /// [`DRIVING`] and [`RANG`].
    state: AtomicU8,
    task: Mutex<Option<Waker>>,
}

/// The connection is being driven.
const DRIVING: u8 = 1;
/// State: woken since its driving began.
const RANG: u8 = 2;

impl Wake for DriverWakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.fetch_or(RANG, AcqRel) & DRIVING == 0
            && let Some(task) = &*self.task.lock().unwrap_or_else(PoisonError::into_inner)
        {
            task.wake_by_ref();
        }
    }
}

impl DriverWakeup {
    /// From now on `task` is who drives.
    fn belongs_to(&self, task: &Waker) {
        let mut place = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if !place.as_ref().is_some_and(|known| known.will_wake(task)) {
            *place = Some(task.clone());
        }
    }

    /// Ends the driving.
    fn hush(&self) {
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Http1 {
    fn new(
        sender: http1::SendRequest<ReqBody>,
        driver: H1Driver,
        outgoing: Arc<Outgoing>,
    ) -> Http1 {
        let wakeup = Arc::new(DriverWakeup::default());
        let waker = wakeup.clone().into();
        Http1 { sender, driver, waker, wakeup, is_over: false, outgoing, written: 0 }
    }

    /// True if the server's system has taken bytes since the last time that this was asked.
    pub(super) fn has_written(&mut self) -> bool {
        let before = std::mem::replace(&mut self.written, self.outgoing.written());
        before != self.written
    }

    /// Lets it move; afterwards whatever the connection can do now is done.
    pub(super) fn drive(&mut self, cx: &mut Context<'_>) {
        let _: Poll<()> = self.drive_for(cx, |_| Poll::Pending);
    }

    /// Drives it until `work` is ready, which lives on what it brings, or there is nothing left to
    /// do now.
    pub(super) fn drive_for<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut work: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.wakeup.belongs_to(cx.waker());
        let mut inner = Context::from_waker(&self.waker);
        for _ in 0..ROUNDS_MAX {
            self.wakeup.state.swap(DRIVING, AcqRel);
            if !self.is_over && self.driver.poll_without_shutdown(&mut inner).is_ready() {
                self.is_over = true;
            }
            let done = work(&mut inner);
            let rang = self.wakeup.state.swap(0, AcqRel) & RANG != 0;
            if done.is_ready() || !rang {
                return done;
            }
        }
        // tokio has asked for a pause by ringing, or others should have their turn.
        self.wakeup.state.fetch_or(RANG, AcqRel);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// True if a request can be sent, after the server has been given a chance to close.
    fn is_alive(&mut self, cx: &mut Context<'_>) -> bool {
        self.drive(cx);
        self.is_ready()
    }

    /// The same of one that was alive when it was driven last: it rings when something happens.
    fn is_still_alive(&mut self, cx: &mut Context<'_>) -> bool {
        if self.wakeup.state.load(Acquire) & RANG != 0 {
            self.drive(cx);
        }
        self.is_ready()
    }

    fn is_ready(&self) -> bool {
        !self.is_over && self.sender.is_ready()
    }

    /// The bare connection, and what was read of it, after the server has switched protocols.
    pub(super) fn into_stream(self) -> (Stream, Bytes) {
        let parts = self.driver.into_parts();
        (parts.io.into_inner(), parts.read_buf)
    }

    /// True if the server has switched protocols, or hung up.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}

/// A request that came to nothing at a server; with the request, where it was not sent.
pub(super) type Unanswered = hyper::client::conn::TrySendError<Request<ReqBody>>;

/// Sends a request on an HTTP/1.1 connection.
pub(super) fn send_http1(
    conn: &mut Http1,
    mut request: Request<ReqBody>,
) -> impl Future<Output = Result<Response<Incoming>, Unanswered>> + use<> {
    conn.outgoing.begin();
    request.body_mut().go_on(Some(&conn.outgoing));
    conn.sender.try_send_request(request)
}

/// Sends a request on an HTTP/2 connection.
pub(super) fn send_http2(
    sender: &mut http2::SendRequest<ReqBody>,
    mut request: Request<ReqBody>,
) -> impl Future<Output = Result<Response<Incoming>, Unanswered>> + use<> {
    request.body_mut().go_on(None);
    sender.try_send_request(request)
}

/// Connector to servers: a configuration made ready.
pub(super) struct Connector {
    tls: Option<(Arc<ClientConfig>, Option<String>)>,
    http2: bool,
    /// Most fields of an answer's head.
    fields_max: usize,
    /// Longest time until a connection is there.
    patience: Duration,
}

/// A reason that a server cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("`{0}` is no name for a certificate")]
    Name(String),
    #[error("{}", reason(.0))]
    Http(#[from] hyper::Error),
    #[error("no connection within {0:?}")]
    TimedOut(Duration),
}

/// Words of an error, with those of the one it comes from.
pub(super) fn reason(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Returns true if the server has refused the request before doing anything with it (RFC 9113
/// §8.7).
pub(super) fn is_refused(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| cause.reason() == Some(h2::Reason::REFUSED_STREAM))
}

impl Connector {
    pub(super) fn new(live: &Live, tls: Option<Arc<ClientConfig>>) -> Connector {
        let name = live.upstream.tls.as_ref().and_then(|tls| tls.name.clone());
        Connector {
            tls: tls.map(|tls| (tls, name)),
            http2: live.upstream.http2,
            fields_max: live.limits.fields_max,
            patience: live.timeouts.connect,
        }
    }

    /// Returns true if servers are spoken to over TLS.
    pub(super) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// A connection, encrypted where that is configured.
    pub(super) async fn connect(&self, target: &Target) -> Result<Stream, ConnectError> {
        let stream = reach(target, self.patience).await?;
        stream.set_nodelay(true)?;
        let Some((tls, name)) = &self.tls else { return Ok(Stream::server(Wire::Plain(stream))) };
        let host = target.address.rsplit_once(':').map_or(&*target.address, |(host, _)| host);
        let name = name.as_deref().unwrap_or(host.trim_matches(['[', ']']));
        let server = ServerName::try_from(name.to_string());
        let server = server.map_err(|_| ConnectError::Name(name.to_string()))?;
        let stream = tokio_rustls::TlsConnector::from(tls.clone()).connect(server, stream).await?;
        Ok(Stream::server(Wire::Connected(Box::new(stream))))
    }

    /// A connection that speaks HTTP.
    pub(super) async fn connect_http(&self, target: &Target) -> Result<Conn, ConnectError> {
        let stream = self.connect(target).await?;
        if self.http2 {
            let stream = TokioIo::new(stream);
            let builder = http2::Builder::new(TokioExecutor::new());
            let (sender, driver) = builder.handshake(stream).await?;
            tokio::spawn(async move {
                // That it broke is told by the requests on it.
                let _ = driver.await;
            });
            return Ok(Conn::Http2(sender));
        }
        let mut builder = http1::Builder::new();
        // Another number than hyper's own costs an allocation for each head.
        if self.fields_max != FIELDS_MAX {
            builder.max_headers(self.fields_max);
        }
        let outgoing = Arc::default();
        let stream = TokioIo::new(stream.forgiving().with_outgoing(&outgoing));
        let (sender, driver) = builder.handshake(stream).await?;
        Ok(Conn::Http1(Box::new(Http1::new(sender, driver, outgoing))))
    }
}

/// Connects to the first address of a server that answers. Names are looked up each time: whoever
/// moves servers by DNS is followed. Each address has an equal part of the time that is left, so
/// that one which never answers does not use up the others'.
async fn reach(target: &Target, patience: Duration) -> io::Result<TcpStream> {
    if let Some(address) = target.literal {
        return TcpStream::connect(address).await;
    }
    let deadline = Instant::now() + patience;
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(&target.address).await?.collect();
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (at, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let part = left / (addresses.len() - at) as u32;
        match tokio::time::timeout(part, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = io::Error::new(error.kind(), format!("{address}: {error}")),
            Err(_) => {
                last = io::Error::new(io::ErrorKind::TimedOut, format!("{address}: timed out"))
            }
        }
    }
    Err(last)
}

/// A connection that waits for a request.
struct Idle {
    conn: Box<Http1>,
    target: Arc<Target>,
    since: Instant,
}

/// Connections of one thread that wait for requests, by number of site.
#[derive(Default)]
pub(super) struct Pool {
    sites: Mutex<Vec<Site>>,
}

#[derive(Default)]
struct Site {
    idle: Vec<Idle>,
    shared: Option<(Arc<Target>, http2::SendRequest<ReqBody>)>,
}

impl Pool {
    fn with<T>(&self, site: SiteId, act: impl FnOnce(&mut Site) -> T) -> T {
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        if sites.len() <= site.index() {
            sites.resize_with(site.index() + 1, Site::default);
        }
        act(&mut sites[site.index()])
    }

    /// A connection to this server, the one used last.
    pub(super) fn take(
        &self,
        site: SiteId,
        target: &Arc<Target>,
        cx: &mut Context<'_>,
    ) -> Option<Conn> {
        self.with(site, |site| {
            if let Some((of, sender)) = &site.shared {
                if Arc::ptr_eq(of, target) && !sender.is_closed() {
                    return Some(Conn::Http2(sender.clone()));
                }
                site.shared = None;
            }
            while let Some(mut idle) = site.idle.pop() {
                if Arc::ptr_eq(&idle.target, target) && idle.conn.is_still_alive(cx) {
                    return Some(Conn::Http1(idle.conn));
                }
            }
            None
        })
    }

    /// Keeps a connection for the next request; closes it when there are enough, or it is spent.
    pub(super) fn put(
        &self,
        site: SiteId,
        target: &Arc<Target>,
        mut conn: Box<Http1>,
        idle_max: usize,
        cx: &mut Context<'_>,
    ) {
        if !conn.is_alive(cx) {
            return;
        }
        conn.wakeup.hush();
        self.with(site, |site| {
            if site.idle.len() < idle_max {
                site.idle.push(Idle { conn, target: target.clone(), since: Instant::now() });
            }
        });
    }

    /// Shares an HTTP/2 connection.
    pub(super) fn share(
        &self,
        site: SiteId,
        target: &Arc<Target>,
        sender: &http2::SendRequest<ReqBody>,
    ) {
        self.with(site, |site| site.shared = Some((target.clone(), sender.clone())));
    }

    /// Closes what has waited for too long, what servers have closed, and what leads to servers
    /// that are not there any more.
    pub(super) fn sweep(&self, live: &Live, targets: &[Arc<Target>]) {
        let known = |target: &Arc<Target>| targets.iter().any(|other| Arc::ptr_eq(other, target));
        let mut sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cx = Context::from_waker(Waker::noop());
        for site in sites.iter_mut() {
            site.shared.take_if(|(target, sender)| sender.is_closed() || !known(target));
            site.idle.retain_mut(|idle| {
                let young = idle.since.elapsed() < live.upstream.idle;
                let is_kept = young && known(&idle.target) && idle.conn.is_still_alive(&mut cx);
                idle.conn.wakeup.hush();
                is_kept
            });
        }
    }

    /// Closes all.
    pub(super) fn clear(&self) {
        self.sites.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
