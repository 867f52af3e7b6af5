//! Probes out of band: servers are asked how busy they are beside the requests, on a thread and on
//! connections of their own.
//!
//! 1. A request's probes are decided under the dispatcher's lock and put into a bounded mailbox;
//!    what does not fit is not sent. The request goes on, or waits for its answers ([`Answers`])
//!    where the rule wants that, and never longer than a probe may take.
//! 2. The prober asks each server for the configured path with GET. Connections are kept, and are
//!    not those of requests; so many probes of one server are under way at most.
//! 3. An answer with 200 tells a load report ([`report`]), in the field or as JSON, and perhaps
//!    what requests take (docs/formats/load-report.md). Half of the way there and back is added to
//!    its age. The dispatcher judges it.
//!
//! A probe is never a request: it is in no count, no limit and no latency of those, and fails no
//! server. Foreign bytes: only so much of an answer is read, in so much time.

use super::api::ProbeStatus;
use super::core::{Current, Shared, Target};
use super::headers;
use super::proxy::Stop;
use super::report;
use super::upload::ReqBody;
use super::upstream::{Conn, Pool, send_http1, send_http2};
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::header::{HOST, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use thermocline_balancer::{Asked, Dispatcher, LoadReport, Probing};
use thermocline_units::{Nanos, SiteId};
use tokio::sync::mpsc;

/// Probes that wait to be sent, at most.
const MAILBOX_MAX: usize = 4096;
/// Bytes of an answer's body.
const ANSWER_BYTES_MAX: usize = 4096;
/// Time between two looks through the kept connections.
const SWEEP: Duration = Duration::from_secs(1);

/// Counters of probes.
#[derive(Debug, Default)]
pub(super) struct ProbeCounts {
    /// Probes that were sent.
    pub(super) sent: AtomicU64,
    /// Answers that were used.
    pub(super) answered: AtomicU64,
    /// Probes without an answer in time.
    pub(super) late: AtomicU64,
    /// Probes whose connection broke, or whose answer was no report or could not be believed.
    pub(super) failed: AtomicU64,
    /// Probes that were not sent because too many were under way.
    pub(super) skipped: AtomicU64,
}

impl ProbeCounts {
    pub(super) fn status(&self) -> ProbeStatus {
        let of = |count: &AtomicU64| count.load(Relaxed);
        ProbeStatus {
            sent: of(&self.sent),
            answered: of(&self.answered),
            late: of(&self.late),
            failed: of(&self.failed),
            skipped: of(&self.skipped),
        }
    }
}

/// The requests' side.
pub(super) struct Probes {
    is_on: AtomicBool,
    mailbox: mpsc::Sender<Ask>,
    receiver: Mutex<Option<mpsc::Receiver<Ask>>>,
    pub(super) counts: ProbeCounts,
}

/// A probe to be sent. Whoever waits for it sees its end as the end of `held`.
pub(super) struct Ask {
    asked: Asked,
    target: Arc<Target>,
    held: Option<mpsc::Sender<()>>,
}

/// Answers that a request waits for.
pub(super) struct Answers(mpsc::Receiver<()>);

impl Answers {
    /// Returns when all have come, or been given up, or `limit` is over.
    pub(super) async fn come(mut self, limit: Duration) {
        // Nothing is ever sent: the channel ends with the last probe.
        let _ = tokio::time::timeout(limit, self.0.recv()).await;
    }
}

impl Default for Probes {
    fn default() -> Probes {
        let (mailbox, receiver) = mpsc::channel(MAILBOX_MAX);
        Probes {
            is_on: AtomicBool::new(false),
            mailbox,
            receiver: Mutex::new(Some(receiver)),
            counts: ProbeCounts::default(),
        }
    }
}

impl Probes {
    /// Notes whether probes are configured.
    pub(super) fn set_on(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
    }

    /// Probing for the request that has just arrived.
    pub(super) fn wanted(&self, dispatcher: &Dispatcher) -> Probing {
        if self.is_on.load(Relaxed) { dispatcher.probing() } else { Probing::None }
    }

    /// Sends the probes of a request; `awaited`: returns what ends with the last of them.
    pub(super) fn ask(
        &self,
        asked: Vec<Asked>,
        target: impl Fn(SiteId) -> Option<Arc<Target>>,
        awaited: bool,
    ) -> Option<Answers> {
        let (held, answers) = match awaited {
            true => {
                let (held, answers) = mpsc::channel(1);
                (Some(held), Some(Answers(answers)))
            }
            false => (None, None),
        };
        for asked in asked {
            let Some(target) = target(asked.site) else { continue };
            if self.mailbox.try_send(Ask { asked, target, held: held.clone() }).is_err() {
                self.counts.skipped.fetch_add(1, Relaxed);
            }
        }
        answers
    }
}

/// Runs until `cut`.
pub(super) fn run(shared: &Arc<Shared>, cut: &Stop) {
    let receiver = shared.probes.receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // Requests are proxied all the same; nothing is probed.
    let (Ok(runtime), Some(receiver)) = (runtime, receiver) else { return };
    runtime.block_on(async {
        let mut stopped = cut.stopped();
        let mut work = pin!(send_all(shared, receiver));
        std::future::poll_fn(|cx| {
            let _ = work.as_mut().poll(cx);
            Pin::new(&mut stopped).poll(cx)
        })
        .await;
    });
}

/// State that probes of one thread share.
#[derive(Default)]
struct Prober {
    pool: Pool,
    /// Probes under way, by number of site.
    under_way: Mutex<Vec<u32>>,
}

/// A probe's place among those under way.
struct Place {
    prober: Arc<Prober>,
    site: SiteId,
}

impl Prober {
    fn place(self: &Arc<Prober>, site: SiteId, most: u32) -> Option<Place> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if under_way.len() <= site.index() {
            under_way.resize(site.index() + 1, 0);
        }
        let count = &mut under_way[site.index()];
        (*count < most).then(|| {
            *count += 1;
            Place { prober: self.clone(), site }
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self.prober.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way[self.site.index()] -= 1;
    }
}

async fn send_all(shared: &Arc<Shared>, mut receiver: mpsc::Receiver<Ask>) {
    let prober = Arc::new(Prober::default());
    let mut swept = Instant::now();
    loop {
        let next = tokio::time::timeout(SWEEP, receiver.recv()).await;
        let current = shared.current();
        if swept.elapsed() >= SWEEP {
            prober.pool.sweep(&current.live, &shared.targets());
            swept = Instant::now();
        }
        let ask = match next {
            Ok(Some(ask)) => ask,
            Ok(None) => return,
            Err(_) => continue,
        };
        let Some(probe) = &current.live.probe else { continue };
        match prober.place(ask.asked.site, probe.under_way_max) {
            Some(place) => {
                shared.probes.counts.sent.fetch_add(1, Relaxed);
                tokio::spawn(probe_one(shared.clone(), current, place, ask));
            }
            None => {
                shared.probes.counts.skipped.fetch_add(1, Relaxed);
            }
        }
    }
}

/// Sends one probe, and tells the dispatcher of its answer.
async fn probe_one(shared: Arc<Shared>, current: Arc<Current>, place: Place, ask: Ask) {
    let Some(probe) = &current.live.probe else { return };
    let work = answer_of(&current, &place, &ask, &probe.path);
    let counts = &shared.probes.counts;
    let counter = match tokio::time::timeout(probe.timeout, work).await {
        Err(_) => &counts.late,
        Ok(None) => &counts.failed,
        Ok(Some((answer, latency))) => {
            let used = shared.dispatch(|dispatcher, now| {
                // It may have been removed, and its number given away.
                dispatcher.site_of(&ask.target.name) == Some(ask.asked.site)
                    && dispatcher.probed(now, &ask.asked, &answer, latency).is_ok()
            });
            if used { &counts.answered } else { &counts.failed }
        }
    };
    counter.fetch_add(1, Relaxed);
    drop(ask.held);
}

/// Asks a server; `None` when what comes is no report.
async fn answer_of(
    current: &Current,
    place: &Place,
    ask: &Ask,
    path: &str,
) -> Option<(LoadReport, Option<Nanos>)> {
    let sent = Instant::now();
    let pool = &place.prober.pool;
    let kept = with_context(|cx| pool.take(place.site, &ask.target, cx)).await;
    let (response, conn) = match kept {
        // The server may have closed it meanwhile.
        Some(conn) => match get(current, conn, &ask.target, path).await {
            Some(answered) => answered,
            None => get_anew(current, place, ask, path).await?,
        },
        None => get_anew(current, place, ask, path).await?,
    };
    let (parts, body) = response.into_parts();
    let mut conn = conn;
    let mut body = pin!(Limited::new(body, ANSWER_BYTES_MAX).collect());
    let bytes = std::future::poll_fn(|cx| match &mut conn {
        Conn::Http1(conn) => conn.drive_for(cx, |cx| body.as_mut().poll(cx)),
        Conn::Http2(_) => body.as_mut().poll(cx),
    });
    let bytes = bytes.await.ok()?.to_bytes();
    if let Conn::Http1(conn) = conn {
        let idle_max = current.live.upstream.idle_max;
        with_context(move |cx| pool.put(place.site, &ask.target, conn, idle_max, cx)).await;
    }
    if parts.status != StatusCode::OK {
        return None;
    }
    let field = parts.headers.get(headers::LOAD).and_then(|value| value.to_str().ok());
    let (mut answer, latency) = told(field, &bytes)?;
    answer.age.0 += sent.elapsed().as_nanos() as u64 / 2;
    Some((answer, latency))
}

/// Load that an answer tells: by its field, or else by its body.
fn told(field: Option<&str>, body: &Bytes) -> Option<(LoadReport, Option<Nanos>)> {
    match field {
        Some(field) => {
            Some((report::from_field(field).ok()?, report::latency_from_field(field).ok()?))
        }
        None => Some((report::from_json(body).ok()?, report::latency_from_json(body).ok()?)),
    }
}

async fn get_anew(
    current: &Current,
    place: &Place,
    ask: &Ask,
    path: &str,
) -> Option<(Response<hyper::body::Incoming>, Conn)> {
    let conn = current.connector.connect_http(&ask.target).await.ok()?;
    if let Conn::Http2(sender) = &conn {
        place.prober.pool.share(place.site, &ask.target, sender);
    }
    get(current, conn, &ask.target, path).await
}

/// Asks on a connection; it must be driven as long as the body is read.
async fn get(
    current: &Current,
    conn: Conn,
    target: &Target,
    path: &str,
) -> Option<(Response<hyper::body::Incoming>, Conn)> {
    let request = Request::get(path)
        .header(HOST, &target.address)
        .header(USER_AGENT, "thermocline-balance")
        .body(ReqBody::None)
        .ok()?;
    match conn {
        Conn::Http1(mut conn) => {
            let mut answer = pin!(send_http1(&mut conn, request));
            let driven = |cx: &mut Context<'_>| conn.drive_for(cx, |cx| answer.as_mut().poll(cx));
            let response = std::future::poll_fn(driven).await.ok()?;
            Some((response, Conn::Http1(conn)))
        }
        Conn::Http2(mut sender) => {
            let (mut parts, body) = request.into_parts();
            parts.headers.remove(HOST);
            let scheme = if current.connector.is_encrypted() { "https" } else { "http" };
            parts.uri = format!("{scheme}://{}{path}", target.address).parse().ok()?;
            let response = send_http2(&mut sender, Request::from_parts(parts, body)).await.ok()?;
            Some((response, Conn::Http2(sender)))
        }
    }
}

/// Does something that needs to know who is to be woken.
async fn with_context<T>(act: impl FnOnce(&mut Context<'_>) -> T) -> T {
    let task: Waker = std::future::poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    act(&mut Context::from_waker(&task))
}
