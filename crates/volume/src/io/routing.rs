//! The placement's router: when it is asked, and which side of a mirrored chunk answers by its
//! word.

use crate::group_state::GroupState;
use crate::map::overlay::Side;
use crate::pools::Pools;
use thermocline_policy::placement::{PoolLoad, ROUTING_PERIOD, Route, Split};
use thermocline_units::{Nanos, PoolId};

/// Shares of requests to mirrored chunks, by the placement's router.
#[derive(Debug, Default)]
pub(crate) struct Routing {
    split: Split,
    /// Moment at which the router is to be asked next.
    next: Nanos,
}

impl Routing {
    /// Last word of the placement's router.
    pub(crate) fn route(&self) -> Option<Route> {
        self.split.route()
    }

    /// The side for the next request to blocks that both sides hold: its pool, of these two.
    pub(crate) fn choose(
        &mut self,
        group: &GroupState,
        now: Nanos,
        [base, above]: [PoolId; 2],
        write: bool,
    ) -> Side {
        let pools = &group.pools;
        assert_eq!(pools[base].is_alive(), pools[above].is_alive(), "of one there is no choice");
        let base_is_slower = pools.ranks().compare_speed(base, above).is_gt();
        let pool = match self.split.goes_to_slower(write) {
            Some(slow) if slow == base_is_slower => base,
            Some(_) => above,
            None => {
                let sides = [above, base];
                let waiting = sides.map(|pool| pools.waiting(pool, now));
                sides[group.settings.tactics.replica.ask(|tactic| tactic.choose(&waiting))]
            }
        };
        if pool == base { Side::Base } else { Side::Above }
    }

    /// Moment at which the placement's router is to be asked; `None` when it has none.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.route().map(|_| self.next)
    }

    /// A placement has taken over: its router, if it has one, is asked from now on.
    pub(crate) fn begin(&mut self, now: Nanos, routes: bool, pools: &mut Pools) {
        self.split = Split::by(routes.then(Route::default));
        self.next = Nanos(now.0 + ROUTING_PERIOD.0);
        pools.iter_mut().for_each(|pool| _ = pool.end_round());
    }

    /// Loads of the pools since this was last asked, fastest first, where it is time to ask the
    /// router.
    pub(crate) fn loads(&mut self, now: Nanos, pools: &mut Pools) -> Option<Vec<PoolLoad>> {
        if self.next().is_none_or(|next| now < next) {
            return None;
        }
        self.next = Nanos(now.0 + ROUTING_PERIOD.0);
        let there = pools.ranks().there().to_vec();
        assert!(!there.is_empty(), "a group has pools");
        Some(there.into_iter().map(|pool| pools[pool].end_round()).collect())
    }

    /// The router has said this.
    pub(crate) fn set(&mut self, route: Route) {
        self.split.set(route);
    }
}

#[cfg(test)]
mod tests;
