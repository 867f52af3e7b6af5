//! The journal by itself, over two pools whose devices answer when they are told to.

use super::commit::Waiter;
use super::{Below, CommitDemand, Journal, Outcome};
use crate::format::Record;
use crate::map::ChunkMap;
use crate::map::place::Place;
use crate::pools::Pools;
use crate::pools::flight::Owner;
use crate::pools::tests::{land, pools};
use thermocline_ports::{Completion, DeviceError, Io, Payload, Ticket};
use thermocline_units::{ChunkId, Nanos, PoolId, VolumeId};

const NOW: Nanos = Nanos(5);
const NOTHING: CommitDemand = CommitDemand { unsaved: false, hurried: false };

struct Bench {
    journal: Journal,
    pools: Pools,
    map: ChunkMap,
}

impl Bench {
    /// The group serves: the first checkpoint is in force.
    fn new() -> Bench {
        let (journal, pools, map) = (Journal::new(7), pools(2), ChunkMap::new(1));
        let mut bench = Bench { journal, pools, map };
        bench.journal.want_checkpoint();
        bench.checkpoint();
        assert!(matches!(bench.journal.take_outcomes().last(), Some(Outcome::InForce { .. })));
        bench
    }

    fn step(&mut self, step: impl FnOnce(&mut Journal, &mut Below)) {
        let Bench { journal, pools, map } = self;
        let state_of = |_| Default::default();
        step(journal, &mut Below { now: NOW, pools, map, state_of: &state_of });
    }

    fn sent(&mut self) -> Vec<(PoolId, Ticket, Io)> {
        let mut out = Vec::new();
        self.pools.take_io(&mut out);
        out
    }

    /// A device answers; a failed request counts as ended.
    fn answer(&mut self, pool: PoolId, ticket: Ticket, result: Result<Payload, DeviceError>) {
        let flight = land(&mut self.pools, pool, &Completion { ticket, result });
        self.step(|journal, below| match flight.owner {
            Owner::Flush => journal.flush_ended(below),
            Owner::Journal => journal.write_ended(below),
            Owner::Checkpoint => journal.batch_ended(below),
            _ => journal.superblock_ended(below),
        });
    }

    fn answer_all(&mut self) -> usize {
        let sent = self.sent();
        let count = sent.len();
        for (pool, ticket, _) in sent {
            self.answer(pool, ticket, Ok(Payload::EMPTY));
        }
        count
    }

    fn group_commit(&mut self) {
        if self.journal.commit_can_start(&self.pools, NOTHING) {
            self.step(Journal::start_commit);
        }
        while self.answer_all() > 0 {}
    }

    /// A record, and the commit that makes it durable.
    fn commit(&mut self) {
        self.journal.record(&record());
        self.journal.want_commit();
        self.group_commit();
    }

    /// A checkpoint with the commit that covers it.
    fn checkpoint(&mut self) {
        for _ in 0..20 {
            self.step(Journal::pump_checkpoint);
            self.group_commit();
        }
    }
}

fn record() -> Record {
    Record::VolumeGone(VolumeId(9))
}

fn chunk() -> ChunkId {
    ChunkId { volume: VolumeId(0), index: 4 }
}

#[test]
fn data_is_flushed_before_the_record_is_written_and_slots_are_free_after_it() {
    let mut bench = Bench::new();
    let place = Place { pool: PoolId(1), slot: 2 };
    bench.pools[PoolId(1)].dirty = true;
    bench.journal.change(&record(), chunk(), &[place]);
    bench.journal.join(Waiter::Flush(3));
    assert!(bench.journal.commit_can_start(&bench.pools, NOTHING));
    bench.step(Journal::start_commit);
    let flushes = bench.sent();
    assert!(matches!(flushes[..], [(PoolId(1), _, Io::Flush)]), "{flushes:?}");
    bench.answer(PoolId(1), flushes[0].1, Ok(Payload::EMPTY));
    let writes = bench.sent();
    let forced = |io: &Io| matches!(io, Io::Write { fua: true, .. });
    assert!(writes.len() == 2 && writes.iter().all(|(_, _, io)| forced(io)), "{writes:?}");
    bench.answer(writes[0].0, writes[0].1, Ok(Payload::EMPTY));
    assert_eq!(bench.journal.take_outcomes(), [], "one replica does not have the record");
    assert_eq!(bench.journal.places_left().collect::<Vec<_>>(), [place]);
    bench.answer(writes[1].0, writes[1].1, Ok(Payload::EMPTY));
    let (left, waiters) = (vec![(chunk(), place)], vec![Waiter::Flush(3)]);
    assert_eq!(bench.journal.take_outcomes(), [Outcome::Durable { left, waiters }]);
    assert!(bench.journal.is_settled());
}

#[test]
fn records_that_announce_writes_flush_nothing() {
    let mut bench = Bench::new();
    bench.pools[PoolId(0)].dirty = true;
    bench.journal.announce(&record(), false);
    bench.journal.join(Waiter::Intent(chunk()));
    bench.step(Journal::start_commit);
    assert!(bench.sent().iter().all(|(_, _, io)| matches!(io, Io::Write { .. })));
    assert!(bench.pools[PoolId(0)].dirty);
}

#[test]
fn who_comes_while_a_commit_runs_is_served_by_the_next_one() {
    let mut bench = Bench::new();
    bench.journal.record(&record());
    bench.journal.join(Waiter::Flush(1));
    bench.step(Journal::start_commit);
    bench.journal.record(&record());
    bench.journal.join(Waiter::Flush(2));
    assert!(!bench.journal.commit_can_start(&bench.pools, NOTHING), "one at a time");
    bench.answer_all();
    let served = |outcomes: Vec<Outcome>| match outcomes.as_slice() {
        [Outcome::Durable { waiters, .. }] => waiters.clone(),
        others => panic!("{others:?}"),
    };
    assert_eq!(served(bench.journal.take_outcomes()), [Waiter::Flush(1)]);
    bench.group_commit();
    assert_eq!(served(bench.journal.take_outcomes()), [Waiter::Flush(2)]);
    assert_eq!(bench.journal.used(), 2);
}

#[test]
fn a_death_is_told_before_whatever_is_queued() {
    let mut bench = Bench::new();
    bench.journal.record(&record());
    bench.journal.record_death(PoolId(1));
    bench.pools.bury(PoolId(1));
    bench.journal.lose(PoolId(1));
    bench.journal.want_commit();
    bench.step(Journal::start_commit);
    let writes = bench.sent();
    let [(PoolId(0), _, Io::Write { data, .. })] = &writes[..] else { panic!("{writes:?}") };
    let stamp = crate::format::Stamp { identity: 7, generation: 1, sequence: 0 };
    let block = data.to_vec();
    let opened = crate::format::open_block(crate::format::BlockKind::Journal, stamp, &block);
    let records = crate::format::decode_records(opened.unwrap(), 64 << 10).unwrap();
    assert_eq!(records, [Record::PoolDead(PoolId(1)), record()]);
}

#[test]
fn a_checkpoint_makes_a_recovery_read_nothing() {
    let mut bench = Bench::new();
    for _ in 0..5 {
        bench.commit();
    }
    assert_eq!((bench.journal.used(), bench.journal.area()), (5, 1));
    bench.journal.want_checkpoint();
    bench.checkpoint();
    assert_eq!((bench.journal.used(), bench.journal.written()), (0, 5));
    assert_eq!(bench.journal.area(), 0, "the other area is in force");
    assert!(bench.journal.is_current() && bench.journal.is_empty());
}

#[test]
fn a_full_journal_makes_its_own_room() {
    let mut bench = Bench::new();
    for _ in 0..200 {
        bench.commit();
        bench.step(Journal::pump_checkpoint);
        bench.group_commit();
        assert!(bench.journal.used() <= 48, "a quarter of 64 blocks is kept");
    }
    assert_eq!(bench.journal.written(), 200);
}

#[test]
fn without_a_pool_for_the_journal_nobody_is_told_that_it_is_durable() {
    let mut bench = Bench::new();
    bench.journal.record(&record());
    bench.journal.join(Waiter::Flush(1));
    bench.step(Journal::start_commit);
    for pool in [PoolId(0), PoolId(1)] {
        bench.pools.bury(pool);
        bench.journal.lose(pool);
    }
    for (pool, ticket, _) in bench.sent() {
        bench.answer(pool, ticket, Err(DeviceError::Gone));
    }
    assert_eq!(bench.journal.take_outcomes(), [Outcome::NoReplica]);
}
