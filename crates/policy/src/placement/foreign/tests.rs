//! Proposals that make no sense end a plug-in's part; those that do are taken in their order.

use super::{Checked, ChunkFacts, EpochFacts, ForeignPlacement, ForeignPlacements, Wish};
use crate::Footprint;
use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::tests::{propose, propose_to, touch_at, write};
use crate::placement::{Budget, Move, Placement};
use crate::registry::PolicySpec;
use std::sync::{Arc, Mutex};
use thermocline_units::{Nanos, PoolId};

/// A placement that proposes what it was told to, and keeps what it was shown.
#[derive(Clone, Default)]
struct Said {
    wishes: Vec<Wish>,
    error: Option<String>,
    shown: Arc<Mutex<Vec<Vec<ChunkFacts>>>>,
}

impl ForeignPlacement for Said {
    fn propose(&mut self, epoch: &EpochFacts<'_>, moves: &mut Vec<Wish>) -> Result<(), String> {
        self.shown.lock().expect("one thread").push(epoch.chunks.to_vec());
        moves.extend(&self.wishes);
        self.error.clone().map_or(Ok(()), Err)
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: 5, index: 7 }
    }
}

impl ForeignPlacements for Said {
    fn create(&self) -> Result<Box<dyn ForeignPlacement>, String> {
        Ok(Box::new(self.clone()))
    }
}

fn said(wishes: &[(u32, u32)]) -> Said {
    let wishes = wishes.iter().map(|&(chunk, pool)| Wish { chunk, pool }).collect();
    Said { wishes, ..Said::default() }
}

/// Two fast places, one of them taken by chunk 4, over three slow ones with chunks 5 and 6: chunks
/// 0 to 2 by number.
fn machine() -> Pools {
    Pools::new(&[2, 3], &[(4, 0), (5, 1), (6, 1)])
}

/// Moves of a proposal, and the failure.
fn answer(said: Said, budget: Budget) -> (Vec<Move>, Option<String>) {
    let mut placement = Checked::new(Box::new(said));
    let mut moves = Vec::new();
    placement.propose(Nanos(9), &machine(), budget, &mut moves);
    (moves, placement.failure().map(str::to_string))
}

#[test]
fn proposals_that_make_no_sense_are_failures_that_name_the_move() {
    for (wishes, expected) in [
        (&[(3, 0)][..], "move 0 is of chunk 3, and there are 3 chunks"),
        (&[(1, 0), (u32::MAX, u32::MAX)], "move 1 is of chunk 4294967295"),
        (&[(1, 2)], "move 0 brings chunk 1 to pool 2, and there are 2 pools"),
        (&[(1, 65_536)], "to pool 65536, and there are 2 pools"),
        (&[(0, 0)], "move 0 brings chunk 0 to pool 0, where it is"),
        (&[(1, 0), (1, 1)], "move 1 is the second one of chunk 1"),
        (&[(1, 0), (2, 0)], "move 1 brings chunk 2 to pool 0, which has no room for it"),
        (&[(1, 0), (2, 0), (0, 1), (1, 1)], "4 moves, and at most 3 may be proposed"),
    ] {
        let (moves, failure) = answer(said(wishes), Budget::UNLIMITED);
        let failure = failure.expect(expected);
        assert!(failure.contains(expected), "{failure}");
        assert!(moves.is_empty(), "{wishes:?}: nothing is taken of such a proposal");
    }
    let (_, failure) = answer(said(&[(1, 0), (0, 1)]), Budget { moves: 1 });
    assert!(failure.expect("one too many").contains("2 moves, and at most 1"));
}

#[test]
fn an_error_of_its_own_is_a_failure_and_it_is_not_asked_again() {
    let broken = Said { error: Some("it is tired".to_string()), ..said(&[(1, 0)]) };
    let shown = Arc::clone(&broken.shown);
    let mut placement = Checked::new(Box::new(broken));
    for _ in 0..3 {
        assert_eq!(propose(&mut placement, &machine()), []);
        assert_eq!(placement.failure(), Some("it is tired"));
    }
    assert_eq!(shown.lock().expect("one thread").len(), 1);
}

#[test]
fn moves_that_make_room_go_first_and_all_are_taken_in_order() {
    let (moves, failure) = answer(said(&[(1, 0), (0, 1), (2, 0)]), Budget::UNLIMITED);
    assert_eq!(failure, None);
    let wanted = [(5, 0), (4, 1), (6, 0)];
    assert_eq!(moves, wanted.map(|(index, pool)| Move::to(chunk(index), PoolId(pool))));
}

#[test]
fn it_is_shown_where_chunks_are_and_what_an_epoch_asked_of_them() {
    let quiet = Said::default();
    let (shown, mut machine) = (Arc::clone(&quiet.shown), machine());
    (machine.pinned, machine.replicated) = (vec![5], vec![5, 6]);
    let mut placement = Checked::new(Box::new(quiet));
    touch_at(&mut placement, Nanos(70), chunk(6), 2);
    touch_at(&mut placement, Nanos(80), chunk(9), 1);
    write(&mut placement, chunk(6), 1);
    assert_eq!(propose_to(&mut placement, &machine), []);
    machine.at.insert(6, 0);
    assert_eq!(propose_to(&mut placement, &machine), []);

    let place = |index, pool, flags| ChunkFacts { index, pool, flags, ..ChunkFacts::default() };
    let hot = ChunkFacts {
        reads: 2,
        writes: 1,
        read_bytes: 8192,
        written_bytes: 4096,
        last_access: 4,
        ..place(6, 1, ChunkFacts::REPLICATED)
    };
    let seen = ChunkFacts { last_access: 3, last_ns: 80, ..place(9, 1, ChunkFacts::EMPTY) };
    let first = ChunkFacts { reads: 1, read_bytes: 4096, ..seen };
    let held = place(5, 1, ChunkFacts::REPLICATED | ChunkFacts::PINNED);
    let shown = shown.lock().expect("one thread");
    assert_eq!(shown[0], [hot, first, place(4, 0, 0), held]);
    let cold = ChunkFacts { last_access: 4, ..place(6, 0, ChunkFacts::REPLICATED) };
    assert_eq!(shown[1], [cold, seen, place(4, 0, 0), held]);
    assert!(placement.footprint().index > 7 && placement.footprint().resident == 5);
}

#[test]
fn one_pool_is_no_question() {
    let (quiet, machine) = (said(&[(0, 0)]), Pools::new(&[8], &[(1, 0)]));
    let mut placement = Checked::new(Box::new(quiet));
    assert_eq!(propose(&mut placement, &machine), []);
    assert_eq!(placement.failure(), None);
}

#[test]
fn a_specification_makes_a_new_one_each_time_and_takes_no_filter() {
    let wished = Arc::new(said(&[(1, 0)]));
    let spec = PolicySpec::foreign_placement("./mine.so:name".to_string(), wished);
    assert!(spec.is_placement() && spec.is_foreign());
    assert_eq!(spec.spelled_out(), "./mine.so:name");
    for _ in 0..2 {
        let mut placement = spec.build_placement().expect("it can be made");
        assert_eq!(propose_to(&mut *placement, &machine()), [(5, 0)]);
    }
    let error = spec.behind("larc").expect_err("it is no cache").to_string();
    assert!(error.contains("a placement admits by its own rule"), "{error}");
}
