//! Followers of a group's accesses: the placement, its shadows, and an observer.
//!
//! Shadows are rivals of the placement, told what it is told, and asked when it is; nothing that
//! they propose happens. They see the view before the placement decides, so that no move of the
//! epoch that begins is in it.

use crate::epoch::hinting::Hinting;
use crate::epoch::observer::{Decision, Observer};
use crate::epoch::slas::Slas;
use crate::epoch::view::View;
use crate::group_state::GroupState;
use crate::io::request::{Reply, Request};
use crate::pools::pool::Pool;
use crate::settings::POOLS_MAX;
use std::collections::BTreeSet;
use thermocline_policy::hints::store::{HintError, Hints};
use thermocline_policy::placement::shadow::{ShadowError, Shadows};
use thermocline_policy::placement::{
    Budget, ChunkAccess, Move, Placement, PoolChange, PoolLoad, Route, Unreadable,
};
use thermocline_units::situations::met_if;
use thermocline_units::{ChunkId, Nanos, PoolId};

/// The placement, and who listens beside it.
pub(crate) struct Epochs {
    placement: Option<Box<dyn Placement>>,
    placement_name: String,
    shadows: Shadows,
    observer: Option<Box<dyn Observer>>,
    /// Number of the epoch, which begins anew after 65,535.
    number: u16,
    began: Nanos,
    end: Nanos,
    /// Length of the epoch before.
    length: Nanos,
}

impl Epochs {
    /// Epochs of this length from time 0 on, which nobody follows.
    pub(crate) fn new(epoch: Nanos) -> Epochs {
        Epochs {
            placement: None,
            placement_name: String::new(),
            shadows: Shadows::default(),
            observer: None,
            number: 0,
            began: Nanos(0),
            end: epoch,
            length: epoch,
        }
    }

    /// The group as a placement sees it in this epoch.
    pub(crate) fn view<'a>(&self, group: &'a GroupState, slas: &'a Slas) -> View<'a> {
        View { group, slas, number: self.number, length: self.length }
    }

    /// Requests to a chunk in this epoch: reads and writes.
    pub(crate) fn heat_of(&self, group: &GroupState, chunk: ChunkId) -> (u32, u32) {
        group.map.entry(chunk).heat_in(self.number)
    }

    /// Lets the epoch under way end so long from now.
    pub(crate) fn set_end(&mut self, now: Nanos, epoch: Nanos) {
        self.end = Nanos(now.0 + epoch.0);
    }

    /// Begins an epoch now.
    fn begin(&mut self, now: Nanos, epoch: Nanos) {
        self.began = now;
        self.end = Nanos(now.0.saturating_add(epoch.0));
    }

    /// Moment at which the epoch ends; `None` when nobody is asked then.
    pub(crate) fn next_end(&self, hints: &Hints) -> Option<Nanos> {
        self.matter(hints).then_some(self.end)
    }

    /// True if the epoch is over.
    pub(crate) fn has_ended(&self, now: Nanos) -> bool {
        now >= self.end
    }

    /// Ends the epoch: asks the placement, and then hints, what should move; the moves, and the
    /// chunks that hints move. Pools of the moves are ids, not ranks.
    pub(crate) fn end(
        &mut self,
        now: Nanos,
        group: &mut GroupState,
        slas: &Slas,
        hinting: &mut Hinting,
    ) -> (Vec<Move>, BTreeSet<ChunkId>) {
        assert!(self.has_ended(now), "an epoch ends when its time has come");
        let epoch = group.settings.epoch.0.max(1);
        let passed = (now.0 - self.end.0) / epoch + 1;
        self.end.0 += passed * epoch;
        self.number = self.number.wrapping_add(1);
        let began = std::mem::replace(&mut self.began, now);
        self.length = now.saturating_sub(began).max(Nanos(1));
        group.pools.iter_mut().for_each(Pool::end_epoch);
        let mut moves: Vec<Move> = Vec::new();
        let view = self.view(group, slas);
        self.shadows.end_epoch(now, &view, group.settings.copying.rate_per_second);
        if let Some(placement) = &mut self.placement {
            placement.propose(now, &view, Budget::UNLIMITED, &mut moves);
            if let Some(observer) = &mut self.observer {
                let (view, budget) = (&view, Budget::UNLIMITED);
                observer.decided(&Decision { at: now, view, budget, moves: &moves });
            }
        }
        let directed = hinting.direct(now, &view, &mut moves);
        group.pools.ranks().translate_moves(&mut moves);
        (moves, directed)
    }

    /// Gives the decision about moves to a placement, or to nobody; whether it has a router.
    pub(crate) fn place(
        &mut self,
        now: Nanos,
        name: &str,
        placement: Option<Box<dyn Placement>>,
    ) -> bool {
        assert!(name.is_empty() || placement.is_some(), "nobody has no name");
        self.placement = placement;
        self.placement_name = name.to_string();
        if let Some(observer) = &mut self.observer {
            observer.placed(now, name);
        }
        self.placement.as_mut().is_some_and(|placement| placement.router().is_some())
    }

    /// Name of the placement in force; empty when it was not said.
    pub(crate) fn placement_name(&self) -> &str {
        &self.placement_name
    }

    /// The placement in force.
    pub(crate) fn placement(&self) -> Option<&dyn Placement> {
        self.placement.as_deref()
    }

    /// Lets the placement go on from what one of the same name had learnt.
    pub(crate) fn learn_from(
        &mut self,
        group: &GroupState,
        learnt: &[u8],
        pools: &[PoolId],
    ) -> Result<(), Unreadable> {
        let placement = self.placement.as_mut().ok_or(Unreadable)?;
        let changes = group.pools.ranks().changes_since(pools).ok_or(Unreadable)?;
        assert!(changes.len() <= 2 * POOLS_MAX, "each pool joins and goes once");
        placement.learn_from(learnt, &|chunk| group.map.has(chunk))?;
        changes.into_iter().for_each(|change| placement.pools_changed(change));
        Ok(())
    }

    /// Asks the placement's router, where it has one, and tells the observer of its word.
    pub(crate) fn route(&mut self, now: Nanos, loads: &[PoolLoad]) -> Option<Route> {
        assert!(!loads.is_empty(), "a group has pools");
        let router = self.placement.as_mut().and_then(|placement| placement.router())?;
        let route = router.route(loads);
        if let Some(observer) = &mut self.observer {
            observer.routed(now, loads, route);
        }
        Some(route)
    }

    /// Lets `word` reach the store of hints. With the first one an epoch begins, unless one is
    /// running.
    pub(crate) fn hear<T>(
        &mut self,
        now: Nanos,
        epoch: Nanos,
        hints: &mut Hints,
        word: impl FnOnce(&mut Hints) -> Result<T, HintError>,
    ) -> Result<T, HintError> {
        let mattered = self.matter(hints);
        let taken = word(hints)?;
        if !mattered {
            self.begin(now, epoch);
            assert!(self.end >= now, "the epoch that begins lasts");
        }
        Ok(taken)
    }

    /// The shadows.
    pub(crate) fn shadows(&self) -> &Shadows {
        &self.shadows
    }

    /// Lets a placement begin as a shadow. Epochs pass from now on, also when nobody decides.
    pub(crate) fn begin_shadow(
        &mut self,
        now: Nanos,
        (group, slas, hints): (&GroupState, &Slas, &Hints),
        rival: (&str, Box<dyn Placement>),
        one_in: Option<u32>,
    ) -> Result<(), ShadowError> {
        let mattered = self.matter(hints);
        let view = self.view(group, slas);
        self.shadows.begin(now, &view, rival, one_in)?;
        assert!(!self.shadows.is_empty(), "it follows from now on");
        if !mattered {
            self.begin(now, group.settings.epoch);
        }
        Ok(())
    }

    /// Ends a shadow.
    pub(crate) fn end_shadow(&mut self, name: &str) -> Option<Box<dyn Placement>> {
        self.shadows.end(name)
    }

    /// Pools have other ranks: all who know pools by rank learn of it.
    pub(crate) fn pools_changed(&mut self, now: Nanos, change: PoolChange) {
        let (PoolChange::Joined(PoolId(place)) | PoolChange::Left(PoolId(place))) = change;
        assert!(usize::from(place) < POOLS_MAX, "a place among pools");
        let left = matches!(change, PoolChange::Left(_));
        met_if(left && self.placement.is_some(), "pool left while a placement decided");
        met_if(!left && self.placement.is_some(), "pool joined while a placement decided");
        if let Some(placement) = &mut self.placement {
            placement.pools_changed(change);
        }
        self.shadows.pools_changed(change);
        if let Some(observer) = &mut self.observer {
            observer.pools_changed(now, change);
        }
    }

    /// Lets somebody listen, in place of whoever did.
    pub(crate) fn set_observer(
        &mut self,
        observer: Option<Box<dyn Observer>>,
    ) -> Option<Box<dyn Observer>> {
        std::mem::replace(&mut self.observer, observer)
    }

    /// True if somebody listens.
    pub(crate) fn is_observed(&self) -> bool {
        self.observer.is_some()
    }

    /// A client has asked for something.
    pub(crate) fn asked(&mut self, now: Nanos, request: &Request) {
        if let Some(observer) = &mut self.observer {
            observer.asked(now, request);
        }
    }

    /// Counts the heat of an access, and tells everybody.
    pub(crate) fn accessed(&mut self, group: &mut GroupState, access: &ChunkAccess) {
        assert!(access.at <= group.now, "nobody hears of what is to come");
        group.map.count_access(access.chunk, self.number, access.write);
        if let Some(placement) = &mut self.placement {
            placement.observe(access);
        }
        self.shadows.observe(access);
        if let Some(observer) = &mut self.observer {
            observer.accessed(access);
        }
    }

    /// Tells the observer of an answer to a client.
    pub(crate) fn answered(&mut self, now: Nanos, reply: &Reply) {
        if let Some(observer) = &mut self.observer {
            observer.answered(now, reply.id, reply.result.is_ok());
        }
    }

    /// True if somebody is asked at an epoch's end: the placement, a shadow, or hints.
    fn matter(&self, hints: &Hints) -> bool {
        self.placement.is_some() || !self.shadows.is_empty() || !hints.is_empty()
    }
}

#[cfg(test)]
mod tests;
