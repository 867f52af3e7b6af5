//! A client's connection, as its requests see it, and the deadline that a request minds.

use super::core::Shared;
use super::crowd::Member;
use super::deadlines::{Deadlines, Phase};
use super::headers::Caller;
use super::interim::Interim;
use super::outgoing::Outgoing;
use super::upstream::Pool;
use hyper::header::HeaderValue;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

/// One thread: what its connections share.
pub(super) struct Thread {
    pub(super) shared: Arc<Shared>,
    pub(super) pool: Pool,
}

/// Lets a connection count, for as long as there is a copy of it.
pub(super) type Admission = (Member, OwnedSemaphorePermit);

/// Protocol of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoken {
    Http1,
    Http2,
}

/// A client's connection.
pub(super) struct Client {
    pub(super) thread: Arc<Thread>,
    pub(super) peer: SocketAddr,
    pub(super) caller: Caller,
    /// Its place among all connections and among its address's; kept by tunnels, too.
    pub(super) admission: Arc<Admission>,
    pub(super) spoken: Spoken,
    /// Deadlines of the connection; streams of HTTP/2 each have their own beside it.
    pub(super) deadlines: Arc<Deadlines>,
    /// Requests that have come.
    asked: AtomicU64,
    /// Interim answers of servers, for a client of HTTP/1.1.
    pub(super) interim: Arc<Interim>,
    /// State of what is being written to a client of HTTP/1.1.
    pub(super) outgoing: Arc<Outgoing>,
    /// Streams of HTTP/2.
    streams: Mutex<Streams>,
}

/// Streams of an HTTP/2 connection.
struct Streams {
    active: u32,
    /// Time from which on none is active.
    idle_since: Instant,
}

/// A stream, while it is there.
pub(super) struct Active(Arc<Client>);

impl Drop for Active {
    fn drop(&mut self) {
        let mut streams = self.0.streams();
        streams.active -= 1;
        streams.idle_since = Instant::now();
    }
}

impl Client {
    pub(super) fn new(
        thread: &Arc<Thread>,
        peer: SocketAddr,
        encrypted: bool,
        spoken: Spoken,
        deadlines: Arc<Deadlines>,
        admission: Arc<Admission>,
    ) -> Client {
        let address = HeaderValue::from_str(&peer.ip().to_canonical().to_string());
        Client {
            thread: thread.clone(),
            peer,
            caller: Caller {
                address: address.expect("addresses are plain"),
                protocol: HeaderValue::from_static(if encrypted { "https" } else { "http" }),
            },
            admission,
            spoken,
            deadlines,
            asked: AtomicU64::new(0),
            interim: Arc::default(),
            outgoing: Arc::default(),
            streams: Mutex::new(Streams { active: 0, idle_since: Instant::now() }),
        }
    }

    /// Alarm of a request: the connection's deadlines, or its own.
    pub(super) fn alarm(&self, limit: Duration) -> Alarm {
        self.asked.fetch_add(1, Relaxed);
        let deadlines = match self.spoken {
            Spoken::Http1 => self.deadlines.clone(),
            Spoken::Http2 => Arc::new(Deadlines::new(&self.thread.shared.ticks, limit)),
        };
        deadlines.enter(Phase::Exchange, limit);
        Alarm { deadlines, timer: None }
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a stream as active, for as long as what is returned lives.
    pub(super) fn begin_stream(self: &Arc<Client>) -> Active {
        self.streams().active += 1;
        Active(self.clone())
    }

    /// Number of requests that have come on the connection.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Relaxed)
    }

    /// Time at which an HTTP/2 connection without a stream must be over, and how long its goodbye
    /// may take.
    pub(super) fn http2_deadline(&self) -> (tokio::time::Instant, Duration) {
        let current = self.thread.shared.current();
        let timeouts = &current.live.timeouts;
        let streams = self.streams();
        let since = if streams.active > 0 { Instant::now() } else { streams.idle_since };
        let limit = if self.asked() == 0 { timeouts.header } else { timeouts.keep_alive };
        ((since + limit).into(), timeouts.header)
    }
}

/// A deadline that a request minds.
pub(super) struct Alarm {
    pub(super) deadlines: Arc<Deadlines>,
    /// Rings for this request alone; `None`: whoever drives the connection has a timer.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    /// One with a timer.
    pub(super) fn own(deadlines: Arc<Deadlines>) -> Alarm {
        let timer = Box::pin(tokio::time::sleep_until(deadlines.instant()));
        Alarm { deadlines, timer: Some(timer) }
    }

    /// True if the time is up; if not, the task is woken when it may be.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(timer) = &mut self.timer {
            self.deadlines.hurry(timer.as_mut());
            while timer.as_mut().poll(cx).is_ready() {
                if self.deadlines.is_over() {
                    return true;
                }
                timer.as_mut().reset(self.deadlines.instant());
            }
        }
        self.deadlines.is_over()
    }

    /// Waits for `work`; `None` when the time is up first.
    pub(super) async fn race<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if self.poll_over(cx) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        })
        .await
    }
}
