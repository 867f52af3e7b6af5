//! Copying by itself: pieces, sources that fail, writes that meet a piece, contents that rot.

use crate::group_state::effect::Effect;
use crate::group_state::tests::{
    CHUNK, FAR, FAST, SLOW, add_copy, chunk, effects, group_with_checksums, land, sent,
};
use crate::io::busy_chunk::tests::{begin, come, leave, write};
use crate::map::place::Role;
use crate::map::sums::checksums;
use crate::moves::operation::{Finished, Outcome};
use crate::moves::tests::Bench;
use std::ops::Range;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::{Bytes, PoolId};

const BLOCK: u32 = 4096;
const PIECE: u32 = 4 * BLOCK;

/// The first chunk is copied from the slow to the fast pool in four pieces.
struct Copy {
    bench: Bench,
    number: u32,
}

impl Copy {
    fn new(mut bench: Bench) -> Copy {
        bench.group.settings.copying.piece = Some(Bytes(PIECE.into()));
        let migration = bench.migration();
        let number = bench.add(migration);
        Copy { bench, number }
    }

    fn advance(&mut self) {
        let number = self.number;
        self.bench.step(|moves, below| moves.advance(below, number));
    }

    /// Answers the request that is on devices: its pool, and its bytes of the chunk.
    fn answer(&mut self, result: Result<Payload, DeviceError>) -> Option<(PoolId, Range<u32>)> {
        self.answer_by(|_, _| result)
    }

    /// The same with what `result` makes of them.
    fn answer_by(
        &mut self,
        result: impl FnOnce(PoolId, &Range<u32>) -> Result<Payload, DeviceError>,
    ) -> Option<(PoolId, Range<u32>)> {
        let group = &mut self.bench.group;
        let mut requests = sent(group);
        assert!(requests.len() <= 1, "one piece at a time: {requests:?}");
        let (pool, ticket, io) = requests.pop()?;
        let (offset, length) = match io {
            Io::Read { offset, length } => (offset.0, length),
            Io::Write { offset, data, .. } => (offset.0, data.len()),
            io => panic!("{io:?}"),
        };
        let start = ((offset - group.pools[pool].first_slot) % u64::from(CHUNK)) as u32;
        let range = start..start + length;
        let result = result(pool, &range);
        let flight = land(group, pool, ticket, result.clone());
        let number = self.number;
        self.bench.step(|moves, below| moves.copy_io_done(below, number, &flight, result));
        Some((pool, range))
    }

    fn read(&mut self) -> Option<(PoolId, Range<u32>)> {
        self.answer(Ok(Payload::from(vec![7; PIECE as usize])))
    }

    fn written(&mut self) -> Option<(PoolId, Range<u32>)> {
        self.answer(Ok(Payload::EMPTY))
    }

    fn ends(&mut self) -> Option<Outcome> {
        self.bench.finished().first().map(|end: &Finished| end.outcome)
    }
}

#[test]
fn a_chunk_is_copied_piece_by_piece_and_its_switch_is_queued() {
    let mut copy = Copy::new(Bench::new(1));
    copy.advance();
    for piece in 0..4 {
        let range = piece * PIECE..(piece + 1) * PIECE;
        assert_eq!(copy.bench.group.journal.switches_waiting(), 0);
        assert_eq!(copy.read(), Some((SLOW, range.clone())));
        assert_eq!(copy.written(), Some((FAST, range)));
    }
    assert_eq!((copy.read(), copy.bench.group.journal.switches_waiting()), (None, 1));
    assert!(!copy.bench.group.operations.is_copying() && copy.ends().is_none());
}

#[test]
fn a_copy_that_cannot_be_read_is_read_elsewhere_and_without_another_the_move_fails() {
    let mut copy = Copy::new(Bench::new(1));
    add_copy(&mut copy.bench.group, chunk(0), FAR, Role::Wanted);
    copy.advance();
    let first = copy.answer(Err(DeviceError::Io)).expect("it is asked");
    let second = copy.answer(Err(DeviceError::Io)).expect("another one is asked");
    assert_ne!(first.0, second.0);
    assert_eq!((copy.read(), copy.ends()), (None, Some(Outcome::Failed)));
    let left = |effect: &Effect| matches!(effect, Effect::Left(_, place) if place.pool == FAST);
    assert!(effects(&mut copy.bench.group).iter().any(left), "its slot is let go");
    assert_eq!(copy.bench.group.map.copies(chunk(0)).count(), 2);
}

#[test]
fn copies_that_are_damaged_in_different_places_serve_a_move_together() {
    let mut copy = Copy::new(Bench::new(1));
    add_copy(&mut copy.bench.group, chunk(0), FAR, Role::Wanted);
    copy.advance();
    let damaged = |pool, range: &Range<u32>| match (pool, range.start / PIECE) {
        (SLOW, 0) | (FAR, 1) => Err(DeviceError::Io),
        (FAST, _) => Ok(Payload::EMPTY),
        _ => Ok(Payload::from(vec![7; PIECE as usize])),
    };
    let mut answers = 0;
    while copy.answer_by(damaged).is_some() {
        answers += 1;
        assert!(answers < 32, "it comes to an end");
    }
    assert_eq!((copy.ends(), copy.bench.group.journal.switches_waiting()), (None, 1));
}

#[test]
fn a_piece_that_cannot_be_written_fails_the_move() {
    let mut copy = Copy::new(Bench::new(1));
    copy.advance();
    copy.read();
    copy.answer(Err(DeviceError::Io));
    assert_eq!(copy.ends(), Some(Outcome::Failed));
}

#[test]
fn a_piece_that_a_write_has_met_is_copied_once_more() {
    let mut copy = Copy::new(Bench::new(1));
    copy.advance();
    assert_eq!(copy.read(), Some((SLOW, 0..PIECE)));
    let number = copy.number;
    assert!(copy.bench.group.operations[number].lets_write(&(BLOCK..2 * BLOCK)));
    copy.written();
    assert_eq!(copy.bench.group.operations[number].status().copied, Bytes(0));
    assert_eq!(copy.read(), Some((SLOW, 0..PIECE)));
    copy.written();
    assert_eq!(copy.bench.group.operations[number].status().copied, Bytes(PIECE.into()));
}

#[test]
fn no_piece_is_begun_under_a_write() {
    let mut copy = Copy::new(Bench::new(1));
    let group = &mut copy.bench.group;
    let writes = come(group, chunk(0), 512..1024, write(&(512..1024)));
    begin(group, writes);
    copy.advance();
    assert_eq!(copy.read(), Some((SLOW, PIECE..2 * PIECE)));
    leave(&mut copy.bench.group, writes);
    copy.written();
    let mut read = Vec::new();
    while let Some((_, range)) = copy.read() {
        read.push(range.start / PIECE);
        copy.written();
    }
    assert_eq!(read, [2, 3, 0], "it comes when the write has ended");
}

#[test]
fn contents_that_are_not_what_was_written_are_not_carried_on() {
    let mut copy = Copy::new(Bench::with(group_with_checksums(), 1));
    let Bench { group, checksums: tables, .. } = &mut copy.bench;
    let sums = checksums(&Payload::from(vec![9; CHUNK as usize]));
    tables.table_is_written(group, chunk(0), &sums, 1, false);
    copy.advance();
    assert_eq!(copy.read(), Some((SLOW, 0..PIECE)), "sevens, where nines were written");
    assert_eq!((copy.read(), copy.ends()), (None, Some(Outcome::Failed)));
    let mends = |effect: &Effect| matches!(effect, Effect::Mend { blocks: 4, .. });
    assert!(effects(&mut copy.bench.group).iter().any(mends));
    assert_eq!(copy.bench.group.pools[SLOW].counters.checksum_errors, 4);
}
