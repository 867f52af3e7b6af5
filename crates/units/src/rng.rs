//! The seeded generator: xoshiro256++ (Blackman & Vigna 2019), seeded through SplitMix64.
//!
//! The only source of randomness in the project's decisions: the same seed gives the same run, on
//! every machine. Not for secrets. State: 32 bytes.

/// A small, fast, seeded random generator. Deterministic across platforms and versions.
///
/// ```
/// use thermocline_units::Rng;
/// assert_eq!(Rng::seeded(7).next_u64(), Rng::seeded(7).next_u64());
/// ```
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator for `seed`; neighbouring seeds give unrelated streams.
    pub fn seeded(seed: u64) -> Rng {
        let mut x = seed;
        Rng { state: std::array::from_fn(|_| split_mix(&mut x)) }
    }

    /// The next 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let t = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= t;
        *d = d.rotate_left(45);
        result
    }

    /// Uniform in `0..bound` (Lemire's multiply-shift; bias below 2⁻³² for bounds below 2³²).
    ///
    /// # Panics
    /// When `bound` is zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a random number below zero does not exist");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Puts a list into random order: all orders are equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at as u64 + 1) as usize);
        }
    }

    /// Uniform in `[0, 1)` with 53 bits.
    #[inline]
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with the given mean, ≥ 0.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit_f64()).ln()
    }
}

fn split_mix(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *x;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
