//! The engines against each other and against long division.

use super::*;
use proptest::prelude::*;
use thermocline_units::Rng;

const ENGINES: [Engine; 3] = [Engine::Scalar, Engine::Avx2, Engine::Avx512];

/// The remainder of a window by long division, bit by bit.
fn remainder(window: &[u8]) -> u16 {
    let bits = window.iter().flat_map(|byte| (0..8).rev().map(move |bit| (byte >> bit) & 1));
    bits.fold(0_u32, |rest, bit| {
        let rest = (rest << 1) | u32::from(bit);
        if rest & 0x1_0000 == 0 { rest } else { rest ^ POLYNOMIAL }
    }) as u16
}

fn candidates(engine: Engine, expected: u32, bytes: &[u8]) -> Vec<(usize, bool)> {
    let mut marks = Marks::none();
    Rabin16::with(expected, engine).mark(bytes, &mut marks);
    let is = |words: &[u64], at: usize| words[at / 64] >> (at % 64) & 1 == 1;
    let from = WINDOW - 1..bytes.len().max(WINDOW - 1);
    from.filter(|&at| is(&marks.loose[..], at)).map(|at| (at, is(&marks.strict[..], at))).collect()
}

/// Random bytes, text of few letters, runs: what data looks like.
fn data(kind: u8, length: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::seeded(seed);
    let mut run = 0_u8;
    (0..length)
        .map(|_| match kind {
            0 => rng.next_u64() as u8,
            1 => b'a' + rng.below(4) as u8,
            _ => {
                if rng.below(40) == 0 {
                    run = rng.below(3) as u8;
                }
                run
            }
        })
        .collect()
}

#[test]
fn the_polynomial_is_primitive() {
    let mut value = times_x(1, 1);
    let mut order = 1;
    while value != 1 {
        value = times_x(value, 1);
        order += 1;
    }
    assert_eq!(order, 65_535, "x generates every value but zero");
}

proptest! {
    #[test]
    fn every_engine_finds_what_long_division_finds(
        kind in 0_u8..3,
        length in 0_usize..700,
        seed: u64,
        expected in prop::sample::select(vec![64_u32, 128, 512, 2048, 65_536]),
    ) {
        let bytes = data(kind, length, seed);
        let Strengths { loose, strict } = Strengths::around(expected);
        let passes = |value: u16, bits: u32| value.trailing_zeros() >= bits.min(16);
        let truth: Vec<(usize, bool)> = bytes
            .windows(WINDOW)
            .enumerate()
            .map(|(at, window)| (at + WINDOW - 1, remainder(window)))
            .filter(|&(_, value)| passes(value, loose))
            .map(|(at, value)| (at, passes(value, strict)))
            .collect();
        for engine in ENGINES.into_iter().filter(|engine| engine.is_available()) {
            prop_assert_eq!(&candidates(engine, expected, &bytes), &truth, "{:?}", engine);
        }
    }
}
