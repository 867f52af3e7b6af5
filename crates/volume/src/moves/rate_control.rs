//! Throttle of operations and of the scrub, at the current rate.

use crate::epoch::slas::Slas;
use crate::group_state::GroupState;
use crate::settings::Settings;
use std::ops::{Deref, DerefMut};
use thermocline_policy::migration::{Copying, Held, RateControl, Throttle};
use thermocline_units::{Bytes, Nanos, PoolId};

/// The throttle, and the control of its rate.
#[derive(Debug, Default)]
pub(crate) struct CopyThrottle {
    throttle: Throttle,
    rate: RateControl,
}

impl CopyThrottle {
    /// Asks the throttle about a piece that touches these pools, at the rate of now; `held` is the
    /// moment since which the foreground holds it back.
    pub(crate) fn hold_back(
        &mut self,
        group: &mut GroupState,
        now: Nanos,
        touched: &[PoolId],
        bytes: u32,
        held: Option<Nanos>,
    ) -> Held {
        let copying = self.rate.paced(&group.settings.copying);
        let (pools, tactic) = (&mut group.pools, &group.settings.tactics.yielding);
        self.throttle.hold_back(pools, &copying, now, touched, (bytes, held), tactic)
    }

    /// True if bytes that are at hand may be written to `pool` now, at the rate of now.
    pub(crate) fn takes_now(
        &mut self,
        group: &mut GroupState,
        now: Nanos,
        pool: PoolId,
        bytes: u32,
    ) -> bool {
        let copying = self.rate.paced(&group.settings.copying);
        self.throttle.takes_now(&mut group.pools, &copying, now, pool, bytes)
    }

    /// Bytes a second that operations may copy on a pool now; `None`: no limit.
    pub(crate) fn rate(&self, copying: &Copying) -> Option<Bytes> {
        self.rate.paced(copying).rate_per_second
    }

    /// Sets the rate after what clients whose volumes have SLAs were answered with.
    pub(crate) fn follow_slas(&mut self, now: Nanos, settings: &Settings, slas: &Slas) {
        let tactic = &settings.tactics.copy_rate;
        self.rate.set_rate(now, &settings.copying, tactic, slas.answered());
    }

    /// Moment at which the rate is to be set again; `None`: never.
    pub(crate) fn next_look(&self, settings: &Settings, slas: &Slas) -> Option<Nanos> {
        self.rate.next(&settings.tactics.copy_rate, slas.are_set())
    }
}

impl Deref for CopyThrottle {
    type Target = Throttle;

    fn deref(&self) -> &Throttle {
        &self.throttle
    }
}

impl DerefMut for CopyThrottle {
    fn deref_mut(&mut self) -> &mut Throttle {
        &mut self.throttle
    }
}
