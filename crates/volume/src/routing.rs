//! Which side of a mirrored chunk answers, where both could.
//!
//! Without a placement that routes, a request goes where it is expected to wait least. One that
//! does names, a few times a second, the share of requests that go to the slower side; they are
//! spread evenly, without dice.

use crate::group::Group;
use crate::overlay::Side;
use thermocline_units::ChunkId;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Routing {
    /// Share of requests for the slower side, 0 to 1; `None`: the shortest expected wait.
    pub(crate) share: Option<f64>,
    /// What the slower side is owed.
    owed: f64,
}

impl Routing {
    /// Whether the next request goes to the slower side.
    fn next_is_slow(&mut self, share: f64) -> bool {
        self.owed += share;
        let slow = self.owed >= 1.0;
        self.owed -= f64::from(u8::from(slow));
        slow
    }
}

impl Group {
    /// The side for the next request to blocks that both sides hold.
    pub(crate) fn route(&mut self, chunk: ChunkId) -> Side {
        let [base, above] = [Side::Base, Side::Above].map(|side| self.place_on(chunk, side).pool);
        let base_is_slower = base > above;
        let slow = match self.routing.share {
            Some(share) => self.routing.next_is_slow(share),
            None => {
                let wait = |pool| self.pool(pool).expected_wait();
                (wait(base) < wait(above)) == base_is_slower
            }
        };
        if slow == base_is_slower { Side::Base } else { Side::Above }
    }
}
