//! The moment at which a copy that clients hold back goes on.

use super::{Kind, Tactic};
use crate::registry::{Build, Entry};
use std::sync::Arc;
use thermocline_units::Nanos;

/// A piece of a copy while clients use one of its pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldBack {
    /// The time.
    pub now: Nanos,
    /// Moment since which clients hold it back; `now` at first.
    pub since: Nanos,
    /// Longest wait that the settings of copying allow.
    pub patience: Nanos,
    /// Moment at which operations are owed their next bytes; `None`: nothing is reserved for them.
    pub owed_at: Option<Nanos>,
}

/// Choice between clients and copies.
pub trait Yielding: Send + Sync {
    /// Moment at which the piece goes on though clients are there: now, or a later one.
    fn goes_at(&self, piece: &HeldBack) -> Nanos;
}

struct Patient;

impl Yielding for Patient {
    fn goes_at(&self, piece: &HeldBack) -> Nanos {
        let patient = Nanos(piece.since.0.saturating_add(piece.patience.0));
        piece.owed_at.map_or(patient, |owed| owed.min(patient)).max(piece.now)
    }
}

struct NoYielding;

impl Yielding for NoYielding {
    fn goes_at(&self, piece: &HeldBack) -> Nanos {
        piece.now
    }
}

pub(super) const PATIENT: Entry = Entry {
    name: "patient",
    summary: "a copy waits for clients, until its patience ends or reserved bytes are owed to it",
    source: "mClock (Gulati et al., OSDI 2010) for what is reserved",
    settings: &[],
    build: Build::Tactic(Kind::Yielding, |_| Ok(Tactic::Yielding(Arc::new(Patient)))),
};

pub(super) const NO_YIELDING: Entry = Entry {
    name: "no-yielding",
    summary: "a copy goes on whatever clients do, up to its rate and its requests in flight",
    source: "ours",
    settings: &[],
    build: Build::Tactic(Kind::Yielding, |_| Ok(Tactic::Yielding(Arc::new(NoYielding)))),
};
