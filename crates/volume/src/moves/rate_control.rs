//! Throttle of operations and of the scrub, at the current rate.

use crate::group_state::GroupState;
use std::ops::{Deref, DerefMut};
use thermocline_policy::migration::{Held, RateControl, Throttle};
use thermocline_units::{Nanos, PoolId};

/// The throttle, and the control of its rate.
#[derive(Debug, Default)]
pub(crate) struct CopyThrottle {
    throttle: Throttle,
    pub(crate) rate: RateControl,
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
