//! Which side of a mirrored chunk answers, where both could.
//!
//! Without a placement that routes, a request goes where it is expected to wait least. One that
//! does names, a few times a second, the share of requests that go to the slower side; they are
//! spread evenly, without dice.

use crate::group::Group;
use crate::overlay::Side;
use thermocline_policy::placement::{PoolLoad, ROUTING_PERIOD, Route};
use thermocline_units::{ChunkId, Nanos};

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

impl Group {
    /// The side for the next request to blocks that both sides hold.
    pub(crate) fn route(&mut self, chunk: ChunkId, write: bool) -> Side {
        let [base, above] = [Side::Base, Side::Above].map(|side| self.place_on(chunk, side).pool);
        let base_is_slower = self.pools.ranks().compare_speed(base, above).is_gt();
        let slow = self.routing.next_is_slow(write).unwrap_or_else(|| {
            let wait = |pool| self.pool(pool).expected_wait(self.now);
            (wait(base) < wait(above)) == base_is_slower
        });
        if slow == base_is_slower { Side::Base } else { Side::Above }
    }

    /// Moment at which the placement's router is to be asked; `None` when it has none.
    pub(crate) fn next_routing(&self) -> Option<Nanos> {
        self.routing.route.map(|_| self.routing.next)
    }

    /// A placement has taken over: its router, if it has one, is asked from now on.
    pub(crate) fn begin_routing(&mut self, now: Nanos) {
        let routes = self.placement.as_mut().is_some_and(|placement| placement.router().is_some());
        let route = routes.then(Route::default);
        self.routing =
            Routing { route, next: Nanos(now.0 + ROUTING_PERIOD.0), ..Routing::default() };
        self.pools.iter_mut().for_each(|pool| _ = pool.end_round());
    }

    /// Asks the router, where it is time.
    pub(crate) fn pump_routing(&mut self, now: Nanos) {
        if self.next_routing().is_none_or(|next| now < next) {
            return;
        }
        self.routing.next = Nanos(now.0 + ROUTING_PERIOD.0);
        let order = self.pools.ranks().order().to_vec();
        let loads = order.into_iter().map(|pool| self.pool_mut(pool).end_round());
        let loads: Vec<PoolLoad> = loads.collect();
        let router = self.placement.as_mut().and_then(|placement| placement.router());
        let Some(route) = router.map(|router| router.route(&loads)) else { return };
        self.routing.route = Some(route);
        if let Some(tap) = &mut self.tap {
            tap.routed(now, &loads, route);
        }
    }
}
