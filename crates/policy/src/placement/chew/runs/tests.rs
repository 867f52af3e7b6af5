//! ChewAnalyzer++: what is split, what is merged, and what that saves.

use crate::placement::Placement;
use crate::placement::chew::tests::ask;
use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::tests::{build, propose_to};
use thermocline_units::Rng;

/// Runs of eight chunks in four parts of two, unless the settings say something else.
fn runs(settings: &str) -> Box<dyn Placement> {
    build(&format!("chew-pp:span=8MiB:demote=always{settings}"))
}

/// Chunks 0 to 23, three runs of eight, on the slowest of three pools.
fn pools(fast: u64, middle: u64) -> Pools {
    let at: Vec<_> = (0..24).map(|index| (index, 2)).collect();
    Pools::new(&[fast, middle, 2000], &at)
}

/// Proposals in order of the chunks, which are carried out.
fn moved(placement: &mut dyn Placement, pools: &mut Pools) -> Vec<(u32, u16)> {
    let mut moves = propose_to(placement, pools);
    moves.iter().for_each(|&(index, to)| _ = pools.at.insert(index, to));
    moves.sort_unstable();
    moves
}

fn first_reason(placement: &dyn Placement, index: u32) -> String {
    placement.explain(chunk(index)).into_iter().next().expect("it was accessed")
}

#[test]
fn a_hot_spot_takes_its_part_to_the_fast_pool_and_not_its_whole_run() {
    // 512 units a second on chunk 3, 8 on chunk 6: with the whole of it hot, all eight would go.
    let run = |settings: &str| {
        let (mut placement, mut pools) = (runs(settings), pools(24, 24));
        ask(placement.as_mut(), 3, 64, false);
        ask(placement.as_mut(), 6, 1, false);
        moved(placement.as_mut(), &mut pools)
    };
    let whole: Vec<_> = (0..8).map(|index| (index, 0)).collect();
    assert_eq!(run(":parts=1"), whole);
    assert_eq!(run(""), [(2, 0), (3, 0)]);
    assert_eq!(run(":parts=8"), [(3, 0)]);
}

#[test]
fn a_run_whose_parts_are_alike_is_moved_as_one_with_what_nobody_accessed() {
    let (mut placement, mut pools) = (runs(""), pools(24, 24));
    for index in [0, 2, 4, 6] {
        ask(placement.as_mut(), index, 64, false);
    }
    let all: Vec<_> = (0..8).map(|index| (index, 0)).collect();
    assert_eq!(moved(placement.as_mut(), &mut pools), all);
    assert_eq!(first_reason(placement.as_ref(), 5), "it goes with its run, chunks 0 to 7");
    assert_eq!(placement.explain(chunk(8)), Vec::<String>::new(), "nobody accessed its run");
}

#[test]
fn parts_go_to_the_pools_of_their_own_patterns() {
    let (mut placement, mut pools) = (runs(""), pools(24, 24));
    ask(placement.as_mut(), 0, 64, false); // 512 a second: top
    ask(placement.as_mut(), 2, 20, false); // 160: second
    ask(placement.as_mut(), 4, 1, false); // 8: low
    assert_eq!(moved(placement.as_mut(), &mut pools), [(0, 0), (1, 0), (2, 1), (3, 1)]);
    assert_eq!(
        first_reason(placement.as_ref(), 2),
        "its run, chunks 0 to 7, is split; it goes with chunks 2 to 3"
    );
}

#[test]
fn a_split_run_is_merged_when_its_parts_had_one_pattern_for_long_enough() {
    let (mut placement, mut pools) = (runs(":stable=3"), pools(24, 24));
    let is_split = |placement: &dyn Placement| first_reason(placement, 0).contains("is split");
    ask(placement.as_mut(), 0, 64, false);
    moved(placement.as_mut(), &mut pools);
    assert!(is_split(placement.as_ref()));
    let alike = |placement: &mut dyn Placement, pools: &mut Pools| {
        for index in [0, 2, 4, 6] {
            ask(placement, index, 64, false);
        }
        moved(placement, pools)
    };
    // Two alike, one not: counting begins anew.
    for split in [true, true] {
        alike(placement.as_mut(), &mut pools);
        assert_eq!(is_split(placement.as_ref()), split);
    }
    ask(placement.as_mut(), 0, 64, false);
    moved(placement.as_mut(), &mut pools);
    for split in [true, true, false, false] {
        alike(placement.as_mut(), &mut pools);
        assert_eq!(is_split(placement.as_ref()), split);
    }
    assert!((0..8).all(|index| pools.at[&index] == 0), "{:?}", pools.at);
}

#[test]
fn a_run_that_no_pool_of_its_pattern_can_hold_is_split_so_that_some_of_it_finds_one() {
    let hot = |settings: &str, fast: u64, middle: u64| {
        let (mut placement, mut pools) = (runs(settings), pools(fast, middle));
        for index in [0, 2, 4, 6] {
            ask(placement.as_mut(), index, 64, false);
        }
        moved(placement.as_mut(), &mut pools)
    };
    assert_eq!(hot(":parts=1", 7, 7), [], "no pool above the slowest holds eight");
    assert_eq!(hot("", 5, 2), [(0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (5, 1)]);
}

#[test]
fn a_run_at_the_end_of_a_volume_is_what_there_is_of_it() {
    let (mut placement, mut pools) = (runs(""), pools(24, 24));
    pools.at.retain(|&index, _| index < 19);
    for index in [16, 18] {
        ask(placement.as_mut(), index, 64, true);
    }
    assert_eq!(moved(placement.as_mut(), &mut pools), [(16, 0), (17, 0), (18, 0)]);
    assert_eq!(first_reason(placement.as_ref(), 17), "it goes with its run, chunks 16 to 23");
}

#[test]
fn with_runs_of_one_chunk_it_proposes_what_chew_proposes() {
    let settings = "top=40:low=4:very-intense=90";
    for more in ["", ":demote=always", ":accept=group", ":peak=0.002"] {
        let mut chew = build(&format!("chew:of=none:{settings}{more}"));
        let mut runs = build(&format!("chew-pp:span=1MiB:{settings}{more}"));
        let mut pools = pools(5, 7);
        let mut rng = Rng::seeded(8);
        let mut total = 0;
        for epoch in 0..30 {
            for _ in 0..rng.below(40) {
                let index = (rng.unit_f64().powi(3) * 40.0) as u32 + epoch / 5;
                let (times, write) = (1 + rng.below(8), rng.below(3) == 0);
                ask(chew.as_mut(), index, times, write);
                ask(runs.as_mut(), index, times, write);
            }
            let moves = propose_to(chew.as_mut(), &pools);
            assert_eq!(propose_to(runs.as_mut(), &pools), moves, "epoch {epoch}{more}");
            for index in 0..40 {
                assert_eq!(runs.explain(chunk(index)), chew.explain(chunk(index)), "{index}");
            }
            moves.iter().for_each(|&(index, to)| _ = pools.at.insert(index, to));
            total += moves.len();
        }
        assert!(total > 30, "{total} moves{more}");
    }
}
