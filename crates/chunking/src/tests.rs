//! Properties of every method: cuts by content, sizes in bounds, the same however bytes come.

use crate::*;
use proptest::prelude::*;
use thermocline_units::Rng;

const CHUNKINGS: [&str; 8] = [
    "none",
    "fixed:1000B",
    "gear:128B",
    "gear:2KiB",
    "rabin16:512B",
    "rabin-source:512B",
    "modp",
    "maxp",
];

fn chunking(text: &str) -> Chunking {
    text.parse().unwrap()
}

fn random(length: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::seeded(seed);
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

fn cuts_in(chunking: Chunking, bytes: &[u8], mut piece: impl FnMut() -> usize) -> Vec<u64> {
    let mut chunker = chunking.chunker();
    let mut cuts = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(piece().clamp(1, rest.len()));
        chunker.push(now, &mut cuts);
        rest = later;
    }
    assert_eq!(chunker.finish(), bytes.len() as u64);
    cuts
}

fn cuts(chunking: Chunking, bytes: &[u8]) -> Vec<u64> {
    cuts_in(chunking, bytes, || usize::MAX)
}

/// Candidates one window at a time, each computed alone.
fn candidates_alone(chunking: Chunking, bytes: &[u8]) -> Vec<(bool, bool)> {
    let candidates = chunking.candidates();
    let window = candidates.window();
    (0..bytes.len())
        .map(|at| {
            let Some(from) = (at + 1).checked_sub(window) else { return (false, false) };
            let mut marks = Marks::none();
            candidates.mark(&bytes[from..=at], &mut marks);
            let last = window - 1;
            (marks.loose[0] >> last & 1 == 1, marks.strict[0] >> last & 1 == 1)
        })
        .collect()
}

/// The rules of selection as they are told, byte by byte.
fn cuts_by_the_rules(chunking: Chunking, below_min: BelowMin, bytes: &[u8]) -> Vec<u64> {
    let sizes = chunking.sizes();
    let (mut length, mut early) = (0_u32, false);
    let mut cuts = Vec::new();
    for (at, (loose, strict)) in candidates_alone(chunking, bytes).into_iter().enumerate() {
        length += 1;
        early |= loose && length < sizes.min && below_min == BelowMin::CutAtMin;
        let candidate = if length < sizes.expected { strict } else { loose };
        let ends = candidate && length >= sizes.min;
        if ends || (early && length == sizes.min) || length == sizes.max {
            cuts.push(at as u64 + 1);
            (length, early) = (0, false);
        }
    }
    cuts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn cuts_do_not_depend_on_how_the_bytes_come(
        name in prop::sample::select(CHUNKINGS.to_vec()),
        length in 0_usize..20_000,
        seed: u64,
        greatest in prop::sample::select(vec![1_u64, 3, 70, 5000]),
    ) {
        let bytes = random(length, seed);
        let mut rng = Rng::seeded(seed ^ 1);
        let pieces = cuts_in(chunking(name), &bytes, || 1 + rng.below(greatest) as usize);
        prop_assert_eq!(pieces, cuts(chunking(name), &bytes));
    }

    #[test]
    fn cuts_follow_the_rules(
        name in prop::sample::select(CHUNKINGS.to_vec()),
        length in 0_usize..9_000,
        seed: u64,
        letters in prop::sample::select(vec![1_u8, 2, 255]),
        at_min: bool,
    ) {
        let bytes: Vec<u8> = random(length, seed).into_iter().map(|byte| byte % letters).collect();
        let below_min = if at_min { BelowMin::CutAtMin } else { BelowMin::Ignore };
        let cuts = cuts(chunking(name).with(below_min), &bytes);
        prop_assert_eq!(cuts, cuts_by_the_rules(chunking(name), below_min, &bytes));
    }
}

#[test]
fn a_byte_inserted_in_front_moves_the_cuts_of_content_along() {
    let bytes = random(1 << 20, 5);
    let longer: Vec<u8> = [77].into_iter().chain(bytes.iter().copied()).collect();
    let share = |chunking: Chunking| {
        let before = cuts(chunking, &bytes);
        let moved: Vec<u64> = cuts(chunking, &longer).into_iter().map(|cut| cut - 1).collect();
        let same = before.iter().filter(|cut| moved.binary_search(cut).is_ok()).count();
        same as f64 / before.len() as f64
    };
    for name in ["gear:2KiB", "rabin16:2KiB", "rabin-source:2KiB", "modp", "maxp"] {
        assert!(share(chunking(name)) > 0.98, "{name}: {}", share(chunking(name)));
    }
    assert!(share(chunking("fixed:2KiB")) < 0.01);
}

#[test]
fn the_printed_rule_for_early_candidates_cuts_where_no_candidate_is() {
    let bytes = random(1 << 20, 6);
    let share_at_min = |chunking: Chunking| {
        let cuts = cuts(chunking, &bytes);
        let at_min = cuts.windows(2).filter(|pair| pair[1] - pair[0] == 512).count();
        at_min as f64 / cuts.len() as f64
    };
    let ours = chunking("rabin-source:2KiB");
    // One chunk in 1 − (1 − 1/2048)^511 = 22 % has a candidate too early.
    assert!((0.18..0.26).contains(&share_at_min(ours.with(BelowMin::CutAtMin))));
    assert!(share_at_min(ours) < 0.01);
}

#[test]
fn mean_sizes_are_near_what_is_expected_on_random_bytes() {
    let bytes = random(8 << 20, 9);
    for name in ["gear:512B", "rabin16:512B", "gear:8KiB", "rabin16:8KiB", "rabin-source:2KiB"] {
        let chunking = chunking(name);
        let mean = bytes.len() as f64 / cuts(chunking, &bytes).len() as f64;
        let ratio = mean / chunking.expected().unwrap().0 as f64;
        assert!((0.9..1.45).contains(&ratio), "{name}: {ratio}");
    }
    let mean = |name| bytes.len() as f64 / cuts(chunking(name), &bytes).len() as f64;
    assert!((mean("modp") - 32.0).abs() < 1.0, "{}", mean("modp"));
    assert!((mean("maxp") - 33.0).abs() < 1.0, "{}", mean("maxp"));
}

#[test]
fn the_fingerprint_of_the_source_is_equation_4_1() {
    let bytes = random(5000, 3);
    let mut told = 0;
    rabin_source::fingerprints(&bytes, |at, value| {
        let window: &[u8; 32] = bytes[at - 31..=at].try_into().unwrap();
        let sum = window
            .iter()
            .fold(0_u128, |sum, &byte| (sum * 16 + u128::from(byte)) % u128::from(PRIME));
        assert_eq!(u128::from(value), sum, "at {at}");
        assert_eq!(value, fingerprint(window), "at {at}");
        told += 1;
    });
    assert_eq!(told, bytes.len() - 31);
}

#[test]
fn the_fingerprint_of_the_source_is_right_where_it_wraps() {
    for byte in [0, 1, 15, 16, 240, 254, 255] {
        for leading in 0..=32 {
            let mut bytes = vec![byte; 96];
            bytes[32..32 + leading].fill(255 - byte);
            rabin_source::fingerprints(&bytes, |at, value| {
                assert!(value < PRIME);
                let window: &[u8; 32] = bytes[at - 31..=at].try_into().unwrap();
                assert_eq!(value, fingerprint(window), "{byte} {leading} at {at}");
            });
        }
    }
}

#[test]
fn a_cut_by_the_sender_ends_the_chunk_and_keeps_the_window() {
    let bytes = random(100_000, 11);
    let mut chunker = chunking("gear:512B").chunker();
    let mut ends = Vec::new();
    chunker.push(&bytes[..50_000], &mut ends);
    assert_eq!(chunker.cut(), 50_000);
    assert_eq!(chunker.length(), 0);
    chunker.push(&bytes[50_000..], &mut ends);
    // Two chunks later the cuts are those of the uncut stream.
    let uncut = cuts(chunking("gear:512B"), &bytes);
    let late = |ends: &[u64]| ends.iter().copied().filter(|&c| c > 56_000).collect::<Vec<_>>();
    assert_eq!(late(&ends), late(&uncut));
}

#[test]
fn chunkings_are_read_and_written_by_name() {
    for name in ["none", "fixed:1000B", "gear:2KiB", "rabin16:64B", "rabin-source:64KiB", "maxp"] {
        assert_eq!(chunking(name).to_string(), name);
    }
    let refused = |text: &str| text.parse::<Chunking>().unwrap_err().to_string();
    assert!(refused("gera:2KiB").contains("did you mean `gear`?"));
    assert!(refused("gear").contains("needs a size, like gear:2KiB"));
    assert!(refused("modp:32B").contains("takes no size"));
    assert!(refused("gear:3000B").contains("a power of two from 64 to 65536 bytes"));
    assert!(refused("gear:128KiB").contains("a power of two"));
    assert!(refused("gear:big").contains("`big` is no size"));
}
