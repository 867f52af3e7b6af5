//! 64 positions in a register: AVX-512 with GFNI. Values of earlier positions come from shifting
//! two registers by whole words; for the first doublings they are loads at odd addresses.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use super::super::{Tests, times_x};
    use crate::candidates::Marks;
    use std::arch::x86_64::*;

    pub(in super::super) fn is_available() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("gfni")
    }

    pub(in super::super) fn mark(tests: Tests, bytes: &[u8], marks: &mut Marks) {
        assert!(is_available(), "the engine was chosen for this processor");
        // SAFETY: the processor has every feature that the function is compiled for.
        unsafe { mark_blocks(tests, bytes, marks) }
    }

    /// A multiplication by `x^(8k)`: from and to the low and the high byte of 16 bits.
    #[derive(Clone, Copy)]
    struct Matrices {
        low_to_low: u64,
        low_to_high: u64,
        high_to_low: u64,
        high_to_high: u64,
    }

    impl Matrices {
        const fn times_x(bits: u32) -> Matrices {
            Matrices {
                low_to_low: matrix(bits, 0, 0),
                low_to_high: matrix(bits, 0, 8),
                high_to_low: matrix(bits, 8, 0),
                high_to_high: matrix(bits, 8, 8),
            }
        }
    }

    /// The matrix, as GF2P8AFFINEQB wants it, from the input bits `from..from + 8` to the output
    /// bits `to..to + 8` of a multiplication by `x^bits`: byte `7 − i` holds output bit `i`'s row.
    const fn matrix(bits: u32, from: u32, to: u32) -> u64 {
        let mut matrix = 0;
        let mut row = 0;
        while row < 8 {
            let mut column = 0;
            while column < 8 {
                let image = times_x(1 << (from + column), bits);
                let bit = (image >> (to + row)) as u64 & 1;
                matrix |= bit << (8 * (7 - row) + column);
                column += 1;
            }
            row += 1;
        }
        matrix
    }

    /// The doublings from 2, 4, 8 and 16 bytes.
    const STEPS: [Matrices; 4] = [
        Matrices::times_x(16),
        Matrices::times_x(32),
        Matrices::times_x(64),
        Matrices::times_x(128),
    ];

    /// A plane of low bytes and one of high bytes: 64 values of 16 bits.
    #[derive(Clone, Copy)]
    struct Values {
        low: __m512i,
        high: __m512i,
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    fn load(bytes: &[u8; 64]) -> __m512i {
        // SAFETY: 64 bytes are readable; the instruction asks for no alignment.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    /// One doubling's matrices in registers.
    #[derive(Clone, Copy)]
    struct Step {
        low_to_low: __m512i,
        low_to_high: __m512i,
        high_to_low: __m512i,
        high_to_high: __m512i,
    }

    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    fn step(matrices: &Matrices) -> Step {
        Step {
            low_to_low: _mm512_set1_epi64(matrices.low_to_low as i64),
            low_to_high: _mm512_set1_epi64(matrices.low_to_high as i64),
            high_to_low: _mm512_set1_epi64(matrices.high_to_low as i64),
            high_to_high: _mm512_set1_epi64(matrices.high_to_high as i64),
        }
    }

    /// The values `4 · (16 − REST)` positions earlier, out of those of 64 positions `before` and
    /// those of `now`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    fn earlier<const REST: i32>(before: Values, now: Values) -> Values {
        Values {
            low: _mm512_alignr_epi32::<REST>(now.low, before.low),
            high: _mm512_alignr_epi32::<REST>(now.high, before.high),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    fn double(step: &Step, earlier: Values, now: Values) -> Values {
        let low_to_low = _mm512_gf2p8affine_epi64_epi8::<0>(earlier.low, step.low_to_low);
        let low_to_high = _mm512_gf2p8affine_epi64_epi8::<0>(earlier.low, step.low_to_high);
        let high_to_low = _mm512_gf2p8affine_epi64_epi8::<0>(earlier.high, step.high_to_low);
        let high_to_high = _mm512_gf2p8affine_epi64_epi8::<0>(earlier.high, step.high_to_high);
        // 0x96: the exclusive or of three.
        Values {
            low: _mm512_ternarylogic_epi64::<0x96>(now.low, low_to_low, high_to_low),
            high: _mm512_ternarylogic_epi64::<0x96>(now.high, low_to_high, high_to_high),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    fn zero_bits(value: Values, test: u16) -> u64 {
        let low = _mm512_and_si512(value.low, _mm512_set1_epi8(test as u8 as i8));
        let high = _mm512_and_si512(value.high, _mm512_set1_epi8((test >> 8) as u8 as i8));
        let any = _mm512_or_si512(low, high);
        _mm512_testn_epi8_mask(any, any)
    }

    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    fn mark_blocks(tests: Tests, bytes: &[u8], marks: &mut Marks) {
        let zero = _mm512_setzero_si512();
        let nothing = Values { low: zero, high: zero };
        let [step2, step4, step8, step16] =
            [step(&STEPS[0]), step(&STEPS[1]), step(&STEPS[2]), step(&STEPS[3])];
        let (mut four, mut eight, mut sixteen) = (nothing, nothing, nothing);
        let words = marks.loose.iter_mut().zip(marks.strict.iter_mut());
        for (index, (loose, strict)) in words.enumerate().take(bytes.len().div_ceil(64)) {
            let from = index * 64;
            // The bytes of these positions, with those up to three before.
            let inside = from.checked_sub(3).and_then(|from| bytes[from..].first_chunk::<67>());
            let planes = match inside {
                Some(whole) => whole,
                None => &at_an_edge(bytes, from),
            };
            let at = |back: usize| load(planes[3 - back..].first_chunk().expect("67 − 3 bytes"));
            // Two bytes are their own remainder.
            let now2 = Values { low: at(0), high: at(1) };
            let now4 = double(&step2, Values { low: at(2), high: at(3) }, now2);
            let now8 = double(&step4, earlier::<15>(four, now4), now4);
            let now16 = double(&step8, earlier::<14>(eight, now8), now8);
            let now32 = double(&step16, earlier::<12>(sixteen, now16), now16);
            (four, eight, sixteen) = (now4, now8, now16);
            *loose = zero_bits(now32, tests.loose);
            *strict = if *loose == 0 { 0 } else { zero_bits(now32, tests.strict) };
        }
    }

    /// 67 bytes from `from − 3` on, zero where there are none.
    #[cold]
    fn at_an_edge(bytes: &[u8], from: usize) -> [u8; 67] {
        let mut padded = [0; 67];
        let missing = 3_usize.saturating_sub(from);
        let rest = &bytes[from.saturating_sub(3)..];
        let length = rest.len().min(67 - missing);
        padded[missing..missing + length].copy_from_slice(&rest[..length]);
        padded
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
