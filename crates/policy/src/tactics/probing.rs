//! The moment at which a device that had no room is asked if it has some again.

use super::{Kind, Tactic};
use crate::registry::{Build, Entry, Setting, SettingsError};
use std::sync::Arc;
use thermocline_units::Nanos;

/// Choice of the time between two probes of a full pool.
pub trait Probing: Send + Sync {
    /// Time until the next probe, after so many in a row that found no room; above 0.
    fn pause(&self, failed: u32) -> Nanos;
}

struct Every(Nanos);

impl Probing for Every {
    fn pause(&self, _failed: u32) -> Nanos {
        self.0
    }
}

struct BackOff {
    first: Nanos,
    most: Nanos,
}

impl Probing for BackOff {
    fn pause(&self, failed: u32) -> Nanos {
        let doubled = self.first.0.saturating_mul(1 << failed.min(31));
        Nanos(doubled.min(self.most.0))
    }
}

const PAUSE: Setting = Setting {
    name: "pause",
    default: "5s",
    unit: "duration",
    help: "time between two probes, at least 1ms",
};
const FIRST: Setting = Setting {
    name: "first",
    default: "1s",
    unit: "duration",
    help: "time until the first probe, at least 1ms",
};
const MOST: Setting = Setting {
    name: "most",
    default: "5m",
    unit: "duration",
    help: "the longest time between two, not below `first`",
};

fn pause(
    settings: &crate::registry::Settings,
    key: &str,
    least: Nanos,
) -> Result<Nanos, SettingsError> {
    let pause = settings.duration(key)?;
    let wrong = || settings.wrong(key, format!("a duration of at least {least}"));
    if pause < least { Err(wrong()) } else { Ok(pause) }
}

const LEAST: Nanos = Nanos(1_000_000);

pub(super) const EVERY: Entry = Entry {
    name: "probe-every",
    summary: "a full device is probed at fixed intervals",
    source: "ours",
    settings: &[PAUSE],
    build: Build::Tactic(Kind::Probing, |settings| {
        Ok(Tactic::Probing(Arc::new(Every(pause(settings, "pause", LEAST)?))))
    }),
};

pub(super) const BACK_OFF: Entry = Entry {
    name: "probe-back-off",
    summary: "a full device is probed at intervals that double",
    source: "exponential back-off",
    settings: &[FIRST, MOST],
    build: Build::Tactic(Kind::Probing, |settings| {
        let first = pause(settings, "first", LEAST)?;
        let most = pause(settings, "most", first)?;
        Ok(Tactic::Probing(Arc::new(BackOff { first, most })))
    }),
};
