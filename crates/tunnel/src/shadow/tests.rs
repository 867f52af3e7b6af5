//! Estimates of shadows, compared with what the choices really save.

use super::*;
use crate::trial::Trial;
use thermocline_units::Rng;

const MIB: usize = 1 << 20;

fn random(length: usize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::seeded(seed);
    (0..length / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

/// A version of `old`: here and there a few bytes come in between, are left out, or are others.
fn version(old: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut new = Vec::with_capacity(old.len());
    let mut at = 0;
    while at < old.len() {
        let end = (at + 1 + rng.below(40_000) as usize).min(old.len());
        new.extend_from_slice(&old[at..end]);
        let edit = 1 + rng.below(200) as usize;
        at = match rng.below(3) {
            0 => end,
            1 => end + edit,
            _ => end + edit / 2,
        };
        if at != end + edit {
            new.extend((0..edit).map(|_| rng.next_u64() as u8));
        }
    }
    new
}

/// The mean of what shadows found in flows, for each choice.
fn found(flows: &[Vec<u8>], capacity: Bytes, scope: impl Fn(usize) -> u64) -> Vec<(f64, u32)> {
    let mut shared = Shared::new(capacity, 5);
    let mut sums = vec![(0.0, 0); Choice::COUNT];
    for (number, flow) in flows.iter().enumerate() {
        let mut scout = Scout::new(scope(number));
        let mut findings = Vec::new();
        for piece in flow.chunks(100_000) {
            findings.extend(scout.pass(piece, Choices::CUTTING, &mut shared));
        }
        findings.extend(scout.end(Choices::CUTTING, &mut shared));
        for finding in findings {
            let (sum, count) = &mut sums[finding.choice.index()];
            *sum += finding.found;
            *count += 1;
        }
        assert_eq!(shared.shadows.open, 0, "a flow that is over collects nothing");
    }
    sums.into_iter().map(|(sum, count)| (sum / f64::from(count.max(1)), count)).collect()
}

#[test]
fn an_estimate_is_near_to_what_the_choice_saves() {
    let mut rng = Rng::seeded(9);
    let mut flows = vec![random(10 * MIB, 1)];
    for at in 0..4 {
        let next = version(&flows[at], &mut rng);
        flows.push(next);
    }
    let found = found(&flows, Bytes::from_mib(256), |_| 0);
    for bytes in [256, 1024, 4096, 16_384] {
        let size = ChunkSize::new(bytes).unwrap();
        for choice in [Choice::Content(size), Choice::Fixed(size)] {
            let mut trial = Trial::new(Bytes::from_mib(256), chunking(choice));
            for flow in &flows {
                trial.push(flow);
                trial.end_flow();
            }
            let totals = trial.totals();
            let real = totals.saved as f64 / totals.bytes as f64;
            let (mean, count) = found[choice.index()];
            assert!(count >= 10, "{choice}: {count} regions");
            assert!((mean - real).abs() < 0.08, "{choice}: {mean:.3} of {real:.3}");
        }
    }
}

#[test]
fn what_comes_again_is_found_wherever_it_stands_but_not_by_fixed_chunks() {
    let first = random(16 * MIB, 2);
    let shifted = [&random(1000, 3)[..], &first].concat();
    let size = ChunkSize::new(1024).unwrap();
    let both = found(&[first, shifted], Bytes::from_mib(256), |_| 0);
    let (content, fixed) = (both[Choice::Content(size).index()], both[Choice::Fixed(size).index()]);
    assert!((0.45..=0.5).contains(&content.0), "half of the bytes are new: {content:?}");
    assert!(fixed.0 < 0.01, "{fixed:?}");
}

#[test]
fn flows_of_other_scopes_find_nothing_of_each_other() {
    let flow = random(16 * MIB, 2);
    for (mean, _) in found(&[flow.clone(), flow], Bytes::from_mib(256), |flow| flow as u64) {
        assert!(mean < 0.01, "{mean}");
    }
}

#[test]
fn what_the_cache_would_have_lost_is_not_found() {
    let size = Choice::Content(ChunkSize::new(1024).unwrap()).index();
    let flows: Vec<_> = [4, 5, 6, 4, 5, 6].iter().map(|&seed| random(8 * MIB, seed)).collect();
    let small = found(&flows, Bytes::from_mib(10), |_| 0)[size];
    let large = found(&flows, Bytes::from_mib(64), |_| 0)[size];
    assert!(small.0 < 0.02 && large.0 > 0.4, "{small:?}, {large:?}");
}

#[test]
fn tables_are_no_more_than_a_hundredth_of_the_cache_and_few_regions_are_open() {
    let capacity = Bytes::from_mib(1024);
    let mut shared = Shared::new(capacity, 5);
    let bytes = random(16 * MIB, 7);
    let mut scouts: Vec<Scout> = (0..64).map(Scout::new).collect();
    let mut most = 0;
    for scout in &mut scouts {
        for piece in bytes[..2 * MIB].chunks(16_000) {
            scout.pass(piece, Choices::CUTTING, &mut shared);
            most = most.max(shared.shadows.open);
        }
    }
    assert!((2..=OPEN_MAX).contains(&most), "{most} regions at once");
    let memory = shared.shadows.memory();
    assert!(memory > 0 && memory <= 12 * MIB, "{memory} bytes");
    for scout in &mut scouts {
        scout.rest(1, &mut shared);
    }
    assert_eq!(shared.shadows.open, 0);
}

/// Beside the last test: a flow's beginning passes while nothing is wanted, and fixed chunks still
/// lie where they do in the flow.
#[test]
fn fixed_chunks_are_counted_from_the_flows_beginning() {
    let flow = random(24 * MIB, 8);
    let size = ChunkSize::new(4096).unwrap();
    let mut shared = Shared::new(Bytes::from_mib(256), 5);
    let mut means = Vec::new();
    for unseen in [0, 1000, 2_000_001] {
        let mut scout = Scout::new(0);
        scout.rest(unseen, &mut shared);
        let findings = scout.pass(&flow[unseen..], Choices::CUTTING, &mut shared);
        let fixed = findings.iter().filter(|finding| finding.choice == Choice::Fixed(size));
        let found: Vec<f64> = fixed.map(|finding| finding.found).collect();
        means.push(found.iter().sum::<f64>() / found.len() as f64);
    }
    assert!(means[0] < 0.01 && means[1] > 0.8 && means[2] > 0.8, "{means:?}");
}

#[test]
fn runs_of_one_byte_are_not_looked_at() {
    let zeros = vec![0; MIB];
    for seed in 0..300 {
        let mut shared = Shared::new(Bytes::from_mib(256), seed);
        let findings = Scout::new(seed).pass(&zeros, Choices::CUTTING, &mut shared);
        assert!(findings.is_empty(), "seed {seed}: a cut in 32 is drawn, and all are alike");
    }
}
