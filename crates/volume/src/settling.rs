//! Between the journal and those who wait for it: the group asks for its steps, hands it the
//! answers to its requests, and does what follows from what became durable.

use crate::copies::forget_copies_on;
use crate::copies::has_spare_copy_on;
use crate::core::Core;
use crate::core::Effect;
use crate::core::durable_state;
use crate::core::service::Service;
use crate::format::Record;
use crate::group::Group;
use crate::hazards::drop_durable;
use crate::hazards::intent_durable;
use crate::journal::{Below, Journal, Outcome, Waiter};
use crate::losses::has_lost_part;
use crate::losses::is_needed;
use crate::map::Place;
use crate::moves::operations_lose;
use crate::opening::OpenError;
use crate::pools::Retry;
use crate::pools::flight::{Flight, Owner};
use crate::pools::pool::PoolState;
use crate::request::{Reply, RequestError};
use thermocline_ports::DeviceError;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{ChunkId, Nanos, PoolId};

impl Group {
    /// Lets the journal take a step, and does what follows from it.
    fn with_journal(&mut self, step: impl FnOnce(&mut Journal, &mut Below)) {
        let Core { journal, pools, map, traffic, operations, overlays, now, .. } = &mut self.core;
        let state_of = |chunk| durable_state(map, traffic, operations, chunk);
        let overlays = *overlays;
        step(journal, &mut Below { now: *now, pools, map, state_of: &state_of, overlays });
        self.settle_journal();
    }

    /// Does what follows from what the journal has said.
    pub(crate) fn settle_journal(&mut self) {
        for outcome in self.core.journal.take_outcomes() {
            match outcome {
                Outcome::Durable { left, waiters } => self.settle(left, waiters),
                Outcome::InForce { states } => self.checkpoint_in_force(&states),
                Outcome::NoReplica => self.fail(OpenError::NoReplica),
            }
        }
    }

    /// True if a cycle would start now.
    pub(crate) fn cycle_can_start(&self) -> bool {
        self.core.journal.cycle_can_start(&self.core.pools, self.core.wishes())
    }

    /// Starts a cycle when somebody wants one.
    pub(crate) fn pump_commit(&mut self) {
        if !self.cycle_can_start() {
            return;
        }
        if self.core.journal.next_cycle_takes_records() {
            if mutant("blocks_of_sides_not_saved") {
                self.core.unsaved_overlays.clear();
            }
            self.save_overlays();
        }
        self.with_journal(Journal::start_cycle);
    }

    /// Queues a record for every chunk in two parts whose blocks changed sides since its last one.
    fn save_overlays(&mut self) {
        for chunk in std::mem::take(&mut self.core.unsaved_overlays) {
            if !self.core.map.has(chunk) {
                continue;
            }
            let overlay = self.core.map.overlay_mut(chunk);
            if overlay.is_some_and(|overlay| std::mem::replace(&mut overlay.unsaved, false)) {
                let state = self.core.durable_state(chunk);
                self.core.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
            }
        }
    }

    /// True if the group is out of service for good.
    fn is_over(&self) -> bool {
        matches!(self.core.service, Service::Failed(_) | Service::Closed)
    }

    /// True if a checkpoint can start, and should.
    pub(crate) fn checkpoint_is_due(&self) -> bool {
        !self.is_over() && self.core.journal.checkpoint_is_due(self.core.pools.sizes())
    }

    /// Takes the next step of a checkpoint, or starts one.
    pub(crate) fn pump_checkpoint(&mut self) {
        if !self.is_over() {
            self.with_journal(Journal::pump_checkpoint);
        }
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
        if forgot && !self.core.pools[flight.pool].is_far() {
            self.flush_failed(flight.pool);
            if matches!(self.core.service, Service::Failed(_)) {
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
        if self.goes_again(now, flight, failed) || matches!(self.core.service, Service::Failed(_)) {
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
        if self.core.pools[pool].is_alive() {
            let last = !self.core.elect_replicas().iter().any(|&replica| replica != pool);
            match last || is_needed(&self.core, pool) {
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
        let Some(unflushed) = self.core.pools.bury(pool) else { return };
        if unflushed && !mutant("death_loses_in_silence") {
            met("pool died with unflushed writes");
            self.losses.note(pool);
        }
        self.core.journal.lose(pool);
        // Until a recovery's checkpoint is in force its journal is the old one, and is not written.
        if self.core.service != Service::Opening {
            forget_copies_on(&mut self.core, &mut self.checksums, pool);
            operations_lose(&mut self.core, pool);
        }
    }

    /// Sends a failed request of the machine's own again, and gives up its pool after the last try.
    /// True if the request is under way again.
    fn goes_again(&mut self, now: Nanos, flight: &Flight, failed: bool) -> bool {
        if !failed {
            return false;
        }
        let retry = self.core.pools.send_again(now, flight);
        if retry == Retry::Spent {
            self.pool_died(flight.pool);
        }
        retry == Retry::Again
    }

    /// Tells everybody who waited, and lets go of slots.
    fn settle(&mut self, left: Vec<(ChunkId, Place)>, waiters: Vec<Waiter>) {
        let now = self.core.now;
        let lost = std::mem::take(&mut self.losses.pools);
        if !lost.is_empty() && !mutant("loss_told_to_nobody") {
            let lose = |chunk: &ChunkId| has_lost_part(&self.core, *chunk, &lost);
            let volumes = self.core.map.chunks().filter(lose).map(|chunk| chunk.volume);
            self.losses.untold = volumes.chain(self.losses.untold.iter().copied()).collect();
        }
        let mut told = Vec::new();
        // Switches first: the slots that they leave are in `left`.
        for &waiter in &waiters {
            if let Waiter::Switch(operation) = waiter {
                let (moves, mut below) = self.moves_and_below(now);
                moves.switch_durable(&mut below, operation);
                self.carry_out(now);
            }
        }
        for (chunk, place) in left {
            self.leaving.leave(&mut self.core, now, chunk, place);
            self.carry_out(now);
        }
        for waiter in waiters {
            match waiter {
                Waiter::Flush(request) => {
                    let volume = self.requests.all[request].volume;
                    let fails = !lost.is_empty() || self.losses.untold.contains(&volume);
                    told.push(volume);
                    let result = if fails { Err(RequestError::Io) } else { Ok(()) };
                    self.requests.end_flush(&mut self.core, &mut self.epochs, request, result);
                }
                Waiter::Part(part) => {
                    if has_lost_part(&self.core, self.core.parts[part].chunk, &lost) {
                        self.core.parts[part].error = Some(RequestError::Io);
                    }
                    self.requests.end_part(&mut self.core, &mut self.epochs, part);
                }
                Waiter::Intent(chunk) => {
                    intent_durable(&mut self.core, &mut self.checksums, now, chunk);
                }
                Waiter::Dropped(chunk) => drop_durable(&mut self.core, chunk),
                Waiter::Region(region) => self.checksums.region_opened(&mut self.core, region),
                Waiter::Room(chunk) => self.room_may_be_there(chunk),
                Waiter::Space(part) => self.path().space_may_be_free(now, part),
                Waiter::Switch(_) => {}
                Waiter::Checkpoint(_) => unreachable!("the journal tells its checkpoint itself"),
            }
            self.carry_out(now);
        }
        self.losses.untold.retain(|volume| !told.contains(volume));
    }

    /// Parts of a chunk waited until less is queued.
    fn room_may_be_there(&mut self, chunk: ChunkId) {
        // Who waited may have gone with the mirror that it would have announced.
        if self.core.map.is_busy(chunk) {
            let traffic = self.core.traffic_of(chunk);
            self.core.traffic[traffic].awaits_room = false;
            self.core.emit(Effect::Eased(chunk));
        }
    }

    /// True if the checkpoint that just ended was the one that puts the group in service.
    fn opening_ends(&self) -> bool {
        self.core.service == Service::Opening && self.opening.is_none()
    }

    /// A checkpoint is in force, which names these states of pools: the first one puts the group in
    /// service.
    fn checkpoint_in_force(&mut self, states: &[PoolState]) {
        if !self.opening_ends() {
            return;
        }
        self.core.service = Service::Ready;
        for pool in self.core.pools.ids() {
            // Died meanwhile: the superblock may still name it, the checkpoint its copies.
            let dead = self.core.pools[pool].state == PoolState::Dead;
            let before = states.get(usize::from(pool.0));
            let noted =
                before == Some(&PoolState::Dead) || mutant("death_in_recovery_not_recorded");
            if dead && (!noted || has_spare_copy_on(&self.core, pool)) {
                forget_copies_on(&mut self.core, &mut self.checksums, pool);
            }
        }
    }

    /// Puts the group out of service: no pool is left that could hold the journal.
    pub(crate) fn fail(&mut self, error: OpenError) {
        if matches!(self.core.service, Service::Failed(_)) {
            return;
        }
        self.core.service = Service::Failed(error);
        self.fail_everyone();
    }

    /// Everybody who waits is told that the group is out of service.
    fn fail_everyone(&mut self) {
        for request in self.requests.drain_requests() {
            let result = Err(RequestError::NotReady);
            self.requests.reply(&self.core, &mut self.epochs, Reply { id: request, result });
        }
        self.moves.fail_all(&self.core);
    }
}
