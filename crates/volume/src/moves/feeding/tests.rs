//! Blocks that clients read and write anyway, and when an operation may use them.

use super::{destination_of_write, feed, offer, write_arrived};
use crate::group_state::effect::{ClientRead, Effect};
use crate::group_state::tests::{FAST, SLOW, add_copy, chunk, effects, sent};
use crate::io::busy_chunk::tests::{begin, come, write};
use crate::io::busy_chunk::{SubRequest, Verb};
use crate::map::place::{Place, Role};
use crate::moves::active::Piece;
use crate::moves::tests::Bench;
use std::ops::Range;
use thermocline_ports::{Io, Payload};
use thermocline_units::Bytes;

const BLOCK: u32 = 4096;

/// The first chunk is under migration; its first two blocks are at the destination.
struct Fed {
    bench: Bench,
    number: u32,
    source: Place,
    destination: Place,
}

impl Fed {
    fn new() -> Fed {
        let mut bench = Bench::new(1);
        let mut migration = bench.migration();
        migration.presence.mark(&(0..2 * BLOCK));
        let (source, destination) = (migration.source, migration.destination);
        let number = bench.add(migration);
        Fed { bench, number, source, destination }
    }

    /// A client has read these bytes from the source, as the fifth sub-request that began.
    fn read(&self, range: Range<u32>) -> ClientRead {
        let payload = Payload::from(vec![7; range.len()]);
        ClientRead { chunk: chunk(0), from: self.source, at: range.start, order: 5, payload }
    }

    /// Feeds what was read; the bytes of the chunk that are written to the destination.
    fn feed(&mut self, read: &ClientRead) -> Option<Range<u32>> {
        self.bench.step(|moves, below| feed(moves, below, read));
        let (pool, _, io) = sent(&mut self.bench.group).pop()?;
        let Io::Write { offset, data, .. } = io else { panic!("{io:?}") };
        assert_eq!(pool, FAST);
        let slot = self.bench.group.pools[FAST].address(self.destination, 0, 64 << 10);
        let start = (offset.0 - slot.0) as u32;
        Some(start..start + data.len())
    }

    /// The place that a write of these bytes goes to as well.
    fn goes_to(&mut self, range: Range<u32>) -> Option<Place> {
        let verb = write(&range);
        let sub_request = come(&mut self.bench.group, chunk(0), range, verb);
        destination_of_write(&self.bench.group, sub_request)
    }

    fn put_piece(&mut self, range: Range<u32>) {
        let to = self.destination;
        let piece = Piece { range, to, from: None, spoiled: false, sums: Vec::new() };
        self.bench.group.operations[self.number].piece = Some(piece);
    }

    fn copied(&self) -> Bytes {
        self.bench.group.operations[self.number].status().copied
    }
}

#[test]
fn whole_blocks_of_a_read_that_are_missing_are_written_from_the_buffer_in_hand() {
    let mut fed = Fed::new();
    let read = fed.read(BLOCK..4 * BLOCK + 512);
    assert_eq!(fed.feed(&read), Some(2 * BLOCK..4 * BLOCK));
    assert_eq!(fed.bench.moves.fed(), Bytes(2 * u64::from(BLOCK)));
    let next = fed.read(6 * BLOCK..7 * BLOCK);
    assert_eq!(fed.feed(&next), None, "a piece is on its way");
}

#[test]
fn a_read_is_not_used_that_may_be_old_or_of_another_copy_or_brings_nothing() {
    let blocks = 4 * BLOCK..5 * BLOCK;
    let mut fed = Fed::new();
    let read = fed.read(0..2 * BLOCK);
    assert_eq!(fed.feed(&read), None, "its blocks are there");
    let read = fed.read(4 * BLOCK + 512..5 * BLOCK);
    assert_eq!(fed.feed(&read), None, "it is no whole block");
    let elsewhere = ClientRead { from: fed.destination, ..fed.read(blocks.clone()) };
    assert_eq!(fed.feed(&elsewhere), None);
    fed.bench.group.busy_chunk_of(chunk(0)).note_write(5);
    let old = fed.read(blocks.clone());
    assert_eq!(fed.feed(&old), None, "it may have met a write");
    let later = ClientRead { order: 6, ..fed.read(blocks.clone()) };
    assert_eq!(fed.feed(&later), Some(blocks.clone()));
    let mut fed = Fed::new();
    add_copy(&mut fed.bench.group, chunk(0), SLOW, Role::Wanted);
    let read = fed.read(blocks);
    assert_eq!(fed.feed(&read), None, "one of several copies need not be right");
}

#[test]
fn reads_are_offered_where_the_settings_say_so() {
    for feeds in [true, false] {
        let Fed { mut bench, source, .. } = Fed::new();
        bench.group.settings.copying.feeds = feeds;
        let group = &mut bench.group;
        let sub_request = come(group, chunk(0), 0..BLOCK, Verb::Read);
        begin(group, sub_request);
        let order = SubRequest::order(&group.sub_requests[sub_request]);
        offer(group, sub_request, source, 0, &Payload::Zeroes(BLOCK));
        let offered = |effect: &Effect| matches!(effect, Effect::Read(read) if read.order == order);
        assert_eq!(effects(group).iter().any(offered), feeds);
    }
}

#[test]
fn a_write_of_whole_blocks_that_are_missing_goes_to_both_places() {
    let mut fed = Fed::new();
    let destination = Some(fed.destination);
    assert_eq!(fed.goes_to(3 * BLOCK..5 * BLOCK), destination);
    assert_eq!(fed.goes_to(3 * BLOCK..3 * BLOCK + 512), None, "it is no whole block");
    assert_eq!(fed.goes_to(0..2 * BLOCK), None, "nothing is missing");
    fed.put_piece(4 * BLOCK..6 * BLOCK);
    assert_eq!(fed.goes_to(3 * BLOCK..5 * BLOCK), None, "the piece could overtake it");
    assert_eq!(fed.goes_to(8 * BLOCK..9 * BLOCK), destination);
    fed.bench.group.settings.copying.feeds = false;
    assert_eq!(fed.goes_to(8 * BLOCK..9 * BLOCK), None);
}

#[test]
fn only_whole_blocks_of_a_write_are_there_afterwards() {
    let mut fed = Fed::new();
    let elsewhere = fed.source;
    write_arrived(&mut fed.bench.group, chunk(0), &(4 * BLOCK..5 * BLOCK), elsewhere);
    assert_eq!(fed.copied(), Bytes(2 * u64::from(BLOCK)));
    let to = fed.destination;
    write_arrived(&mut fed.bench.group, chunk(0), &(4 * BLOCK + 512..6 * BLOCK + 512), to);
    assert_eq!(fed.copied(), Bytes(3 * u64::from(BLOCK)));
}
