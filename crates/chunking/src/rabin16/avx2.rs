//! 32 positions in a register: AVX2, with multiplication by shuffles of tables of 16 nibbles.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86 {
    use super::super::{Tests, times_x};
    use crate::candidates::Marks;
    use std::arch::x86_64::*;

    pub(in super::super) fn is_available() -> bool {
        is_x86_feature_detected!("avx2")
    }

    pub(in super::super) fn mark(tests: Tests, bytes: &[u8], marks: &mut Marks) {
        assert!(is_available(), "the engine was chosen for this processor");
        // SAFETY: the processor has the feature that the function is compiled for.
        unsafe { mark_blocks(tests, bytes, marks) }
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

    /// A plane of low bytes and one of high bytes: 32 values of 16 bits.
    #[derive(Clone, Copy)]
    struct Values {
        low: __m256i,
        high: __m256i,
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8; 32]) -> __m256i {
        // SAFETY: 32 bytes are readable; the instruction asks for no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    /// Out of `before` and `now`, the 32 bytes that lie `16 − REST` before `now`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn earlier<const REST: i32>(before: __m256i, now: __m256i) -> __m256i {
        let middle = _mm256_permute2x128_si256::<0x21>(before, now);
        _mm256_alignr_epi8::<REST>(now, middle)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn earlier_values<const REST: i32>(before: Values, now: Values) -> Values {
        Values {
            low: earlier::<REST>(before.low, now.low),
            high: earlier::<REST>(before.high, now.high),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn double(step: &Products, earlier: Values, now: Values) -> Values {
        let nibble = _mm256_set1_epi8(15);
        let low_of = |plane| _mm256_and_si256(plane, nibble);
        let high_of = |plane| _mm256_and_si256(_mm256_srli_epi16::<4>(plane), nibble);
        let nibbles = [
            low_of(earlier.low),
            high_of(earlier.low),
            low_of(earlier.high),
            high_of(earlier.high),
        ];
        let mut sums = [now.low, now.high];
        for (nibble, products) in nibbles.into_iter().zip(&step.0) {
            for (sum, table) in sums.iter_mut().zip(products) {
                *sum = _mm256_xor_si256(*sum, _mm256_shuffle_epi8(load(table), nibble));
            }
        }
        Values { low: sums[0], high: sums[1] }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn zero_bits(value: Values, test: u16) -> u32 {
        let low = _mm256_and_si256(value.low, _mm256_set1_epi8(test as u8 as i8));
        let high = _mm256_and_si256(value.high, _mm256_set1_epi8((test >> 8) as u8 as i8));
        let is_zero = _mm256_cmpeq_epi8(_mm256_or_si256(low, high), _mm256_setzero_si256());
        _mm256_movemask_epi8(is_zero) as u32
    }

    #[target_feature(enable = "avx2")]
    fn mark_blocks(tests: Tests, bytes: &[u8], marks: &mut Marks) {
        marks.clear(bytes.len());
        let zero = _mm256_setzero_si256();
        let nothing = Values { low: zero, high: zero };
        let mut last_bytes = zero;
        let (mut two, mut four, mut eight, mut sixteen) = (nothing, nothing, nothing, nothing);
        let mut padded = [0; 32];
        for (half, block) in bytes.chunks(32).enumerate() {
            let plane = match block.first_chunk::<32>() {
                Some(whole) => load(whole),
                None => {
                    padded[..block.len()].copy_from_slice(block);
                    load(&padded)
                }
            };
            // Two bytes are their own remainder.
            let now2 = Values { low: plane, high: earlier::<15>(last_bytes, plane) };
            let now4 = double(&STEPS[0], earlier_values::<14>(two, now2), now2);
            let now8 = double(&STEPS[1], earlier_values::<12>(four, now4), now4);
            let now16 = double(&STEPS[2], earlier_values::<8>(eight, now8), now8);
            let now32 = double(&STEPS[3], earlier_values::<0>(sixteen, now16), now16);
            (last_bytes, two, four, eight, sixteen) = (plane, now2, now4, now8, now16);
            let loose = zero_bits(now32, tests.loose);
            if loose != 0 {
                let shift = 32 * (half % 2);
                let strict = u64::from(zero_bits(now32, tests.strict));
                marks.loose[half / 2] |= u64::from(loose) << shift;
                marks.strict[half / 2] |= strict << shift;
            }
        }
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
