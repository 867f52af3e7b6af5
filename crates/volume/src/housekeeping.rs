//! What is due by the clock: epochs, commits that nobody waits for, cleaning up.

use crate::copies::drop_copy;
use crate::format::Record;
use crate::fullness::next_probe;
use crate::group::Group;
use crate::map::NONE;
use crate::moves::Proposed;
use crate::observer::Decision;
use crate::operation::{Operation, OperationId, OperationKind, Refusal};
use crate::pools::pool::{Evacuation, Pool, PoolState};
use thermocline_policy::placement::{Budget, Move, VolumeView};
use thermocline_units::mutants::mutant;
use thermocline_units::{ChunkId, Nanos, PoolId, VolumeId};

/// Interval of housekeeping while there is something to do.
const ROUND: Nanos = Nanos(100_000_000);
/// Changes that nobody waits for become durable after so many rounds: one second.
const ROUNDS_PER_COMMIT: u32 = 10;
/// Copies count as equal again when they were not written for so long.
const QUIET: Nanos = Nanos(1_000_000_000);
/// Wishes granted in one round.
const WISHES_PER_ROUND: usize = 16;

/// Clock of the epochs and of the housekeeping rounds.
#[derive(Debug)]
pub(crate) struct Housekeeping {
    /// End of the epoch.
    pub(crate) epoch_end: Nanos,
    /// Its begin, and the length of the one before.
    epoch_began: Nanos,
    pub(crate) epoch_length: Nanos,
    /// Moment of the next round.
    round: Nanos,
    rounds: u32,
    /// Volumes being deleted, until their last part has ended.
    pub(crate) dying_volumes: Vec<VolumeId>,
}

impl Housekeeping {
    pub(crate) fn new(epoch: Nanos) -> Housekeeping {
        Housekeeping {
            epoch_end: epoch,
            epoch_began: Nanos(0),
            epoch_length: epoch,
            round: Nanos(0),
            rounds: 0,
            dying_volumes: Vec::new(),
        }
    }

    /// Begins an epoch now.
    pub(crate) fn begin_epoch(&mut self, now: Nanos, epoch: Nanos) {
        self.epoch_began = now;
        self.epoch_end = Nanos(now.0.saturating_add(epoch.0));
    }
}

impl Group {
    /// Moment at which housekeeping is due; `None` when there is nothing to do.
    pub(crate) fn next_housekeeping(&self) -> Option<Nanos> {
        let due = self.state.has_changes()
            || !self.state.dirty_chunks.is_empty()
            || !self.housekeeping.dying_volumes.is_empty()
            || self.moves.has_wishes()
            || self.hinting.has_wishes()
            || self.state.pools.keep_checksums() && self.checksums.has_watched()
            || self.checksums.has_open_regions()
            || self.state.pools.iter().any(|pool| pool.state == PoolState::Draining);
        let round = due.then_some(self.housekeeping.round);
        let probe = next_probe(&self.state);
        let epoch = self.epochs.matter(&self.hinting.hints).then_some(self.housekeeping.epoch_end);
        let pacing =
            self.pacing.rate.next(&self.state.settings.copying, self.requests.slas.are_set());
        [round, probe, epoch, self.routing.next(), pacing].into_iter().flatten().min()
    }

    pub(crate) fn housekeeping(&mut self, now: Nanos) {
        self.ask_router(now);
        self.pacing.rate.set_rate(now, &self.state.settings.copying, self.requests.slas.answered());
        self.leaving.probe_full_pools(&mut self.state, now);
        if now >= self.housekeeping.epoch_end {
            self.end_epoch(now);
        }
        if now < self.housekeeping.round {
            return;
        }
        self.housekeeping.round = Nanos(now.0 + ROUND.0);
        self.housekeeping.rounds += 1;
        if self.state.journal.switches_waiting() > 0 {
            self.state.journal.want_commit();
        }
        if self.housekeeping.rounds.is_multiple_of(ROUNDS_PER_COMMIT) {
            // What clients wrote and did not flush is no reason: on some disks each flush is felt.
            self.state.want_commit_of_changes();
            self.state.grow_areas_when_short();
        }
        self.settle_quiet_copies(now);
        self.checksums.seal_quiet_chunks(&mut self.state, now);
        self.carry_out(now);
        self.checksums.close_quiet_regions(&mut self.state, now);
        self.bury_volumes();
        for _ in 0..WISHES_PER_ROUND {
            let Some(wish) = self.moves.take_wish() else { break };
            self.grant(now, wish);
        }
        self.grant_hint_wishes(now);
        self.evacuate(now);
        for pool in self.state.pools.iter_mut() {
            if pool.state == PoolState::Draining && pool.slots_used() == 0 {
                pool.state = PoolState::Drained;
                self.state.journal.want_checkpoint();
            }
        }
    }

    /// Queues an operation, and lets it begin if it may.
    ///
    /// # Errors
    /// When it makes no sense now; nothing has changed then.
    pub(crate) fn begin(
        &mut self,
        now: Nanos,
        operation: Operation,
    ) -> Result<OperationId, Refusal> {
        let id = self.moves.enqueue(&self.state, operation)?;
        self.pump(now);
        Ok(id)
    }

    /// Starts an operation that the machine itself wants; one that must wait is put back.
    fn grant(&mut self, now: Nanos, wish: Operation) {
        match self.begin(now, wish) {
            Err(Refusal::Busy | Refusal::QueueFull) => self.moves.wish(wish),
            Err(Refusal::NoPool | Refusal::NoRoom) if wish.kind == OperationKind::Replicate => {
                // Anywhere else is as good.
                for to in self.state.pools.ranks().order().to_vec() {
                    if self.begin(now, Operation { to, ..wish }).is_ok() {
                        break;
                    }
                }
            }
            _ => {}
        }
    }

    /// Moves chunks off pools that are being drained.
    fn evacuate(&mut self, now: Nanos) {
        let draining = |pool: &Pool| pool.state == PoolState::Draining;
        if !self.state.pools.iter().any(draining) || self.has_operations() {
            return;
        }
        let batch = self.state.settings.copying.concurrent as usize;
        let found: Vec<(ChunkId, PoolId)> = self
            .state
            .map
            .chunks()
            .filter(|chunk| !self.moves.chunks.contains_key(chunk))
            .filter_map(|chunk| {
                let copies = self.state.map.copies(chunk).map(|copy| copy.place);
                let above = self.state.map.overlay(chunk).map(|overlay| overlay.place);
                let mut places = copies.chain(above);
                let place = places.find(|place| draining(&self.state.pools[place.pool]))?;
                Some((chunk, place.pool))
            })
            .take(batch)
            .collect();
        for (chunk, from) in found {
            // A further copy needs no move: it is dropped.
            if self.state.map.copies(chunk).count() > 1 {
                drop_copy(&mut self.state, &mut self.checksums, chunk, from, false);
                continue;
            }
            let others = self.state.pools.ranks().by_likeness(from).into_iter();
            let others = others.filter(|&to| to != from && self.may_evacuate(from, to));
            // The first pool that takes it; when none does, the next round tries again. What lies
            // over a copy elsewhere may have to be brought together here before it can leave.
            let to: Vec<PoolId> = others.chain([from]).collect();
            to.into_iter().any(|to| {
                self.begin(now, Operation { kind: OperationKind::Migrate, chunk, to }).is_ok()
            });
        }
    }

    /// True if a drain of `from` may send chunks to `to`.
    fn may_evacuate(&self, from: PoolId, to: PoolId) -> bool {
        let (from, to) = (&self.state.pools[from], &self.state.pools[to]);
        !to.geometry.far || from.geometry.far || from.evacuation == Evacuation::Anywhere
    }

    /// Begins some of the copies that hints wish.
    fn grant_hint_wishes(&mut self, now: Nanos) {
        self.hinting.begin_round();
        for _ in 0..WISHES_PER_ROUND {
            let Some((place, wish)) = self.hinting.next_wish() else { return };
            let started = self.begin(now, wish);
            if !self.hinting.note_started(place, wish, started) {
                return;
            }
        }
    }

    /// Asks the placement's router, where it is time.
    fn ask_router(&mut self, now: Nanos) {
        let Some(loads) = self.routing.loads(now, &mut self.state.pools) else { return };
        let router = self.epochs.placement.as_mut().and_then(|placement| placement.router());
        let Some(route) = router.map(|router| router.route(&loads)) else { return };
        self.routing.set(route);
        if let Some(observer) = &mut self.epochs.observer {
            observer.routed(now, &loads, route);
        }
    }

    /// Asks the placement what should move, and queues it.
    fn end_epoch(&mut self, now: Nanos) {
        let epoch = self.state.settings.epoch.0.max(1);
        let passed = (now.0 - self.housekeeping.epoch_end.0) / epoch + 1;
        self.housekeeping.epoch_end.0 += passed * epoch;
        self.epochs.number = self.epochs.number.wrapping_add(1);
        let began = std::mem::replace(&mut self.housekeeping.epoch_began, now);
        self.housekeeping.epoch_length = now.saturating_sub(began).max(Nanos(1));
        self.state.pools.iter_mut().for_each(Pool::end_epoch);
        let mut shadows = std::mem::take(&mut self.epochs.shadows);
        shadows.end_epoch(now, &self.view(), self.state.settings.copying.rate_per_second);
        self.epochs.shadows = shadows;
        let mut moves: Vec<Move> = Vec::new();
        if let Some(mut placement) = self.epochs.placement.take() {
            placement.propose(now, &self.view(), Budget::UNLIMITED, &mut moves);
            self.epochs.placement = Some(placement);
            if let Some(mut observer) = self.epochs.observer.take() {
                let (view, budget) = (&self.view(), Budget::UNLIMITED);
                observer.decided(&Decision { at: now, view, budget, moves: &moves });
                self.epochs.observer = Some(observer);
            }
        }
        let mut hinting = std::mem::take(&mut self.hinting);
        hinting.direct(now, &self.view(), &mut moves);
        self.hinting = hinting;
        self.state.pools.ranks().translate_moves(&mut moves);
        let flows = self.flows_of(&moves);
        self.moves.take_over(now, moves, flows);
    }

    /// Chunks that a proposal moves, by origin and destination; none: it is empty.
    fn flows_of(&self, moves: &[Move]) -> Option<Proposed> {
        let mut proposed = Proposed::default();
        for planned in moves {
            // A mirror that is brought together where it is moves nothing.
            let from = self.state.pool_of(planned.chunk).filter(|from| *from != planned.to);
            let Some(from) = from else { continue };
            let flow = proposed.flows.entry((from, planned.to)).or_default();
            flow.chunks += 1;
            flow.requests += self.view().accesses(planned.chunk);
        }
        (!moves.is_empty()).then_some(proposed)
    }

    /// True if operations are queued or under way.
    pub(crate) fn has_operations(&self) -> bool {
        self.moves.has_queued() || !self.state.operations.is_empty()
    }

    /// Tells the journal that copies which were not written for a while are equal: its next cycle
    /// flushes them first.
    fn settle_quiet_copies(&mut self, now: Nanos) {
        let mut dirty = std::mem::take(&mut self.state.dirty_chunks);
        dirty.retain(|&chunk| {
            if !self.state.map.has(chunk) || self.state.records_pile_up() {
                return self.state.map.has(chunk);
            }
            let Some(extra) = self.state.map.extra(chunk).filter(|extra| extra.dirty) else {
                return false;
            };
            let quiet = now.saturating_sub(extra.last_write) >= QUIET
                || mutant("copies_equal_without_rest");
            let busy = self.state.map.entry(chunk).traffic != NONE;
            if !quiet || busy && !mutant("copies_equal_under_a_write") {
                return true;
            }
            self.state.map.extra_mut(chunk).dirty = false;
            let state = self.state.durable_state(chunk);
            self.state.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
            false
        });
        self.state.dirty_chunks = dirty;
    }

    /// Frees the chunks of deleted volumes on which nothing is under way any more.
    pub(crate) fn bury_volumes(&mut self) {
        for volume in std::mem::take(&mut self.housekeeping.dying_volumes) {
            let busy = self.state.map.volume(volume).is_some_and(|volume| volume.busy > 0);
            if busy {
                self.housekeeping.dying_volumes.push(volume);
                continue;
            }
            self.bury(volume);
        }
    }

    fn bury(&mut self, volume: VolumeId) {
        let count = self.state.map.volume(volume).map_or(0, |volume| volume.entries.len() as u32);
        let mut left = Vec::new();
        for index in 0..count {
            let chunk = ChunkId { volume, index };
            let state = self.state.map.state(chunk);
            self.state.overlays -= usize::from(state.overlay.is_some());
            for copy in state.copies.iter().filter(|copy| copy.prefetched) {
                self.state.pools[copy.place.pool].uncount_prefetched();
            }
            left.extend(state.copies.iter().map(|copy| copy.place));
            left.extend(state.overlay.iter().map(|(place, _)| *place));
            self.state.map.set_state(chunk, &Default::default());
            self.checksums.forget(chunk);
        }
        self.state.map.remove_volume(volume);
        self.settlement.forget(volume);
        if mutant("deleted_volume_frees_at_once") {
            self.state.journal.change(&Record::VolumeGone(volume), ChunkId::default(), &[]);
            let now = self.state.now;
            left.into_iter().for_each(|place| self.leaving.free_slot(&mut self.state, now, place));
            return;
        }
        self.state.journal.change(&Record::VolumeGone(volume), ChunkId::default(), &left);
        self.state.journal.want_commit();
    }
}
