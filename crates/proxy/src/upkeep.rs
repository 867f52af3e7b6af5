//! Periodic work of a proxy, on a thread of its own: ticks, health checks, load reports.
//!
//! A check asks a path, or connects where none is named. Each check makes a connection of its own:
//! one that was kept open would not notice a server that takes no new ones. Reports are fetched
//! the same way. Answers are foreign: only so much of them is read, in so much time.

use super::admin::AdminApi;
use super::client::Thread;
use super::core::{Current, Shared, Target};
use super::deadlines::TICK;
use super::proxy::Stop;
use super::report;
use super::upload::ReqBody;
use super::upstream::{Conn, Unanswered, reason, send_http1, send_http2};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::{HOST, USER_AGENT};
use hyper::{Request, Response};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thermocline_units::{Rng, SiteId};

/// Bytes of a report's body.
const REPORT_BYTES_MAX: usize = 4096;
/// Ticks between looks through the pools, the history, and lists of reports to fetch.
const SECOND_TICKS: u32 = 10;
/// Part of the interval by which reports are fetched sooner or later.
const JITTER: f64 = 0.1;

/// Runs until `cut`.
pub(super) fn run(
    shared: &Arc<Shared>,
    admin: &Arc<AdminApi>,
    threads: Vec<Arc<Thread>>,
    cut: &Stop,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // Requests are proxied all the same; nothing is checked.
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let mut stopped = cut.stopped();
        let mut work = pin!(keep(shared, admin, threads));
        std::future::poll_fn(|cx| {
            let _ = work.as_mut().poll(cx);
            Pin::new(&mut stopped).poll(cx)
        })
        .await;
    });
}

async fn keep(shared: &Arc<Shared>, admin: &Arc<AdminApi>, threads: Vec<Arc<Thread>>) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut due, mut ticks) = (Vec::new(), 0u32);
    let mut polls = Polls { rng: Rng::seeded(admin.next_seed()), next: Vec::new() };
    loop {
        interval.tick().await;
        shared.ticks.set();
        shared.dispatch(thermocline_balancer::Dispatcher::tick);
        let current = shared.current();
        for (site, target) in shared.checks_due(&mut due) {
            tokio::spawn(check(shared.clone(), current.clone(), site, target));
        }
        polls.fetch(shared, &current);
        ticks += 1;
        if ticks.is_multiple_of(SECOND_TICKS) {
            let targets = shared.targets();
            threads.iter().for_each(|thread| thread.pool.sweep(&current.live, &targets));
            admin.end_second();
        }
        admin.note_events();
    }
}

/// Checks one server, and tells the dispatcher.
async fn check(shared: Arc<Shared>, current: Arc<Current>, site: SiteId, target: Arc<Target>) {
    let work = async {
        let Some(path) = &current.live.check.path else {
            let made = current.connector.connect(&target).await;
            return made.map(drop).map_err(|error| format!("cannot be reached: {error}"));
        };
        let (response, _conn) = get(&current, &target, path).await?;
        let status = response.status().as_u16();
        if (200..400).contains(&status) { Ok(()) } else { Err(format!("answered {status}")) }
    };
    let limit = current.live.check.timeout;
    let late = |_| Err(format!("no answer within {limit:?}"));
    let result = tokio::time::timeout(limit, work).await.unwrap_or_else(late);
    let passed = result.is_ok();
    if let Err(why) = result {
        target.failed(why);
    }
    shared.dispatch(|dispatcher, now| {
        // It may have been removed, and its number given away.
        if dispatcher.site_of(&target.name) == Some(site) {
            dispatcher.checked(now, site, passed);
        }
    });
}

/// Asks a server for a path; `Err`: why it does not answer. The connection must be kept, and
/// driven, as long as the body is read.
async fn get(
    current: &Current,
    target: &Target,
    path: &str,
) -> Result<(Response<Incoming>, Option<Conn>), String> {
    let conn = current.connector.connect_http(target).await;
    let conn = conn.map_err(|error| format!("cannot be reached: {error}"))?;
    let broken = |error: Unanswered| reason(&error.into_error());
    let request = Request::get(path)
        .header(HOST, &target.address)
        .header(USER_AGENT, "thermocline-balance")
        .body(ReqBody::None)
        .map_err(|error| error.to_string())?;
    match conn {
        Conn::Http1(mut conn) => {
            let mut answer = pin!(send_http1(&mut conn, request));
            let answer =
                std::future::poll_fn(|cx| conn.drive_for(cx, |cx| answer.as_mut().poll(cx)));
            let response = answer.await.map_err(broken)?;
            Ok((response, Some(Conn::Http1(conn))))
        }
        Conn::Http2(mut sender) => {
            let (mut parts, body) = request.into_parts();
            parts.headers.remove(HOST);
            let scheme = if current.connector.is_encrypted() { "https" } else { "http" };
            let uri = format!("{scheme}://{}{path}", target.address);
            parts.uri = uri.parse().map_err(|_| format!("{uri} cannot be asked for"))?;
            let request = Request::from_parts(parts, body);
            let response = send_http2(&mut sender, request).await.map_err(broken)?;
            Ok((response, Some(Conn::Http2(sender))))
        }
    }
}

/// Times at which the reports of the servers are to be fetched next.
struct Polls {
    rng: Rng,
    next: Vec<(Arc<Target>, Instant)>,
}

impl Polls {
    fn fetch(&mut self, shared: &Arc<Shared>, current: &Arc<Current>) {
        let Some(poll) = &current.live.poll else {
            self.next.clear();
            return;
        };
        let (now, targets) = (Instant::now(), shared.targets());
        self.next.retain(|(target, _)| targets.iter().any(|other| Arc::ptr_eq(target, other)));
        for target in targets {
            let known = self.next.iter_mut().find(|(other, _)| Arc::ptr_eq(&target, other));
            let jitter = 1.0 - JITTER + 2.0 * JITTER * self.rng.unit_f64();
            let next = now + poll.interval.mul_f64(jitter);
            match known {
                Some((_, due)) if *due > now => continue,
                Some((_, due)) => *due = next,
                None => self.next.push((target.clone(), next)),
            }
            let timeout = poll.interval.max(Duration::from_millis(100));
            let work = fetch(shared.clone(), current.clone(), target, poll.path.clone());
            tokio::spawn(tokio::time::timeout(timeout, work));
        }
    }
}

/// Fetches one report; one that cannot be had is one that is missing.
async fn fetch(shared: Arc<Shared>, current: Arc<Current>, target: Arc<Target>, path: String) {
    let asked = Instant::now();
    let Ok((response, conn)) = get(&current, &target, &path).await else { return };
    let body = Limited::new(response.into_body(), REPORT_BYTES_MAX).collect();
    let mut body = pin!(body);
    let mut conn = conn;
    let bytes = std::future::poll_fn(|cx| match &mut conn {
        Some(Conn::Http1(conn)) => conn.drive_for(cx, |cx| body.as_mut().poll(cx)),
        _ => body.as_mut().poll(cx),
    });
    let Ok(bytes) = bytes.await else { return };
    let Ok(mut report) = report::from_json(&bytes.to_bytes()) else { return };
    // Half of the way there and back is the best guess of how long it has been known.
    report.age.0 += asked.elapsed().as_nanos() as u64 / 2;
    // What is refused is counted by the dispatcher.
    let _ = shared.reported(&target.name, &report);
}
