//! Choice of the side of a mirrored chunk that answers, where both could.
//!
//! Without a placement that routes, a request goes where it is expected to wait least. One that
//! does names, a few times a second, the share of requests that go to the slower side; they are
//! spread evenly, without dice.

use super::Route;

/// All of the requests, in millionths.
const ALL: u32 = 1_000_000;

/// Shares of requests to mirrored chunks, by the placement's router.
#[derive(Debug, Clone, Default)]
pub struct Split {
    /// Last word of the placement's router; `None`: the shortest expected wait.
    route: Option<Route>,
    /// Requests owed to the slower side, of reads and of writes, in millionths.
    owed: [u32; 2],
}

impl Split {
    /// One that goes by `route`; `None`: by the shortest expected wait.
    pub fn by(route: Option<Route>) -> Split {
        Split { route, owed: [0; 2] }
    }

    /// Last word of the placement's router.
    pub fn route(&self) -> Option<Route> {
        self.route
    }

    /// The router has said this.
    pub fn set(&mut self, route: Route) {
        self.route = Some(route);
    }

    /// True if the next read or write goes to the slower of two sides; `None` when no router says:
    /// the tactic of replicas does.
    pub fn goes_to_slower(&mut self, write: bool) -> Option<bool> {
        let Route { reads, writes } = self.route?;
        let owed = &mut self.owed[usize::from(write)];
        *owed += if write { writes } else { reads }.min(ALL);
        let slow = *owed >= ALL;
        *owed -= if slow { ALL } else { 0 };
        Some(slow)
    }
}
