//! Epochs and those who follow them: when one ends, who is asked, what they are told.

use super::Epochs;
use crate::creation::join;
use crate::epoch::hinting::Hinting;
use crate::epoch::slas::Slas;
use crate::group_state::GroupState;
use crate::group_state::tests::{FAST, SLOW, chunk, group_with, put, settings};
use crate::pools::pool::PoolSpec;
use crate::settings::Settings;
use std::sync::{Arc, Mutex};
use thermocline_policy::Footprint;
use thermocline_policy::hints::store::{Hint, HintError, Hints};
use thermocline_policy::hints::{Facts, Level, Wishes};
use thermocline_policy::placement::{Budget, ChunkAccess, Move, Placement, Unreadable, VolumeView};
use thermocline_ports::Geometry;
use thermocline_units::{Bytes, Nanos, PoolId};

const SECOND: u64 = 1_000_000_000;

/// A placement that wants the same moves in every epoch, and notes what it is told.
struct Stubborn {
    moves: Vec<Move>,
    told: Arc<Mutex<Vec<ChunkAccess>>>,
}

impl Placement for Stubborn {
    fn observe(&mut self, access: &ChunkAccess) {
        self.told.lock().expect("one thread").push(*access);
    }

    fn propose(&mut self, _: Nanos, _: &dyn VolumeView, _: Budget, moves: &mut Vec<Move>) {
        moves.extend(&self.moves);
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

struct Bench {
    group: GroupState,
    epochs: Epochs,
    hinting: Hinting,
    told: Arc<Mutex<Vec<ChunkAccess>>>,
}

impl Bench {
    /// Epochs of a second, and a placement that wants these moves.
    fn new(moves: &[Move]) -> Bench {
        let mut group = group_with(Settings { epoch: Nanos(SECOND), ..settings() });
        put(&mut group, chunk(0), SLOW);
        let mut epochs = Epochs::new(Nanos(SECOND));
        let told = Arc::new(Mutex::new(Vec::new()));
        let placement = Stubborn { moves: moves.to_vec(), told: told.clone() };
        assert!(
            !epochs.place(Nanos(0), "stubborn", Some(Box::new(placement))),
            "it routes nothing"
        );
        Bench { group, epochs, hinting: Hinting::default(), told }
    }

    fn end(&mut self, now: u64) -> Vec<Move> {
        let Bench { group, epochs, hinting, .. } = self;
        let (moves, directed) = epochs.end(Nanos(now), group, &Slas::default(), hinting);
        assert!(directed.is_empty(), "no hint moves anything");
        moves
    }

    fn access(&mut self, write: bool) {
        let (at, bytes) = (self.group.now, Bytes(512));
        let access = ChunkAccess { at, chunk: chunk(0), offset: Bytes(0), bytes, write };
        self.epochs.accessed(&mut self.group, &access);
    }
}

fn hint(range: (u64, u64), hints: &mut Hints) -> Result<u8, HintError> {
    let (facts, wishes) = (&Facts::default(), Wishes::default());
    let level = Level::Range;
    let hint = Hint { source: "t", level, volume: None, range, facts, wishes, until: None };
    hints.take(Nanos(0), &hint)
}

#[test]
fn no_epoch_ends_while_nobody_would_be_asked() {
    let mut epochs = Epochs::new(Nanos(SECOND));
    let mut hints = Hints::default();
    assert_eq!(epochs.next_end(&hints), None);
    let now = Nanos(5 * SECOND);
    let refused = epochs.hear(now, Nanos(SECOND), &mut hints, |hints| hint((9, 9), hints));
    assert!(refused.is_err() && epochs.next_end(&hints).is_none());
    let taken = epochs.hear(now, Nanos(SECOND), &mut hints, |hints| hint((0, 9), hints));
    assert!(taken.is_ok());
    assert_eq!(epochs.next_end(&hints), Some(Nanos(6 * SECOND)), "one begins with the first hint");
    let later = Nanos(5 * SECOND + 9);
    assert!(epochs.hear(later, Nanos(SECOND), &mut hints, |hints| hint((0, 9), hints)).is_ok());
    assert_eq!(epochs.next_end(&hints), Some(Nanos(6 * SECOND)), "and goes on with others");
}

#[test]
fn epochs_that_were_missed_end_together_and_the_next_keeps_the_beat() {
    let mut bench = Bench::new(&[Move::to(chunk(0), FAST)]);
    assert!(!bench.epochs.has_ended(Nanos(SECOND - 1)) && bench.epochs.has_ended(Nanos(SECOND)));
    assert_eq!(bench.end(7 * SECOND / 2).len(), 1, "it is asked once");
    assert_eq!(bench.epochs.next_end(&Hints::default()), Some(Nanos(4 * SECOND)));
    assert_eq!(bench.epochs.view(&bench.group, &Slas::default()).epoch(), Nanos(7 * SECOND / 2));
}

#[test]
fn an_access_is_told_once_and_warms_its_chunk_for_one_epoch() {
    let mut bench = Bench::new(&[]);
    bench.access(false);
    bench.access(true);
    assert_eq!(bench.told.lock().expect("one thread").len(), 2);
    assert_eq!(bench.epochs.heat_of(&bench.group, chunk(0)), (1, 1));
    bench.end(SECOND);
    assert_eq!(bench.epochs.heat_of(&bench.group, chunk(0)), (0, 0));
    let slas = Slas::default();
    let ended = bench.epochs.view(&bench.group, &slas).accesses(chunk(0));
    assert_eq!((ended.reads, ended.writes), (1, 1), "placements see the epoch that has ended");
}

#[test]
fn a_placement_speaks_of_ranks_and_its_moves_name_pools() {
    let mut bench = Bench::new(&[Move::to(chunk(0), PoolId(0))]);
    let geometry = Geometry { size: Bytes::from_mib(4), discard_zeroes: false, far: false };
    let spec = PoolSpec { name: "faster".to_string(), geometry, zeroed: true, reserve_chunks: 0 };
    join(&mut bench.group, &spec, Some(FAST)).expect("there is room for it");
    assert_eq!(bench.end(SECOND), [Move::to(chunk(0), PoolId(3))]);
}

#[test]
fn what_was_learnt_needs_a_placement_that_can_read_it() {
    let mut bench = Bench::new(&[]);
    assert_eq!(bench.epochs.learn_from(&bench.group, b"learnt", &[]), Err(Unreadable));
    assert_eq!(bench.epochs.placement_name(), "stubborn");
    bench.epochs.place(Nanos(0), "", None);
    assert_eq!(bench.epochs.learn_from(&bench.group, b"", &[]), Err(Unreadable));
    assert!(bench.epochs.placement().is_none() && bench.epochs.placement_name().is_empty());
    assert_eq!(bench.epochs.next_end(&Hints::default()), None);
    assert_eq!(bench.end(SECOND), []);
}
