//! 32 positions in a register: AVX2, with multiplication by shuffles of tables of 16 nibbles.
//!
//! One doubling goes over the whole block before the next, so that its eight tables stay in
//! registers; the values of a block (two planes of a byte each) stay in the first-level cache. Each
//! doubling works in place, from the end to the beginning: what lies before a position is still to
//! be doubled.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use super::super::{Tests, times_x};
    use crate::candidates::{BLOCK_BYTES, Marks};
    use std::arch::x86_64::*;

    /// Zeroes before a block, for the positions before its first.
    const MARGIN: usize = 32;
    const PLANE_BYTES: usize = MARGIN + BLOCK_BYTES;

    pub(in super::super) fn is_available() -> bool {
        is_x86_feature_detected!("avx2")
    }

    pub(in super::super) fn mark(tests: Tests, bytes: &[u8], marks: &mut Marks) {
        assert!(is_available(), "the engine was chosen for this processor");
        // SAFETY: the processor has the feature that the function is compiled for.
        unsafe { mark_block(tests, bytes, marks) }
    }

    /// A multiplication by `x^(8k)`: for each nibble of 16 bits, lowest first, the low and the high
    /// byte of its sixteen products. Shuffles look up within half a register, so each stands twice.
    struct Products([[[u8; 32]; 2]; 4]);

    impl Products {
        const fn times_x(bits: u32) -> Products {
            let mut products = [[[0; 32]; 2]; 4];
            let mut nibble = 0;
            while nibble < 4 {
                let mut value = 0;
                while value < 16 {
                    let image = times_x((value as u16) << (4 * nibble), bits);
                    let [low, high] = image.to_le_bytes();
                    products[nibble][0][value] = low;
                    products[nibble][0][value + 16] = low;
                    products[nibble][1][value] = high;
                    products[nibble][1][value + 16] = high;
                    value += 1;
                }
                nibble += 1;
            }
            Products(products)
        }
    }

    /// The doublings from 2, 4, 8 and 16 bytes.
    static STEPS: [Products; 4] = [
        Products::times_x(16),
        Products::times_x(32),
        Products::times_x(64),
        Products::times_x(128),
    ];

    /// The low and the high bytes of the values of a block, behind a margin.
    struct Planes {
        low: [u8; PLANE_BYTES],
        high: [u8; PLANE_BYTES],
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8; 32]) -> __m256i {
        // SAFETY: 32 bytes are readable; the instruction asks for no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(into: &mut [u8; 32], value: __m256i) {
        // SAFETY: 32 bytes are writable; the instruction asks for no alignment.
        unsafe { _mm256_storeu_si256(into.as_mut_ptr().cast(), value) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load_at(plane: &[u8; PLANE_BYTES], at: usize) -> __m256i {
        load(plane[at..].first_chunk().expect("a plane goes on for 32 bytes"))
    }

    /// Doubles the windows of all values: `value(i) += value(i − BACK) · x^(8·BACK)`.
    #[target_feature(enable = "avx2")]
    fn double<const BACK: usize>(products: &Products, planes: &mut Planes, registers: usize) {
        let low_tables = products.0.each_ref().map(|of| load(&of[0]));
        let high_tables = products.0.each_ref().map(|of| load(&of[1]));
        for register in (0..registers).rev() {
            let at = MARGIN + register * 32;
            let parts = nibbles(load_at(&planes.low, at - BACK), load_at(&planes.high, at - BACK));
            let low = add(load_at(&planes.low, at), low_tables, parts);
            let high = add(load_at(&planes.high, at), high_tables, parts);
            let whole = "a plane goes on for 32 bytes";
            store(planes.low[at..].first_chunk_mut().expect(whole), low);
            store(planes.high[at..].first_chunk_mut().expect(whole), high);
        }
    }

    /// Four registers that each hold one nibble of 32 values, the lowest first.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn nibbles(low: __m256i, high: __m256i) -> [__m256i; 4] {
        let nibble = _mm256_set1_epi8(15);
        [
            _mm256_and_si256(low, nibble),
            _mm256_and_si256(_mm256_srli_epi16::<4>(low), nibble),
            _mm256_and_si256(high, nibble),
            _mm256_and_si256(_mm256_srli_epi16::<4>(high), nibble),
        ]
    }

    /// The sum of a value's byte and the products of four nibbles, for 32 values.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(byte: __m256i, tables: [__m256i; 4], parts: [__m256i; 4]) -> __m256i {
        let products = tables.into_iter().zip(parts);
        products.fold(byte, |sum, (table, part)| {
            _mm256_xor_si256(sum, _mm256_shuffle_epi8(table, part))
        })
    }

    /// One bit for each of 32 bytes that has none of the bits of `test`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn zero_bits(bytes: __m256i, test: u8) -> u32 {
        let bits = _mm256_and_si256(bytes, _mm256_set1_epi8(test as i8));
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(bits, _mm256_setzero_si256())) as u32
    }

    /// The last doubling, from 16 bytes to 32, and the tests. Most registers have no value whose
    /// low byte passes, so the high bytes are computed for few.
    #[target_feature(enable = "avx2")]
    fn test(
        products: &Products,
        planes: &Planes,
        registers: usize,
        tests: Tests,
        marks: &mut Marks,
    ) {
        const BACK: usize = 16;
        let low_tables = products.0.each_ref().map(|of| load(&of[0]));
        let [loose_low, loose_high] = tests.loose.to_le_bytes();
        let [strict_low, strict_high] = tests.strict.to_le_bytes();
        for register in 0..registers {
            let at = MARGIN + register * 32;
            let parts = nibbles(load_at(&planes.low, at - BACK), load_at(&planes.high, at - BACK));
            let low = add(load_at(&planes.low, at), low_tables, parts);
            let passes = zero_bits(low, loose_low);
            if passes == 0 {
                continue;
            }
            let high_tables = products.0.each_ref().map(|of| load(&of[1]));
            let high = add(load_at(&planes.high, at), high_tables, parts);
            let loose = passes & zero_bits(high, loose_high);
            let strict = zero_bits(low, strict_low) & zero_bits(high, strict_high);
            let shift = 32 * (register % 2);
            marks.loose[register / 2] |= u64::from(loose) << shift;
            marks.strict[register / 2] |= u64::from(loose & strict) << shift;
        }
    }

    #[target_feature(enable = "avx2")]
    fn mark_block(tests: Tests, bytes: &[u8], marks: &mut Marks) {
        marks.clear(bytes.len());
        let mut planes = Planes { low: [0; PLANE_BYTES], high: [0; PLANE_BYTES] };
        // Two bytes are their own remainder.
        planes.low[MARGIN..MARGIN + bytes.len()].copy_from_slice(bytes);
        let before = bytes.len().saturating_sub(1);
        planes.high[MARGIN + 1..MARGIN + 1 + before].copy_from_slice(&bytes[..before]);
        let registers = bytes.len().div_ceil(32);
        double::<2>(&STEPS[0], &mut planes, registers);
        double::<4>(&STEPS[1], &mut planes, registers);
        double::<8>(&STEPS[2], &mut planes, registers);
        test(&STEPS[3], &planes, registers, tests, marks);
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{is_available, mark};

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn is_available() -> bool {
    false
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn mark(_: super::Tests, _: &[u8], _: &mut crate::candidates::Marks) {
    unreachable!("the engine was chosen for this processor")
}
