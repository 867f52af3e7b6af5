//! Rabin's fingerprint over GF(2) in 16 bits, for all windows of 32 bytes at once.
//!
//! 1. A window `b0 … b31` is the polynomial whose coefficients are its bits, `b31` lowest; its
//!    fingerprint is the remainder modulo [`POLYNOMIAL`], which is primitive (Rabin,
//!    "Fingerprinting by random polynomials", 1981).
//! 2. The remainder is linear, so windows double: with `f1(i) = b(i)`, `f2k(i) = f_k(i − k) ·
//!    x^(8k) + f_k(i)`. After five doublings `f32` is the fingerprint. No step waits for the byte
//!    before it, so 64 positions go through in one register.
//! 3. Multiplication by the constant `x^(8k)` is a linear map of 16 bits: four 8 × 8 bit matrices
//!    for GFNI's affine instruction (with AVX-512), or eight tables of 16 nibbles for byte shuffles
//!    (AVX2).
//! 4. A byte is a candidate where the lowest bits of the fingerprint are zero. Runs of zeroes have
//!    the fingerprint 0: they are cut at the least size, and all such chunks are equal.
//!
//! The three engines give the same bits; the scalar one rolls (as LBFS does), so it checks the
//! others by another method.

mod avx2;
mod avx512;
mod scalar;
#[cfg(test)]
mod tests;

use crate::candidates::{Candidates, Marks};
use crate::method::Strengths;

/// `x^16 + x^12 + x^3 + x + 1`, primitive over GF(2).
pub const POLYNOMIAL: u32 = 0x1_100B;

const WINDOW: usize = 32;

/// A way to compute the same candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// One byte after the other, on any processor.
    Scalar,
    /// 32 bytes at once by shuffles.
    Avx2,
    /// 64 bytes at once by GFNI.
    Avx512,
}

impl Engine {
    /// True if this processor has what the engine needs.
    pub fn is_available(self) -> bool {
        match self {
            Engine::Scalar => true,
            Engine::Avx2 => avx2::is_available(),
            Engine::Avx512 => avx512::is_available(),
        }
    }

    /// The fastest engine of this processor.
    pub fn fastest() -> Engine {
        let order = [Engine::Avx512, Engine::Avx2, Engine::Scalar];
        order.into_iter().find(|engine| engine.is_available()).expect("scalar is always there")
    }
}

/// The two tests: bits of the fingerprint that must be zero.
#[derive(Debug, Clone, Copy)]
struct Tests {
    loose: u16,
    strict: u16,
}

/// Candidates by Rabin's fingerprint in 16 bits.
#[derive(Debug, Clone, Copy)]
pub struct Rabin16 {
    tests: Tests,
    engine: Engine,
}

impl Rabin16 {
    /// Candidates for an expected size in bytes, a power of two, by the fastest engine.
    pub fn new(expected: u32) -> Rabin16 {
        Rabin16::with(expected, Engine::fastest())
    }

    /// The same by a given engine.
    ///
    /// # Panics
    /// If this processor does not have it.
    pub fn with(expected: u32, engine: Engine) -> Rabin16 {
        assert!(engine.is_available(), "this processor has no {engine:?}");
        let Strengths { loose, strict } = Strengths::around(expected);
        let low = |bits: u32| ((1_u32 << bits) - 1) as u16;
        Rabin16 { tests: Tests { loose: low(loose), strict: low(strict) }, engine }
    }

    /// Candidates by any masks, by the fastest engine.
    pub(crate) fn tested(loose: u16, strict: u16) -> Rabin16 {
        Rabin16 { tests: Tests { loose, strict }, engine: Engine::fastest() }
    }
}

impl Candidates for Rabin16 {
    fn window(&self) -> usize {
        WINDOW
    }

    fn mark(&self, bytes: &[u8], marks: &mut Marks) {
        match self.engine {
            Engine::Scalar => scalar::mark(self.tests, bytes, marks),
            Engine::Avx2 => avx2::mark(self.tests, bytes, marks),
            Engine::Avx512 => avx512::mark(self.tests, bytes, marks),
        }
    }
}

/// `value · x^bits` modulo [`POLYNOMIAL`].
const fn times_x(value: u16, bits: u32) -> u16 {
    let mut value = value as u32;
    let mut left = bits;
    while left > 0 {
        value <<= 1;
        if value & 0x1_0000 != 0 {
            value ^= POLYNOMIAL;
        }
        left -= 1;
    }
    value as u16
}
