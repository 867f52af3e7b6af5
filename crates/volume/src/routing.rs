//! Which side of a mirrored chunk answers, where both could.
//!
//! Without a placement that routes, a request goes where it is expected to wait least. One that
//! does names, a few times a second, the share of requests that go to the slower side; they are
//! spread evenly, without dice.

use crate::overlay::Side;
use crate::pools::Pools;
use thermocline_policy::placement::{PoolLoad, ROUTING_PERIOD, Route};
use thermocline_units::{Nanos, PoolId};

/// All of the requests, in millionths.
const ALL: u32 = 1_000_000;

/// Shares of requests to mirrored chunks, by the placement's router.
#[derive(Debug, Default)]
pub(crate) struct Routing {
    /// Last word of the placement's router; `None`: the shortest expected wait.
    route: Option<Route>,
    /// Requests owed to the slower side, of reads and of writes, in millionths.
    owed: [u32; 2],
    /// Moment at which the router is to be asked next.
    next: Nanos,
}

impl Routing {
    /// Last word of the placement's router.
    pub(crate) fn route(&self) -> Option<Route> {
        self.route
    }

    /// True if the next read or write goes to the slower side; `None` when nobody says.
    fn next_is_slow(&mut self, write: bool) -> Option<bool> {
        let Route { reads, writes } = self.route?;
        let owed = &mut self.owed[usize::from(write)];
        *owed += if write { writes } else { reads }.min(ALL);
        let slow = *owed >= ALL;
        *owed -= if slow { ALL } else { 0 };
        Some(slow)
    }
}

impl Routing {
    /// The side for the next request to blocks that both sides hold: its pool, of these two.
    pub(crate) fn choose(
        &mut self,
        pools: &Pools,
        now: Nanos,
        [base, above]: [PoolId; 2],
        write: bool,
    ) -> Side {
        let base_is_slower = pools.ranks().compare_speed(base, above).is_gt();
        let slow = self.next_is_slow(write).unwrap_or_else(|| {
            let wait = |pool: PoolId| pools[pool].expected_wait(now);
            (wait(base) < wait(above)) == base_is_slower
        });
        if slow == base_is_slower { Side::Base } else { Side::Above }
    }

    /// Moment at which the placement's router is to be asked; `None` when it has none.
    pub(crate) fn next(&self) -> Option<Nanos> {
        self.route.map(|_| self.next)
    }

    /// A placement has taken over: its router, if it has one, is asked from now on.
    pub(crate) fn begin(&mut self, now: Nanos, routes: bool, pools: &mut Pools) {
        let (route, next) = (routes.then(Route::default), Nanos(now.0 + ROUTING_PERIOD.0));
        *self = Routing { route, next, ..Routing::default() };
        pools.iter_mut().for_each(|pool| _ = pool.end_round());
    }

    /// Loads of the pools since this was last asked, fastest first, where it is time to ask the
    /// router.
    pub(crate) fn loads(&mut self, now: Nanos, pools: &mut Pools) -> Option<Vec<PoolLoad>> {
        if self.next().is_none_or(|next| now < next) {
            return None;
        }
        self.next = Nanos(now.0 + ROUTING_PERIOD.0);
        let order = pools.ranks().order().to_vec();
        Some(order.into_iter().map(|pool| pools[pool].end_round()).collect())
    }

    /// The router has said this.
    pub(crate) fn set(&mut self, route: Route) {
        self.route = Some(route);
    }
}
