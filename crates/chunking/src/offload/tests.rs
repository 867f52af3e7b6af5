//! Claims of a core: right ones give the cuts of the stream, and wrong ones are found.

use super::*;
use proptest::prelude::*;
use thermocline_units::Rng;

const CHUNKINGS: [&str; 6] =
    ["none", "fixed:700B", "rabin16:128B", "rabin16:512B", "rabin-source:256B", "modp"];

/// Bytes with runs, and with few values, so that candidates cluster.
fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::seeded(seed);
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let run = 1 + rng.below(400) as usize;
        match rng.below(3) {
            0 => bytes.resize(bytes.len() + run, 0),
            1 => bytes.extend((0..run).map(|_| rng.below(3) as u8)),
            _ => bytes.extend((0..run).map(|_| rng.next_u64() as u8)),
        }
    }
    bytes.truncate(length);
    bytes
}

struct Said {
    before: UnderWay,
    bytes: Vec<u8>,
    positions: Vec<u32>,
    length: u64,
    early: bool,
}

/// Cuts a stream buffer by buffer, each alone.
fn said(chunking: Chunking, below_min: BelowMin, stream: &[u8], seed: u64) -> Vec<Said> {
    let tests = chunking.tests().expect("cores compute these");
    let mut rng = Rng::seeded(seed);
    let (mut under_way, mut rest, mut all) = (UnderWay::default(), stream, Vec::new());
    while !rest.is_empty() {
        let (bytes, later) = rest.split_at(1 + rng.below(rest.len().min(2000) as u64) as usize);
        let mut chunker = tests.chunker(chunking.sizes(), below_min, &under_way);
        let mut cuts = Vec::new();
        chunker.push(bytes, &mut cuts);
        let (length, early) = (chunker.length(), chunker.early());
        let next = under_way.after(bytes, length, early);
        let positions = cuts.iter().map(|&cut| cut as u32).collect();
        all.push(Said { before: under_way, bytes: bytes.to_vec(), positions, length, early });
        (under_way, rest) = (next, later);
    }
    all
}

fn verdict(chunking: Chunking, below_min: BelowMin, said: &Said, one_in: u64) -> Result<(), Lie> {
    let claim = Claim {
        tests: chunking.tests().unwrap(),
        sizes: chunking.sizes(),
        below_min,
        before: &said.before,
        bytes: &said.bytes,
        positions: &said.positions,
        length: said.length,
        early: said.early,
    };
    check(&claim, one_in, &mut Rng::seeded(1))
}

proptest! {
    #[test]
    fn buffers_cut_alone_give_the_cuts_of_the_stream(seed: u64, which in 0..6_usize, at_min: bool) {
        let below_min = if at_min { BelowMin::CutAtMin } else { BelowMin::Ignore };
        let chunking: Chunking = CHUNKINGS[which].parse().unwrap();
        let stream = bytes(seed, 20_000);
        let mut whole = Vec::new();
        chunking.with(below_min).chunker().push(&stream, &mut whole);
        let (mut pieces, mut from) = (Vec::new(), 0);
        for said in said(chunking, below_min, &stream, seed) {
            prop_assert_eq!(verdict(chunking, below_min, &said, 1), Ok(()));
            pieces.extend(said.positions.iter().map(|&at| from + u64::from(at)));
            from += said.bytes.len() as u64;
        }
        prop_assert_eq!(pieces, whole);
    }

    #[test]
    fn a_position_moved_dropped_or_added_is_found(seed: u64, how in 0..3_u32, by in 1..40_u32) {
        let chunking: Chunking = "rabin16:128B".parse().unwrap();
        let stream = bytes(seed, 6_000);
        for mut said in said(chunking, BelowMin::Ignore, &stream, seed) {
            let right = said.positions.clone();
            let middle = right.len() / 2;
            match how {
                0 if !right.is_empty() => said.positions[middle] += by,
                1 if !right.is_empty() => drop(said.positions.remove(middle)),
                _ => said.positions.push(right.last().copied().unwrap_or(0) + by),
            }
            let last = said.positions.last().copied();
            said.length = match last {
                Some(at) => (said.bytes.len() as u64).saturating_sub(u64::from(at)),
                None => said.before.length + said.bytes.len() as u64,
            };
            prop_assert!(verdict(chunking, BelowMin::Ignore, &said, 1).is_err());
        }
    }
}

#[test]
fn a_sample_finds_a_liar_within_a_few_buffers() {
    let chunking: Chunking = "rabin-source:256B".parse().unwrap();
    let mut rng = Rng::seeded(3);
    let stream = bytes(8, 400_000);
    let mut caught = 0;
    let mut lies = 0;
    for mut said in said(chunking, BelowMin::Ignore, &stream, 4) {
        // It drops every cut that need not be there.
        let before = said.positions.len();
        let first = said.positions.first().copied();
        said.positions.retain(|&at| Some(at) == first);
        if said.positions.len() == before {
            continue;
        }
        let last = said.positions[said.positions.len() - 1];
        said.length = said.bytes.len() as u64 - u64::from(last);
        lies += 1;
        let claim = Claim {
            tests: chunking.tests().unwrap(),
            sizes: chunking.sizes(),
            below_min: BelowMin::Ignore,
            before: &said.before,
            bytes: &said.bytes,
            positions: &said.positions,
            length: said.length,
            early: false,
        };
        caught += u32::from(check(&claim, 8, &mut rng).is_err());
    }
    assert!(lies > 100 && caught * 12 > lies, "{caught} of {lies} lies were found");
}

#[test]
fn methods_without_a_core_have_no_tests() {
    for name in ["gear:2KiB", "maxp"] {
        assert_eq!(name.parse::<Chunking>().unwrap().tests(), None);
    }
}

/// Such a candidate went into the context of the next buffer, which no core takes with the rule
/// `Ignore`.
#[test]
fn a_candidate_that_the_rule_ignores_is_not_claimed() {
    let chunking: Chunking = "rabin16:512B".parse().expect("a method");
    let all = said(chunking, BelowMin::Ignore, &bytes(3, 20_000), 4);
    for said in all {
        assert_eq!(verdict(chunking, BelowMin::Ignore, &said, u64::MAX), Ok(()));
        let lie = Said { early: true, ..said };
        assert!(verdict(chunking, BelowMin::Ignore, &lie, u64::MAX).is_err());
    }
}
