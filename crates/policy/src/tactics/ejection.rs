//! Choice of the servers that get no requests because they fail too many, and for how long.
//!
//! Families of the rule are Envoy's outlier detection and HAProxy's `observe`; the share against
//! the others' is ours, because a server that fails every other request never fails five in a row.

use super::{Kind, Tactic};
use crate::balance::fitness::{EJECTIONS_MAX, Outliers, Window};
use crate::registry::{Build, Entry};
use std::sync::Arc;
use thermocline_units::Nanos;

/// Requests of a server, and of all servers, in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Failures {
    /// Requests of the server.
    pub own: Window,
    /// Requests of all servers, this one included.
    pub all: Window,
}

/// Choice of the servers that are left alone.
pub trait Ejection: Send + Sync {
    /// True if so many failures in a row take a server out at once.
    fn ejects_at_once(&self, in_a_row: u32, rules: &Outliers) -> bool;

    /// True if a server's failures in the window that ends take it out.
    fn ejects(&self, window: &Failures, rules: &Outliers) -> bool;

    /// Length of an ejection after so many that are not forgiven.
    fn length(&self, before: u32, rules: &Outliers) -> Nanos;
}

struct OutlierDetection;

impl Ejection for OutlierDetection {
    fn ejects_at_once(&self, in_a_row: u32, rules: &Outliers) -> bool {
        rules.consecutive > 0 && in_a_row >= rules.consecutive
    }

    fn ejects(&self, window: &Failures, rules: &Outliers) -> bool {
        let share = window.own.failed_share();
        let bad = f64::from(rules.failed_percent) / 100.0;
        let others = window.all.without(window.own);
        bad > 0.0
            && window.own.requests >= u64::from(rules.requests_min)
            && share >= bad
            && others.requests > 0
            && others.failed_share() < share / 2.0
    }

    fn length(&self, before: u32, rules: &Outliers) -> Nanos {
        let time = rules.ejection.0.saturating_mul(1 << before.min(EJECTIONS_MAX));
        Nanos(time.min(rules.ejection_max.0))
    }
}

struct NoEjection;

impl Ejection for NoEjection {
    fn ejects_at_once(&self, _in_a_row: u32, _rules: &Outliers) -> bool {
        false
    }

    fn ejects(&self, _window: &Failures, _rules: &Outliers) -> bool {
        false
    }

    fn length(&self, _before: u32, _rules: &Outliers) -> Nanos {
        Nanos(0)
    }
}

pub(super) const OUTLIERS: Entry = Entry {
    name: "outlier-detection",
    summary: "a server that fails in a row, or more than the others, is out for a while",
    source: "Envoy's outlier detection; the share against the others' is ours",
    settings: &[],
    build: Build::Tactic(Kind::Ejection, |_| Ok(Tactic::Ejection(Arc::new(OutlierDetection)))),
};

pub(super) const NO_EJECTION: Entry = Entry {
    name: "no-ejection",
    summary: "a server that fails requests gets more, unless active checks take it out",
    source: "ours",
    settings: &[],
    build: Build::Tactic(Kind::Ejection, |_| Ok(Tactic::Ejection(Arc::new(NoEjection)))),
};
