//! The machine: a balancer, what keeps backends from it, and requests on their way through.
//!
//! The way of a request
//! 1. [`Dispatcher::arrived`], once.
//! 2. [`Dispatcher::place`]: a backend, which counts as sent there from then on. When all are at
//!    their limits, [`Dispatcher::wait`] for a [`Grant`].
//! 3. [`Dispatcher::finished`], once for each decision, with what became of it.
//! 4. After a failure, [`Dispatcher::retry`] asks whether it may be placed again, with those tried.
//!
//! Whatever changes who is fit goes through `refit`, which is the only place that tells the
//! balancer of standings and weights. Placing takes what the rule takes, and O(N) when there are
//! limits.

mod probing;

pub use probing::Asked;

use crate::backend::{Backend, State};
use crate::event::Event;
use crate::memory::Memory;
use crate::queue::{Grant, Queue, Ticket};
use crate::reports::{LoadReport, ReportError};
use crate::settings::{BACKENDS_MAX, BackendSettings, Settings};
use crate::status::{BackendStatus, Status};
use thermocline_policy::balance::fitness::{RetryBudget, Window};
use thermocline_policy::balance::{Balancer, Board, Mood, Report, Rule, Standing};
use thermocline_units::{Nanos, Rng, SiteId};

/// Events kept for whoever asks; more are dropped.
const EVENTS_MAX: usize = 1024;

/// The decision on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Sent to this backend; it counts as sent.
    At(SiteId),
    /// All that it could go to are at their limits, or others wait already.
    Full,
    /// There is none that it could go to.
    Nowhere,
}

/// The outcome of a request at a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Answered, in this time.
    Served(Nanos),
    /// Answered with an error of the server's (HTTP 500 and above).
    ServerError,
    /// No connection could be made.
    Unreachable,
    /// The connection broke, or what came was no answer.
    Broken,
    /// Not answered in time.
    TimedOut,
    /// The client gave it up, or sent a body that broke off, stalled or was no HTTP: no fault of
    /// the backend's.
    ClientFailed,
    /// The backend declined it before doing anything (HTTP/2's REFUSED_STREAM): it may be tried
    /// elsewhere, and is no failure.
    Declined,
}

impl Outcome {
    /// Returns true if the backend is to blame.
    fn is_failure(self) -> bool {
        match self {
            Outcome::Served(_) | Outcome::ClientFailed | Outcome::Declined => false,
            Outcome::ServerError | Outcome::Unreachable | Outcome::Broken | Outcome::TimedOut => {
                true
            }
        }
    }
}

/// Dispatches requests to backends.
///
/// ```
/// use thermocline_balancer::{BackendSettings, Dispatcher, Outcome, Decision, Settings};
/// use thermocline_policy::registry::PolicySpec;
/// use thermocline_units::Nanos;
///
/// let rule = PolicySpec::parse("round-robin").unwrap().build_rule().unwrap();
/// let mut dispatcher = Dispatcher::new(Nanos(0), Settings::default(), rule, 1);
/// let backend = |name: &str| BackendSettings {
///     name: name.to_string(),
///     weight: 1.0,
///     requests_max: 1,
/// };
/// dispatcher.configure(Nanos(0), vec![backend("a"), backend("b")]);
/// dispatcher.arrived(Nanos(0));
/// let Decision::At(site) = dispatcher.place(Nanos(0), &[]) else { panic!("both are free") };
/// dispatcher.finished(Nanos(5_000), site, Outcome::Served(Nanos(5_000)));
/// assert_eq!(dispatcher.board().site(site).outstanding(), 0);
/// ```
pub struct Dispatcher {
    settings: Settings,
    balancer: Balancer,
    /// Backends by number of site.
    backends: Vec<Backend>,
    /// Backends that were ever added.
    added: u64,
    /// True if a backend has a limit.
    is_limited: bool,
    panic: bool,
    queue: Queue,
    retries: RetryBudget,
    rng: Rng,
    window_end: Nanos,
    grants: Vec<Grant>,
    events: Vec<Event>,
    /// Sites that a pick must not take; its room is kept.
    hidden: Vec<SiteId>,
    /// Sites to probe; its room is kept.
    asked: Vec<SiteId>,
    arrived: u64,
    turned_away: u64,
    retries_denied: u64,
}

impl Dispatcher {
    /// A dispatcher without backends. Each of several before the same backends needs a seed of its
    /// own: otherwise all pick alike.
    pub fn new(now: Nanos, settings: Settings, rule: Box<dyn Rule>, seed: u64) -> Dispatcher {
        Dispatcher {
            retries: RetryBudget::new(now, settings.retry_floor_per_s),
            window_end: Nanos(now.0 + settings.outliers.interval.0),
            settings,
            balancer: Balancer::new(rule, seed),
            backends: Vec::new(),
            added: 0,
            is_limited: false,
            panic: false,
            queue: Queue::default(),
            rng: Rng::seeded(!seed),
            grants: Vec::new(),
            events: Vec::new(),
            hidden: Vec::new(),
            asked: Vec::new(),
            arrived: 0,
            turned_away: 0,
            retries_denied: 0,
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The facts that the balancer knows.
    pub fn board(&self) -> &Board {
        self.balancer.board()
    }

    /// The rule's judgement of the arrivals.
    pub fn mood(&self) -> Mood {
        self.balancer.mood()
    }

    /// The backend of this name.
    pub fn site_of(&self, name: &str) -> Option<SiteId> {
        let is_it = |backend: &Backend| !backend.gone && backend.settings.name == name;
        self.backends.iter().position(is_it).map(|slot| SiteId(slot as u16))
    }

    /// Behaves differently from now on.
    pub fn set_settings(&mut self, now: Nanos, settings: Settings) {
        self.settings = settings;
        self.refit(now);
    }

    /// Gives the picks to another rule. Facts but for outstanding requests are lost.
    pub fn set_rule(&mut self, now: Nanos, rule: Box<dyn Rule>, seed: u64) {
        let mut balancer = Balancer::new(rule, seed);
        for slot in 0..self.backends.len() {
            let old = self.board().site(SiteId(slot as u16));
            let (weight, outstanding) = (old.weight(), old.outstanding());
            let site = balancer.add_site(weight);
            assert_eq!(site.index(), slot, "sites are numbered from 0 on");
            (0..outstanding).for_each(|_| balancer.dispatched(now, site));
        }
        for slot in 0..self.backends.len() {
            let site = SiteId(slot as u16);
            balancer.set_standing(site, self.board().site(site).standing());
        }
        self.balancer = balancer;
    }

    /// Has these backends from now on: those of a name that is there keep what is known of them,
    /// others are added, and what is not in the list is removed; its requests finish.
    ///
    /// # Panics
    /// When two have the same name, a weight is not above 0, or there are more than 4,096.
    pub fn configure(&mut self, now: Nanos, backends: Vec<BackendSettings>) {
        assert!(backends.len() <= BACKENDS_MAX, "more backends than can be told apart");
        for slot in 0..self.backends.len() {
            let stays = backends.iter().any(|new| new.name == self.backends[slot].settings.name);
            if !stays && !self.backends[slot].gone {
                self.backends[slot].gone = true;
                self.say(Event::Removed(self.backends[slot].settings.name.clone()));
            }
        }
        for (place, new) in backends.iter().enumerate() {
            assert!(new.weight.is_finite() && new.weight > 0.0, "a weight is above 0");
            let again = backends[..place].iter().any(|other| other.name == new.name);
            assert!(!again, "two backends are called {}", new.name);
            match self.site_of(&new.name) {
                Some(site) => self.backends[site.index()].settings = new.clone(),
                None => self.add(now, new),
            }
        }
        let limited = |backend: &Backend| backend.settings.requests_max < u32::MAX;
        self.is_limited = self.backends.iter().any(limited);
        let there = self.backends.iter().filter(|backend| !backend.gone).count();
        assert_eq!(there, backends.len(), "those are there that were asked for");
        self.refit(now);
        self.serve_queue(now);
    }

    fn add(&mut self, now: Nanos, settings: &BackendSettings) {
        // A number is given again only when everything sent to its last site has come back; until
        // then the balancer must know that the site is gone.
        self.tell_standings();
        let site = self.balancer.add_site(settings.weight);
        self.added += 1;
        let backend = Backend::new(now, self.added, settings.clone());
        match self.backends.get_mut(site.index()) {
            Some(free) => {
                assert!(free.gone, "the place of one that is there is given to another");
                assert_eq!(free.counters.sent, free.counters.ended(), "all has come back");
                *free = backend;
            }
            None => self.backends.push(backend),
        }
        assert_eq!(self.backends.len(), self.board().slots(), "each site has a backend");
        self.say(Event::Added(settings.name.clone()));
    }

    /// Knowledge for a dispatcher that takes over, of the backends that there is some of.
    pub fn memories(&self, now: Nanos) -> Vec<Memory> {
        let there = self.backends.iter().filter(|backend| !backend.gone);
        there.map(|backend| backend.memory(now)).filter(Memory::tells).collect()
    }

    /// Goes on from what the dispatcher before has known; backends that are not here are passed
    /// over. To be called once, at the start.
    pub fn remember(&mut self, now: Nanos, memories: &[Memory]) {
        assert_eq!(self.board().sent(), 0, "memories are told before the first request");
        for memory in memories {
            if let Some(site) = self.site_of(&memory.name) {
                self.backends[site.index()].remember(now, memory, &self.settings);
            }
        }
        self.refit(now);
    }

    /// Sends a backend nothing new.
    ///
    /// # Panics
    /// As for [`Board::site`].
    pub fn drain(&mut self, now: Nanos, site: SiteId) {
        let backend = &mut self.backends[site.index()];
        if !std::mem::replace(&mut backend.draining, true) {
            let name = backend.settings.name.clone();
            self.say(Event::Draining(name.clone()));
            self.refit(now);
            let gone = self.backends[site.index()].gone;
            let expected = if gone { Standing::Vacant } else { Standing::Draining };
            assert_eq!(self.board().site(site).standing(), expected, "nothing new goes there");
            if self.board().site(site).outstanding() == 0 {
                self.say(Event::Drained(name));
            }
        }
    }

    /// Lets a backend have requests again.
    ///
    /// # Panics
    /// As for [`Board::site`].
    pub fn undrain(&mut self, now: Nanos, site: SiteId) {
        let backend = &mut self.backends[site.index()];
        if std::mem::replace(&mut backend.draining, false) {
            let name = backend.settings.name.clone();
            self.say(Event::Undrained(name));
            self.refit(now);
            assert_ne!(self.board().site(site).standing(), Standing::Draining, "it is let in");
            self.serve_queue(now);
        }
    }

    /// A request has come.
    pub fn arrived(&mut self, now: Nanos) {
        self.arrived += 1;
        self.retries.arrived(self.settings.retry_share, self.settings.retry_floor_per_s);
        self.balancer.arrived(now);
    }

    /// A backend that the request has not tried.
    pub fn place(&mut self, now: Nanos, tried: &[SiteId]) -> Decision {
        let sent = self.board().sent();
        if !self.queue.is_empty() && tried.is_empty() {
            return Decision::Full; // those who wait were first
        }
        let decision = self.pick(now, tried);
        let placed = u64::from(matches!(decision, Decision::At(_)));
        assert_eq!(self.board().sent(), sent + placed, "what is placed is sent, and once");
        decision
    }

    fn pick(&mut self, now: Nanos, tried: &[SiteId]) -> Decision {
        let mut is_full = false;
        self.hidden.clear();
        self.hidden.extend_from_slice(tried);
        if self.is_limited {
            let board = self.balancer.board();
            for id in board.up() {
                let limit = self.backends[id.index()].settings.requests_max;
                if board.site(*id).outstanding() >= limit && !tried.contains(id) {
                    self.hidden.push(*id);
                    is_full = true;
                }
            }
        }
        match self.balancer.pick(now, &self.hidden) {
            Some(site) => {
                self.balancer.dispatched(now, site);
                let outstanding = self.board().site(site).outstanding();
                let backend = &mut self.backends[site.index()];
                backend.counters.sent += 1;
                assert!(backend.is_wanted(), "nothing goes to who is taken out");
                assert!(outstanding <= backend.settings.requests_max, "the limit holds");
                Decision::At(site)
            }
            None if is_full => Decision::Full,
            None => Decision::Nowhere,
        }
    }

    /// Waits for a place. `None`: too many wait already, or there is no patience.
    pub fn wait(&mut self, now: Nanos) -> Option<Ticket> {
        let patience = self.settings.queue_patience.0;
        if self.queue.len() >= self.settings.queue_max as usize || patience == 0 {
            self.turned_away += 1;
            return None;
        }
        let ticket = self.queue.push(Nanos(now.0.saturating_add(patience)));
        assert!(self.queue.len() <= self.settings.queue_max as usize, "no more wait than may");
        Some(ticket)
    }

    /// Waits no longer; `false` when there is a grant already.
    pub fn withdraw(&mut self, ticket: Ticket) -> bool {
        self.queue.withdraw(ticket)
    }

    /// Appends the fate of requests that waited to `out`.
    pub fn take_grants(&mut self, out: &mut Vec<Grant>) {
        out.append(&mut self.grants);
    }

    /// True if there are grants to take.
    pub fn has_grants(&self) -> bool {
        !self.grants.is_empty()
    }

    /// Appends the events since the last call to `out`.
    pub fn take_events(&mut self, out: &mut Vec<Event>) {
        out.append(&mut self.events);
    }

    /// True if a request that failed `done` times may be tried once more; takes it from the budget.
    pub fn retry(&mut self, now: Nanos, done: u32, failed_at: SiteId) -> bool {
        assert!(done > 0, "what is tried again has failed");
        if done > self.settings.retries_max {
            return false;
        }
        let Settings { retry_floor_per_s, tactics, .. } = &self.settings;
        let allowed = self.retries.take(now, *retry_floor_per_s, &tactics.retries);
        if allowed {
            self.backends[failed_at.index()].counters.retried += 1;
        } else {
            self.retries_denied += 1;
        }
        allowed
    }

    /// Takes note of the outcome of a request that was placed at `site`.
    ///
    /// # Panics
    /// When more come back from a backend than were placed there.
    pub fn finished(&mut self, now: Nanos, site: SiteId, outcome: Outcome) {
        let latency = match outcome {
            Outcome::Served(latency) => Some(latency),
            _ => None,
        };
        self.balancer.completed(now, site, latency);
        let stands_out = self.count(site, outcome);
        let rest = self.board().site(site);
        let counters = &self.backends[site.index()].counters;
        let open = counters.sent - counters.ended();
        assert_eq!(open, u64::from(rest.outstanding()), "what was placed ends exactly once");
        if rest.outstanding() == 0 {
            match rest.standing() {
                Standing::Up => self.balancer.idle(now, site),
                Standing::Draining => {
                    self.say(Event::Drained(self.backends[site.index()].settings.name.clone()));
                }
                Standing::Down | Standing::Vacant => {}
            }
        }
        if stands_out {
            self.eject(now, site);
        }
        self.serve_queue(now);
    }

    /// Counts an outcome; `true` when the backend has failed too often in a row.
    fn count(&mut self, site: SiteId, outcome: Outcome) -> bool {
        let backend = &mut self.backends[site.index()];
        let counters = &mut backend.counters;
        let counter = match outcome {
            Outcome::Served(latency) => {
                backend.latencies.record(latency);
                &mut counters.served
            }
            Outcome::ServerError => &mut counters.errors,
            Outcome::Unreachable => &mut counters.unreachable,
            Outcome::Broken => &mut counters.broken,
            Outcome::TimedOut => &mut counters.timed_out,
            Outcome::ClientFailed => &mut counters.abandoned,
            Outcome::Declined => &mut counters.declined,
        };
        *counter += 1;
        assert_eq!(backend.latencies.count(), counters.served, "what is served took its time");
        assert!(counters.ended() <= counters.sent, "no more ends than was sent");
        if let Outcome::Served(_) = outcome {
            backend.record.served();
        }
        let Settings { outliers, tactics, .. } = &self.settings;
        outcome.is_failure() && backend.record.failed(outliers, &tactics.ejection)
    }

    /// Leaves a backend alone for a while, if so many may be.
    fn eject(&mut self, now: Nanos, site: SiteId) {
        let wanted = self.backends.iter().filter(|backend| backend.is_wanted()).count();
        let is_out =
            |backend: &&Backend| backend.is_wanted() && backend.record.out_until().is_some();
        let out = self.backends.iter().filter(is_out).count();
        let percent = usize::from(self.settings.outliers.ejected_percent_max);
        let most = if percent == 0 || wanted < 2 { 0 } else { (wanted * percent / 100).max(1) };
        let backend = &mut self.backends[site.index()];
        if out >= most || !backend.is_fit(&self.settings) {
            return;
        }
        let Settings { outliers, tactics, .. } = &self.settings;
        let until = backend.record.eject(now, outliers, &tactics.ejection);
        backend.counters.ejections += 1;
        let name = backend.settings.name.clone();
        self.say(Event::Ejected(name, until.saturating_sub(now)));
        self.refit(now);
        let out = self.backends.iter().filter(is_out).count();
        assert!((1..=most).contains(&out), "no more are out than may be");
        let standing = self.board().site(site).standing();
        assert!(standing != Standing::Up || self.panic, "it is left alone, unless all are tried");
    }

    /// A backend has reported.
    ///
    /// # Errors
    /// When the report cannot be used; nothing has changed then.
    pub fn reported(
        &mut self,
        now: Nanos,
        site: SiteId,
        report: &LoadReport,
    ) -> Result<(), ReportError> {
        let age_max = self.settings.report_age_max;
        let backend = self.backends.get_mut(site.index()).filter(|backend| !backend.gone);
        let backend = backend.ok_or(ReportError::Unknown)?;
        let report = backend.trust.admit(now, report, age_max);
        let report = report.inspect_err(|_| backend.counters.reports_refused += 1)?;
        self.balancer.reported(now, site, report);
        // Of what is outstanding, that which had been sent before the report was made.
        let known = self.board().site(site);
        let own = u64::from(known.outstanding()).saturating_sub(known.unseen()) as u32;
        let is_true = report.queue >= own;
        if !is_true {
            self.balancer.reported(now, site, Report { queue: own, ..report });
        }
        let believed = self.board().site(site).queue();
        assert!(believed >= own, "what waits there is counted, whatever it told");
        self.judge(now, site, is_true);
        Ok(())
    }

    /// Counts whether what a backend told was true.
    fn judge(&mut self, now: Nanos, site: SiteId, is_true: bool) {
        let backend = &mut self.backends[site.index()];
        assert!(!backend.gone, "who is gone tells nothing");
        backend.counters.reports += u64::from(is_true);
        backend.counters.reports_refused += u64::from(!is_true);
        if backend.trust.judge(now, is_true) {
            self.say(Event::Silenced(self.backends[site.index()].settings.name.clone()));
        }
    }

    /// Backends that are to be checked now, appended to `out`; each is due again an interval later.
    pub fn checks_due(&mut self, now: Nanos, out: &mut Vec<SiteId>) {
        let Some(checks) = &self.settings.checks else { return };
        for (slot, backend) in self.backends.iter_mut().enumerate() {
            if !backend.gone && backend.health.take_due(now, checks, &mut self.rng) {
                let standing = self.balancer.board().site(SiteId(slot as u16)).standing();
                assert_ne!(standing, Standing::Vacant, "who is gone is not checked");
                out.push(SiteId(slot as u16));
            }
        }
    }

    /// A check has ended.
    ///
    /// # Panics
    /// As for [`Board::site`].
    pub fn checked(&mut self, now: Nanos, site: SiteId, passed: bool) {
        let Some(checks) = &self.settings.checks else { return };
        let backend = &mut self.backends[site.index()];
        if backend.gone || !backend.health.checked(passed, checks) {
            return;
        }
        assert_eq!(backend.health.fit(), Some(passed), "what changed a verdict is the verdict");
        let name = backend.settings.name.clone();
        self.say(if passed { Event::Passed(name) } else { Event::Failed(name) });
        self.refit(now);
        self.serve_queue(now);
    }

    /// Lets time pass: to be called ten times a second or more often.
    pub fn tick(&mut self, now: Nanos) {
        let heard = self.queue.len() + self.grants.len();
        while let Some(ticket) = self.queue.pop_late(now) {
            self.turned_away += 1;
            self.grants.push(Grant { ticket, site: None });
        }
        assert_eq!(self.queue.len() + self.grants.len(), heard, "who stops waiting hears of it");
        if now >= self.window_end {
            self.end_window(now);
        }
        for slot in 0..self.backends.len() {
            if self.backends[slot].record.return_if_due(now) {
                self.say(Event::Returned(self.backends[slot].settings.name.clone()));
            }
        }
        let late = |backend: &Backend| backend.record.out_until().is_some_and(|until| until <= now);
        debug_assert!(!self.backends.iter().any(late), "who was out long enough is back");
        self.refit(now);
        self.serve_queue(now);
    }

    /// Judges backends by their shares of failures, and begins a new window.
    fn end_window(&mut self, now: Nanos) {
        self.window_end = Nanos(now.0 + self.settings.outliers.interval.0);
        assert!(self.window_end >= now, "windows follow each other");
        let mut all = Window::default();
        self.backends.iter().for_each(|backend| all.add(backend.record.window()));
        for slot in 0..self.backends.len() {
            let Settings { outliers, tactics, .. } = &self.settings;
            if self.backends[slot].record.stands_out(all, outliers, &tactics.ejection) {
                self.eject(now, SiteId(slot as u16));
            }
        }
        self.backends.iter_mut().for_each(|backend| backend.record.begin_window());
        let counted = |backend: &Backend| backend.record.window() != Window::default();
        debug_assert!(!self.backends.iter().any(counted), "a window counts from 0");
    }

    /// Places requests that wait, while there are places.
    fn serve_queue(&mut self, now: Nanos) {
        let heard = self.queue.len() + self.grants.len();
        while !self.queue.is_empty() {
            let Decision::At(site) = self.pick(now, &[]) else { break };
            let ticket = self.queue.pop().expect("it is not empty");
            self.grants.push(Grant { ticket, site: Some(site) });
        }
        assert_eq!(self.queue.len() + self.grants.len(), heard, "who stops waiting hears of it");
    }

    /// Looks at every backend anew, and tells the balancer who is fit, and for how much.
    fn refit(&mut self, now: Nanos) {
        let steady = self.backends.iter().any(|backend| {
            let long = |since| now.saturating_sub(since) >= self.settings.slow_start;
            backend.fit_since.is_some_and(long) && backend.is_fit(&self.settings)
        });
        let mut is_any_fit = false;
        for backend in &mut self.backends {
            let is_fit = backend.is_fit(&self.settings);
            is_any_fit |= is_fit;
            match (backend.fit_since, is_fit) {
                (None, true) => {
                    backend.fit_since = Some(now);
                    // Where nobody has been there for long, all begin together.
                    if steady {
                        backend.slow_start.begin(now, self.settings.slow_start);
                    }
                }
                (Some(_), false) => backend.fit_since = None,
                _ => {}
            }
        }
        let is_any_wanted = self.backends.iter().any(Backend::is_wanted);
        let panic = !is_any_fit && is_any_wanted && self.settings.panic;
        if panic != self.panic {
            self.panic = panic;
            self.say(if panic { Event::Panic } else { Event::Calm });
        }
        self.tell_standings();
        self.tell_weights(now);
        let board = self.board();
        assert_eq!(board.up().is_empty(), !is_any_fit && !panic, "who is fit may be picked");
        debug_assert!(self.backends.iter().enumerate().all(|(slot, backend)| {
            let standing = board.site(SiteId(slot as u16)).standing();
            let fit = backend.is_fit(&self.settings);
            (standing == Standing::Up) == (fit || panic && backend.is_wanted())
                && backend.fit_since.is_some() == fit
        }));
    }

    fn tell_standings(&mut self) {
        assert_eq!(self.backends.len(), self.board().slots(), "each site has a backend");
        for (slot, backend) in self.backends.iter().enumerate() {
            let standing = match () {
                () if backend.gone => Standing::Vacant,
                () if backend.draining => Standing::Draining,
                () if self.panic || backend.is_fit(&self.settings) => Standing::Up,
                () => Standing::Down,
            };
            let site = SiteId(slot as u16);
            if self.balancer.board().site(site).standing() != standing {
                self.balancer.set_standing(site, standing);
            }
        }
    }

    fn tell_weights(&mut self, now: Nanos) {
        let Settings { slow_start, tactics, .. } = &self.settings;
        for (slot, backend) in self.backends.iter_mut().enumerate() {
            backend.share = backend.slow_start.share(now, *slow_start, &tactics.slow_start);
            assert!(backend.share > 0.0 && backend.share <= 1.0, "a share of its weight");
            let (site, weight) = (SiteId(slot as u16), backend.share * backend.settings.weight);
            if self.balancer.board().site(site).weight() != weight {
                self.balancer.set_weight(site, weight);
            }
        }
    }

    fn say(&mut self, event: Event) {
        if self.events.len() < EVENTS_MAX {
            self.events.push(event);
        }
    }

    /// Everything at a glance; removed backends are not told.
    pub fn status(&self, now: Nanos) -> Status {
        let there = self.backends.iter().enumerate().filter(|(_, backend)| !backend.gone);
        let in_force = self.settings.tactics.in_force().into_iter();
        Status {
            mood: self.mood(),
            panic: self.panic,
            balancers: self.board().balancers(),
            arrived: self.arrived,
            waiting: self.queue.len() as u32,
            turned_away: self.turned_away,
            retries_denied: self.retries_denied,
            tactics: in_force.map(|(kind, name)| (kind, name.to_string())).collect(),
            disagreements: self.settings.tactics.disagreements(),
            backends: there
                .map(|(slot, backend)| self.backend_status(now, slot, backend))
                .collect(),
        }
    }

    fn backend_status(&self, now: Nanos, slot: usize, backend: &Backend) -> BackendStatus {
        let site = self.board().site(SiteId(slot as u16));
        BackendStatus {
            identity: backend.identity,
            name: backend.settings.name.clone(),
            state: backend.state(&self.settings),
            weight: backend.settings.weight,
            share: backend.share,
            outstanding: site.outstanding(),
            requests_max: backend.settings.requests_max,
            reported_queue: site.report().map(|report| report.queue),
            report_age: site.age(now),
            counters: backend.counters,
            latencies: backend.latencies.clone(),
        }
    }

    /// State of a backend.
    ///
    /// # Panics
    /// As for [`Board::site`].
    pub fn state(&self, site: SiteId) -> State {
        self.backends[site.index()].state(&self.settings)
    }
}
