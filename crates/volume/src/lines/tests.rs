//! Claims on lines that the simulation cannot make alone: hashing, and the memory that they take.

use super::bucket::{Bucket, Line};
use super::hashing::places;
use crate::map::place::Place;
use thermocline_units::{ChunkId, PoolId, VolumeId};

fn line(block: u32) -> Line {
    Line { chunk: ChunkId { volume: VolumeId(1), index: block / 256 }, block: block % 256 }
}

/// The place in use, which is the last.
fn place(line: &Line, slots: u32) -> Option<u32> {
    places(line.hash(), slots).last()
}

#[test]
fn lines_are_spread_evenly_over_slots() {
    let mut counts = [0_u32; 10];
    (0..100_000).for_each(|block| counts[place(&line(block), 10).unwrap() as usize] += 1);
    assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
}

#[test]
fn one_slot_more_takes_its_share_and_moves_no_other_line() {
    let moved = (0..10_000).filter(|&block| place(&line(block), 10) != place(&line(block), 11));
    let moved: Vec<u32> = moved.collect();
    assert!((800..1_020).contains(&moved.len()), "{}", moved.len());
    assert!(moved.iter().all(|&block| place(&line(block), 11) == Some(10)));
}

#[test]
fn the_series_has_every_place_that_a_line_had_with_fewer_slots() {
    for block in 0..2_000 {
        let all: Vec<u32> = places(line(block).hash(), 64).collect();
        assert!((1..64).all(|slots| all.contains(&place(&line(block), slots).unwrap())));
        assert!(all.is_sorted() && all.len() < 24, "{all:?}");
    }
    assert_eq!(place(&line(7), 0), None);
}

fn bucket() -> Bucket {
    Bucket::new(Place { pool: PoolId(0), slot: 3 }, 1 << 20)
}

#[test]
fn a_line_takes_28_bytes_of_memory() {
    let bytes = bucket().bytes();
    assert!((28 * 256..29 * 256).contains(&bytes), "{bytes}");
}

#[test]
fn a_line_is_read_when_its_fill_has_ended_and_no_sooner() {
    let mut bucket = bucket();
    let held = bucket.admit(&line(1), 9).expect("there is room");
    assert!(!bucket.has(&line(1)) && bucket.is_pinned());
    assert!(bucket.admit(&line(1), 9).is_none(), "it is filled once");
    bucket.end_fill(held, true);
    assert!(bucket.has(&line(1)) && !bucket.is_pinned() && bucket.whole() == 1);
}

#[test]
fn a_fill_that_a_write_overtakes_or_that_fails_leaves_the_frame_empty() {
    let mut bucket = bucket();
    let held = bucket.admit(&line(1), 9).unwrap();
    bucket.invalidate(&line(1));
    bucket.end_fill(held, true);
    assert!(!bucket.has(&line(1)));
    let held = bucket.renew(&line(1), 8).expect("the frame is still the line's");
    bucket.end_fill(held, false);
    assert!(!bucket.has(&line(1)) && bucket.whole() == 0);
}

#[test]
fn a_frame_that_is_read_is_neither_written_nor_given_away() {
    let mut bucket = bucket();
    let held = bucket.admit(&line(1), 9).unwrap();
    bucket.end_fill(held, true);
    let read = bucket.begin_read(&line(1));
    bucket.invalidate(&line(1));
    assert!(bucket.renew(&line(1), 8).is_none(), "somebody reads it");
    // Everything else that may be in this slot comes and goes, many times over.
    for block in 1_000..20_000 {
        if let Some(other) = bucket.admit(&line(block), 1) {
            assert_ne!(other.frame, read.frame);
            bucket.end_fill(other, true);
        }
    }
    bucket.end_read(read, false);
    assert!(bucket.renew(&line(1), 8).is_some());
}

#[test]
fn a_write_gives_no_frame_to_a_line_that_has_none() {
    assert!(bucket().renew(&line(1), 8).is_none());
}

#[test]
fn a_line_that_reads_wrongly_is_forgotten() {
    let mut bucket = bucket();
    let held = bucket.admit(&line(1), 9).unwrap();
    bucket.end_fill(held, true);
    let read = bucket.begin_read(&line(1));
    bucket.end_read(read, true);
    assert!(!bucket.has(&line(1)));
}
