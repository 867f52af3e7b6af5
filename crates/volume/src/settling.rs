//! Between the journal and those who wait for it: the group asks for its steps, hands it the
//! answers to its requests, and does what follows from what became durable.

use crate::copies::durable_state;
use crate::format::Record;
use crate::group::{Group, Service};
use crate::journal::{Below, Journal, Outcome, Waiter, Wishes};
use crate::map::Place;
use crate::opening::OpenError;
use crate::operation::{Finished, Operation, OperationId, Outcome as Ended};
use crate::pools::Retry;
use crate::pools::flight::{Flight, Owner};
use crate::pools::pool::PoolState;
use crate::request::{Reply, RequestError};
use std::collections::BTreeSet;
use thermocline_ports::DeviceError;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{ChunkId, Nanos, PoolId, VolumeId};

/// Writes that were not flushed when their pool died: who flushes next is told.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Pools that died so since a commit was last durable.
    pools: BTreeSet<PoolId>,
    /// Volumes whose next flush fails: a pool died with something that only it had, and nobody was
    /// told yet.
    untold: BTreeSet<VolumeId>,
}

impl Losses {
    /// Unflushed writes to `pool` are gone.
    pub(crate) fn note(&mut self, pool: PoolId) {
        self.pools.insert(pool);
    }

    /// The volume is deleted: what it lost concerns nobody.
    pub(crate) fn forget(&mut self, volume: VolumeId) {
        self.untold.remove(&volume);
    }
}

impl Group {
    /// Lets the journal take a step, and does what follows from it.
    fn with_journal(&mut self, step: impl FnOnce(&mut Journal, &mut Below)) {
        let Group { journal, pools, map, traffic, copier, now, .. } = self;
        let state_of = |chunk| durable_state(map, traffic, copier, chunk);
        let overlays = copier.overlays;
        step(journal, &mut Below { now: *now, pools, map, state_of: &state_of, overlays });
        self.settle_journal();
    }

    /// Does what follows from what the journal has said.
    pub(crate) fn settle_journal(&mut self) {
        for outcome in self.journal.take_outcomes() {
            match outcome {
                Outcome::Durable { left, waiters } => self.settle(left, waiters),
                Outcome::InForce { states } => self.checkpoint_in_force(&states),
                Outcome::NoReplica => self.fail(OpenError::NoReplica),
            }
        }
    }

    fn wishes(&self) -> Wishes {
        let unsaved = !self.copier.unsaved_overlays.is_empty();
        Wishes { unsaved, hurried: !self.copier.is_copying() }
    }

    /// True if the map in memory is ahead of the journal.
    pub(crate) fn has_changes(&self) -> bool {
        self.journal.has_records() || self.wishes().unsaved
    }

    /// Wants a cycle for what is queued, although nobody waits for it.
    pub(crate) fn want_commit_of_changes(&mut self) {
        if self.journal.is_queued() || self.wishes().unsaved {
            self.journal.want_commit();
        }
    }

    /// True if a cycle would start now.
    pub(crate) fn cycle_can_start(&self) -> bool {
        self.journal.cycle_can_start(&self.pools, self.wishes())
    }

    /// Starts a cycle when somebody wants one.
    pub(crate) fn pump_commit(&mut self) {
        if !self.cycle_can_start() {
            return;
        }
        if self.journal.next_cycle_takes_records() {
            if mutant("blocks_of_sides_not_saved") {
                self.copier.unsaved_overlays.clear();
            }
            self.save_overlays();
        }
        self.with_journal(Journal::start_cycle);
    }

    /// Queues a record for every chunk in two parts whose blocks changed sides since its last one.
    fn save_overlays(&mut self) {
        for chunk in std::mem::take(&mut self.copier.unsaved_overlays) {
            if !self.map.has(chunk) {
                continue;
            }
            let overlay = self.map.overlay_mut(chunk);
            if overlay.is_some_and(|overlay| std::mem::replace(&mut overlay.unsaved, false)) {
                let state = self.durable_state(chunk);
                self.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
            }
        }
    }

    /// True if the group is out of service for good.
    fn is_over(&self) -> bool {
        matches!(self.service, Service::Failed(_) | Service::Closed)
    }

    /// True if a checkpoint can start, and should.
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        !self.is_over() && self.journal.checkpoint_is_due(self.pools.sizes())
    }

    /// Takes the next step of a checkpoint, or starts one.
    pub(crate) fn pump_checkpoint(&mut self) {
        if !self.is_over() {
            self.with_journal(Journal::pump_checkpoint);
        }
    }

    /// True if so much is queued that nobody may add to it before the next cycle.
    pub(crate) fn records_pile_up(&self) -> bool {
        self.journal.records_pile_up(self.pools.sizes())
    }

    /// True if records that nobody waits for must leave the rest of the room to others.
    pub(crate) fn records_half_pile_up(&self) -> bool {
        self.journal.records_half_pile_up(self.pools.sizes())
    }

    /// A pool is flushed, or is not.
    pub(crate) fn flush_answered(
        &mut self,
        now: Nanos,
        flight: &Flight,
        error: Option<DeviceError>,
    ) {
        let forgot = matches!(error, Some(DeviceError::Io | DeviceError::NoSpace))
            && !mutant("failed_flush_tried_again");
        met_if(forgot, "flush failed");
        if forgot && !self.pools[flight.pool].is_far() {
            self.flush_failed(flight.pool);
            if matches!(self.service, Service::Failed(_)) {
                return;
            }
        } else if self.goes_again(now, flight, error.is_some()) {
            return;
        }
        if error.is_some() && !mutant("failed_flush_not_reported") {
            self.losses.note(flight.pool);
        }
        self.with_journal(Journal::flush_ended);
    }

    /// A write of metadata was answered.
    pub(crate) fn journal_answered(&mut self, now: Nanos, flight: &Flight, failed: bool) {
        if self.goes_again(now, flight, failed) || matches!(self.service, Service::Failed(_)) {
            return;
        }
        self.with_journal(|journal, below| match flight.owner {
            Owner::Journal => journal.write_ended(below),
            Owner::Checkpoint => journal.batch_ended(below),
            _ => journal.superblock_ended(below),
        });
    }

    /// A pool could not flush: what was written there since its last flush may be gone, whatever
    /// later flushes say, so no record may be written that relies on it. Where every chunk is whole
    /// without the pool, the group goes on without it. Otherwise it goes out of service: the
    /// devices are as a crash would leave them, and opening it again recovers what is durable.
    fn flush_failed(&mut self, pool: PoolId) {
        if self.pools[pool].is_alive() {
            let last = !self.elect_replicas().iter().any(|&replica| replica != pool);
            match last || self.is_needed(pool) {
                true => self.fail(OpenError::FlushFailed(pool)),
                false => self.pool_died(pool),
            }
        }
    }

    /// The pool stops taking part; what had copies elsewhere goes on there.
    pub(crate) fn pool_died(&mut self, pool: PoolId) {
        if self.opening.is_some() {
            return;
        }
        let Some(unflushed) = self.pools.bury(pool) else { return };
        if unflushed && !mutant("death_loses_in_silence") {
            met("pool died with unflushed writes");
            self.losses.note(pool);
        }
        self.journal.lose(pool);
        // Until a recovery's checkpoint is in force its journal is the old one, and is not written.
        if self.service != Service::Opening {
            self.forget_copies_on(pool);
            self.operations_lose(pool);
        }
    }

    /// Sends a failed request of the machine's own again, and gives up its pool after the last try.
    /// True if the request is under way again.
    fn goes_again(&mut self, now: Nanos, flight: &Flight, failed: bool) -> bool {
        if !failed {
            return false;
        }
        let retry = self.pools.send_again(now, flight);
        if retry == Retry::Spent {
            self.pool_died(flight.pool);
        }
        retry == Retry::Again
    }

    /// Tells everybody who waited, and lets go of slots.
    fn settle(&mut self, left: Vec<(ChunkId, Place)>, waiters: Vec<Waiter>) {
        let now = self.now;
        let lost = std::mem::take(&mut self.losses.pools);
        if !lost.is_empty() && !mutant("loss_told_to_nobody") {
            let lose = |chunk: &ChunkId| self.has_lost_part(*chunk, &lost);
            let volumes = self.map.chunks().filter(lose).map(|chunk| chunk.volume);
            self.losses.untold = volumes.chain(self.losses.untold.iter().copied()).collect();
        }
        let mut told = Vec::new();
        // Switches first: the slots that they leave are in `left`.
        for &waiter in &waiters {
            if let Waiter::Switch(operation) = waiter {
                self.switch_durable(now, operation);
            }
        }
        for (chunk, place) in left {
            self.leave(now, chunk, place);
        }
        for waiter in waiters {
            match waiter {
                Waiter::Flush(request) => {
                    let volume = self.requests[request].volume;
                    let fails = !lost.is_empty() || self.losses.untold.contains(&volume);
                    told.push(volume);
                    self.end_flush(request, if fails { Err(RequestError::Io) } else { Ok(()) });
                }
                Waiter::Part(part) => {
                    if self.has_lost_part(self.parts[part].chunk, &lost) {
                        self.parts[part].error = Some(RequestError::Io);
                    }
                    self.end_part(part);
                }
                Waiter::Intent(chunk) => self.intent_durable(now, chunk),
                Waiter::Dropped(chunk) => self.drop_durable(now, chunk),
                Waiter::Region(region) => self.region_opened(now, region),
                Waiter::Room(chunk) => self.room_may_be_there(now, chunk),
                Waiter::Space(part) => self.space_may_be_free(now, part),
                Waiter::Switch(_) => {}
                Waiter::Checkpoint(_) => unreachable!("the journal tells its checkpoint itself"),
            }
        }
        self.losses.untold.retain(|volume| !told.contains(volume));
    }

    /// Parts of a chunk waited until less is queued.
    fn room_may_be_there(&mut self, now: Nanos, chunk: ChunkId) {
        // Who waited may have gone with the mirror that it would have announced.
        if self.map.is_busy(chunk) {
            let traffic = self.traffic_of(chunk);
            self.traffic[traffic].awaits_room = false;
            self.traffic_eased(now, chunk);
        }
    }

    /// True if the checkpoint that just ended was the one that puts the group in service.
    fn opening_ends(&self) -> bool {
        self.service == Service::Opening && self.opening.is_none()
    }

    /// A checkpoint is in force, which names these states of pools: the first one puts the group in
    /// service.
    fn checkpoint_in_force(&mut self, states: &[PoolState]) {
        if !self.opening_ends() {
            return;
        }
        self.service = Service::Ready;
        for pool in self.pools.ids() {
            // Died meanwhile: the superblock may still name it, the checkpoint its copies.
            let dead = self.pools[pool].state == PoolState::Dead;
            let before = states.get(usize::from(pool.0));
            let noted =
                before == Some(&PoolState::Dead) || mutant("death_in_recovery_not_recorded");
            if dead && (!noted || self.has_spare_copy_on(pool)) {
                self.forget_copies_on(pool);
            }
        }
    }

    /// Puts the group out of service: no pool is left that could hold the journal.
    pub(crate) fn fail(&mut self, error: OpenError) {
        if matches!(self.service, Service::Failed(_)) {
            return;
        }
        self.service = Service::Failed(error);
        self.fail_everyone();
    }

    /// Everybody who waits is told that the group is out of service.
    fn fail_everyone(&mut self) {
        for request in self.drain_requests() {
            let result = Err(RequestError::NotReady);
            self.reply(Reply { id: request, result });
        }
        let queued = std::mem::take(&mut self.copier.queue).into_iter();
        let under_way = self.copier.operations.iter().map(|(_, copy)| (copy.id, copy.what));
        let ended: Vec<(OperationId, Operation)> = queued.chain(under_way).collect();
        self.copier.chunks.clear();
        let outcome = Ended::Failed;
        let ended = ended.into_iter().map(|(id, operation)| {
            let (from, proposed) = (None, false);
            Finished { id, operation, outcome, from, proposed }
        });
        self.finished_out.extend(ended);
    }
}
