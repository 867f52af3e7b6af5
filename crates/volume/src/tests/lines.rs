//! Lines of 4 KiB in slots of a fast pool that no chunk needs.

use super::{Bench, CHUNK, tactics};
use crate::{Action, OperationKind, Outcome, PoolState, Settings};
use thermocline_policy::Footprint;
use thermocline_policy::placement::{Budget, ChunkAccess, Move, Placement, VolumeView};
use thermocline_ports::{Device, Payload};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

const FAST: u16 = 0;
const SLOW: u16 = 1;
const ROUND: Nanos = Nanos(200_000_000);

/// Eight chunks on the second pool, each with its number and one; so many per cent of the first
/// are lent.
fn bench(percent: u8) -> Bench {
    bench_with(percent, Bench::settings())
}

fn bench_with(percent: u8, settings: Settings) -> Bench {
    let settings =
        Settings { tactics: tactics(&["slowest-first"]), lent_percent: percent, ..settings };
    let mut bench = Bench::with_settings(&[4, 16], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(32 * CHUNK)).expect("a volume");
    (0..8).for_each(|chunk| bench.write(chunk * CHUNK, chunk as u8 + 1, CHUNK as usize));
    bench.flush();
    bench.pass(ROUND);
    bench
}

fn reads(bench: &Bench) -> [u64; 2] {
    [FAST, SLOW].map(|pool| bench.status(pool).counters.reads)
}

fn read_block(bench: &mut Bench, block: u64, byte: u8) {
    let read = bench.read(block * 4096, 4096).expect("readable");
    assert!(read.iter().all(|&found| found == byte), "block {block}: {} for {byte}", read[0]);
    bench.check();
}

#[test]
fn the_second_read_of_a_block_goes_to_the_fast_pool() {
    let mut bench = bench(100);
    assert_eq!(bench.pools_of(0), [SLOW]);
    assert!(bench.group.lines().lent > 4, "{:?}", bench.group.lines());
    read_block(&mut bench, 3, 1);
    let before = reads(&bench);
    read_block(&mut bench, 3, 1);
    assert_eq!(reads(&bench), [before[0] + 1, before[1]]);
    let lines = bench.group.lines();
    assert_eq!((lines.hits, lines.misses, lines.fills, lines.lines, lines.wrong), (1, 1, 1, 1, 0));
    // Several blocks, a part of one, and what is not all there.
    let read = bench.read(8 * 4096, 5 * 4096).expect("readable");
    let before = reads(&bench);
    assert_eq!(bench.read(8 * 4096, 5 * 4096).expect("readable"), read);
    assert_eq!(bench.read(8 * 4096 + 512, 4096).expect("readable"), read[..4096]);
    assert_eq!(reads(&bench), [before[0] + 7, before[1]]);
    assert_eq!(bench.read(7 * 4096, 2 * 4096).expect("readable"), read[..8192]);
    assert_eq!(reads(&bench)[1], before[1] + 1);
}

#[test]
fn nothing_is_lent_where_nobody_asks_for_lines() {
    let mut settings = Bench::settings();
    settings.tactics = tactics(&["slowest-first"]);
    let mut bench = Bench::with_settings(&[4, 16], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(32 * CHUNK)).expect("a volume");
    bench.write(0, 1, 4096);
    bench.pass(ROUND);
    (0..3).for_each(|_| read_block(&mut bench, 0, 1));
    assert_eq!(bench.group.lines().lent, 0);
    assert_eq!(reads(&bench)[0], 0);
}

#[test]
fn a_long_read_fills_no_lines() {
    let mut bench = bench(100);
    bench.read(0, 9 * 4096).expect("readable");
    assert_eq!(bench.group.lines().fills, 0);
}

#[test]
fn a_write_is_seen_by_the_next_read_and_renews_its_line() {
    let mut bench = bench(100);
    read_block(&mut bench, 3, 1);
    let slow = reads(&bench)[1];
    bench.write(3 * 4096, 77, 4096);
    read_block(&mut bench, 3, 77);
    assert_eq!(reads(&bench)[1], slow, "the line has what was written");
    // A part of a block leaves its line empty, until it is read.
    bench.write(3 * 4096 + 512, 78, 512);
    let read = bench.read(3 * 4096, 4096).expect("readable");
    assert_eq!((read[0], read[512], read[1024]), (77, 78, 77));
    assert_eq!(reads(&bench)[1], slow + 1);
    // What was not a line is none for being written.
    bench.write(9 * 4096, 79, 4096);
    assert_eq!(bench.group.lines().lines, 1);
}

#[test]
fn a_crash_forgets_lines_and_nothing_else() {
    let mut bench = bench(100);
    read_block(&mut bench, 3, 1);
    bench.write(3 * 4096, 77, 4096);
    bench.flush();
    bench.crash();
    assert_eq!(bench.group.lines().lines, 0);
    read_block(&mut bench, 3, 77);
}

#[test]
fn new_chunks_get_lent_slots() {
    let mut bench = bench(100);
    bench.settings.tactics = tactics(&["fastest-first"]);
    let lent = bench.group.lines().lent;
    read_block(&mut bench, 3, 1);
    for chunk in 0..u32::min(lent, 7) {
        bench.operate(OperationKind::Migrate, chunk, FAST);
        bench.check();
    }
    assert!(bench.group.lines().lent < lent);
    (0..7).for_each(|chunk| read_block(&mut bench, chunk * 16, chunk as u8 + 1));
    assert_eq!(bench.status(FAST).slots_used, 7);
}

#[test]
fn less_is_lent_as_soon_as_less_is_wanted() {
    let mut bench = bench(100);
    let all = bench.group.lines().lent;
    (0..64).for_each(|block| read_block(&mut bench, block, (block / 16) as u8 + 1));
    bench.group.set_lent_percent(50);
    bench.pass(ROUND);
    assert_eq!(bench.group.lines().lent, all / 2);
    (0..64).for_each(|block| read_block(&mut bench, block, (block / 16) as u8 + 1));
    bench.group.set_lent_percent(0);
    bench.pass(ROUND);
    assert_eq!((bench.group.lines().lent, bench.status(FAST).lent), (0, 0));
    bench.check();
}

#[test]
fn a_chunk_on_the_fast_pool_has_no_lines() {
    let mut bench = bench(100);
    bench.operate(OperationKind::Migrate, 0, FAST);
    read_block(&mut bench, 3, 1);
    read_block(&mut bench, 3, 1);
    assert_eq!((bench.group.lines().fills, bench.group.lines().misses), (0, 0));
}

#[test]
fn a_pool_that_is_drained_gives_its_lines_up() {
    let mut bench = bench(100);
    read_block(&mut bench, 3, 1);
    bench.group.drain_pool(bench.now(), PoolId(FAST)).expect("it may be drained");
    bench.pass(Nanos(2_000_000_000));
    assert_eq!(bench.status(FAST).state, PoolState::Drained);
    assert_eq!(bench.status(FAST).lent, 0);
    read_block(&mut bench, 3, 1);
}

#[test]
fn another_volume_of_the_same_number_sees_no_line_of_the_old_one() {
    let mut bench = bench(100);
    read_block(&mut bench, 3, 1);
    bench.group.delete_volume(bench.now(), VolumeId(0)).expect("it is there");
    bench.pass(Nanos(2_000_000_000));
    let volume = bench.group.create_volume(bench.now(), Bytes(32 * CHUNK)).expect("a volume");
    assert_eq!(volume, VolumeId(0));
    bench.write(0, 5, 512);
    bench.pass(ROUND);
    read_block(&mut bench, 3, 0);
}

fn holds_ones(bench: &Bench, at: u64) -> bool {
    let block = bench.disks[0].peek(Bytes(at), 4096).expect("within the disk");
    block.to_vec().iter().all(|&byte| byte == 1)
}

/// A bit of the medium under a line flipped. The chunk answered, and the line was forgotten.
#[test]
fn a_line_that_rotted_is_noticed_and_its_chunk_answers() {
    let mut bench = bench(100);
    read_block(&mut bench, 3, 1);
    let size = bench.disks[0].geometry().size.0;
    // Wherever the line is: nothing else on this pool holds a block of this byte.
    let mut found = 0;
    for at in (0..size).step_by(4096) {
        if holds_ones(&bench, at) {
            bench.disks[0].flip_bit(Bytes(at + 100), 3);
            found += 1;
        }
    }
    assert_eq!(found, 1);
    read_block(&mut bench, 3, 1);
    let lines = bench.group.lines();
    assert_eq!((lines.wrong, lines.hits), (1, 1));
    let before = reads(&bench);
    read_block(&mut bench, 3, 1);
    assert_eq!(reads(&bench)[1], before[1], "it was filled anew");
}

#[test]
fn a_discard_of_a_chunk_ends_its_lines() {
    let mut bench = bench(100);
    read_block(&mut bench, 3, 1);
    bench.ask(Action::Discard { offset: Bytes(0), length: Bytes(CHUNK) }).expect("discarded");
    read_block(&mut bench, 3, 0);
    let payload = Payload::from(vec![9; 512]);
    bench.ask(Action::Write { offset: Bytes(0), payload, fua: false }).expect("written");
    read_block(&mut bench, 3, 0);
}

/// Wants the first chunk on the fast pool, and so many slots there for lines.
struct Wants(Option<u64>);

impl Placement for Wants {
    fn observe(&mut self, _: &ChunkAccess) {}

    fn propose(&mut self, _: Nanos, _: &dyn VolumeView, _: Budget, moves: &mut Vec<Move>) {
        moves.push(Move::to(ChunkId { volume: VolumeId(0), index: 0 }, PoolId(FAST)));
    }

    fn lines(&self) -> Option<u64> {
        self.0
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

/// Each exchange of two chunks cost a slot of lines: the one that came did not wait for the one
/// that went.
#[test]
fn moves_of_a_placement_take_no_slot_that_it_wants_for_lines() {
    for (wants, pool) in [(Some(u64::MAX), SLOW), (None, FAST)] {
        let mut bench = bench(100);
        let lent = bench.group.lines().lent;
        assert_eq!(bench.status(FAST).slots_used, 0);
        bench.group.set_placement(Some(Box::new(Wants(wants))));
        bench.pass(Nanos(bench.settings.epoch.0 + 2_000_000_000));
        assert_eq!(bench.pools_of(0), [pool]);
        assert_eq!(bench.group.lines().lent, lent - u32::from(pool == FAST));
        bench.check();
        // An administrator's do.
        bench.operate(OperationKind::Migrate, 1, FAST);
        assert_eq!(bench.pools_of(1), [FAST]);
    }
}

/// Sends two chunks down for two others, and wants all other slots for lines.
struct Exchanges;

impl Placement for Exchanges {
    fn observe(&mut self, _: &ChunkAccess) {}

    fn propose(&mut self, _: Nanos, _: &dyn VolumeView, _: Budget, moves: &mut Vec<Move>) {
        for (index, pool) in [(0, SLOW), (1, SLOW), (2, FAST), (3, FAST)] {
            moves.push(Move::to(ChunkId { volume: VolumeId(0), index }, PoolId(pool)));
        }
    }

    fn lines(&self) -> Option<u64> {
        Some(u64::MAX)
    }

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}

/// While the second chunk went down, the slot of the first one was lent, and no chunk came for it:
/// on busy disks a third of all moves ended so.
#[test]
fn a_slot_that_a_move_waits_for_is_not_lent() {
    let mut settings = Bench::settings();
    settings.copying.concurrent = 1;
    settings.epoch = Nanos(10_000_000_000);
    settings.copying.rate_per_second = Some(Bytes(CHUNK / 3)); // Longer than a commit takes.
    let mut bench = bench_with(100, settings);
    for chunk in 0..2 {
        assert_eq!(bench.operate(OperationKind::Migrate, chunk, FAST), Outcome::Done);
    }
    let lent = bench.group.lines().lent;
    bench.group.set_placement(Some(Box::new(Exchanges)));
    bench.pass(Nanos(25_000_000_000));
    let places = [0, 1, 2, 3].map(|chunk| bench.pools_of(chunk)[0]);
    assert_eq!(places, [SLOW, SLOW, FAST, FAST]);
    assert_eq!(bench.group.lines().lent, lent);
    bench.check();
}

/// Fills wear the device as moves do.
#[test]
fn lines_are_filled_within_what_may_be_written_a_day() {
    let fills = |budget| {
        let mut bench = bench(100);
        bench.group.set_wear_budget(PoolId(FAST), budget);
        (0..8 * 16).for_each(|block| read_block(&mut bench, block, (block / 16) as u8 + 1));
        bench.group.lines().fills
    };
    assert!(fills(None) > 64);
    // Two chunks' worth are there at first, and one of them is left to moves.
    let bounded = fills(Some(Bytes(48 * CHUNK)));
    assert!((16..=18).contains(&bounded), "{bounded}");
}
