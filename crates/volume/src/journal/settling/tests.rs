//! Between the journal and those who wait: the order of what follows, failed flushes, and who is
//! told of what was lost.

use super::{Settlement, checkpoint_in_force, fail};
use crate::format::Record;
use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::group_state::service::Service;
use crate::group_state::tests::{
    FAST, SLOW, add_copy, add_volume, chunk, effects, group, land, mirror, put, said, sent,
};
use crate::io::request::RequestError;
use crate::journal::commit::Waiter;
use crate::map::block_checksums::BlockChecksums;
use crate::map::place::Role;
use crate::opening::error::OpenError;
use crate::pools::flight::{Owner, TRIES_MAX};
use crate::pools::pool::PoolState;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::{PoolId, VolumeId};

/// A group in service, and devices of which one may fail its flushes or its writes.
struct Bench {
    group: GroupState,
    checksums: BlockChecksums,
    settlement: Settlement,
}

impl Bench {
    fn new(group: GroupState) -> Bench {
        Bench { group, checksums: BlockChecksums::default(), settlement: Settlement::default() }
    }

    /// Commits all that is queued; devices answer at once, but those that fail.
    fn commit(&mut self, fails: impl Fn(PoolId, &Io) -> bool) {
        let Bench { group, checksums, settlement } = self;
        group.journal.want_commit();
        settlement.pump_commit(group);
        loop {
            let sent = sent(group);
            if sent.is_empty() {
                return;
            }
            for (pool, ticket, io) in sent {
                let result = match fails(pool, &io) {
                    true => Err(DeviceError::Io),
                    false => Ok(Payload::EMPTY),
                };
                let flight = land(group, pool, ticket, result.clone());
                if matches!(group.service, Service::Failed(_)) {
                    continue; // Nobody is told any more.
                }
                let now = group.now;
                match flight.owner {
                    Owner::Flush => {
                        settlement.flush_answered(group, checksums, now, &flight, result.err());
                    }
                    _ => {
                        let failed = result.is_err();
                        settlement.journal_answered(group, checksums, now, &flight, failed);
                    }
                }
            }
        }
    }

    /// A commit for a flush, with the slow pool written since its last one.
    fn flush(&mut self, fails: impl Fn(PoolId, &Io) -> bool) {
        self.group.pools[SLOW].dirty = true;
        self.group.journal.join(Waiter::Flush(1));
        self.commit(fails);
    }
}

fn record() -> Record {
    Record::VolumeGone(VolumeId(9))
}

fn slow_flush_fails(pool: PoolId, io: &Io) -> bool {
    pool == SLOW && matches!(io, Io::Flush)
}

#[test]
fn switches_are_told_before_the_slots_that_they_leave_and_all_others_behind() {
    let mut bench = Bench::new(group());
    let place = put(&mut bench.group, chunk(0), FAST);
    bench.group.journal.change(&record(), chunk(0), &[place]);
    bench.group.journal.join(Waiter::Flush(1));
    bench.group.journal.join(Waiter::Switch(2));
    bench.commit(|_, _| false);
    let told = effects(&mut bench.group);
    let [switch, left, flush] = &told[..] else { panic!("{told:?}") };
    assert!(matches!(switch, Effect::Durable(Waiter::Switch(2))));
    assert!(matches!(left, Effect::Left(of, at) if *of == chunk(0) && *at == place));
    assert!(matches!(flush, Effect::Durable(Waiter::Flush(1))));
}

#[test]
fn a_commit_takes_the_blocks_that_changed_sides() {
    let mut bench = Bench::new(group());
    put(&mut bench.group, chunk(0), SLOW);
    mirror(&mut bench.group, chunk(0), FAST, 0..2);
    assert!(bench.group.map.has_unsaved() && !bench.group.journal.has_records());
    let written = bench.group.journal.written();
    bench.commit(|_, _| false);
    assert!(!bench.group.map.has_unsaved());
    assert_eq!(bench.group.journal.written(), written + 1);
}

#[test]
fn a_failed_flush_ends_the_service_where_chunks_are_nowhere_else() {
    let mut bench = Bench::new(group());
    put(&mut bench.group, chunk(0), SLOW);
    let written = bench.group.journal.written();
    bench.group.journal.record(&record());
    bench.flush(slow_flush_fails);
    assert_eq!(bench.group.service, Service::Failed(OpenError::FlushFailed(SLOW)));
    assert_eq!(bench.group.journal.written(), written, "no record relies on what was forgotten");
    assert!(matches!(effects(&mut bench.group)[..], [Effect::Failed]), "no flush is answered");
}

#[test]
fn a_failed_flush_costs_its_pool_only_where_chunks_are_whole_elsewhere() {
    let mut bench = Bench::new(group());
    put(&mut bench.group, chunk(0), SLOW);
    add_copy(&mut bench.group, chunk(0), FAST, Role::Wanted);
    bench.flush(slow_flush_fails);
    assert_eq!(bench.group.service, Service::Ready);
    assert!(!bench.group.pools[SLOW].is_alive());
    assert_eq!(bench.group.map.copies(chunk(0)).count(), 1);
    assert!(!bench.settlement.took_part_of(&bench.group, chunk(0)));
    let flushed = bench.settlement.flush_result(VolumeId(0));
    assert_eq!(flushed, Err(RequestError::Io), "the pool was not flushed for it");
    bench.flush(|_, _| false);
    assert_eq!(bench.settlement.flush_result(VolumeId(0)), Ok(()));
}

#[test]
fn a_volume_is_told_once_by_its_next_flush_that_it_lost_unflushed_writes() {
    let mut group = group();
    add_volume(&mut group, 1, 2);
    put(&mut group, chunk(0), SLOW);
    let mut bench = Bench::new(group);
    bench.group.pools[SLOW].dirty = true;
    let Bench { group, checksums, settlement } = &mut bench;
    settlement.pool_died(group, checksums, SLOW);
    bench.commit(|_, _| false);
    assert!(bench.settlement.took_part_of(&bench.group, chunk(0)));
    bench.flush(|_, _| false);
    let mut results = [0, 1].map(|id| bench.settlement.flush_result(VolumeId(id)));
    assert_eq!(results, [Err(RequestError::Io), Ok(())], "the other lost nothing");
    bench.flush(|_, _| false);
    results = [0, 1].map(|id| bench.settlement.flush_result(VolumeId(id)));
    assert_eq!(results, [Ok(()), Ok(())]);
}

#[test]
fn a_volume_that_is_deleted_is_told_nothing() {
    let mut bench = Bench::new(group());
    put(&mut bench.group, chunk(0), SLOW);
    bench.group.pools[SLOW].dirty = true;
    let Bench { group, checksums, settlement } = &mut bench;
    settlement.pool_died(group, checksums, SLOW);
    bench.commit(|_, _| false);
    bench.settlement.forget(VolumeId(0));
    bench.flush(|_, _| false);
    assert_eq!(bench.settlement.flush_result(VolumeId(0)), Ok(()));
}

#[test]
fn a_pool_that_cannot_write_the_journal_is_given_up_after_its_last_try() {
    let mut bench = Bench::new(group());
    let replicas = bench.group.elect_replicas();
    let fails = replicas[0];
    let tries = std::cell::Cell::new(0);
    bench.group.journal.record(&record());
    bench.group.journal.join(Waiter::Flush(1));
    bench.commit(|pool, io| {
        let failed = pool == fails && matches!(io, Io::Write { .. });
        tries.set(tries.get() + u8::from(failed));
        failed
    });
    assert_eq!(tries.get(), 1 + TRIES_MAX);
    assert!(!bench.group.pools[fails].is_alive() && bench.group.service == Service::Ready);
    let told = effects(&mut bench.group);
    let is_flush = |effect: &Effect| matches!(effect, Effect::Durable(Waiter::Flush(1)));
    assert!(replicas.len() > 1 && told.iter().any(is_flush), "another one has the record");
}

#[test]
fn a_group_that_failed_keeps_its_first_reason_and_asks_nothing_of_devices() {
    let mut bench = Bench::new(group());
    fail(&mut bench.group, OpenError::NoReplica);
    fail(&mut bench.group, OpenError::MapTooLarge);
    assert_eq!(bench.group.service, Service::Failed(OpenError::NoReplica));
    assert_eq!(effects(&mut bench.group).len(), 1, "it is said once");
    bench.group.journal.want_checkpoint();
    bench.settlement.pump_checkpoint(&mut bench.group);
    assert_eq!(sent(&mut bench.group), []);
}

#[test]
fn the_first_checkpoint_puts_the_group_in_service_and_forgets_copies_of_the_dead() {
    let mut bench = Bench::new(group());
    put(&mut bench.group, chunk(0), SLOW);
    add_copy(&mut bench.group, chunk(0), FAST, Role::Wanted);
    bench.group.service = Service::Opening;
    let states: Vec<_> = bench.group.pools.iter().map(|pool| pool.state).collect();
    let Bench { group, checksums, settlement } = &mut bench;
    settlement.pool_died(group, checksums, SLOW);
    assert_eq!(group.map.copies(chunk(0)).count(), 2, "the old journal is in force");
    checkpoint_in_force(group, checksums, &states);
    assert_eq!((&group.service, group.map.copies(chunk(0)).count()), (&Service::Ready, 1));
}

#[test]
fn the_death_of_a_pool_in_a_recovery_is_recorded_unless_the_superblock_says_it() {
    for (known, records) in
        [(PoolState::Active, vec![Record::PoolDead(SLOW)]), (PoolState::Dead, vec![])]
    {
        let mut bench = Bench::new(group());
        bench.group.service = Service::Opening;
        let Bench { group, checksums, settlement } = &mut bench;
        settlement.pool_died(group, checksums, SLOW);
        let states = [PoolState::Active, known, PoolState::Active];
        checkpoint_in_force(group, checksums, &states);
        assert_eq!(said(group), records, "{known:?}");
    }
}
