//! The share of requests of a server that comes (back): its caches are cold, and its connections
//! few.

use super::{Kind, Tactic};
use crate::registry::{Build, Entry, Setting};
use std::sync::Arc;

/// Choice of a returning server's share.
pub trait ShareRule: Send + Sync {
    /// Share of the server's weight, in (0, 1], when this part of the slow start, 0 to 1, is over.
    fn share(&self, part: f64) -> f64;
}

struct Linear {
    first: f64,
    steps: f64,
}

impl ShareRule for Linear {
    fn share(&self, part: f64) -> f64 {
        self.first + (1.0 - self.first) * (part * self.steps).floor() / self.steps
    }
}

struct AtOnce;

impl ShareRule for AtOnce {
    fn share(&self, _part: f64) -> f64 {
        1.0
    }
}

const FIRST: Setting = Setting {
    name: "first",
    default: "0.1",
    unit: "fraction of the weight",
    help: "the share at the beginning",
};
const STEPS: Setting = Setting {
    name: "steps",
    default: "20",
    unit: "steps",
    help: "changes of the share; each costs a look at all servers",
};

pub(super) const LINEAR: Entry = Entry {
    name: "linear-start",
    summary: "a server that comes back gets its share in equal steps",
    source: "Envoy's slow start mode, linear",
    settings: &[FIRST, STEPS],
    build: Build::Tactic(Kind::SlowStart, |settings| {
        let first = settings.number("first", 0.01, 1.0)?;
        let steps = settings.count("steps", 1, 1000)? as f64;
        Ok(Tactic::SlowStart(Arc::new(Linear { first, steps })))
    }),
};

pub(super) const AT_ONCE: Entry = Entry {
    name: "at-once",
    summary: "a server that comes back gets its whole share at once",
    source: "ours",
    settings: &[],
    build: Build::Tactic(Kind::SlowStart, |_| Ok(Tactic::SlowStart(Arc::new(AtOnce)))),
};
