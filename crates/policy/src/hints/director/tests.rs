//! Moves that hints cause, the chunks that these displace, and what is left to the placement.

use super::Directed;
use crate::hints::store::{Hint, Hints};
use crate::hints::{Facts, Level, Usage, Wishes};
use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::{Move, VolumeView};
use thermocline_units::{Bytes, Nanos, PoolId, Rng, VolumeId};

const MIB: u64 = 1 << 20;

fn say(hints: &mut Hints, index: u32, count: u64, facts: &Facts, wishes: Wishes) {
    let start = u64::from(index) * MIB;
    let (range, volume) = ((start, start + count * MIB), Some(VolumeId(0)));
    let hint = Hint { source: "t", level: Level::File, volume, range, facts, wishes, until: None };
    hints.take(Nanos(0), &hint).expect("it is taken");
}

fn small() -> Facts {
    Facts { file_size: Some(Bytes(1000)), ..Facts::default() }
}

fn used(usage: Usage) -> Facts {
    Facts { usage, ..Facts::default() }
}

fn direct(hints: &mut Hints, view: &Pools, placed: &[Move]) -> (Vec<Move>, Directed) {
    let mut moves = placed.to_vec();
    let directed = hints.direct(Nanos(0), view, &mut moves);
    (moves, directed)
}

fn to(index: u32, pool: u16) -> Move {
    Move::to(chunk(index), PoolId(pool))
}

#[test]
fn without_hints_a_placement_gets_what_it_wants() {
    let view = Pools::new(&[1, 9], &[(0, 1)]);
    let (moves, directed) = direct(&mut Hints::default(), &view, &[to(0, 0)]);
    assert_eq!((moves, directed), (vec![to(0, 0)], Directed::default()));
}

#[test]
fn a_small_file_rises_and_the_least_accessed_chunk_makes_room() {
    let mut view = Pools::new(&[2, 9], &[(0, 0), (1, 0), (2, 1)]);
    view.accesses = [(0, 9), (1, 2)].into();
    let mut hints = Hints::default();
    say(&mut hints, 2, 1, &small(), Wishes::default());
    let (moves, directed) = direct(&mut hints, &view, &[]);
    assert_eq!(moves, [to(1, 1), to(2, 0)]);
    assert_eq!(
        directed,
        Directed { claimed: 1, proposed: 2, dropped: 0, chunks: [1, 2].map(chunk).into() }
    );
    view.carry_out(&moves);
    assert_eq!(direct(&mut hints, &view, &[]).0, [], "all is where it should be");
}

#[test]
fn nobody_makes_room_for_a_class_that_is_kept_no_longer() {
    let view = Pools::new(&[1, 9], &[(0, 0), (1, 1)]);
    let mut hints = Hints::default();
    say(&mut hints, 0, 1, &Facts { metadata: true, ..Facts::default() }, Wishes::default());
    say(&mut hints, 1, 1, &small(), Wishes::default());
    assert_eq!(direct(&mut hints, &view, &[]).0, []);
    // The other way round metadata takes the place of a small file.
    let mut hints = Hints::default();
    say(&mut hints, 0, 1, &small(), Wishes::default());
    say(&mut hints, 1, 1, &Facts { metadata: true, ..Facts::default() }, Wishes::default());
    assert_eq!(direct(&mut hints, &view, &[]).0, [to(0, 1), to(1, 0)]);
}

#[test]
fn a_chunk_with_further_copies_does_not_make_room() {
    let mut view = Pools::new(&[1, 9], &[(0, 0), (1, 1)]);
    let mut hints = Hints::default();
    say(&mut hints, 1, 1, &small(), Wishes::default());
    view.replicated = vec![0];
    assert_eq!(direct(&mut hints, &view, &[]).0, [], "its copy may be where it would go");
    view.replicated.clear();
    assert_eq!(direct(&mut hints, &view, &[]).0, [to(0, 1), to(1, 0)]);
}

/// On three pools, the move of chunk 0 would be refused where its copy is, and chunk 1 would wait
/// for its room for ever.
#[test]
fn a_chunk_with_further_copies_is_not_carried_where_one_of_them_may_be() {
    let mut view = Pools::new(&[9, 1, 9], &[(0, 1), (1, 2)]);
    let mut hints = Hints::default();
    say(&mut hints, 0, 1, &Facts { metadata: true, ..Facts::default() }, Wishes::default());
    view.replicated = vec![0];
    assert_eq!(direct(&mut hints, &view, &[]).0, []);
    view.replicated.clear();
    assert_eq!(direct(&mut hints, &view, &[]).0, [to(0, 0)]);
}

#[test]
fn a_placement_does_not_undo_what_hints_want() {
    let view = Pools::new(&[3, 9, 9], &[(0, 0), (1, 2), (2, 1), (3, 2), (4, 2)]);
    let mut hints = Hints::default();
    say(&mut hints, 0, 1, &small(), Wishes::default());
    say(&mut hints, 1, 1, &used(Usage::Archival), Wishes::default());
    say(&mut hints, 2, 1, &used(Usage::Mixed), Wishes::default());
    say(&mut hints, 3, 1, &Facts::default(), Wishes { pin: true, ..Wishes::default() });
    // A mixed stream may be on either of two pools, and who is not hinted goes anywhere.
    let wanted = [to(0, 2), to(1, 0), to(2, 0), to(3, 0), to(4, 0)];
    let (moves, directed) = direct(&mut hints, &view, &wanted);
    assert_eq!(moves, [to(2, 0), to(4, 0)]);
    assert_eq!(directed.dropped, 3);
}

#[test]
fn demoted_and_archival_chunks_go_down_and_leave_the_placement_its_turn() {
    let view = Pools::new(&[4, 4], &[(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)]);
    let mut hints = Hints::default();
    say(&mut hints, 0, 1, &used(Usage::Archival), Wishes::default());
    say(&mut hints, 1, 1, &small(), Wishes { demote: true, ..Wishes::default() });
    let (moves, _) = direct(&mut hints, &view, &[to(3, 0), to(4, 0)]);
    assert_eq!(moves, [to(1, 1), to(3, 0), to(0, 1), to(4, 0)]);
}

/// A pool that was removed kept its place: after a disk had been replaced, `slowest` was nowhere
/// and `between` the new disk; after the fastest pool had gone, `fastest` was nowhere.
#[test]
fn pools_that_take_no_chunks_are_nobodys_fastest_or_slowest() {
    for (pools, [fast, slow]) in [([4, 8, 0], [0, 1]), ([0, 4, 8], [1, 2]), ([4, 0, 8], [0, 2])] {
        let view = Pools::new(&pools, &[(0, fast), (1, fast), (2, slow), (3, slow)]);
        let mut hints = Hints::default();
        say(&mut hints, 0, 1, &used(Usage::Archival), Wishes::default());
        say(&mut hints, 1, 1, &small(), Wishes { demote: true, ..Wishes::default() });
        say(&mut hints, 2, 1, &used(Usage::Mixed), Wishes::default());
        say(&mut hints, 3, 1, &small(), Wishes::default());
        let (mut moves, _) = direct(&mut hints, &view, &[]);
        moves.sort_by_key(|step| step.chunk);
        assert_eq!(moves, [to(0, slow), to(1, slow), to(2, fast), to(3, fast)], "{pools:?}");
    }
}

#[test]
fn a_class_takes_no_more_of_the_fastest_pool_than_its_allocation() {
    let table = "1,metadata,0,0.50,fastest";
    let classes = crate::hints::rules::Classes::parse(table).expect("a table");
    let mut hints = Hints::new(classes);
    say(&mut hints, 0, 9, &Facts { metadata: true, ..Facts::default() }, Wishes::default());
    let at: Vec<(u32, u16)> = (0..9).map(|index| (index, 1)).collect();
    let (moves, _) = direct(&mut hints, &Pools::new(&[4, 20], &at), &[]);
    assert_eq!(moves, [to(0, 0), to(1, 0)]);
}

#[test]
fn any_prefix_of_what_is_directed_is_valid_on_pools_that_are_nearly_full() {
    let mut rng = Rng::seeded(3);
    for round in 0..300 {
        let places = [3 + rng.below(4), 3 + rng.below(8), 20];
        let mut left = places;
        let mut at = Vec::new();
        for index in 0..20 {
            let pool = rng.below(3) as usize;
            let pool = if left[pool] > 0 { pool } else { 2 };
            left[pool] -= 1;
            at.push((index, pool as u16));
        }
        // In every other round up to three chunks are on a pool that is kept free of them.
        let kept = places.map(|places| if round % 2 == 0 { 0 } else { rng.below(places.min(4)) });
        let places = [0, 1, 2].map(|pool| places[pool] - kept[pool]);
        let mut view = Pools::new(&places, &at);
        view.accesses = (0..20).map(|index| (index, rng.below(30))).collect();
        let mut hints = Hints::default();
        for _ in 0..rng.below(15) {
            let facts = match rng.below(3) {
                0 => Facts { metadata: true, ..Facts::default() },
                1 => Facts { file_size: Some(Bytes(1 << rng.below(32))), ..Facts::default() },
                _ => used(Usage::ALL[rng.below(7) as usize]),
            };
            let wishes =
                Wishes { pin: rng.below(8) == 0, demote: rng.below(8) == 0, background_ms: None };
            say(&mut hints, rng.below(20) as u32, 1 + rng.below(3), &facts, wishes);
        }
        for _ in 0..300 {
            let (moves, _) = direct(&mut hints, &view, &[]);
            moves.iter().for_each(|step| view.carry_out(std::slice::from_ref(step)));
        }
        let (moves, _) = direct(&mut hints, &view, &[]);
        assert!(moves.is_empty(), "round {round} does not settle: {moves:?}, {:?}", view.at);
        assert_eq!(view.at.len(), 20);
        assert!(view.used_chunks(PoolId(0)) <= places[0] + kept[0]);
    }
}

/// Chunks had taken what the pools keep for copies that are fetched ahead: where one of them left,
/// there was no room yet, but the next one was sent there, epoch after epoch (seed 0xb7508e).
#[test]
fn a_chunk_that_leaves_a_pool_that_is_more_than_full_makes_no_room_there() {
    // Four chunks on three places; the last pool has room for all.
    let at = [(0, 0), (1, 1), (2, 1), (3, 1), (4, 2), (5, 0), (6, 1)];
    let mut view = Pools::new(&[2, 3, 9], &at);
    let mut hints = Hints::default();
    say(&mut hints, 1, 2, &small(), Wishes::default());
    let (moves, _) = direct(&mut hints, &view, &[]);
    assert_eq!(moves, [to(5, 2), to(1, 0), to(0, 2), to(2, 0)]);
    view.carry_out(&moves);
    assert_eq!(direct(&mut hints, &view, &[]).0, []);
    // As many go as are too many there, and one for the claim.
    let mut view = Pools::new(&[2, 3, 9], &at);
    let mut hints = Hints::default();
    say(&mut hints, 4, 1, &used(Usage::Mixed), Wishes::default());
    let (moves, _) = direct(&mut hints, &view, &[]);
    assert_eq!(moves, [to(6, 2), to(3, 2), to(4, 1)]);
    view.carry_out(&moves);
    assert_eq!(direct(&mut hints, &view, &[]).0, []);
    // Nobody goes where that would not be enough: the second choice of its class is the first pool.
    let view = Pools::new(&[2, 3, 2], &at);
    assert_eq!(direct(&mut hints, &view, &[]).0, [to(5, 2), to(4, 0)]);
}
