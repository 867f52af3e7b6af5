//! Hints by themselves: who waits, where first writes go, which copies are wished.

use super::{HintRefusal, Hinting, LOOKS_MAX, range_within};
use crate::group_state::GroupState;
use crate::group_state::tests::{CHUNK, CHUNKS, FAR, FAST, SLOW, chunk, group, put};
use crate::io::request::{Action, Priority, Request, RequestId};
use crate::moves::Moves;
use crate::moves::operation::{Operation, OperationId, OperationKind, Refusal};
use thermocline_policy::hints::store::Hint;
use thermocline_policy::hints::{Facts, Level, Wishes};
use thermocline_units::{Bytes, Nanos, PoolId, VolumeId};

const MILLISECOND: u64 = 1_000_000;
const VOLUME: VolumeId = VolumeId(0);

fn say(hinting: &mut Hinting, chunks: std::ops::Range<u64>, facts: &Facts, wishes: Wishes) {
    let range = (chunks.start * u64::from(CHUNK), chunks.end * u64::from(CHUNK));
    let (level, volume) = (Level::Range, Some(VOLUME));
    let hint = Hint { source: "t", level, volume, range, facts, wishes, until: None };
    hinting.hints.take(Nanos(0), &hint).expect("it is in order");
}

/// Hints that the first chunk is metadata, which belongs on the fastest pool.
fn metadata() -> Hinting {
    let mut hinting = Hinting::default();
    say(&mut hinting, 0..1, &Facts { metadata: true, ..Facts::default() }, Wishes::default());
    hinting
}

fn wished(hinting: &mut Hinting) -> Option<Operation> {
    hinting.next_wish().map(|(_, wish)| wish)
}

fn operation(kind: OperationKind, index: u32, to: PoolId) -> Operation {
    Operation { kind, chunk: chunk(index), to }
}

/// The first chunk is on the slow pool, which has so many requests under way.
fn busy(in_flight: u32) -> GroupState {
    let mut group = group();
    put(&mut group, chunk(0), SLOW);
    group.pools[SLOW].in_flight = in_flight;
    group
}

#[test]
fn requests_of_background_tasks_wait_and_those_of_others_do_not() {
    let mut hinting = Hinting::default();
    let wishes = Wishes { background_ms: Some(50), ..Wishes::default() };
    say(&mut hinting, 0..1, &Facts::default(), wishes);
    let mut lowered = |action, start: u64, priority| {
        let request = Request { id: RequestId(1), volume: VOLUME, action, priority };
        hinting.lower(Nanos(MILLISECOND), &request, (start, start + 512))
    };
    let read = || Action::Read { offset: Bytes(0), length: 512 };
    let waits = Priority::Background { deadline: Nanos(51 * MILLISECOND) };
    assert_eq!(lowered(read(), 0, Priority::Foreground), waits);
    assert_eq!(lowered(read(), CHUNK.into(), Priority::Foreground), Priority::Foreground);
    assert_eq!(lowered(Action::Flush, 0, Priority::Foreground), Priority::Foreground);
    let sooner = Priority::Background { deadline: Nanos(2) };
    assert_eq!(lowered(read(), 0, sooner), sooner, "its client has said how long");
    assert_eq!(hinting.counts().waited, 1);
}

#[test]
fn a_first_write_goes_where_its_class_wants_and_never_across_a_network() {
    let (group, mut hinting) = (group(), metadata());
    assert_eq!(hinting.pools_for(&group, chunk(0)).first(), Some(&FAST));
    assert_eq!(hinting.pools_for(&group, chunk(1)), []);
    let demoted = Wishes { demote: true, ..Wishes::default() };
    say(&mut hinting, 1..2, &Facts::default(), demoted);
    assert_eq!(hinting.pools_for(&group, chunk(1)), [SLOW], "the slowest that is here");
}

#[test]
fn only_chunks_that_have_a_faster_pool_with_a_reserve_are_prefetched() {
    let (mut group, mut hinting) = (busy(0), Hinting::default());
    put(&mut group, chunk(1), FAST);
    put(&mut group, chunk(3), FAR);
    let all = (0, u64::MAX);
    assert_eq!(hinting.wish_prefetches(&group, VOLUME, all, Some(Nanos(9))), Ok(2));
    let sooner =
        hinting.wish_prefetches(&group, VOLUME, (3 * u64::from(CHUNK), all.1), Some(Nanos(5)));
    assert_eq!(sooner, Ok(1));
    let order: Vec<_> = std::iter::from_fn(|| wished(&mut hinting)).collect();
    let prefetch = |index| operation(OperationKind::Prefetch, index, FAST);
    assert_eq!(order, [prefetch(3), prefetch(0), prefetch(3)], "what is needed first");
    group.pools[FAST].reserve = 0;
    assert_eq!(hinting.wish_prefetches(&group, VOLUME, all, None), Ok(0));
}

#[test]
fn a_range_that_begins_beyond_its_volume_is_refused() {
    let group = group();
    let size = u64::from(CHUNKS * CHUNK);
    assert_eq!(range_within(&group, Some(VOLUME), (512, u64::MAX)), Ok((512, size)));
    assert_eq!(range_within(&group, None, (0, u64::MAX)), Ok((0, u64::MAX)));
    let beyond = Err(HintRefusal::Beyond(size, size));
    assert_eq!(range_within(&group, Some(VOLUME), (size, size + 1)), beyond);
    let missing = HintRefusal::NoVolume(VolumeId(7));
    assert_eq!(range_within(&group, Some(VolumeId(7)), (0, 1)), Err(missing.clone()));
    let prefetched = Hinting::default().wish_prefetches(&group, VolumeId(7), (0, 1), None);
    assert_eq!(prefetched, Err(missing));
}

#[test]
fn a_wish_that_finds_the_queue_full_keeps_its_place_and_one_without_room_is_given_up() {
    let (group, mut hinting) = (busy(0), Hinting::default());
    hinting.wish_prefetches(&group, VOLUME, (0, 1), None).expect("it is in order");
    let (place, wish) = hinting.next_wish().expect("it was wished");
    assert!(!hinting.note_started(place, wish, Err(Refusal::QueueFull)));
    assert_eq!(hinting.next_wish(), Some((place, wish)));
    assert!(hinting.note_started(place, wish, Err(Refusal::NoRoom)) && !hinting.has_wishes());
    let redirected = operation(OperationKind::Redirect, 0, FAST);
    assert!(hinting.note_started(None, redirected, Ok(OperationId(1))));
    let counts = hinting.counts();
    assert_eq!((counts.prefetched, counts.refused, counts.redirected), (1, 1, 1));
}

/// One busy chunk in front kept all other wishes waiting.
#[test]
fn a_wish_whose_chunk_is_busy_lets_all_others_go_first() {
    let (mut group, mut hinting) = (busy(4), metadata());
    put(&mut group, chunk(1), SLOW);
    hinting.wish_prefetches(&group, VOLUME, (0, 2 * u64::from(CHUNK)), None).expect("in order");
    hinting.redirect_write(&group, &Moves::default(), chunk(0));
    let round = |hinting: &mut Hinting| {
        hinting.begin_round();
        let mut told = Vec::new();
        while let Some((place, wish)) = hinting.next_wish() {
            told.push((wish.kind, wish.chunk.index));
            let started =
                if wish.chunk.index == 0 { Err(Refusal::Busy) } else { Ok(OperationId(1)) };
            assert!(hinting.note_started(place, wish, started), "the others are asked, too");
        }
        told
    };
    let (redirect, prefetch) = (OperationKind::Redirect, OperationKind::Prefetch);
    assert_eq!(round(&mut hinting), [(redirect, 0), (prefetch, 0), (prefetch, 1)]);
    hinting.redirect_write(&group, &Moves::default(), chunk(0));
    assert_eq!(round(&mut hinting), [(redirect, 0), (prefetch, 0)], "once a round, and no more");
    hinting.wish_prefetches(&group, VOLUME, (0, 2 * u64::from(CHUNK)), None).expect("in order");
    hinting.begin_round();
    let order: Vec<u32> =
        std::iter::from_fn(|| wished(&mut hinting)).map(|wish| wish.chunk.index).collect();
    assert_eq!(order, [0, 0, 1], "the put off one comes when the new ones are through");
    assert!(hinting.has_wishes());
    hinting.begin_round();
    assert!(wished(&mut hinting).is_some() && !hinting.has_wishes());
}

#[test]
fn a_write_to_a_busy_pool_is_redirected_once_where_its_class_wants_a_faster_one() {
    let redirect = operation(OperationKind::Redirect, 0, FAST);
    let mut hinting = metadata();
    hinting.redirect_write(&busy(3), &Moves::default(), chunk(0));
    assert_eq!(wished(&mut hinting), None, "the pool has time");
    hinting.redirect_write(&busy(4), &Moves::default(), chunk(0));
    hinting.redirect_write(&busy(4), &Moves::default(), chunk(0));
    assert_eq!((wished(&mut hinting), wished(&mut hinting)), (Some(redirect), None));
    let mut unhinted = Hinting::default();
    unhinted.redirect_write(&busy(4), &Moves::default(), chunk(0));
    assert_eq!(wished(&mut unhinted), None);
}

#[test]
fn a_write_across_a_network_is_redirected_to_a_pool_that_is_here_without_a_hint() {
    let (mut group, mut hinting) = (group(), Hinting::default());
    put(&mut group, chunk(0), FAR);
    hinting.redirect_write(&group, &Moves::default(), chunk(0));
    assert_eq!(wished(&mut hinting), Some(operation(OperationKind::Redirect, 0, SLOW)));
}

#[test]
fn writes_look_at_a_bounded_number_of_hints_in_a_round() {
    let (group, mut hinting) = (busy(4), metadata());
    hinting.looks = LOOKS_MAX;
    hinting.redirect_write(&group, &Moves::default(), chunk(0));
    assert!(wished(&mut hinting).is_none() && hinting.has_wishes(), "another round is wanted");
    hinting.begin_round();
    hinting.redirect_write(&group, &Moves::default(), chunk(0));
    assert!(wished(&mut hinting).is_some());
}

/// They stayed, and were granted on the next volume with that number.
#[test]
fn nothing_is_wished_of_a_deleted_volume() {
    let (mut group, mut hinting) = (busy(4), metadata());
    put(&mut group, chunk(1), SLOW);
    let both = (0, 2 * u64::from(CHUNK));
    hinting.redirect_write(&group, &Moves::default(), chunk(0));
    hinting.wish_prefetches(&group, VOLUME, both, None).expect("it is in order");
    for _ in 0..2 {
        let (place, wish) = hinting.next_wish().expect("it was wished");
        assert!(hinting.note_started(place, wish, Err(Refusal::Busy)));
    }
    hinting.begin_round();
    hinting.forget_volume(VolumeId(1));
    assert!(hinting.has_wishes() && !hinting.hints.is_empty());
    hinting.forget_volume(VOLUME);
    assert!(!hinting.has_wishes() && hinting.hints.is_empty());
}
