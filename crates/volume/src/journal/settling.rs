//! Between the journal and those who wait for it: the group asks for its steps, hands it the
//! answers to its requests, and does what follows from what became durable.

use crate::format::Record;
use crate::group_state::effect::Effect;
use crate::group_state::service::Service;
use crate::group_state::{GroupState, durable_state};
use crate::io::request::RequestError;
use crate::journal::commit::Waiter;
use crate::journal::{Below, Journal, Outcome};
use crate::map::block_checksums::BlockChecksums;
use crate::map::copies::{forget_copies_on, has_spare_copy_on};
use crate::map::losses::{has_lost_part, is_needed};
use crate::map::place::Place;
use crate::moves::operations_lose;
use crate::opening::error::OpenError;
use crate::pools::Retry;
use crate::pools::flight::{Flight, Owner};
use crate::pools::pool::PoolState;
use crate::settings::VOLUMES_MAX;
use std::collections::BTreeSet;
use thermocline_ports::DeviceError;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{ChunkId, Nanos, PoolId, VolumeId};

/// The commits of a group, and writes that were not flushed when their pool died: who flushes next
/// is told.
#[derive(Debug, Default)]
pub(crate) struct Settlement {
    /// Pools that died so since a commit was last durable.
    pools: BTreeSet<PoolId>,
    /// Those that the last commit found dead.
    lost: BTreeSet<PoolId>,
    /// Volumes whose next flush fails: a pool died with something that only it had, and nobody was
    /// told yet.
    untold: BTreeSet<VolumeId>,
    /// Those of them that the last commit has told.
    told: BTreeSet<VolumeId>,
}

impl Settlement {
    /// The volume is deleted: what it lost concerns nobody.
    pub(crate) fn forget(&mut self, volume: VolumeId) {
        self.untold.remove(&volume);
    }

    /// Lets the journal take a step, and does what follows from it.
    fn with_journal(
        &mut self,
        group: &mut GroupState,
        step: impl FnOnce(&mut Journal, &mut Below),
    ) {
        let GroupState { journal, pools, map, busy_chunks, operations, now, .. } = group;
        let state_of = |chunk| durable_state(map, busy_chunks, operations, chunk);
        let told = !journal.has_outcomes() || mutant("slot_reused_before_the_record");
        assert!(told, "nothing runs between a step and its outcomes");
        step(journal, &mut Below { now: *now, pools, map, state_of: &state_of });
        self.settle_journal(group);
    }

    /// Does what follows from what the journal has said.
    pub(crate) fn settle_journal(&mut self, group: &mut GroupState) {
        for outcome in group.journal.take_outcomes() {
            match outcome {
                Outcome::Durable { left, waiters } => self.settle(group, left, waiters),
                Outcome::InForce { states } => group.emit(Effect::InForce(states)),
                Outcome::NoReplica => fail(group, OpenError::NoReplica),
            }
        }
        assert!(!group.journal.has_outcomes(), "outcomes have no outcomes");
    }

    /// Starts a commit when somebody wants one.
    pub(crate) fn pump_commit(&mut self, group: &mut GroupState) {
        if !commit_can_start(group) {
            return;
        }
        let takes = group.journal.next_commit_takes_records();
        if takes {
            if mutant("blocks_of_sides_not_saved") {
                drop(group.map.take_unsaved());
            }
            save_overlays(group);
        }
        self.with_journal(group, Journal::start_commit);
        assert!(!takes || !group.map.has_unsaved(), "the commit has all that was unsaved");
    }

    /// Takes the next step of a checkpoint, or starts one.
    pub(crate) fn pump_checkpoint(&mut self, group: &mut GroupState) {
        if !is_over(group) {
            self.with_journal(group, Journal::pump_checkpoint);
        }
    }

    /// A pool is flushed, or is not.
    pub(crate) fn flush_answered(
        &mut self,
        group: &mut GroupState,
        checksums: &mut BlockChecksums,
        now: Nanos,
        flight: &Flight,
        error: Option<DeviceError>,
    ) {
        assert_eq!(flight.owner, Owner::Flush, "others do not forget");
        let forgot = matches!(error, Some(DeviceError::Io | DeviceError::NoSpace))
            && !mutant("failed_flush_tried_again");
        met_if(forgot, "flush failed");
        if forgot && !group.pools[flight.pool].is_far() {
            self.flush_failed(group, checksums, flight.pool);
            if matches!(group.service, Service::Failed(_)) {
                return;
            }
        } else if self.goes_again(group, checksums, now, flight, error.is_some()) {
            return;
        }
        if error.is_some() && !mutant("failed_flush_not_reported") {
            self.pools.insert(flight.pool);
        }
        self.with_journal(group, Journal::flush_ended);
    }

    /// A write of metadata was answered.
    pub(crate) fn journal_answered(
        &mut self,
        group: &mut GroupState,
        checksums: &mut BlockChecksums,
        now: Nanos,
        flight: &Flight,
        failed: bool,
    ) {
        assert!(flight.owner != Owner::Flush, "a flush that failed is judged otherwise");
        if self.goes_again(group, checksums, now, flight, failed)
            || matches!(group.service, Service::Failed(_))
        {
            return;
        }
        self.with_journal(group, |journal, below| match flight.owner {
            Owner::Journal => journal.write_ended(below),
            Owner::Checkpoint => journal.batch_ended(below),
            _ => journal.superblock_ended(below),
        });
    }

    /// A pool could not flush: what was written there since its last flush may be gone, whatever
    /// later flushes say, so no record may be written that relies on it. Where every chunk is whole
    /// without the pool, the group goes on without it. Otherwise it goes out of service: the
    /// devices are as a crash would leave them, and opening it again recovers what is durable.
    fn flush_failed(
        &mut self,
        group: &mut GroupState,
        checksums: &mut BlockChecksums,
        pool: PoolId,
    ) {
        if group.pools[pool].is_alive() {
            let last = !group.elect_replicas().iter().any(|&replica| replica != pool);
            match last || is_needed(group, pool) {
                true => fail(group, OpenError::FlushFailed(pool)),
                false => self.pool_died(group, checksums, pool),
            }
        }
        let failed = matches!(group.service, Service::Failed(_));
        assert!(failed || !group.pools[pool].is_alive(), "nothing relies on the pool any more");
    }

    /// The pool stops taking part; what had copies elsewhere goes on there.
    pub(crate) fn pool_died(
        &mut self,
        group: &mut GroupState,
        checksums: &mut BlockChecksums,
        pool: PoolId,
    ) {
        let Some(unflushed) = group.pools.bury(pool) else { return };
        if unflushed && !mutant("death_loses_in_silence") {
            met("pool died with unflushed writes");
            self.pools.insert(pool);
        }
        group.lines.lose(&mut group.pools, pool);
        group.journal.lose(pool);
        assert!(!group.journal.is_current(), "the next superblock says so");
        // Until a recovery's checkpoint is in force its journal is the old one, and is not written.
        if group.service != Service::Opening {
            forget_copies_on(group, checksums, pool);
            operations_lose(group, pool);
        }
    }

    /// Sends a failed request of the machine's own again, and gives up its pool after the last try.
    /// True if the request is under way again.
    fn goes_again(
        &mut self,
        group: &mut GroupState,
        checksums: &mut BlockChecksums,
        now: Nanos,
        flight: &Flight,
        failed: bool,
    ) -> bool {
        if !failed {
            return false;
        }
        let retry = group.pools.send_again(now, flight);
        if retry == Retry::Spent {
            self.pool_died(group, checksums, flight.pool);
        }
        let lives = group.pools[flight.pool].is_alive();
        assert_eq!(retry == Retry::Again, lives, "who can be written is written again");
        retry == Retry::Again
    }

    /// Lets go of slots, and lets everybody who waited be told.
    fn settle(
        &mut self,
        group: &mut GroupState,
        left: Vec<(ChunkId, Place)>,
        waiters: Vec<Waiter>,
    ) {
        for volume in std::mem::take(&mut self.told) {
            self.untold.remove(&volume);
        }
        self.lost = std::mem::take(&mut self.pools);
        if !self.lost.is_empty() && !mutant("loss_told_to_nobody") {
            let lose = |chunk: &ChunkId| has_lost_part(group, *chunk, &self.lost);
            let volumes = group.map.chunks().filter(lose).map(|chunk| chunk.volume);
            self.untold = volumes.chain(self.untold.iter().copied()).collect();
        }
        // Switches first: the slots that they leave are in `left`.
        let is_switch = |waiter: &Waiter| matches!(waiter, Waiter::Switch(_));
        for &switch in waiters.iter().filter(|waiter| is_switch(waiter)) {
            group.emit(Effect::Durable(switch));
        }
        let taken = |place: Place| group.pools[place.pool].slots.is_taken(place.slot);
        assert!(left.iter().all(|&(_, place)| taken(place)), "what is left was not free before");
        for (chunk, place) in left {
            group.emit(Effect::Left(chunk, place));
        }
        for waiter in waiters.into_iter().filter(|waiter| !is_switch(waiter)) {
            group.emit(Effect::Durable(waiter));
        }
    }

    /// The result of a flush of a volume that the last commit made durable. What the volume has
    /// lost is told by the flushes of one commit.
    pub(crate) fn flush_result(&mut self, volume: VolumeId) -> Result<(), RequestError> {
        self.told.insert(volume);
        assert!(self.told.len() <= VOLUMES_MAX, "those that one commit told");
        match self.untold.contains(&volume) || !self.lost.is_empty() {
            true => Err(RequestError::Io),
            false => Ok(()),
        }
    }

    /// True if the pools that died before the last commit took something of the chunk with them.
    pub(crate) fn took_part_of(&self, group: &GroupState, chunk: ChunkId) -> bool {
        has_lost_part(group, chunk, &self.lost)
    }
}

/// True if a commit would start now.
pub(crate) fn commit_can_start(group: &GroupState) -> bool {
    group.journal.commit_can_start(&group.pools, group.commit_demand())
}

/// Queues a record for every chunk in two parts whose blocks changed sides since its last one.
fn save_overlays(group: &mut GroupState) {
    for chunk in group.map.take_unsaved() {
        let state = group.durable_state(chunk);
        group.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
        assert!(group.journal.is_queued(), "the commit that starts takes it");
    }
}

/// True if the group is out of service for good.
fn is_over(group: &GroupState) -> bool {
    matches!(group.service, Service::Failed(_) | Service::Closed)
}

/// True if a checkpoint can start, and should.
pub(crate) fn checkpoint_is_due(group: &GroupState) -> bool {
    !is_over(group) && group.journal.checkpoint_is_due(group.pools.sizes())
}

/// A checkpoint is in force, which names these states of pools: the first one puts the group in
/// service.
pub(crate) fn checkpoint_in_force(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    states: &[PoolState],
) {
    if group.service != Service::Opening {
        return;
    }
    group.service = Service::Ready;
    for pool in group.pools.ids() {
        // Died meanwhile: the superblock may still name it, the checkpoint its copies.
        let dead = group.pools[pool].state == PoolState::Dead;
        let before = states.get(usize::from(pool.0));
        let noted = before == Some(&PoolState::Dead) || mutant("death_in_recovery_not_recorded");
        if dead && (!noted || has_spare_copy_on(group, pool)) {
            forget_copies_on(group, checksums, pool);
        }
    }
    debug_assert!(!group.pools.ids().any(|pool| {
        let dead = group.pools[pool].state == PoolState::Dead;
        dead && has_spare_copy_on(group, pool)
    }));
}

/// Puts the group out of service; everybody who waits is told so.
pub(crate) fn fail(group: &mut GroupState, error: OpenError) {
    if !matches!(group.service, Service::Failed(_)) {
        assert!(group.service != Service::Closed, "who has closed has nothing that may fail");
        group.service = Service::Failed(error);
        group.emit(Effect::Failed);
    }
}

#[cfg(test)]
mod tests;
