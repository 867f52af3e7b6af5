//! State that all threads of a proxy share: the dispatcher, the servers behind its numbers, and
//! requests that wait for a place.
//!
//! One lock guards the dispatcher; it is held for a few hundred nanoseconds at a time, never across
//! anything that waits. Whoever was placed holds a [`Sent`]: however its holder ends, the
//! dispatcher hears of it exactly once.

use super::access::Log;
use super::api::LastError;
use super::config::Live;
use super::crowd::Crowd;
use super::deadlines::Ticks;
use super::probing::{Answers, Probes};
use super::upstream::Connector;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use thermocline_balancer::{
    BackendSettings, Decision, Dispatcher, Event, Grant, LoadReport, Outcome, Probing, ReportError,
    Ticket,
};
use thermocline_units::{Nanos, SiteId};
use tokio::sync::oneshot;

/// A server, as connections need it.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) name: String,
    /// `HOST:PORT`.
    pub(super) address: String,
    /// The same, when the host is an address: nothing is to be looked up then.
    pub(super) literal: Option<SocketAddr>,
    last_error: Mutex<Option<LastError>>,
}

impl Target {
    fn new(name: &str, address: &str) -> Target {
        Target {
            name: name.to_string(),
            address: address.to_string(),
            literal: address.parse().ok(),
            last_error: Mutex::default(),
        }
    }

    /// Writes down why a request or a check failed there.
    pub(super) fn failed(&self, text: String) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let error = LastError { at_ms: now.as_millis() as u64, text };
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    /// The last failure of a request or a check there.
    pub(super) fn last_error(&self) -> Option<LastError> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Behind the lock.
struct Core {
    dispatcher: Dispatcher,
    /// Targets by number of site.
    targets: Vec<Option<Arc<Target>>>,
    waiting: BTreeMap<Ticket, oneshot::Sender<Option<Sent>>>,
}

/// Configuration that may change while the proxy runs, made ready.
pub(super) struct Current {
    pub(super) live: Live,
    pub(super) connector: Connector,
}

/// Counters beside those of the dispatcher.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) connections: AtomicU64,
    pub(super) accepted: AtomicU64,
    pub(super) bad_requests: AtomicU64,
    /// Connections that were closed at once: too many from one address.
    pub(super) refused: AtomicU64,
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
}

/// State that all threads share.
pub(super) struct Shared {
    core: Mutex<Core>,
    current: Mutex<Arc<Current>>,
    pub(super) ticks: Arc<Ticks>,
    pub(super) counts: Counts,
    pub(super) crowd: Arc<Crowd>,
    pub(super) probes: Probes,
    pub(super) log: Log,
    start: Instant,
}

/// Servers that are taken for new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renew {
    /// Those whose address changed.
    Changed,
    /// All: they are reached in another way now.
    All,
}

/// A request at a backend. Dropped without an outcome, it was given up.
pub(super) struct Sent {
    shared: Arc<Shared>,
    pub(super) site: SiteId,
    pub(super) target: Arc<Target>,
    pub(super) at: Nanos,
    told: bool,
}

/// A reason that a request has no backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoPlace {
    #[error("no server is there to answer")]
    Nowhere,
    #[error("all servers are busy, and too many requests wait already")]
    Full,
    #[error("all servers were busy for too long")]
    Late,
}

/// A request that waits for a place.
struct Waiting {
    shared: Arc<Shared>,
    ticket: Ticket,
    granted: oneshot::Receiver<Option<Sent>>,
}

/// Fate of a request that was to be placed.
enum Placed {
    At(Sent),
    Waits(Waiting),
}

/// Fate of a request that has just come.
enum Arrived {
    Placed(Result<Placed, NoPlace>),
    /// Its probes are to be answered first.
    Awaits(Answers),
}

impl Shared {
    pub(super) fn new(current: Current, dispatcher: Dispatcher, start: Instant) -> Arc<Shared> {
        let ticks = Arc::new(Ticks::new(start));
        let core = Core { dispatcher, targets: Vec::new(), waiting: BTreeMap::new() };
        Arc::new(Shared {
            core: Mutex::new(core),
            current: Mutex::new(Arc::new(current)),
            ticks,
            counts: Counts::default(),
            crowd: Arc::default(),
            probes: Probes::default(),
            log: Log::default(),
            start,
        })
    }

    /// Time since the start.
    pub(super) fn now(&self) -> Nanos {
        Nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Configuration in force.
    pub(super) fn current(&self) -> Arc<Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_current(&self, current: Current) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(current);
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        // A panic under the lock ends the process in release builds; tests may go on.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the dispatcher, and hands out what became of those who wait.
    pub(super) fn dispatch<T>(
        self: &Arc<Shared>,
        act: impl FnOnce(&mut Dispatcher, Nanos) -> T,
    ) -> T {
        let mut core = self.core();
        let done = act(&mut core.dispatcher, self.now());
        self.hand_out(core);
        done
    }

    fn hand_out(self: &Arc<Shared>, mut core: MutexGuard<'_, Core>) {
        if !core.dispatcher.has_grants() {
            return;
        }
        let mut grants: Vec<Grant> = Vec::new();
        core.dispatcher.take_grants(&mut grants);
        let mut answers = Vec::with_capacity(grants.len());
        for grant in grants {
            let waiter = core.waiting.remove(&grant.ticket).expect("who waits is known");
            answers.push((waiter, grant.site.map(|site| self.sent(&core, site, self.now()))));
        }
        // What a waiter that has gone away does not take is given back: that takes the lock.
        drop(core);
        for (waiter, sent) in answers {
            let _ = waiter.send(sent);
        }
    }

    fn sent(self: &Arc<Shared>, core: &Core, site: SiteId, now: Nanos) -> Sent {
        let target = core.targets[site.index()].clone().expect("a site that is up has a server");
        Sent { shared: self.clone(), site, target, at: now, told: false }
    }

    /// Has a server for each configured backend from now on. Connections to those that changed are
    /// not used again; to none of them, when `renew` says so.
    pub(super) fn configure(self: &Arc<Shared>, live: &Live, renew: Renew) {
        self.probes.set_on(live.probe.is_some());
        let mut core = self.core();
        let settings = live.backends.iter().map(|backend| BackendSettings {
            name: backend.name.clone(),
            weight: backend.weight,
            requests_max: backend.requests_max,
        });
        let now = self.now();
        core.dispatcher.configure(now, settings.collect());
        let slots = core.dispatcher.board().slots();
        core.targets.resize(slots, None);
        for backend in &live.backends {
            let site = core.dispatcher.site_of(&backend.name).expect("it has just been added");
            let place = &mut core.targets[site.index()];
            let same = |target: &Arc<Target>| {
                target.name == backend.name && target.address == backend.address
            };
            if renew == Renew::All || !place.as_ref().is_some_and(same) {
                *place = Some(Arc::new(Target::new(&backend.name, &backend.address)));
            }
        }
        self.hand_out(core);
    }

    /// The servers that are to be checked now.
    pub(super) fn checks_due(&self, due: &mut Vec<SiteId>) -> Vec<(SiteId, Arc<Target>)> {
        let mut core = self.core();
        due.clear();
        core.dispatcher.checks_due(self.now(), due);
        let of = |site: &SiteId| Some((*site, core.targets[site.index()].clone()?));
        due.iter().filter_map(of).collect()
    }

    /// All servers, with what they are called.
    pub(super) fn targets(&self) -> Vec<Arc<Target>> {
        let core = self.core();
        let there = |target: &Arc<Target>| core.dispatcher.site_of(&target.name).is_some();
        core.targets.iter().flatten().filter(|target| there(target)).cloned().collect()
    }

    /// A report of the backend of this name.
    pub(super) fn reported(
        self: &Arc<Shared>,
        name: &str,
        report: &LoadReport,
    ) -> Result<(), ReportError> {
        self.dispatch(|dispatcher, now| {
            let site = dispatcher.site_of(name).ok_or(ReportError::Unknown)?;
            dispatcher.reported(now, site, report)
        })
    }

    /// The events since the last call, appended to `out`.
    pub(super) fn take_events(&self, out: &mut Vec<Event>) {
        self.core().dispatcher.take_events(out);
    }

    /// Counts an arrival and places it, when it has been probed for.
    pub(super) async fn place_first(self: &Arc<Shared>) -> Result<Sent, NoPlace> {
        let placed = match self.arrive() {
            Arrived::Placed(placed) => placed,
            Arrived::Awaits(answers) => {
                let limit = self.current().live.probe.as_ref().map(|probe| probe.timeout);
                answers.come(limit.unwrap_or_default()).await;
                self.place(&mut self.core(), &[])
            }
        };
        match placed? {
            Placed::At(sent) => Ok(sent),
            Placed::Waits(waiting) => waiting.granted().await,
        }
    }

    /// Places a request that failed at `tried`, elsewhere.
    pub(super) async fn place_again(self: &Arc<Shared>, tried: &[SiteId]) -> Result<Sent, NoPlace> {
        let placed = self.place(&mut self.core(), tried);
        match placed? {
            Placed::At(sent) => Ok(sent),
            Placed::Waits(waiting) => waiting.granted().await,
        }
    }

    /// Counts an arrival, sends its probes, and places it unless it waits for them.
    fn arrive(self: &Arc<Shared>) -> Arrived {
        let mut core = self.core();
        core.dispatcher.arrived(self.now());
        let wanted = self.probes.wanted(&core.dispatcher);
        if wanted == Probing::Awaited
            && let Some(answers) = self.ask(&mut core, true)
        {
            return Arrived::Awaits(answers);
        }
        let placed = self.place(&mut core, &[]);
        if wanted == Probing::Aside {
            self.ask(&mut core, false);
        }
        Arrived::Placed(placed)
    }

    fn ask(&self, core: &mut Core, awaited: bool) -> Option<Answers> {
        let mut asked = Vec::new();
        core.dispatcher.probes(self.now(), &mut asked);
        let target = |site: SiteId| core.targets[site.index()].clone();
        self.probes.ask(asked, target, awaited)
    }

    fn place(self: &Arc<Shared>, core: &mut Core, tried: &[SiteId]) -> Result<Placed, NoPlace> {
        let now = self.now();
        match core.dispatcher.place(now, tried) {
            Decision::At(site) => Ok(Placed::At(self.sent(core, site, now))),
            Decision::Nowhere => Err(NoPlace::Nowhere),
            Decision::Full => self.wait(core, now).map(Placed::Waits),
        }
    }

    fn wait(self: &Arc<Shared>, core: &mut Core, now: Nanos) -> Result<Waiting, NoPlace> {
        let ticket = core.dispatcher.wait(now).ok_or(NoPlace::Full)?;
        let (grant, granted) = oneshot::channel();
        core.waiting.insert(ticket, grant);
        Ok(Waiting { shared: self.clone(), ticket, granted })
    }
}

impl Waiting {
    async fn granted(mut self) -> Result<Sent, NoPlace> {
        match (&mut self.granted).await {
            Ok(Some(sent)) => Ok(sent),
            Ok(None) | Err(_) => Err(NoPlace::Late),
        }
    }
}

impl Drop for Waiting {
    /// Waits no longer. What was granted meanwhile is dropped with the channel, which gives it
    /// back.
    fn drop(&mut self) {
        let mut core = self.shared.core();
        if core.dispatcher.withdraw(self.ticket) {
            core.waiting.remove(&self.ticket);
        }
    }
}

impl Sent {
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Takes note that it was answered: well, or with an error of the server's.
    pub(super) fn answered(mut self, status: u16) {
        // 501 and 505 say something of the request, not of the server.
        let failed = status >= 500 && status != 501 && status != 505;
        if failed {
            self.target.failed(format!("answered {status}"));
        }
        self.tell(|took| if failed { Outcome::ServerError } else { Outcome::Served(took) });
    }

    /// Takes note that it served its purpose.
    pub(super) fn served(mut self) {
        self.tell(Outcome::Served);
    }

    /// Tells what became of it.
    pub(super) fn finish(mut self, outcome: Outcome) {
        self.tell(|_| outcome);
    }

    /// Tells what became of it, by how long it took.
    fn tell(&mut self, outcome: impl FnOnce(Nanos) -> Outcome) {
        self.told = true;
        let (site, at) = (self.site, self.at);
        self.shared.dispatch(|dispatcher, now| {
            dispatcher.finished(now, site, outcome(now.saturating_sub(at)));
        });
    }

    /// Counts something that this proxy moved.
    pub(super) fn count(&self, bytes_in: u64, bytes_out: u64) {
        self.shared.counts.bytes_in.fetch_add(bytes_in, Relaxed);
        self.shared.counts.bytes_out.fetch_add(bytes_out, Relaxed);
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if !self.told {
            self.tell(|_| Outcome::ClientFailed);
        }
    }
}
