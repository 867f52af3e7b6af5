//! `moves-a-day`: what moves of a placement may write to a pool, over epochs, policies, pools and
//! days.

use super::operations::AllTo;
use super::{Bench, CHUNK, tactics};
use crate::{OperationKind, Outcome, Settings};
use thermocline_policy::Footprint;
use thermocline_policy::placement::{Budget, ChunkAccess, Move, Placement, VolumeView};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

const DAY: u64 = 86_400;
const FAST: PoolId = PoolId(0);

/// A bench with `chunks` chunks on pool 1, which a placement wants on pool 0.
fn wanted_up(chunks: u64) -> Bench {
    let epoch = Nanos::from_secs(600);
    let settings = Settings { tactics: tactics(&["slowest-first"]), epoch, ..Bench::settings() };
    let mut bench = Bench::with_settings(&[16, 32], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    (0..chunks).for_each(|chunk| bench.write(chunk * CHUNK, 1, 4096));
    bench.flush();
    bench.group.set_placement(Some(Box::new(AllTo(FAST))));
    bench
}

fn on_fast(bench: &Bench, chunks: u32) -> u32 {
    (0..chunks).map(|chunk| u32::from(bench.pools_of(chunk) == [0])).sum()
}

fn pass_hours(bench: &mut Bench, hours: u64) {
    bench.pass(Nanos::from_secs(hours * 3_600));
}

#[test]
fn a_budget_lets_through_what_it_says_over_many_epochs_and_drops_and_counts_the_rest() {
    let mut bench = wanted_up(10);
    // 24 chunks a day are one an hour; an hour's worth is there at first.
    bench.group.set_wear_budget(FAST, Some(Bytes(24 * CHUNK)));
    bench.pass(Nanos::from_secs(1_200));
    assert_eq!(on_fast(&bench, 10), 1);
    assert!(bench.group.moves_dropped().worn >= 9, "{:?}", bench.group.moves_dropped());
    for hours in 1..4 {
        pass_hours(&mut bench, 1);
        assert_eq!(on_fast(&bench, 10), 1 + hours);
    }
    // Another policy has no budget of its own.
    bench.group.set_placement(Some(Box::new(AllTo(FAST))));
    pass_hours(&mut bench, 1);
    assert_eq!(on_fast(&bench, 10), 5);
    bench.check();
}

#[test]
fn a_budget_is_of_one_pool_and_of_policies_only() {
    let mut bench = wanted_up(6);
    bench.group.set_wear_budget(PoolId(1), Some(Bytes(1)));
    bench.pass(Nanos::from_secs(1_200));
    assert_eq!(on_fast(&bench, 6), 6, "the other pool's budget");
    assert_eq!(bench.group.moves_dropped().worn, 0);
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 1), Outcome::Done, "an administrator's");
    bench.group.set_wear_budget(FAST, Some(Bytes(24 * CHUNK)));
    bench.group.set_wear_budget(FAST, None);
    bench.pass(Nanos::from_secs(1_200));
    assert_eq!(on_fast(&bench, 6), 6, "no bound any more");
}

#[test]
fn what_was_not_used_is_kept_for_a_day_and_no_longer() {
    let mut bench = wanted_up(10);
    bench.group.set_placement(None);
    bench.group.set_wear_budget(FAST, Some(Bytes(3 * CHUNK)));
    bench.pass(Nanos::from_secs(10 * DAY));
    bench.group.set_placement(Some(Box::new(AllTo(FAST))));
    bench.pass(Nanos::from_secs(1_200));
    assert_eq!(on_fast(&bench, 10), 3);
}

/// Lets chunk 0 yield its place to chunk 1, as plans of placements do.
struct Exchange;

impl Placement for Exchange {
    fn observe(&mut self, _: &ChunkAccess) {}

    fn propose(&mut self, _: Nanos, _: &dyn VolumeView, _: Budget, moves: &mut Vec<Move>) {
        let chunk = |index| ChunkId { volume: VolumeId(0), index };
        moves.extend([Move::to(chunk(0), PoolId(1)), Move::to(chunk(1), FAST)]);
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

/// A policy exchanged a warm chunk for a hot one. The budget was used up: the hot one stayed, but
/// the warm one had gone to the disk already, for nothing, epoch after epoch.
#[test]
fn a_chunk_does_not_yield_its_place_to_one_that_the_budget_keeps_away() {
    for (budget, pools) in [(Some(Bytes(1)), [0, 1]), (None, [1, 0])] {
        let mut bench = wanted_up(2);
        bench.group.set_placement(None);
        assert_eq!(bench.operate(OperationKind::Migrate, 0, 0), Outcome::Done);
        bench.group.set_wear_budget(FAST, budget);
        bench.group.set_placement(Some(Box::new(Exchange)));
        bench.pass(Nanos::from_secs(700));
        assert_eq!([bench.pools_of(0)[0], bench.pools_of(1)[0]], pools, "{budget:?}");
        assert_eq!(bench.group.moves_dropped().worn, if budget.is_some() { 2 } else { 0 });
        bench.check();
    }
}
