//! Views of a running balancer, and requests to it, for an administrator.

use super::api::{
    BackendCounters, BackendSecond, BackendStatus, BalanceSecond, BalanceStatus, LastError,
    ReportStatus,
};
use super::core::Shared;
use super::report::LoadReportJson;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thermocline_admin::api::{Event, Latency, Refused, Severity, Tactic};
use thermocline_admin::past::{Events, Seconds};
use thermocline_balancer::{self as balancer, Dispatcher};
use thermocline_units::{Latencies, Nanos, SiteId, nearest};

/// The administrator's side of a balancer.
pub struct AdminApi {
    pub(super) shared: Arc<Shared>,
    seed: AtomicU64,
    past: Mutex<Past>,
    addresses: Mutex<Vec<String>>,
}

/// The past that is remembered.
#[derive(Default)]
struct Past {
    seconds: Seconds<BalanceSecond>,
    events: Events,
    arrived: u64,
    /// Totals of each backend at the end of the last second, by its identity: a name may be another
    /// backend's by now.
    before: BTreeMap<u64, (BackendCounters, Latencies)>,
}

fn micros(nanos: Nanos) -> f64 {
    nanos.0 as f64 / 1e3
}

impl AdminApi {
    pub(super) fn new(shared: Arc<Shared>, seed: u64) -> AdminApi {
        AdminApi {
            shared,
            seed: AtomicU64::new(seed),
            past: Mutex::default(),
            addresses: Mutex::default(),
        }
    }

    /// A seed that has not been given away yet.
    pub(super) fn next_seed(&self) -> u64 {
        self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed)
    }

    pub(super) fn set_addresses(&self, addresses: Vec<String>) {
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn raw(&self) -> balancer::Status {
        self.shared.dispatch(|dispatcher, now| dispatcher.status(now))
    }

    /// Everything at a glance.
    pub fn status(&self) -> BalanceStatus {
        self.told(&self.raw())
    }

    /// The same, and all latencies by backend.
    pub(super) fn figures(&self) -> (BalanceStatus, Vec<Latencies>) {
        let raw = self.raw();
        let status = self.told(&raw);
        (status, raw.backends.into_iter().map(|backend| backend.latencies).collect())
    }

    fn told(&self, raw: &balancer::Status) -> BalanceStatus {
        let counts = &self.shared.counts;
        let in_force = raw.tactics.iter().map(|(kind, name)| (*kind, name.as_str()));
        BalanceStatus {
            uptime_seconds: self.shared.now().as_secs_f64(),
            listen: self.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            policy: self.shared.current().live.policy.clone(),
            bursting: raw.mood.bursting,
            candidates: raw.mood.candidates,
            balancers: raw.balancers,
            panic: raw.panic,
            connections: counts.connections.load(Relaxed),
            accepted: counts.accepted.load(Relaxed),
            connections_refused: counts.refused.load(Relaxed),
            requests: raw.arrived,
            waiting: raw.waiting,
            turned_away: raw.turned_away,
            bad_requests: counts.bad_requests.load(Relaxed),
            retries_denied: raw.retries_denied,
            sent_bytes: counts.bytes_out.load(Relaxed),
            probes: self.shared.probes.counts.status(),
            log_lines_dropped: self.shared.log.dropped(),
            tactics: Tactic::in_force(in_force, &raw.disagreements),
            backends: self.backends(raw),
        }
    }

    fn backends(&self, raw: &balancer::Status) -> Vec<BackendStatus> {
        let targets = self.shared.targets();
        let error = |name: &str| {
            let target = targets.iter().find(|target| target.name == name)?;
            target.last_error()
        };
        raw.backends.iter().map(|status| backend(status, error(&status.name))).collect()
    }

    /// The last five minutes from second `from` on.
    pub fn history(&self, from: u64) -> Vec<BalanceSecond> {
        self.past().seconds.from(from)
    }

    /// The last thousand events from number `from` on.
    pub fn events(&self, from: u64) -> Vec<Event> {
        self.past().events.from(from)
    }

    /// Sends a backend nothing new.
    ///
    /// # Errors
    /// When there is no backend of this name.
    pub fn drain(&self, name: &str) -> Result<BackendStatus, Refused> {
        self.change(name, Dispatcher::drain)
    }

    /// Lets a backend have requests again.
    ///
    /// # Errors
    /// When there is no backend of this name.
    pub fn undrain(&self, name: &str) -> Result<BackendStatus, Refused> {
        self.change(name, Dispatcher::undrain)
    }

    fn change(
        &self,
        name: &str,
        act: fn(&mut Dispatcher, Nanos, SiteId),
    ) -> Result<BackendStatus, Refused> {
        let is_there = self.shared.dispatch(|dispatcher, now| {
            dispatcher.site_of(name).map(|site| act(dispatcher, now, site))
        });
        let status = self.status();
        let changed = status.backends.iter().find(|backend| backend.name == name).cloned();
        is_there.and(changed).ok_or_else(|| missing(name, &status))
    }

    /// Takes a load report from somebody who looks after a backend.
    ///
    /// # Errors
    /// When there is no such backend, or the report cannot be used.
    pub fn report(&self, name: &str, report: &LoadReportJson) -> Result<(), Refused> {
        let report = report.report().map_err(Refused::invalid)?;
        self.shared.reported(name, &report).map_err(|error| match error {
            balancer::ReportError::Unknown => missing(name, &self.status()),
            error => Refused::invalid(error),
        })
    }

    /// Writes down what the dispatcher says has happened.
    pub(super) fn note_events(&self) {
        let mut fresh = Vec::new();
        self.shared.take_events(&mut fresh);
        let targets = if fresh.is_empty() { Vec::new() } else { self.shared.targets() };
        for event in fresh {
            let (severity, subject, mut text) = sentence(&event);
            let is_bad = matches!(event, balancer::Event::Ejected(..) | balancer::Event::Failed(_));
            let target = targets.iter().find(|target| is_bad && target.name == subject);
            if let Some(error) = target.and_then(|target| target.last_error()) {
                text = format!("{text}; the last one: {}", error.text);
            }
            self.note(severity, subject, text);
        }
    }

    /// Writes down that something happened.
    pub fn note(&self, severity: Severity, subject: &str, text: String) {
        self.past().events.note(severity, subject, text);
    }

    /// Ends a second of the history.
    pub(super) fn end_second(&self) {
        let raw = self.raw();
        let mut past = self.past();
        let mut before = std::mem::take(&mut past.before);
        let mut seconds = Vec::new();
        for status in raw.backends {
            let counters = counters(&status.counters);
            let (old, earlier) = before.remove(&status.identity).unwrap_or_default();
            let fresh = status.latencies.since(&earlier);
            seconds.push(BackendSecond {
                name: status.name.clone(),
                sent: counters.sent - old.sent,
                failed: failures(&counters) - failures(&old),
                outstanding: status.outstanding,
                queue: status.reported_queue,
                p50_us: micros(fresh.quantile(0.5)),
                p99_us: micros(fresh.quantile(0.99)),
            });
            past.before.insert(status.identity, (counters, status.latencies));
        }
        let second = BalanceSecond {
            number: past.seconds.number(),
            requests: raw.arrived - past.arrived,
            bursting: raw.mood.bursting,
            candidates: raw.mood.candidates,
            backends: seconds,
        };
        past.arrived = raw.arrived;
        past.seconds.end(second);
    }
}

fn missing(name: &str, status: &BalanceStatus) -> Refused {
    let names = status.backends.iter().map(|backend| backend.name.as_str());
    let hint = match nearest(name, names.clone()) {
        Some(like) => format!("did you mean `{like}`?"),
        None => format!("there are {}", names.collect::<Vec<_>>().join(", ")),
    };
    Refused::missing(format!("there is no backend `{name}`; {hint}"))
}

fn failures(counters: &BackendCounters) -> u64 {
    counters.errors + counters.unreachable + counters.broken + counters.timed_out
}

fn backend(status: &balancer::BackendStatus, last_error: Option<LastError>) -> BackendStatus {
    let report = status.reported_queue.zip(status.report_age);
    BackendStatus {
        name: status.name.clone(),
        state: status.state.name().to_string(),
        weight: status.weight,
        share: status.share,
        outstanding: status.outstanding,
        requests_max: (status.requests_max < u32::MAX).then_some(status.requests_max),
        report: report.map(|(queue, age)| ReportStatus { queue, age_s: age.as_secs_f64() }),
        last_error,
        counters: counters(&status.counters),
        latency: Latency::from(&status.latencies),
    }
}

fn counters(counters: &balancer::Counters) -> BackendCounters {
    BackendCounters {
        sent: counters.sent,
        served: counters.served,
        errors: counters.errors,
        unreachable: counters.unreachable,
        broken: counters.broken,
        timed_out: counters.timed_out,
        abandoned: counters.abandoned,
        declined: counters.declined,
        retried: counters.retried,
        ejections: counters.ejections,
        reports: counters.reports,
        reports_refused: counters.reports_refused,
    }
}

/// Importance of an event, its subject, and a sentence about it.
fn sentence(event: &balancer::Event) -> (Severity, &str, String) {
    use balancer::Event as E;
    match event {
        E::Added(name) => (Severity::Info, name, "added".to_string()),
        E::Removed(name) => {
            (Severity::Info, name, "removed; requests under way finish".to_string())
        }
        E::Ejected(name, time) => {
            (Severity::Warning, name, format!("requests failed there: left alone for {time}"))
        }
        E::Returned(name) => (Severity::Info, name, "is tried again".to_string()),
        E::Passed(name) => (Severity::Info, name, "checks pass".to_string()),
        E::Failed(name) => (Severity::Warning, name, "checks fail".to_string()),
        E::Draining(name) => (Severity::Info, name, "gets nothing new".to_string()),
        E::Drained(name) => (Severity::Info, name, "has nothing left".to_string()),
        E::Undrained(name) => (Severity::Info, name, "gets requests again".to_string()),
        E::Silenced(name) => {
            let text = "reported queues that cannot be; its reports are not used for a while";
            (Severity::Warning, name, text.to_string())
        }
        E::Panic => (Severity::Error, "balancer", "no backend is fit: all are tried".to_string()),
        E::Calm => (Severity::Info, "balancer", "some backends are fit again".to_string()),
    }
}

#[cfg(test)]
mod tests;
