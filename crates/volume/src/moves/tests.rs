//! Operations of a group by themselves: the queue, wishes, a proposal's turn, and their ends.

use super::{Moves, Proposed, WISHES_MAX, operations_lose};
use crate::below::Below;
use crate::group_state::GroupState;
use crate::group_state::tests::{FAR, FAST, SLOW, add_copy, chunk, fill, group, put, take_slot};
use crate::map::ChunkState;
use crate::map::block_checksums::BlockChecksums;
use crate::map::overlay::Goal;
use crate::map::place::Role;
use crate::moves::active::ActiveOperation;
use crate::moves::active::tests::{begin, bringing, copying, switching};
use crate::moves::operation::{Finished, Operation, OperationId, OperationKind, Outcome, Refusal};
use crate::moves::rate_control::CopyThrottle;
use std::collections::BTreeSet;
use thermocline_policy::placement::Move;
use thermocline_units::{ChunkId, Nanos, PoolId, VolumeId};

/// Operations over a group. Those who copy, switch and feed are tested on it, too.
pub(super) struct Bench {
    pub(super) group: GroupState,
    pub(super) moves: Moves,
    pub(super) checksums: BlockChecksums,
    copy_throttle: CopyThrottle,
}

impl Bench {
    /// The first chunks are on the slow pool.
    pub(super) fn new(chunks: u32) -> Bench {
        Bench::with(group(), chunks)
    }

    /// The same, of this group.
    pub(super) fn with(mut group: GroupState, chunks: u32) -> Bench {
        group.now = Nanos(1_000_000_000); // The throttle begins with nothing.
        (0..chunks).for_each(|index| _ = put(&mut group, chunk(index), SLOW));
        Bench {
            group,
            moves: Moves::default(),
            checksums: BlockChecksums::default(),
            copy_throttle: CopyThrottle::default(),
        }
    }

    pub(super) fn enqueue(&mut self, index: u32) -> Result<OperationId, Refusal> {
        self.moves.enqueue(&self.group, migrate(index, FAST))
    }

    /// A step of the operations over all that is below them.
    pub(super) fn step<T>(&mut self, step: impl FnOnce(&mut Moves, &mut Below) -> T) -> T {
        let Bench { group, moves, checksums, copy_throttle } = self;
        step(moves, &mut Below { now: group.now, group, checksums, copy_throttle })
    }

    pub(super) fn begin_next(&mut self) -> bool {
        self.step(Moves::begin_next)
    }

    /// Puts an operation on its chunk; its number.
    pub(super) fn add(&mut self, operation: ActiveOperation) -> u32 {
        self.moves.chunks.insert(operation.what.chunk, operation.id);
        begin(&mut self.group, operation)
    }

    /// A migration of the first chunk to the fast pool that has copied nothing yet.
    pub(super) fn migration(&mut self) -> ActiveOperation {
        let source = self.group.map.entry(chunk(0)).first().expect("it is mapped");
        let destination = take_slot(&mut self.group, FAST);
        copying(OperationKind::Migrate, chunk(0), source, destination)
    }

    /// Chunks under operation, and whether a placement wanted that.
    fn under_way(&self) -> Vec<(u32, bool)> {
        let all = self.group.operations.iter();
        all.map(|(_, copy)| (copy.what.chunk.index, copy.proposed)).collect()
    }

    fn propose(&mut self, moves: &[Move]) {
        let told = (!moves.is_empty()).then(Proposed::default);
        self.moves.take_over(self.group.now, moves.to_vec(), BTreeSet::new(), told);
    }

    pub(super) fn finished(&mut self) -> Vec<Finished> {
        let mut finished = Vec::new();
        self.moves.take_finished(&mut finished);
        finished
    }
}

fn migrate(index: u32, to: PoolId) -> Operation {
    Operation { kind: OperationKind::Migrate, chunk: chunk(index), to }
}

#[test]
fn a_chunk_has_one_operation_until_that_is_cancelled() {
    let mut bench = Bench::new(1);
    let first = bench.enqueue(0).expect("nothing speaks against it");
    assert_eq!(bench.enqueue(0), Err(Refusal::Busy));
    assert_eq!((bench.moves.count(), bench.moves.queued().count()), (1, 1));
    assert!(bench.moves.cancel_queued(first) && !bench.moves.cancel_queued(first));
    let finished = bench.finished();
    assert_eq!(finished.len(), 1);
    assert_eq!((finished[0].id, finished[0].outcome), (first, Outcome::Cancelled));
    assert!(bench.enqueue(0).is_ok_and(|again| again != first));
}

#[test]
fn what_is_refused_leaves_nothing_behind() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.enqueue(1), Err(Refusal::Unmapped));
    assert!(bench.moves.count() == 0 && !bench.moves.has_queued() && bench.finished().is_empty());
    assert!(!bench.moves.can_begin(&bench.group) && !bench.begin_next());
}

#[test]
fn operations_begin_in_their_order_and_a_bounded_number_at_once() {
    let mut bench = Bench::new(6);
    bench.group.settings.copying.concurrent = 4;
    let free = bench.group.pools[FAST].slots.free();
    (0..6).for_each(|index| _ = bench.enqueue(5 - index));
    while bench.begin_next() {}
    assert_eq!(bench.under_way(), [(5, false), (4, false), (3, false), (2, false)]);
    assert_eq!(bench.group.pools[FAST].slots.free(), free - 4, "each has its slot");
    assert!(bench.moves.has_queued() && !bench.moves.can_begin(&bench.group));
    assert!((2..6).all(|index| bench.group.operation_on(chunk(index)).is_some()));
}

#[test]
fn a_chunk_that_is_gone_when_its_turn_comes_cancels_its_operation() {
    let mut bench = Bench::new(2);
    let gone = bench.enqueue(0).expect("it is there");
    let full = bench.enqueue(1).expect("there is room");
    bench.group.map.set_state(chunk(0), &ChunkState::default());
    fill(&mut bench.group, FAST);
    assert!(bench.begin_next() && bench.begin_next() && bench.under_way().is_empty());
    let ends: Vec<_> = bench.finished().iter().map(|end| (end.id, end.outcome)).collect();
    assert_eq!(ends, [(gone, Outcome::Cancelled), (full, Outcome::Failed)]);
    assert_eq!(bench.moves.count(), 0);
}

#[test]
fn what_was_asked_for_goes_before_what_a_placement_wants() {
    let mut bench = Bench::new(2);
    bench.propose(&[Move::to(chunk(1), FAST)]);
    assert!(bench.moves.take_proposed().is_some() && bench.moves.take_proposed().is_none());
    bench.enqueue(0).expect("nothing speaks against it");
    assert!(bench.begin_next() && bench.begin_next() && !bench.begin_next());
    assert_eq!(bench.under_way(), [(0, false), (1, true)]);
    assert_eq!((bench.moves.proposed(), bench.moves.pending(&bench.group)), (0, 1));
}

#[test]
fn a_move_without_room_waits_for_a_slot_and_those_behind_it_go_first() {
    let mut bench = Bench::new(2);
    fill(&mut bench.group, FAST);
    put(&mut bench.group, chunk(2), SLOW);
    bench.propose(&[Move::to(chunk(0), FAST), Move::to(chunk(1), FAR)]);
    assert!(bench.begin_next());
    assert_eq!(bench.under_way(), [(1, true)]);
    assert!(!bench.begin_next() && bench.moves.proposed() == 1);
    assert!(!bench.moves.can_begin(&bench.group), "nobody looks in vain");
    for slot in 0..3 {
        bench.group.pools[FAST].slots.give_back(slot, false);
    }
    bench.moves.look_again();
    assert!(bench.begin_next() && bench.under_way().contains(&(0, true)));
}

#[test]
fn a_chunk_that_is_pinned_is_not_moved_by_a_placement() {
    let mut bench = Bench::new(1);
    bench.propose(&[Move::to(chunk(0), FAST)]);
    bench.group.map.set_pinned(chunk(0), true);
    assert!(!bench.begin_next() && bench.moves.proposed() == 0);
    assert!(bench.enqueue(0).is_ok(), "whoever orders it may");
}

#[test]
fn a_move_to_where_a_kept_copy_is_copies_nothing() {
    let mut bench = Bench::new(1);
    let kept = add_copy(&mut bench.group, chunk(0), FAST, Role::Kept);
    bench.enqueue(0).expect("nothing speaks against it");
    assert!(bench.begin_next() && bench.under_way().is_empty());
    assert_eq!(bench.group.map.entry(chunk(0)).first(), Some(kept));
    assert!(matches!(bench.finished()[..], [Finished { outcome: Outcome::Done, .. }]));
}

#[test]
fn the_oldest_wishes_are_forgotten_beyond_their_bound() {
    let mut moves = Moves::default();
    (0..=WISHES_MAX as u32).for_each(|index| moves.wish(migrate(index, FAST)));
    assert_eq!(moves.wishes.len(), WISHES_MAX);
    assert_eq!(moves.take_wish(), Some(migrate(1, FAST)));
}

#[test]
fn everything_ends_once_as_failed_when_the_group_does() {
    let mut bench = Bench::new(2);
    bench.enqueue(0).expect("nothing speaks against it");
    bench.begin_next();
    bench.enqueue(1).expect("nothing speaks against it");
    bench.moves.fail_all(&bench.group);
    let mut ends = bench.finished();
    ends.sort_by_key(|end| end.id);
    assert_eq!(ends.iter().map(|end| end.operation.chunk.index).collect::<Vec<_>>(), [0, 1]);
    assert!(ends.iter().all(|end| end.outcome == Outcome::Failed));
    assert!(!bench.moves.has_queued());
}

#[test]
fn everything_that_can_be_cancelled_is() {
    let mut bench = Bench::new(3);
    let copying = bench.enqueue(0).expect("nothing speaks against it");
    bench.begin_next();
    bench.enqueue(1).expect("nothing speaks against it");
    bench.propose(&[Move::to(chunk(2), FAST)]);
    let now = bench.group.now;
    bench.moves.cancel_all(&mut bench.group, now);
    assert!(bench.group.operations.is_cancelled(copying) && !bench.moves.has_queued());
    assert_eq!((bench.moves.proposed(), bench.finished().len()), (0, 1));
    assert!(!bench.moves.cancel_copying(&mut bench.group, OperationId(99)));
}

#[test]
fn a_pool_that_dies_fails_what_arrives_there_and_nothing_else() {
    let mut bench = Bench::new(3);
    let group = &mut bench.group;
    let mut operation = |index, kind| {
        let source = group.map.entry(chunk(index)).first().expect("it is mapped");
        let destination = take_slot(group, FAST);
        copying(kind, chunk(index), source, destination)
    };
    let moved = operation(0, OperationKind::Migrate);
    let mirrored = bringing(Goal::Both, operation(1, OperationKind::Mirror));
    let switched = switching(operation(2, OperationKind::Migrate));
    let numbers = [moved, mirrored, switched].map(|operation| begin(group, operation));
    let failed = |group: &GroupState| numbers.map(|number| group.operations[number].failed);
    group.pools.bury(SLOW);
    operations_lose(group, SLOW);
    assert_eq!(failed(group), [false, true, false], "a mirror needs both of its sides");
    group.pools.bury(FAST);
    operations_lose(group, FAST);
    assert_eq!(failed(group), [true; 3]);
    assert!(group.journal.is_queued(), "a record takes the switch back");
}

/// They stayed, and copied chunks of the next volume with that number.
#[test]
fn whatever_has_not_begun_on_a_deleted_volume_is_dropped() {
    let mut bench = Bench::new(4);
    let elsewhere = ChunkId { volume: VolumeId(1), index: 0 };
    let id = bench.enqueue(0).expect("it makes sense");
    bench.moves.wish(migrate(1, FAST));
    bench.moves.wish(Operation { chunk: elsewhere, ..migrate(1, FAST) });
    let moves = vec![Move::to(chunk(2), FAST), Move::to(elsewhere, FAST)];
    let directed = BTreeSet::from([chunk(2), elsewhere]);
    bench.moves.take_over(bench.group.now, moves, directed, Some(Proposed::default()));
    bench.moves.forget_volume(VolumeId(0));
    assert_eq!((bench.moves.count(), bench.moves.proposed()), (0, 1));
    assert!(!bench.moves.proposal.is_directed(chunk(2)));
    assert!(bench.moves.proposal.is_directed(elsewhere));
    assert_eq!(bench.moves.take_wish().map(|wish| wish.chunk), Some(elsewhere));
    assert!(!bench.moves.has_wishes());
    let [finished] = &bench.moves.finished[..] else { panic!("one was queued") };
    assert_eq!((finished.id, finished.outcome), (id, Outcome::Cancelled));
}
