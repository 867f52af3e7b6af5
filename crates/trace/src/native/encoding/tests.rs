//! Decoding of page values: the encodings' own examples, and bytes nobody wrote.

use super::{Cursor, Piece, delta_binary_packed, hybrid, joined_streams};
use proptest::prelude::*;

fn hybrid_values(bytes: &[u8], width: u32, count: usize) -> Result<Vec<u32>, String> {
    let mut values = Vec::new();
    hybrid(&mut Cursor::new(bytes), width, count, |piece| match piece {
        Piece::Run(value, repeat) => values.resize(values.len() + repeat, value),
        Piece::Values(some) => values.extend_from_slice(some),
    })?;
    Ok(values)
}

fn deltas(bytes: &[u8], count: usize) -> Result<Vec<i64>, String> {
    let mut values = Vec::new();
    delta_binary_packed(&mut Cursor::new(bytes), count, |value| values.push(value))?;
    Ok(values)
}

#[test]
fn the_specifications_example_of_bit_packing_is_read() {
    // Encodings.md: the numbers 0 to 7 at 3 bits are 10001000 11000110 11111010.
    let bytes = [0b0000_0011, 0b1000_1000, 0b1100_0110, 0b1111_1010];
    assert_eq!(hybrid_values(&bytes, 3, 8).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(hybrid_values(&bytes, 3, 5).unwrap(), [0, 1, 2, 3, 4]);
}

#[test]
fn numbers_of_every_width_are_unpacked() {
    for width in 1..=32u32 {
        let largest = u32::MAX >> (32 - width);
        let numbers: Vec<u32> =
            (0..20).map(|n: u32| n.wrapping_mul(0x9e37_79b9) & largest).collect();
        let mut packed = vec![0u8; 3 * width as usize];
        for (index, number) in numbers.iter().enumerate() {
            for bit in 0..width {
                let at = index * width as usize + bit as usize;
                packed[at / 8] |= ((number >> bit & 1) as u8) << (at % 8);
            }
        }
        let bytes = [vec![0b111], packed].concat();
        assert_eq!(hybrid_values(&bytes, width, 20).unwrap(), numbers, "{width} bits");
        // A writer may leave the padding of the last group out.
        let short = &bytes[..1 + (20 * width as usize).div_ceil(8)];
        assert_eq!(hybrid_values(short, width, 20).unwrap(), numbers, "{width} bits");
    }
}

#[test]
fn runs_and_packed_groups_alternate() {
    let bytes = [10, 1, 0b11, 0b1010_1010, 4, 0];
    assert_eq!(
        hybrid_values(&bytes, 1, 15).unwrap(),
        [1, 1, 1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0]
    );
}

#[test]
fn a_run_longer_than_the_page_is_cut() {
    assert_eq!(hybrid_values(&[0xfe, 0xff, 0xff, 0xff, 0x0f, 9], 8, 3).unwrap(), [9, 9, 9]);
}

#[test]
fn the_specifications_example_of_deltas_is_read() {
    // Encodings.md: 7, 5, 3, 1, 2, 3, 4, 5 as 128 values a block in 4 parts; least delta −2.
    let mut bytes = vec![0x80, 0x01, 4, 8, 14, 3, 2, 0, 0, 0];
    // Deltas over the least: 0, 0, 0, 3, 3, 3, 3 at 2 bits, padded to 32 values.
    bytes.extend([0b1100_0000, 0b0011_1111, 0, 0, 0, 0, 0, 0]);
    assert_eq!(deltas(&bytes, 8).unwrap(), [7, 5, 3, 1, 2, 3, 4, 5]);
}

#[test]
fn the_specifications_example_of_byte_streams_is_joined() {
    // Encodings.md: three values of four bytes, their first bytes first.
    let split = [0xaa, 0x00, 0xa3, 0xbb, 0x11, 0xb4, 0xcc, 0x22, 0xc5, 0xdd, 0x33, 0xd6];
    let joined = [0xaa, 0xbb, 0xcc, 0xdd, 0x00, 0x11, 0x22, 0x33, 0xa3, 0xb4, 0xc5, 0xd6];
    assert_eq!(joined_streams(&mut Cursor::new(&split), 4, 3).unwrap(), joined);
    assert!(joined_streams(&mut Cursor::new(&split), 4, 4).is_err());
    assert!(joined_streams(&mut Cursor::new(&[]), 8, 0).unwrap().is_empty());
}

#[test]
fn contradictions_are_errors() {
    assert!(hybrid_values(&[], 1, 1).is_err());
    assert!(hybrid_values(&[0, 1], 1, 1).unwrap_err().contains("no values"));
    assert!(hybrid_values(&[2], 8, 1).unwrap_err().contains("ends early"));
    assert!(hybrid_values(&[2, 0, 0, 0, 0, 0], 40, 1).unwrap_err().contains("bit width"));
    assert!(deltas(&[0x80, 0x01, 0, 1, 0], 1).unwrap_err().contains("impossible"));
    assert!(deltas(&[0x80, 0x01, 4, 2, 0], 1).unwrap_err().contains("2 delta-coded"));
    assert!(deltas(&[0xff; 12], 1).unwrap_err().contains("longer than 64 bits"));
}

proptest! {
    #[test]
    fn no_bytes_make_more_values_than_asked_for(
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        width in 0u32..40,
        count in 0usize..200,
    ) {
        if let Ok(values) = hybrid_values(&bytes, width, count) {
            prop_assert_eq!(values.len(), count);
        }
        let mut seen = 0;
        let read = delta_binary_packed(&mut Cursor::new(&bytes), count, |_| seen += 1);
        prop_assert!(seen <= count && (read.is_err() || seen == count));
    }
}

/// Found by the property above: the product of a forged number of miniblocks overflowed.
#[test]
fn a_forged_number_of_miniblocks_is_refused() {
    let mut forged = vec![0x80, 0x01]; // blocks of 128 values
    forged.extend([0xff; 9]);
    forged.extend([0x01, 0x04, 0x00]); // 2^64 - 1 miniblocks, 4 values, first 0
    let problem = delta_binary_packed(&mut Cursor::new(&forged), 4, |_| ()).unwrap_err();
    assert!(problem.contains("impossible"), "{problem}");
}
