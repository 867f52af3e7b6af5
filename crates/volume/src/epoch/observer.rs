//! A observer: somebody who hears what a group is asked and what its placement sees and decides.
//!
//! The group knows nothing of what becomes of it; a recorder writes it down, a view of heat counts
//! it. Without an observer it costs one look at an `Option` an event.

use crate::io::request::{Request, RequestId};
use thermocline_policy::placement::{
    Budget, ChunkAccess, Move, PoolChange, PoolLoad, Route, VolumeView,
};
use thermocline_units::Nanos;

/// Question to a placement at an epoch's end, and its answer.
pub struct Decision<'a> {
    /// Moment of the decision.
    pub at: Nanos,
    /// State of the volumes that it saw.
    pub view: &'a dyn VolumeView,
    /// Bound of what it might propose.
    pub budget: Budget,
    /// Its proposal, best first.
    pub moves: &'a [Move],
}

/// Listens to a group. Everything is told once, in the order in which it happens, from within
/// `submit`, `complete` or `tick`: an implementation must be quick, and cannot refuse.
pub trait Observer: Send {
    /// A request was taken; those refused for their range or volume are not told.
    fn asked(&mut self, now: Nanos, request: &Request);

    /// A request was answered, `done` or with an error. Also told of requests that were not taken.
    fn answered(&mut self, now: Nanos, request: RequestId, done: bool);

    /// A placement has taken over that knows nothing yet. `name` is its name in the registry, with
    /// its settings; it is empty when nobody gave one or nobody decides.
    fn placed(&mut self, now: Nanos, name: &str);

    /// Pools have other ranks from now on, and the placement, if there is one, was told so.
    fn pools_changed(&mut self, now: Nanos, change: PoolChange);

    /// The placement, if there is one, was told of an access.
    fn accessed(&mut self, access: &ChunkAccess);

    /// The placement's router was asked by what pools did since it was last asked, and decided.
    fn routed(&mut self, now: Nanos, loads: &[PoolLoad], route: Route);

    /// The placement has decided.
    fn decided(&mut self, decision: &Decision<'_>);
}
