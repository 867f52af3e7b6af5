//! Every truncation, every flipped byte, every order: an error or counted repairs, never a panic
//! and never requests that nobody wrote.

use super::{fixtures, read_as, read_with};
use crate::order::WINDOW_REQUESTS;
use crate::{Format, Place, ReadOptions, TraceError};
use proptest::prelude::*;
use std::fmt::Write;
use thermocline_units::Rng;

#[test]
fn every_truncation_is_an_error_or_a_beginning_of_the_trace() {
    for (format, bytes) in fixtures::all() {
        let whole = read_as(&bytes, format).unwrap();
        for length in 0..bytes.len() {
            let Ok(cut) = read_as(&bytes[..length], format) else { continue };
            assert!(cut.requests.len() <= whole.requests.len(), "{format} cut at {length}");
            let text = !matches!(format, Format::Vscsi | Format::OracleGeneral);
            let inside_a_line = text && bytes[length - 1] != b'\n';
            let reported = cut.repairs.iter().any(|repair| repair.contains("has no line end"));
            assert_eq!(inside_a_line, reported, "{format} cut at {length}: {:?}", cut.repairs);
        }
    }
}

#[test]
fn no_flipped_byte_makes_a_reader_panic_or_hang() {
    for (format, bytes) in fixtures::all() {
        for index in 0..bytes.len() {
            for flip in [0x01, 0x10, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[index] ^= flip;
                let _ = read_as(&damaged, format);
                let _ = read_with(&damaged, &ReadOptions::default());
            }
        }
    }
}

#[test]
fn a_truncated_record_is_told_with_its_byte() {
    let bytes = fixtures::oracle_general();
    for length in 1..bytes.len() {
        if length % 24 == 0 {
            continue;
        }
        let error = read_as(&bytes[..length], Format::OracleGeneral).unwrap_err();
        let TraceError::Malformed { place, .. } = error else { panic!("not about the content") };
        assert_eq!(place, Place::Byte(length as u64 / 24 * 24));
    }
}

/// MSR lines at the given ticks; a line's offset tells its number in time order.
fn msr_at(ticks: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut text = String::new();
    for tick in ticks {
        writeln!(text, "{},h,0,Read,{},512,0", 1_000_000 + tick, tick * 512).unwrap();
    }
    text.into_bytes()
}

fn shuffled(count: u64, seed: u64) -> Vec<u64> {
    let mut ticks: Vec<u64> = (0..count).collect();
    Rng::seeded(seed).shuffle(&mut ticks);
    ticks
}

#[test]
fn a_shuffled_trace_within_the_window_is_sorted_and_the_repair_is_counted() {
    let held = read_as(&msr_at(shuffled(30_000, 1).into_iter()), Format::Msr).unwrap();
    assert!(held.requests.iter().enumerate().all(|(n, r)| r.offset.0 == n as u64 * 512));
    assert_eq!(held.requests.len(), 30_000);
    assert!(held.repairs[0].contains("out of time order"), "{:?}", held.repairs);
}

#[test]
fn a_shuffled_trace_beyond_the_window_is_an_error_with_its_line() {
    let count = 4 * WINDOW_REQUESTS as u64;
    let error = read_as(&msr_at(shuffled(count, 1).into_iter()), Format::Msr).unwrap_err();
    assert!(error.to_string().contains("time runs backwards"), "{error}");
    assert!(matches!(error, TraceError::Malformed { place: Place::Line(_), .. }));
}

#[test]
fn tencent_times_late_beyond_the_window_are_lifted_up_to_ten_seconds() {
    let text = |late: u64| {
        let mut text = String::new();
        let after = 3 * WINDOW_REQUESTS;
        (0..after).for_each(|_| text.push_str("1538323220,0,8,0,1\n"));
        writeln!(text, "{},8,8,1,1", 1_538_323_220 - late).unwrap();
        text.into_bytes()
    };
    let held = read_as(&text(10), Format::Tencent).unwrap();
    assert_eq!(held.requests.last().unwrap().time.0, 0);
    assert!(held.repairs[0].contains("too late to be sorted"), "{:?}", held.repairs);
    assert!(read_as(&text(11), Format::Tencent).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_request_late_by_no_more_than_the_window_is_sorted_into_place(
        seed in 0u64..1000,
        block in 1u64..=WINDOW_REQUESTS as u64,
    ) {
        let mut ticks: Vec<u64> = (0..70_000).collect();
        for (index, chunk) in ticks.chunks_mut(block as usize).enumerate() {
            let order = shuffled(chunk.len() as u64, seed + index as u64);
            let first = chunk[0];
            chunk.iter_mut().zip(order).for_each(|(tick, place)| *tick = first + place);
        }
        let held = read_as(&msr_at(ticks.into_iter()), Format::Msr).unwrap();
        prop_assert!(held.requests.iter().enumerate().all(|(n, r)| r.offset.0 == n as u64 * 512));
    }
}

proptest! {
    #[test]
    fn random_bytes_are_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for format in Format::all() {
            let _ = read_as(&bytes, format);
        }
        let _ = read_with(&bytes, &ReadOptions::default());
    }
}
