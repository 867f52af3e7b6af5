//! Memory that a decoder counts for many small segments.

use super::*;
use thermocline_units::Bytes as Size;

/// A segment of one token, and the bytes of a plain one.
fn segment(length: u32, token: &[u8], stored: &[u8], check: u32) -> Vec<u8> {
    let mut segment = Vec::new();
    for field in [length, token.len() as u32, stored.len() as u32, check] {
        segment.extend(field.to_le_bytes());
    }
    segment.extend([1, 0, 0, 0]);
    segment.extend(token);
    segment.extend(stored);
    segment
}

/// A segment of one byte.
fn small() -> Vec<u8> {
    segment(1, &[1 << 2 | 3], b"x", crc32c::crc32c(b"x"))
}

/// Segments of one byte that a decoder may read before somebody takes some.
const SMALL_MAX: usize = WAITING_BYTES_MAX / SEGMENT_BYTES;

#[test]
fn segments_of_a_byte_behind_one_that_waits_count_for_what_they_take() {
    let mut shared = Shared::new(Size::from_mib(1), 1);
    let mut decoder = Decoder::new(0);
    // A reference to a byte that nobody has.
    let first = segment(1, &[1 << 2 | 1, 0], b"", crc32c::crc32c(b"y"));
    decoder.push(&first, WAITING_BYTES_MAX, &mut shared).unwrap();
    decoder.push(&small().repeat(20_000), WAITING_BYTES_MAX, &mut shared).unwrap();
    assert!(decoder.waiting.len() <= SMALL_MAX, "{} segments were read", decoder.waiting.len());
    assert!(decoder.next_bytes().is_none());
    decoder.fill(0, 0, b"y", &mut shared).unwrap();
    let mut taken = 0;
    while let Some(bytes) = decoder.next_bytes() {
        taken += bytes.len();
        decoder.taken(bytes.len(), WAITING_BYTES_MAX, &mut shared).unwrap();
    }
    assert_eq!((taken, decoder.waiting()), (20_001, 0), "nothing is counted for ever");
}

#[test]
fn a_client_that_takes_one_byte_gives_back_one_segment() {
    let mut shared = Shared::new(Size::from_mib(1), 1);
    let mut decoder = Decoder::new(0);
    decoder.push(&small().repeat(20_000), WAITING_BYTES_MAX, &mut shared).unwrap();
    let out = |decoder: &mut Decoder| std::iter::from_fn(|| decoder.next_bytes()).count();
    let before = out(&mut decoder);
    decoder.taken(1, WAITING_BYTES_MAX, &mut shared).unwrap();
    assert!(before <= SMALL_MAX && out(&mut decoder) <= 1, "{before} were handed out");
}
