//! Retention of the slow copies that moves to faster pools leave behind: a move back then costs
//! nothing, and their room is anybody's who needs it.

use super::{Kind, Tactic};
use crate::registry::{Build, Entry, Setting};
use std::sync::Arc;

/// Choice of the room that a pool keeps free rather than old copies.
pub trait Retention: Send + Sync {
    /// Slots that stay free on a pool of `total` slots, at least 1. With fewer free ones, no more
    /// copies stay, and the oldest are dropped.
    fn headroom(&self, total: u32) -> u32;
}

/// One slot in so many stays free.
struct OneIn(u32);

impl Retention for OneIn {
    fn headroom(&self, total: u32) -> u32 {
        (total / self.0).max(1)
    }
}

struct NoRetention;

impl Retention for NoRetention {
    fn headroom(&self, _total: u32) -> u32 {
        u32::MAX
    }
}

const ONE_IN: Setting = Setting {
    name: "one-in",
    default: "32",
    unit: "slots",
    help: "one slot of a pool in so many stays free",
};

pub(super) const KEEP_OLD: Entry = Entry {
    name: "keep-old",
    summary: "a move up leaves the slow copy while its pool has room, the oldest are dropped first",
    source: "ours",
    settings: &[ONE_IN],
    build: Build::Tactic(Kind::Retention, |settings| {
        let one_in = settings.count("one-in", 1, 1 << 20)? as u32;
        Ok(Tactic::Retention(Arc::new(OneIn(one_in))))
    }),
};

pub(super) const DROP_OLD: Entry = Entry {
    name: "drop-old",
    summary: "a move leaves nothing behind",
    source: "ours",
    settings: &[],
    build: Build::Tactic(Kind::Retention, |_| Ok(Tactic::Retention(Arc::new(NoRetention)))),
};
