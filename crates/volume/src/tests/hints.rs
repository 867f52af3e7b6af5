//! Hints at work: where first writes go, what moves, what is redirected, who waits.

use super::{Bench, CHUNK, tactics};
use crate::{Action, HintRefusal, OperationKind, Outcome, Priority, Request, RequestId, Settings};
use thermocline_policy::hints::store::{Hint, HintError};
use thermocline_policy::hints::{Facts, Level, Usage, Wishes};
use thermocline_policy::placement::VolumeView;
use thermocline_policy::registry::PolicySpec;
use thermocline_ports::Payload;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

const SECOND: Nanos = Nanos(1_000_000_000);

/// Two pools; new chunks go to the slower one, and epochs last a second.
fn bench() -> Bench {
    let settings =
        Settings { tactics: tactics(&["slowest-first"]), epoch: SECOND, ..Bench::settings() };
    let mut bench = Bench::with_settings(&[4, 8], 2, settings);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    bench
}

fn metadata() -> Facts {
    Facts { metadata: true, ..Facts::default() }
}

fn archival() -> Facts {
    Facts { usage: Usage::Archival, ..Facts::default() }
}

fn ask(
    bench: &mut Bench,
    range: (u64, u64),
    facts: &Facts,
    wishes: Wishes,
) -> Result<u8, HintRefusal> {
    let volume = Some(VolumeId(0));
    let hint = Hint { source: "t", level: Level::Range, volume, range, facts, wishes, until: None };
    bench.group.hint(Nanos(0), &hint)
}

fn say(bench: &mut Bench, chunks: std::ops::Range<u64>, facts: &Facts) {
    let range = (chunks.start * CHUNK, chunks.end * CHUNK);
    ask(bench, range, facts, Wishes::default()).expect("it is taken");
}

#[test]
fn a_first_write_goes_to_the_pool_of_its_class_or_where_the_settings_say() {
    let mut bench = bench();
    say(&mut bench, 0..2, &metadata());
    (0..3).for_each(|chunk| bench.write(chunk * CHUNK, 1, 512));
    assert_eq!([bench.pools_of(0), bench.pools_of(1), bench.pools_of(2)], [[0], [0], [1]]);
    assert_eq!(bench.group.hint_counts().placed, 2);
}

#[test]
fn hints_move_chunks_at_an_epochs_end_though_nobody_else_decides() {
    let mut bench = bench();
    (0..3).for_each(|chunk| bench.write(chunk * CHUNK, 7, CHUNK as usize));
    say(&mut bench, 1..2, &metadata());
    bench.pass(Nanos(2 * SECOND.0));
    assert_eq!([bench.pools_of(0), bench.pools_of(1), bench.pools_of(2)], [[1], [0], [1]]);
    let counts = bench.group.hint_counts();
    assert_eq!((counts.claimed, counts.moves), (1, 1));
    // Another one says the opposite, of the same bytes and more specific than nobody.
    say(&mut bench, 1..2, &archival());
    bench.pass(Nanos(2 * SECOND.0));
    assert_eq!(bench.pools_of(1), [1]);
    bench.crash();
    assert!(bench.group.hints().is_empty(), "hints are not kept");
    assert_eq!(bench.read(CHUNK, 512).expect("readable")[0], 7);
}

/// Nothing waits for room that a chunk could make only by going where its further copy is.
#[test]
fn a_hint_does_not_wait_for_room_that_only_replicated_chunks_could_make() {
    let settings =
        Settings { tactics: tactics(&["slowest-first"]), epoch: SECOND, ..Bench::settings() };
    let mut bench = Bench::with_settings(&[1, 8], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    say(&mut bench, 0..20, &metadata());
    let full = (0..20).find(|&chunk| {
        bench.write(u64::from(chunk) * CHUNK, 1, 512);
        let fits = bench.pools_of(chunk) == [0];
        if fits {
            assert_eq!(bench.operate(OperationKind::Replicate, chunk, 1), Outcome::Done);
        }
        !fits
    });
    let late = full.expect("the fast pool is full");
    bench.group.forget_hints("t");
    say(&mut bench, u64::from(late)..u64::from(late) + 1, &metadata());
    bench.pass(Nanos(3 * SECOND.0));
    assert_eq!(bench.group.moves_pending(), 0);
    assert_eq!((bench.pools_of(0), bench.pools_of(late)), (vec![0, 1], vec![1]));
    assert_eq!(bench.group.hint_counts().moves, 0);
}

#[test]
fn writes_to_a_busy_pool_are_redirected_to_the_one_that_their_class_wants() {
    let mut bench = bench();
    bench.write(0, 1, CHUNK as usize);
    say(&mut bench, 0..1, &metadata());
    for block in 0..8u64 {
        let (id, volume) = (RequestId(1000 + block), VolumeId(0));
        let payload = Payload::from(vec![2; 4096]);
        let action = Action::Write { offset: Bytes(block * 4096), payload, fua: false };
        let request = Request { id, volume, action, priority: Priority::Foreground };
        bench.group.submit(Nanos(0), request).expect("there is room");
    }
    bench.pass(Nanos(SECOND.0 / 2));
    assert_eq!(bench.group.hint_counts().redirected, 1);
    assert_eq!(bench.pools_of(0), [0], "all of it has followed");
    let read = bench.read(0, CHUNK as u32).expect("readable");
    assert_eq!((read[0], read[7 * 4096], read[8 * 4096]), (2, 2, 1));
    bench.check();
}

#[test]
fn requests_of_background_tasks_are_let_wait_and_answered() {
    let mut bench = bench();
    let wishes = Wishes { background_ms: Some(100), ..Wishes::default() };
    ask(&mut bench, (0, CHUNK), &Facts::default(), wishes).expect("it is taken");
    bench.write(0, 1, 512);
    bench.write(CHUNK, 1, 512);
    assert_eq!(bench.read(0, 512).expect("readable")[0], 1);
    bench.flush();
    assert_eq!(bench.group.hint_counts().waited, 2);
}

#[test]
fn a_prefetch_fills_the_reserve_and_no_more() {
    let mut bench = bench();
    (0..4).for_each(|chunk| bench.write(chunk * CHUNK, 3, CHUNK as usize));
    let wished = bench.group.prefetch(Nanos(0), VolumeId(0), (0, 20 * CHUNK), None);
    assert_eq!(wished, Ok(4), "what holds nothing needs no copy");
    bench.pass(Nanos(2 * SECOND.0));
    let prefetched = (0..4).filter(|&chunk| bench.pools_of(chunk) == [1, 0]).count();
    assert_eq!(prefetched, 2, "the reserve is two chunks");
    let (view, pool) = (bench.group.machines.view(), PoolId(0));
    let room = view.capacity_chunks(pool) - view.used_chunks(pool);
    assert_eq!(room, u64::from(bench.group.machines.state.pools[pool].free_beside_reserve()));
    let counts = bench.group.hint_counts();
    assert_eq!((counts.prefetched, counts.refused), (4, 2));
    bench.check();
}

#[test]
fn what_is_needed_first_is_prefetched_first() {
    let mut bench = bench();
    (0..4).for_each(|chunk| bench.write(chunk * CHUNK, 3, CHUNK as usize));
    let dues = [None, Some(Nanos(90 * SECOND.0)), Some(Nanos(60 * SECOND.0)), None];
    for (chunk, due) in (0..).zip(dues) {
        let range = (chunk * CHUNK, (chunk + 1) * CHUNK);
        bench.group.prefetch(Nanos(0), VolumeId(0), range, due).expect("it is there");
    }
    bench.pass(Nanos(2 * SECOND.0));
    let prefetched: Vec<u32> = (0..4).filter(|&at| bench.pools_of(at) == [1, 0]).collect();
    assert_eq!(prefetched, [1, 2], "there is room for two");
}

#[test]
fn hints_of_what_is_not_there_are_refused_and_go_with_their_volume() {
    let mut bench = bench();
    let none = Wishes::default();
    let facts = metadata();
    assert_eq!(
        ask(&mut bench, (20 * CHUNK, 21 * CHUNK), &facts, none),
        Err(HintRefusal::Beyond(20 * CHUNK, 20 * CHUNK))
    );
    let empty = Err(HintRefusal::Hint(HintError::Range(5, 5)));
    assert_eq!(ask(&mut bench, (5, 5), &facts, none), empty);
    ask(&mut bench, (0, u64::MAX), &facts, none).expect("what is beyond is left out");
    let beyond = ChunkId { volume: VolumeId(0), index: 20 };
    assert!(bench.group.hints().of(Nanos(0), beyond, Bytes(CHUNK)).is_none());
    bench.group.delete_volume(Nanos(0), VolumeId(0)).expect("it exists");
    assert!(bench.group.hints().is_empty());
    assert_eq!(ask(&mut bench, (0, 1), &facts, none), Err(HintRefusal::NoVolume(VolumeId(0))));
    let gone = bench.group.prefetch(Nanos(0), VolumeId(0), (0, 1), None);
    assert_eq!(gone, Err(HintRefusal::NoVolume(VolumeId(0))));
}

#[test]
fn a_hint_is_judged_by_where_the_first_write_would_have_gone() {
    let mut bench = bench();
    say(&mut bench, 0..1, &metadata());
    (0..3).for_each(|chunk| bench.write(chunk * CHUNK, 1, 512));
    assert_eq!([bench.pools_of(0), bench.pools_of(1)], [[0], [1]]);
    bench.pass(Nanos(2 * SECOND.0));
    for _ in 0..100 {
        bench.read(0, 512).expect("readable");
    }
    bench.pass(Nanos(2 * SECOND.0));
    let (_, score) = bench.group.hints().sources()[0].scores().next().expect("it spoke");
    assert!(score.waits.saved > 0.0 && score.waits.lost == 0.0, "{score:?}");
    assert_eq!((score.chunks, score.proved), (1, CHUNK));
    let judged = bench.group.hints().judged();
    assert_eq!(judged.len(), 1);
    assert!(judged[0].followed && judged[0].value > score.value - 0.25);
}

#[test]
fn pins_use_up_the_budget_of_their_pool_and_are_known_after_a_crash() {
    let mut bench = bench();
    (0..3).for_each(|chunk| bench.write(chunk * CHUNK, 1, 512));
    bench.group.set_pin_share(0.25);
    let before = bench.group.pins_left();
    assert!(!bench.group.machines.view().has_pins());
    let chunk = ChunkId { volume: VolumeId(0), index: 1 };
    bench.group.pin(bench.now(), chunk, true).expect("it holds something");
    let left = bench.group.pins_left();
    assert_eq!((left[0], left[1] + 1), (before[0], before[1]));
    bench.flush();
    bench.crash();
    let view = bench.group.machines.view();
    assert!(view.has_pins() && view.is_pinned(chunk));
    bench.group.set_pin_share(0.0);
    assert_eq!(bench.group.pins_left(), [0, 0]);
}

/// Other requests go before theirs until their deadline.
#[test]
fn what_background_tasks_ask_has_a_deadline_and_yields_till_then() {
    let mut bench = bench();
    let wishes = Wishes { background_ms: Some(100), ..Wishes::default() };
    ask(&mut bench, (0, CHUNK), &Facts::default(), wishes).expect("it is taken");
    let mut lower = |at: u64, priority| {
        let action = Action::Read { offset: Bytes(at), length: 512 };
        let request = Request { id: RequestId(1), volume: VolumeId(0), action, priority };
        bench.group.machines.hinting.lower(Nanos(7), &request, (at, at + 512))
    };
    let late = Priority::Background { deadline: Nanos(100_000_007) };
    assert_eq!(lower(0, Priority::Foreground), late);
    assert_eq!(lower(CHUNK, Priority::Foreground), Priority::Foreground, "not of the hint");
    let own = Priority::Background { deadline: Nanos(9) };
    assert_eq!(lower(0, own), own, "it had one before");
}

#[test]
fn what_shall_go_down_is_first_written_to_the_slowest_pool() {
    let settings =
        Settings { tactics: tactics(&["fastest-first"]), epoch: SECOND, ..Bench::settings() };
    let mut bench = Bench::with_settings(&[4, 8, 8], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    let wishes = Wishes { demote: true, ..Wishes::default() };
    ask(&mut bench, (0, CHUNK), &Facts::default(), wishes).expect("it is taken");
    (0..2).for_each(|chunk| bench.write(chunk * CHUNK, 1, 512));
    assert_eq!([bench.pools_of(0), bench.pools_of(1)], [[2], [0]]);
}

/// Its prices and scores would be of a wrong time.
#[test]
fn the_first_epoch_begins_with_the_first_hint() {
    let mut bench = bench();
    bench.write(0, 1, 512);
    bench.pass(Nanos(3600 * SECOND.0));
    let (facts, volume) = (metadata(), Some(VolumeId(0)));
    let (range, wishes, level) = ((0, CHUNK), Wishes::default(), Level::Range);
    let hint = Hint { source: "t", level, volume, range, facts: &facts, wishes, until: None };
    bench.group.hint(bench.now(), &hint).expect("it is taken");
    bench.pass(Nanos(SECOND.0 + SECOND.0 / 2));
    let length = bench.group.machines.view().epoch();
    assert!((SECOND.0 / 2..2 * SECOND.0).contains(&length.0), "{length}");
}

#[test]
fn what_was_learnt_of_a_volume_that_is_gone_is_left_out() {
    let mut bench = bench();
    let size = Bytes(4 * CHUNK);
    let other = bench.group.create_volume(Nanos(0), size).expect("another volume");
    let auto = || PolicySpec::parse("auto").unwrap().build_placement().expect("its defaults");
    bench.group.set_named_placement("auto", auto());
    for _ in 0..4 {
        for volume in [VolumeId(0), other] {
            for chunk in 0..2 {
                let payload = Payload::from(vec![1; 4096]);
                let write = Action::Write { offset: Bytes(chunk * CHUNK), payload, fua: false };
                bench.ask_of(volume, write).expect("written");
            }
        }
        bench.pass(SECOND);
    }
    let learnt = |bench: &Bench| bench.group.learnt().expect("auto learns").1;
    let of_both = learnt(&bench);
    let again = |bench: &mut Bench| {
        bench.group.set_named_placement("auto", auto());
        let pools = bench.group.pools_there().to_vec();
        bench.group.learn_from(&of_both, &pools).expect("it is its own");
        learnt(bench).len()
    };
    assert_eq!(again(&mut bench), of_both.len());
    bench.group.delete_volume(bench.now(), other).expect("it is there");
    bench.pass(SECOND);
    let left = again(&mut bench);
    assert!(left < of_both.len(), "{left} of {}", of_both.len());
}
