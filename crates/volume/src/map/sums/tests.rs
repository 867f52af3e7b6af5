//! Blocks whose checksums are known, and those whose are not any more.

use super::{SumStore, Sums, checksums};
use crate::settings::BLOCK;
use thermocline_ports::Payload;
use thermocline_units::{ChunkId, VolumeId};

const CHUNK: u32 = 16 * BLOCK;

fn filled(byte: u8, bytes: u32) -> Payload {
    Payload::from(vec![byte; bytes as usize])
}

fn chunk(index: u32) -> ChunkId {
    ChunkId { volume: VolumeId(0), index }
}

#[test]
fn what_was_written_is_known_by_whole_blocks() {
    let mut sums = Sums::none(CHUNK);
    sums.written(BLOCK - 512, &filled(7, 2 * BLOCK), 5);
    let known: Vec<u32> = (0..16).filter(|&block| sums.of_block(block).is_some()).collect();
    assert_eq!(known, [1]);
    assert_eq!(sums.of_block(1), checksums(&filled(7, BLOCK)).first().copied());
    assert_eq!(sums.of(&(BLOCK..BLOCK + 512)).map(<[u32]>::len), Some(1));
    assert_eq!(sums.of(&(0..2 * BLOCK)), None);
}

#[test]
fn a_write_that_begins_makes_unknown_and_reads_beside_it_are_not_judged() {
    let mut sums = Sums::zeroes(CHUNK);
    assert!(sums.whole().is_some() && sums.verifies(1));
    sums.forget(&(512..1024), 8);
    assert_eq!((sums.whole(), sums.of_block(0)), (None, None));
    assert!(!sums.verifies(8) && sums.verifies(9));
    sums.written(0, &filled(1, BLOCK), 12);
    assert!(sums.whole().is_some() && !sums.verifies(12) && sums.verifies(13));
}

/// An operation hashed what it copied after a write that was not noted: a read that had been sent
/// beside the write, and found the old contents, was called wrong.
#[test]
fn reads_that_began_before_blocks_became_known_are_not_judged() {
    let mut sums = Sums::none(CHUNK);
    sums.read(0, &checksums(&filled(2, BLOCK)), 12);
    assert!(!sums.verifies(12) && sums.verifies(13));
}

#[test]
fn blocks_that_differ_are_counted_where_they_are_known() {
    let mut sums = Sums::none(CHUNK);
    sums.learn(BLOCK, &checksums(&filled(3, 2 * BLOCK)));
    assert_eq!(sums.differing(0, &filled(3, CHUNK)), 0, "the others are not known");
    assert_eq!(sums.differing(0, &filled(4, CHUNK)), 2);
    assert_eq!(sums.differing(512, &filled(4, BLOCK)), 0, "not by whole blocks");
    assert_eq!(sums.differing(2 * BLOCK, &Payload::Zeroes(BLOCK)), 1);
}

#[test]
fn what_is_written_again_and_again_is_not_hashed_for_ever() {
    let mut sums = Sums::none(CHUNK);
    for round in 0..40 {
        sums.forget(&(0..BLOCK), round);
        sums.written(0, &filled(round as u8, BLOCK), round);
    }
    assert_eq!(sums.of_block(0), None, "its budget of two chunks is spent");
}

#[test]
fn the_oldest_chunks_are_forgotten_when_memory_is_short() {
    let each = Sums::none(CHUNK).bytes();
    let mut store = SumStore::new(3 * each);
    for index in 0..3 {
        store.put(chunk(index), Sums::zeroes(CHUNK), 100, |_| false);
    }
    store.put(chunk(0), Sums::zeroes(CHUNK), 100, |_| false); // It is the youngest now.
    store.put(chunk(3), Sums::zeroes(CHUNK), 100, |_| false);
    let held: Vec<u32> = (0..4).filter(|&index| store.has(chunk(index))).collect();
    assert_eq!(held, [0, 2, 3]);
    store.put(chunk(1), Sums::zeroes(CHUNK), 2, |_| false);
    assert_eq!(store.chunks.keys().map(|chunk| chunk.index).collect::<Vec<_>>(), [1, 3]);
    for index in 0..4 {
        store.take(chunk(index));
    }
    assert_eq!((store.bytes, store.order.len()), (0, 0));
}

#[test]
fn what_a_read_under_way_is_held_against_is_not_forgotten() {
    let mut store = SumStore::new(u64::MAX);
    for index in 0..4 {
        store.put(chunk(index), Sums::zeroes(CHUNK), 2, |chunk| chunk.index == 0);
    }
    let held: Vec<u32> = (0..4).filter(|&index| store.has(chunk(index))).collect();
    assert_eq!(held, [0, 3], "the oldest is being read");
    store.put(chunk(4), Sums::zeroes(CHUNK), 2, |_| true);
    assert_eq!(store.chunks.len(), 3, "all of them are being read");
    store.put(chunk(5), Sums::zeroes(CHUNK), 2, |_| false);
    assert_eq!(store.chunks.len(), 2, "nothing is any more");
}
