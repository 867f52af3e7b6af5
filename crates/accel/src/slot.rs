//! The life of a slot: its states, and what leads from one to the next.
//!
//! ```text
//!            load                 loaded               drain
//!  empty ──────────► loading ──────────────► running ─────────► draining
//!    ▲                  │                       │                   │
//!    │ retried, or      │ failed                │ failed            │ its last flow has left
//!    │ reset            ▼                       ▼                   ▼
//!    └─────────────── failed ◄──────────────────┘        empty, or loading again
//! ```
//!
//! A draining slot may have a function that is loaded next. A failed one is tried again after a
//! time that doubles with each failure in a row.
//!
//! Invariant: only running and draining slots have a lane with packets.

use crate::image::Image;
use crate::lane::Lane;
use crate::work::{GroupId, SlotId, Ticket};
use thermocline_policy::accel::{FunctionId, Holding};
use thermocline_units::Nanos;

/// The longest wait before a retry, as doublings.
const DOUBLINGS_MAX: u32 = 10;

/// State of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Empty,
    /// Waits for the port, or is being loaded; `replaces` drains once this one runs.
    Loading {
        function: FunctionId,
        replaces: Option<SlotId>,
    },
    Running {
        function: FunctionId,
    },
    Draining {
        function: FunctionId,
        then: Option<FunctionId>,
    },
    Failed {
        since: Nanos,
    },
}

/// A slot.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) card: u16,
    pub(crate) room: u32,
    life: Life,
    pub(crate) lane: Lane,
    /// The load under way.
    pub(crate) load: Option<Ticket>,
    /// Failures in a row.
    failures: u32,
    /// Time at which the present load was asked for.
    pub(crate) asked: Nanos,
    /// Image that is in it, or that it was asked to load.
    pub(crate) image: Option<Image>,
    /// Group to which it belongs; `None`: to all.
    pub(crate) reserved: Option<GroupId>,
}

impl Slot {
    pub(crate) fn new(card: u16, room: u32) -> Slot {
        let lane = Lane::default();
        Slot {
            card,
            room,
            life: Life::Empty,
            lane,
            load: None,
            failures: 0,
            asked: Nanos(0),
            image: None,
            reserved: None,
        }
    }

    pub(crate) fn life(&self) -> Life {
        self.life
    }

    /// The function whose packets it takes.
    pub(crate) fn takes(&self) -> Option<FunctionId> {
        match self.life {
            Life::Running { function } | Life::Draining { function, .. } => Some(function),
            Life::Empty | Life::Loading { .. } | Life::Failed { .. } => None,
        }
    }

    /// True if new flows of `function` may go there.
    pub(crate) fn welcomes(&self, function: FunctionId) -> bool {
        self.life == Life::Running { function }
    }

    /// True if flows of the group may go there.
    pub(crate) fn serves(&self, group: GroupId) -> bool {
        self.reserved.is_none_or(|of| of == group)
    }

    pub(crate) fn holding(&self) -> Holding {
        match self.life {
            Life::Empty => Holding::Nothing,
            Life::Loading { function, .. } => Holding::Loading(function),
            Life::Running { function } => Holding::Running(function),
            Life::Draining { then: Some(function), .. } => Holding::Loading(function),
            Life::Draining { function, then: None } => Holding::Draining(function),
            Life::Failed { .. } => Holding::Failed,
        }
    }

    pub(crate) fn begin_loading(&mut self, function: FunctionId, replaces: Option<SlotId>) {
        assert_eq!(self.life, Life::Empty, "only an empty slot is loaded");
        assert!(self.lane.is_empty(), "an empty slot has no packets");
        self.life = Life::Loading { function, replaces };
    }

    /// The load has ended well; the slot that it replaces.
    pub(crate) fn begin_running(&mut self) -> Option<SlotId> {
        let Life::Loading { function, replaces } = self.life else {
            panic!("only what is loading runs next");
        };
        assert!(self.load.is_none(), "its load has ended");
        self.life = Life::Running { function };
        self.failures = 0;
        replaces
    }

    pub(crate) fn begin_draining(&mut self, then: Option<FunctionId>) {
        let Life::Running { function } = self.life else { panic!("only what runs drains") };
        assert_ne!(then, Some(function), "it has that function");
        self.life = Life::Draining { function, then };
    }

    /// The last flow has left; the function to load next.
    pub(crate) fn end_draining(&mut self) -> Option<FunctionId> {
        let Life::Draining { then, .. } = self.life else { panic!("only what drains ends it") };
        assert!(self.lane.is_empty(), "no packet is left behind");
        self.life = Life::Empty;
        then
    }

    pub(crate) fn fail(&mut self, now: Nanos) {
        assert!(self.lane.is_empty(), "its packets were counted as lost");
        self.life = Life::Failed { since: now };
        self.load = None;
        self.failures = (self.failures + 1).min(DOUBLINGS_MAX);
    }

    /// True if a failed slot may be tried again.
    pub(crate) fn is_retry_due(&self, now: Nanos, after: Nanos) -> bool {
        let Life::Failed { since } = self.life else { return false };
        now.saturating_sub(since).0 >= after.0.saturating_mul(1 << self.failures.saturating_sub(1))
    }

    /// Lets a failed slot be loaded again.
    pub(crate) fn recover(&mut self) {
        assert!(matches!(self.life, Life::Failed { .. }), "only a failed slot recovers");
        self.life = Life::Empty;
    }

    /// Forgets its failures: an administrator says that it is well.
    pub(crate) fn forgive(&mut self) {
        assert!(matches!(self.life, Life::Failed { .. }), "only a failed slot is forgiven");
        self.failures = 1;
    }
}
