//! Periodic work of a group: epochs, commits that nobody waits for, cleaning up.

use crate::group_state::service::Service;
use crate::machines::Machines;
use crate::map::copies::{drop_copy, settle_quiet_copies};
use crate::moves::evacuation;
use crate::moves::operation::{Operation, OperationKind, Refusal};
use crate::pools::fullness::next_probe;
use crate::pools::pool::PoolState;
use thermocline_units::Nanos;

/// Interval of housekeeping while there is something to do.
const ROUND: Nanos = Nanos(100_000_000);
/// Changes that nobody waits for become durable after so many rounds: one second.
const ROUNDS_PER_COMMIT: u32 = 10;
/// Wishes granted in one round.
const WISHES_PER_ROUND: usize = 16;

/// Clock of the rounds of housekeeping.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    /// Moment of the next round.
    next: Nanos,
    /// Number of rounds, which begins anew after 2³² − 1.
    count: u32,
}

impl Rounds {
    /// True if a round is due, which then counts as begun.
    fn begin(&mut self, now: Nanos) -> bool {
        if now < self.next {
            return false;
        }
        self.next = Nanos(now.0 + ROUND.0);
        self.count = self.count.wrapping_add(1);
        assert!(self.next > now, "rounds do not follow each other at once");
        true
    }

    /// True if changes that nobody waits for are to become durable in this round.
    fn commits(&self) -> bool {
        self.count.is_multiple_of(ROUNDS_PER_COMMIT)
    }
}

impl Machines {
    /// Moment at which housekeeping is due; `None` when there is nothing to do.
    pub(crate) fn next_housekeeping(&self) -> Option<Nanos> {
        let due = self.state.has_changes()
            || self.state.map.has_differing()
            || self.deletion.is_under_way()
            || self.moves.has_wishes()
            || self.kept.are_in_the_way(&self.state)
            || self.lines_are_due()
            || self.hinting.has_wishes()
            || self.state.pools.keep_checksums() && self.checksums.has_watched()
            || self.checksums.has_open_regions()
            || evacuation::is_under_way(&self.state);
        let round = due.then_some(self.rounds.next);
        let probe = next_probe(&self.state);
        let epoch = self.epochs.next_end(&self.hinting.hints);
        let slas = &self.requests.slas;
        let copy_throttle = self.copy_throttle.next_look(&self.state.settings, slas);
        [round, probe, epoch, self.routing.next(), copy_throttle].into_iter().flatten().min()
    }

    pub(crate) fn housekeeping(&mut self, now: Nanos) {
        assert_eq!(self.state.service, Service::Ready, "only a group in service keeps house");
        self.ask_router(now);
        self.copy_throttle.follow_slas(now, &self.state.settings, &self.requests.slas);
        self.leaving.probe_full_pools(&mut self.state, now);
        if self.epochs.has_ended(now) {
            let Machines { epochs, state, requests, hinting, .. } = self;
            let (moves, directed) = epochs.end(now, state, &requests.slas, hinting);
            let flows = self.view().flows_of(&moves);
            self.moves.take_over(now, moves, directed, flows);
        }
        if !self.rounds.begin(now) {
            return;
        }
        if self.state.journal.switches_waiting() > 0 {
            self.state.journal.want_commit();
        }
        if self.rounds.commits() {
            // What clients wrote and did not flush is no reason: on some disks each flush is felt.
            self.state.want_commit_of_changes();
            self.state.grow_areas_when_short();
        }
        settle_quiet_copies(&mut self.state, now);
        self.kept.make_room(&mut self.state, &mut self.checksums);
        self.lend_slots();
        self.checksums.checksum_quiet_chunks(&mut self.state, now);
        self.carry_out(now);
        self.checksums.close_quiet_regions(&mut self.state, now);
        self.bury_volumes();
        for _ in 0..WISHES_PER_ROUND {
            let Some(wish) = self.moves.take_wish() else { break };
            self.grant(now, wish);
        }
        self.grant_hint_wishes(now);
        self.evacuate(now);
        evacuation::end_drains(&mut self.state);
    }

    /// Asks the placement's router, where it is time.
    fn ask_router(&mut self, now: Nanos) {
        if let Some(loads) = self.routing.loads(now, &mut self.state.pools)
            && let Some(route) = self.epochs.route(now, &loads)
        {
            let there = self.state.pools.ranks().there().len();
            assert_eq!(loads.len(), there, "the router sees all pools");
            self.routing.set(route);
        }
    }

    /// Begins the first of these operations that makes sense now; false: none does.
    fn begin_first(&mut self, now: Nanos, operations: impl IntoIterator<Item = Operation>) -> bool {
        operations.into_iter().any(|operation| self.begin(now, operation).is_ok())
    }

    /// Starts an operation that the machine itself wants; one that must wait is put back.
    fn grant(&mut self, now: Nanos, wish: Operation) {
        assert_ne!(wish.kind, OperationKind::Prefetch, "hints have a list of their own");
        match self.begin(now, wish) {
            Err(Refusal::Busy | Refusal::QueueFull) => self.moves.wish(wish),
            Err(Refusal::NoPool | Refusal::NoRoom) if wish.kind == OperationKind::Replicate => {
                // Anywhere else is as good.
                let anywhere = self.state.pools.ranks().there().to_vec();
                self.begin_first(now, anywhere.into_iter().map(|to| Operation { to, ..wish }));
            }
            _ => {}
        }
    }

    /// Begins some of the copies that hints wish.
    fn grant_hint_wishes(&mut self, now: Nanos) {
        self.hinting.begin_round();
        for _ in 0..WISHES_PER_ROUND {
            let Some((place, wish)) = self.hinting.next_wish() else { return };
            let is_hinted = matches!(wish.kind, OperationKind::Redirect | OperationKind::Prefetch);
            assert!(is_hinted, "{wish:?} is no wish of hints");
            let started = self.begin(now, wish);
            if !self.hinting.note_started(place, wish, started) {
                return;
            }
        }
    }

    /// Moves chunks off pools that are being drained.
    fn evacuate(&mut self, now: Nanos) {
        if !evacuation::is_under_way(&self.state) {
            return;
        }
        let most = evacuation::may_begin(&self.state, &self.moves);
        let last = self.moves.left_last;
        let leaving = evacuation::next_to_leave(&self.state, &self.moves, last, most);
        self.moves.left_last = leaving.last().map_or(last, |(chunk, _)| Some(*chunk));
        for (chunk, from) in leaving {
            assert_eq!(self.state.pools[from].state, PoolState::Draining);
            // A further copy needs no move: it is dropped.
            if self.state.map.copies(chunk).count() > 1 {
                drop_copy(&mut self.state, &mut self.checksums, chunk, from, false);
                continue;
            }
            // When no pool takes it, the next round tries again.
            self.begin_first(now, evacuation::ways_out(&self.state, chunk, from));
        }
    }
}
