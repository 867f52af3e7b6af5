//! One backend: what makes it fit to get requests.
//!
//! Four things can keep requests away, each on its own: an administrator drains or removes it,
//! active checks find it down or have not yet found it up, passive detection ejects it. It is fit
//! when none does. What people see is the strongest of them ([`State`]). Coming back from any of
//! them begins a slow start: its weight grows from a tenth to the whole, so that a cold cache or a
//! server that still starts is not flooded.

use crate::memory::Memory;
use crate::reports::Trust;
use crate::settings::{BackendSettings, Settings};
use crate::status::Counters;
use thermocline_policy::balance::fitness::{Health, Record, SlowStart};
use thermocline_units::{Latencies, Nanos};

/// Fitness of a backend, and the reason when it is not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not checked yet.
    New,
    /// Back since lately; it gets less than its share.
    SlowStart,
    /// Serving, with its whole share.
    Up,
    /// Requests failed there; it is left alone for a while.
    Ejected,
    /// Checks fail.
    Down,
    /// An administrator takes it out: it finishes what it has.
    Draining,
    /// Removed.
    Gone,
}

impl State {
    /// Name of the state, a word.
    pub fn name(self) -> &'static str {
        match self {
            State::New => "new",
            State::SlowStart => "slow start",
            State::Up => "up",
            State::Ejected => "ejected",
            State::Down => "down",
            State::Draining => "draining",
            State::Gone => "gone",
        }
    }
}

/// One backend.
#[derive(Debug)]
pub(crate) struct Backend {
    /// Tells it from every other backend of this dispatcher, past ones of its name included.
    pub(crate) identity: u64,
    pub(crate) settings: BackendSettings,
    pub(crate) health: Health,
    pub(crate) record: Record,
    pub(crate) trust: Trust,
    pub(crate) draining: bool,
    pub(crate) gone: bool,
    pub(crate) slow_start: SlowStart,
    /// Time from which on it has been fit, as of the last look.
    pub(crate) fit_since: Option<Nanos>,
    /// The part of its weight that the balancer has been told.
    pub(crate) share: f64,
    pub(crate) counters: Counters,
    pub(crate) latencies: Latencies,
}

impl Backend {
    pub(crate) fn new(now: Nanos, identity: u64, settings: BackendSettings) -> Backend {
        Backend {
            identity,
            settings,
            health: Health::new(now),
            record: Record::default(),
            trust: Trust::default(),
            draining: false,
            gone: false,
            slow_start: SlowStart::default(),
            fit_since: None,
            share: 1.0,
            counters: Counters::default(),
            latencies: Latencies::default(),
        }
    }

    /// True if an administrator lets it have requests.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.draining && !self.gone
    }

    /// True if nothing keeps requests away.
    pub(crate) fn is_fit(&self, settings: &Settings) -> bool {
        let checked = settings.checks.is_none() || self.health.fit() == Some(true);
        self.is_wanted() && checked && self.record.out_until().is_none()
    }

    pub(crate) fn state(&self, settings: &Settings) -> State {
        let checks = settings.checks.is_some();
        match self.health.fit() {
            _ if self.gone => State::Gone,
            _ if self.draining => State::Draining,
            Some(false) if checks => State::Down,
            None if checks => State::New,
            _ if self.record.out_until().is_some() => State::Ejected,
            _ if self.slow_start.is_on() => State::SlowStart,
            _ => State::Up,
        }
    }

    /// Knowledge for a dispatcher that takes over.
    pub(crate) fn memory(&self, now: Nanos) -> Memory {
        Memory {
            name: self.settings.name.clone(),
            draining: self.draining,
            fit: self.health.fit(),
            out_for: self.record.out_until().map(|until| until.saturating_sub(now)),
            ejections: self.record.ejections(),
            ramped_for: self.slow_start.taken(now),
        }
    }

    /// Goes on from what another dispatcher knows.
    pub(crate) fn remember(&mut self, now: Nanos, memory: &Memory, settings: &Settings) {
        assert_eq!(self.settings.name, memory.name, "the memory is of another backend");
        self.draining |= memory.draining;
        self.health.believe(memory.fit);
        self.record.go_on(now, memory.out_for, memory.ejections, &settings.outliers);
        if let Some(before) = memory.ramped_for {
            self.slow_start.go_on(now, settings.slow_start, before);
        }
        assert!(!memory.draining || !self.is_wanted(), "who was taken out stays out");
        let out = self.record.out_until().map(|until| until.saturating_sub(now));
        assert!(out.is_none_or(|out| out <= settings.outliers.ejection_max));
        assert_eq!(out.is_some(), memory.out_for.is_some(), "who was ejected stays ejected");
    }
}
