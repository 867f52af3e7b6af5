//! Streams and segments, told by hand.

use super::{COMING_MAX, Found, ReadAhead, SEGMENT_BLOCKS, SLACK, cut_at_segments};
use crate::objects::format::Generation;
use std::sync::Arc;
use thermocline_units::Bytes;

const MIB: u64 = 1 << 20;
const KIB: u64 = 1 << 10;
const EXTENT: u32 = 4 << 20;
const ONE: Generation = Generation(1);
const TWO: Generation = Generation(2);

fn ahead() -> ReadAhead {
    ReadAhead::new(Bytes(8 * MIB))
}

/// The blocks of a segment.
fn blocks(segment: u32) -> std::ops::Range<u32> {
    segment * SEGMENT_BLOCKS..(segment + 1) * SEGMENT_BLOCKS
}

fn bytes() -> Arc<Vec<u8>> {
    Arc::new(vec![7; MIB as usize])
}

#[test]
fn a_stream_is_read_ahead_of_by_what_it_has_read_up_to_a_bound() {
    let mut ahead = ahead();
    let mut at = 64 * MIB;
    let mut wishes = Vec::new();
    for _ in 0..100 {
        let wish = ahead.note_read(&(at..at + 128 * KIB), EXTENT);
        at += 128 * KIB;
        if let Some(wish) = wish {
            assert_eq!(wish.start, at, "from where it has come to");
            wishes.push((wish.end - wish.start) / KIB);
        }
    }
    assert_eq!(wishes[..3], [256, 384, 512], "the first read was no stream");
    assert_eq!((wishes.len(), wishes[98]), (99, 8 * 1024));
}

#[test]
fn random_reads_are_no_streams_and_a_setting_of_none_reads_nothing_ahead() {
    let mut some = ahead();
    let mut none = ReadAhead::new(Bytes(0));
    for n in 0..1000_u64 {
        let at = (n * 7919 % 1000) * 64 * MIB;
        assert_eq!(some.note_read(&(at..at + 128 * KIB), EXTENT), None);
        let at = n * 128 * KIB;
        assert_eq!(none.note_read(&(at..at + 128 * KIB), EXTENT), None);
    }
}

#[test]
fn reads_here_and_there_in_a_small_area_are_no_stream() {
    let mut ahead = ahead();
    let wishes = (0..2000_u64).filter(|n| {
        let at = (n * 7919 % 1999) * 64 * KIB;
        ahead.note_read(&(at..at + 64 * KIB), EXTENT).is_some()
    });
    assert!(wishes.count() < 20, "a few fall into place by chance");
}

#[test]
fn reads_that_overtake_each_other_are_one_stream_and_several_streams_are_followed() {
    let mut ahead = ahead();
    let order = [1, 0, 3, 2, 5, 4];
    for stream in 0..4 {
        for n in order {
            let at = stream * 1024 * MIB + n * 128 * KIB;
            let wish = ahead.note_read(&(at..at + 128 * KIB), EXTENT);
            // While two of four requests are missing, it may be none.
            assert_eq!(wish.is_some(), n != 1 && n != 3, "stream {stream}, request {n}");
        }
    }
    const { assert!(SLACK >= 4 * 128 * KIB, "four requests may overtake each other") };
}

#[test]
fn a_segment_is_dropped_when_all_of_it_was_read() {
    let mut ahead = ahead();
    let key = ahead.ask(3, ONE, 64..SEGMENT_BLOCKS).expect("there is room");
    assert!(matches!(ahead.find(3, ONE, &(0..10)), Found::Nothing), "nobody asked for these");
    assert!(matches!(ahead.find(3, ONE, &(64..128)), Found::Coming));
    ahead.wait(3, &(64..128), 5);
    assert_eq!(ahead.ask(3, ONE, 64..SEGMENT_BLOCKS), None, "it is on its way");
    assert_eq!(ahead.arrived(key, Some(bytes())), (vec![5], 64));
    let Found::There(_, first) = ahead.find(3, ONE, &(128..SEGMENT_BLOCKS)) else {
        panic!("it has come")
    };
    assert_eq!((first, ahead.held(), ahead.knows(3)), (64, Bytes(0), false));
}

#[test]
fn a_newer_generation_is_asked_for_anew() {
    let mut ahead = ahead();
    let key = ahead.ask(0, ONE, blocks(0)).expect("there is room");
    assert!(matches!(ahead.find(0, TWO, &(0..1)), Found::Nothing));
    assert_eq!(ahead.ask(0, TWO, blocks(0)), None, "the old one is on its way");
    ahead.arrived(key, Some(bytes()));
    assert!(matches!(ahead.find(0, TWO, &(0..1)), Found::Nothing));
    assert!(ahead.ask(0, TWO, blocks(0)).is_some());
    assert_eq!(ahead.held(), Bytes(MIB), "the old one is gone");
}

#[test]
fn what_could_not_be_had_is_forgotten() {
    let mut ahead = ahead();
    let key = ahead.ask(0, ONE, blocks(2)).expect("there is room");
    ahead.wait(0, &(512..513), 9);
    assert_eq!(ahead.arrived(key, None).0, [9]);
    assert_eq!((ahead.knows(0), ahead.held()), (false, Bytes(0)));
}

#[test]
fn memory_and_segments_on_their_way_are_bounded() {
    let mut ahead = ahead();
    let asked: Vec<_> = (0..100).filter_map(|extent| ahead.ask(extent, ONE, blocks(0))).collect();
    assert_eq!(asked.len(), COMING_MAX);
    asked.into_iter().for_each(|key| drop(ahead.arrived(key, Some(bytes()))));
    for extent in 100..200 {
        let key = ahead.ask(extent, ONE, blocks(0)).expect("older ones give way");
        ahead.arrived(key, Some(bytes()));
        assert!(ahead.held() <= Bytes(32 * MIB));
    }
    assert!(ahead.knows(199) && !ahead.knows(0));
    let mut tiny = ReadAhead::new(Bytes(MIB / 8));
    assert_eq!(tiny.ask(0, ONE, blocks(0)), None, "it would never fit");
}

#[test]
fn what_is_fetched_in_vain_costs_the_trust_and_what_is_read_brings_it_back() {
    let mut ahead = ahead();
    let pass = |ahead: &mut ReadAhead, extent, reads: bool| {
        let key = ahead.ask(extent, ONE, blocks(0)).expect("older ones give way");
        ahead.arrived(key, Some(bytes()));
        if reads {
            assert!(matches!(ahead.find(extent, ONE, &blocks(0)), Found::There(..)));
        }
    };
    assert!(ahead.is_trusted());
    (0..40).for_each(|extent| pass(&mut ahead, extent, false));
    assert!(!ahead.is_trusted(), "eight were thrown away unread, and the rest is kept");
    (100..120).for_each(|extent| pass(&mut ahead, extent, true));
    assert!(ahead.is_trusted());
}

#[test]
fn bytes_are_cut_at_segments() {
    let cut: Vec<_> = cut_at_segments(&(512 << 10..(2 << 20) + 512)).collect();
    assert_eq!(cut, [512 << 10..1 << 20, 1 << 20..2 << 20, 2 << 20..(2 << 20) + 512]);
    assert_eq!(cut_at_segments(&(0..1)).count(), 1);
}
