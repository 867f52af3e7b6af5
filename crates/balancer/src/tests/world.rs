//! Servers that misbehave, clients that do not care, and a dispatcher between them, in virtual
//! time.
//!
//! Each server works on one request at a time, first come first served. Equal seeds give equal
//! runs.

use crate::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Nanos, Rng, SiteId};

/// The behaviour of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Serves them.
    Good,
    /// Is not there.
    Dead,
    /// Takes them and never answers.
    Hangs,
    /// Serves for three seconds, is not there for three.
    Flaps,
    /// Answers at once with an error.
    Errs,
    /// Serves, four times as slowly as the others, and reports to be idle.
    Lies,
    /// Breaks every third answer off.
    Breaks,
}

/// Longest time that clients wait.
const PATIENCE: Nanos = Nanos::from_secs(1);
/// Mean service time of a good server, seconds.
const SERVICE_S: f64 = 0.01;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Arrival,
    Ends(u64, SiteId, u8),
    Tick,
    Check(SiteId, bool),
    Reload,
}

/// A request on its way.
#[derive(Debug, Clone)]
struct Request {
    tried: Vec<SiteId>,
    sent: Nanos,
}

pub(super) struct World {
    pub(super) dispatcher: Dispatcher,
    /// The server at each site, as of the last configuration that named it.
    servers: Vec<usize>,
    /// Time between two configurations, on average; `None`: there is only the first.
    reload_gap_s: Option<f64>,
    pub(super) reloads: u64,
    /// Share of requests that clients break off, or spoil, while a server has them.
    pub(super) spoiled: f64,
    manners: Vec<Manner>,
    /// Time at which each server has done all it was given.
    free_at: Vec<Nanos>,
    breaks: u64,
    events: BinaryHeap<Reverse<(Nanos, u64, Happens)>>,
    number: u64,
    requests: Vec<Request>,
    waiting: Vec<(Ticket, u64)>,
    rng: Rng,
    pub(super) sent_to: Vec<u64>,
    pub(super) asked: u64,
    pub(super) served: u64,
    pub(super) failed: u64,
}

fn backend(server: usize) -> BackendSettings {
    BackendSettings { name: server.to_string(), weight: 1.0, requests_max: 64 }
}

impl World {
    pub(super) fn new(policy: &str, settings: Settings, manners: &[Manner], seed: u64) -> World {
        let rule = PolicySpec::parse(policy).unwrap().build_rule().unwrap();
        let mut dispatcher = Dispatcher::new(Nanos(0), settings, rule, seed);
        dispatcher.configure(Nanos(0), (0..manners.len()).map(backend).collect());
        World {
            dispatcher,
            servers: (0..manners.len()).collect(),
            reload_gap_s: None,
            reloads: 0,
            spoiled: 0.0,
            manners: manners.to_vec(),
            free_at: vec![Nanos(0); manners.len()],
            breaks: 0,
            events: BinaryHeap::new(),
            number: 0,
            requests: Vec::new(),
            waiting: Vec::new(),
            rng: Rng::seeded(seed ^ 0x5eed),
            sent_to: vec![0; manners.len()],
            asked: 0,
            served: 0,
            failed: 0,
        }
    }

    /// Has configurations change while requests are under way, so often on average: backends go,
    /// and come back under their names.
    pub(super) fn reloading(mut self, gap_s: f64) -> World {
        self.reload_gap_s = Some(gap_s);
        self
    }

    /// Each backend stays or comes back with a probability of two thirds.
    fn reload(&mut self, now: Nanos, end: Nanos) {
        let Some(gap_s) = self.reload_gap_s else { return };
        let mut names: Vec<usize> = (0..self.manners.len()).collect();
        names.retain(|_| self.rng.unit_f64() < 2.0 / 3.0);
        self.dispatcher.configure(now, names.iter().map(|&server| backend(server)).collect());
        self.reloads += 1;
        self.servers.resize(self.dispatcher.board().slots(), 0);
        for server in names {
            let site = self.dispatcher.site_of(&server.to_string()).expect("it was configured");
            self.servers[site.index()] = server;
        }
        let gap = Nanos((self.rng.exponential(gap_s) * 1e9) as u64);
        if now.0 + gap.0 < end.0 {
            self.at(Nanos(now.0 + gap.0), Happens::Reload);
        }
    }

    fn at(&mut self, time: Nanos, what: Happens) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, what)));
    }

    /// Runs `seconds` of arrivals at `load` of what all servers could do if they were good, and
    /// then until nothing is under way.
    pub(super) fn run(&mut self, seconds: u64, load: f64) {
        let gap_s = SERVICE_S / (load * self.manners.len() as f64);
        let end = Nanos::from_secs(seconds);
        self.at(Nanos(0), Happens::Arrival);
        self.at(Nanos(0), Happens::Tick);
        if self.reload_gap_s.is_some() {
            self.at(Nanos::from_secs(1), Happens::Reload);
        }
        while let Some(Reverse((now, _, what))) = self.events.pop() {
            match what {
                Happens::Arrival if now < end => {
                    self.arrive(now);
                    let gap = Nanos((self.rng.exponential(gap_s) * 1e9) as u64);
                    self.at(Nanos(now.0 + gap.0), Happens::Arrival);
                }
                Happens::Arrival => {}
                Happens::Ends(request, site, outcome) => self.end(now, request, site, outcome),
                Happens::Tick => self.tick(now, end),
                Happens::Check(site, passed) => self.dispatcher.checked(now, site, passed),
                Happens::Reload => self.reload(now, end),
            }
            self.take_grants(now);
        }
    }

    fn arrive(&mut self, now: Nanos) {
        self.asked += 1;
        self.dispatcher.arrived(now);
        self.requests.push(Request { tried: Vec::new(), sent: now });
        self.place(now, self.requests.len() as u64 - 1);
    }

    fn place(&mut self, now: Nanos, request: u64) {
        let tried = self.requests[request as usize].tried.clone();
        match self.dispatcher.place(now, &tried) {
            Decision::At(site) => self.send(now, request, site),
            Decision::Full => match self.dispatcher.wait(now) {
                Some(ticket) => self.waiting.push((ticket, request)),
                None => self.failed += 1,
            },
            Decision::Nowhere => self.failed += 1,
        }
    }

    /// Sends a request to a server: its fate, and the time at which that shows.
    fn send(&mut self, now: Nanos, request: u64, site: SiteId) {
        let at = self.servers[site.index()];
        self.sent_to[at] += 1;
        self.requests[request as usize].tried.push(site);
        self.requests[request as usize].sent = now;
        let is_away = now.0 / Nanos::from_secs(3).0 % 2 == 1;
        if self.spoiled > 0.0 && self.rng.unit_f64() < self.spoiled {
            return self.at(Nanos(now.0 + 50_000), Happens::Ends(request, site, 5));
        }
        let (time, outcome) = match self.manners[at] {
            Manner::Dead => (Nanos(now.0 + 100_000), 2),
            Manner::Flaps if is_away => (Nanos(now.0 + 100_000), 2),
            Manner::Hangs => (Nanos(now.0 + PATIENCE.0), 4),
            Manner::Errs => (Nanos(now.0 + 100_000), 1),
            manner => {
                let slower = if manner == Manner::Lies { 4.0 } else { 1.0 };
                let service = (self.rng.exponential(SERVICE_S * slower) * 1e9) as u64;
                let done = Nanos(self.free_at[at].max(now).0 + service);
                self.free_at[at] = done;
                self.breaks += u64::from(manner == Manner::Breaks);
                let broken = manner == Manner::Breaks && self.breaks.is_multiple_of(3);
                let late = done.0 > now.0 + PATIENCE.0;
                let outcome = if late { 4 } else { 3 * u8::from(broken) };
                (done.min(Nanos(now.0 + PATIENCE.0)), outcome)
            }
        };
        self.at(time, Happens::Ends(request, site, outcome));
    }

    fn end(&mut self, now: Nanos, request: u64, site: SiteId, outcome: u8) {
        let took = now.saturating_sub(self.requests[request as usize].sent);
        let outcomes = [
            Outcome::Served(took),
            Outcome::ServerError,
            Outcome::Unreachable,
            Outcome::Broken,
            Outcome::TimedOut,
            Outcome::ClientFailed,
        ];
        let outcome = outcomes[usize::from(outcome)];
        self.dispatcher.finished(now, site, outcome);
        let done = self.requests[request as usize].tried.len() as u32;
        match outcome {
            Outcome::Served(_) => self.served += 1,
            // A server's error is an answer: it goes to the client.
            Outcome::ServerError | Outcome::TimedOut | Outcome::ClientFailed => self.failed += 1,
            _ if self.dispatcher.retry(now, done, site) => self.place(now, request),
            _ => self.failed += 1,
        }
    }

    fn tick(&mut self, now: Nanos, end: Nanos) {
        self.dispatcher.tick(now);
        let mut due = Vec::new();
        self.dispatcher.checks_due(now, &mut due);
        for site in due {
            let is_away = now.0 / Nanos::from_secs(3).0 % 2 == 1;
            let passed = match self.manners[self.servers[site.index()]] {
                Manner::Dead | Manner::Hangs => false,
                Manner::Flaps => !is_away,
                _ => true,
            };
            self.at(Nanos(now.0 + 1_000_000), Happens::Check(site, passed));
        }
        for (at, manner) in self.manners.clone().into_iter().enumerate() {
            let Some(site) = self.dispatcher.site_of(&at.to_string()) else { continue };
            let own = self.dispatcher.board().site(site).outstanding();
            let queue = if manner == Manner::Lies { 0 } else { u64::from(own) };
            let report =
                LoadReport { queue, arrivals: self.sent_to[at], balancers: 1, age: Nanos(0) };
            // The liar is silenced sooner or later.
            let _ = self.dispatcher.reported(now, site, &report);
        }
        if now < Nanos(end.0 + Nanos::from_secs(10).0) {
            self.at(Nanos(now.0 + 100_000_000), Happens::Tick);
        }
    }

    fn take_grants(&mut self, now: Nanos) {
        let mut grants = Vec::new();
        self.dispatcher.take_grants(&mut grants);
        for grant in grants {
            let at = self.waiting.iter().position(|(ticket, _)| *ticket == grant.ticket).unwrap();
            let (_, request) = self.waiting.swap_remove(at);
            match grant.site {
                Some(site) => self.send(now, request, site),
                None => self.failed += 1,
            }
        }
    }

    /// Checks that every request has ended, in one way, and nothing is left.
    pub(super) fn is_settled(&self) -> bool {
        let board = self.dispatcher.board();
        let idle = (0..board.slots()).all(|at| board.site(SiteId(at as u16)).outstanding() == 0);
        idle && self.waiting.is_empty() && self.asked == self.served + self.failed
    }

    /// Requests that failed, of all.
    pub(super) fn failed_share(&self) -> f64 {
        self.failed as f64 / self.asked as f64
    }
}
