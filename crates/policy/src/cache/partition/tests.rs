//! Partitions move lines lawfully, and each sharing rule gives cache to whom it says.

use super::lists::{Partitions, equal_parts};
use super::lookahead::{Stake, allocate};
use super::*;
use crate::registry::{Build, Geometry, PolicySpec};
use proptest::prelude::*;
use thermocline_units::Rng;

fn build(spec: &str, lines: u32, volumes: u32) -> Box<dyn CachePolicy> {
    let geometry = Geometry { lines, volumes, ..Geometry::for_tests() };
    let spec = PolicySpec::parse(spec).expect("a known policy");
    match spec.entry.build {
        Build::Cache(build) => build(&geometry, &spec.settings).expect("right settings"),
        _ => panic!("{} is no cache", spec.label),
    }
}

/// Lines of VM `vm` are `vm · 10 000 + i`.
fn line(vm: u32, i: u32) -> LineId {
    LineId(vm * 10_000 + i)
}

const UNIVERSE: u32 = 40_000;

/// A line of VM 0 in a loop of `looped`, a line of VM 1 in an endless scan, in turn; hits of VM 0.
fn loop_against_scan(spec: &str, lines: u32, looped: u32, epochs: u32) -> (u32, Vec<u32>) {
    let mut cache = build(spec, lines, 2);
    cache.reserve(UNIVERSE);
    let (mut hits, mut at) = (Vec::new(), 0);
    for _ in 0..epochs {
        let mut count = 0;
        for _ in 0..1000 {
            count += u32::from(cache.access(line(0, at % looped), Tag::new(0, false)).is_hit());
            cache.access(line(1, at % 10_000), Tag::new(1, false));
            at += 1;
        }
        hits.push(count);
        cache.end_epoch(Nanos(0));
    }
    (hits[hits.len() - 1], hits)
}

/// UCP lost 5 of 91 points to LRU on five hosts in a cache that had room for all their data: a
/// VM at its quota evicted a line of its own although a third of the cache was empty.
#[test]
fn nobody_is_evicted_while_there_is_room() {
    for spec in ["ucp", "eci:threshold=1"] {
        let mut cache = build(spec, 150, 2);
        cache.reserve(UNIVERSE);
        // VM 0 has 140 lines, of which its half would hold 75; VM 1 has 10.
        for i in 0..140 {
            assert_eq!(cache.access(line(0, i), Tag::new(0, false)), Outcome::ADMITTED, "{spec}");
        }
        for i in 0..10 {
            assert_eq!(cache.access(line(1, i), Tag::new(1, false)), Outcome::ADMITTED, "{spec}");
        }
        let hits = (0..140).filter(|&i| cache.access(line(0, i), Tag::new(0, false)).is_hit());
        assert_eq!(hits.count(), 140, "{spec}");
        // Full: VM 1 is below its quota and takes VM 0's oldest; VM 0 pays for its own.
        let evicted = cache.access(line(1, 10), Tag::new(1, false));
        assert_eq!(evicted, Outcome::evicting(line(0, 0)), "{spec}");
        let evicted = cache.access(line(0, 0), Tag::new(0, false));
        assert_eq!(evicted, Outcome::evicting(line(0, 1)), "{spec}");
    }
    let mut cache = build("equal", 150, 2);
    cache.reserve(UNIVERSE);
    (0..76).for_each(|i| _ = cache.access(line(0, i), Tag::new(0, false)));
    assert_eq!(cache.resident(), 75, "equal parts are parts for ever");
}

#[test]
fn ucp_sees_a_cliff_and_gives_a_loop_what_a_scan_cannot_use() {
    // 150 lines: the loop of 100 never hits in its equal half of 75.
    let (last, hits) = loop_against_scan("equal", 150, 100, 4);
    assert_eq!((last, hits[0]), (0, 0));
    let (last, hits) = loop_against_scan("ucp", 150, 100, 4);
    assert_eq!(hits[0], 0, "sizes are equal at the start");
    assert_eq!(last, 1000);
}

#[test]
fn ucp_keeps_its_sizes_when_the_gain_does_not_pay_for_re_warming() {
    // A gain of 1000 hits an epoch over 12 epochs, for some 30 to 75 lines that change hands.
    assert_eq!(loop_against_scan("ucp:horizon=12:rewarm=1000", 150, 100, 4).0, 0);
    assert_eq!(loop_against_scan("ucp:horizon=12:rewarm=100", 150, 100, 4).0, 1000);
    assert_eq!(loop_against_scan("ucp:horizon=1:rewarm=100", 150, 100, 4).0, 0);
}

#[test]
fn ucp_weighs_hits_by_rate_and_not_by_ratio_alone() {
    // Two equal loops of 100 lines in 120: only one fits. VM 1 runs its loop ten times as often.
    let mut cache = build("ucp", 120, 2);
    cache.reserve(UNIVERSE);
    let mut hits = [0, 0];
    for at in 0..20_000u32 {
        let vm = u32::from(at % 11 != 0);
        let index = if vm == 0 { at / 11 } else { at - at / 11 };
        let hit = cache.access(line(vm, index % 100), Tag::new(vm, false)).is_hit();
        hits[vm as usize] += u32::from(hit && at >= 10_000);
        if at % 2_000 == 1_999 {
            cache.end_epoch(Nanos(0));
        }
    }
    assert!(hits[1] > 9_000 && hits[0] == 0, "{hits:?}");
}

#[test]
fn equal_partitions_are_lru_caches_of_their_own() {
    let mut rng = Rng::seeded(4);
    let mut shared = build("equal", 100, 3);
    shared.reserve(UNIVERSE);
    let mut own: Vec<_> = [33, 33, 34].map(|lines| build("lru", lines, 1)).into();
    own.iter_mut().for_each(|cache| cache.reserve(UNIVERSE));
    for i in 0..20_000 {
        let vm = rng.below(3) as u32;
        let line = line(vm, (rng.unit_f64().powi(3) * 200.0) as u32);
        let expected = own[vm as usize].access(line, Tag::default());
        assert_eq!(shared.access(line, Tag::new(vm, false)), expected, "access {i}");
    }
}

#[test]
fn eci_gives_no_cache_to_rewrites_and_lets_them_pass_by() {
    // VM 0 rewrites a loop of 60 lines; VM 1 reads a loop of 90. 100 lines.
    let mut cache = build("eci:floor=0", 100, 2);
    cache.reserve(UNIVERSE);
    let mut run = |epochs: std::ops::Range<u32>| {
        let (mut read_hits, mut admitted) = (0, 0);
        for at in epochs.start * 900..epochs.end * 900 {
            let written = cache.access(line(0, at % 60), Tag::new(0, true));
            admitted += u32::from(written != Outcome::BYPASSED);
            assert_eq!(cache.contains(line(0, at % 60)), written.is_resident());
            read_hits += u32::from(cache.access(line(1, at % 90), Tag::new(1, false)).is_hit());
            if at % 900 == 899 {
                cache.end_epoch(Nanos(0));
            }
        }
        (read_hits, admitted)
    };
    assert_eq!(run(0..1), (0, 900), "before the first epoch ends all VMs are alike");
    assert_eq!(run(1..2).1, 0, "then writes pass by");
    assert_eq!(run(2..3), (900, 0));
}

#[test]
fn eci_counts_reads_after_writes_as_useful() {
    // Every line is written, and read 40 lines later: 20 writes would push it out of 30 lines.
    let mut cache = build("eci:threshold=1:floor=0", 100, 2);
    cache.reserve(UNIVERSE);
    let mut hits = 0;
    for at in 0..8_000u32 {
        cache.access(line(0, at % 10_000), Tag::new(0, true));
        let read = cache.access(line(0, (at + 9_960) % 10_000), Tag::new(0, false));
        cache.access(line(1, at % 10_000), Tag::new(1, false));
        hits += u32::from(read.is_hit() && at >= 7_000);
        if at % 500 == 499 {
            cache.end_epoch(Nanos(0));
        }
    }
    assert_eq!(hits, 1000);
}

#[test]
fn outcomes_tell_the_truth_through_epochs_writes_and_shrinking_partitions() {
    for spec in ["equal", "ucp:rewarm=0", "eci:threshold=0.3"] {
        let mut cache = build(spec, 50, 3);
        cache.reserve(UNIVERSE);
        let (mut rng, mut resident) = (Rng::seeded(8), vec![false; UNIVERSE as usize]);
        let mut bypassed = 0;
        for i in 0..60_000u32 {
            // The VMs' working sets change every 5 000 accesses, so partitions shrink and grow.
            let vm = rng.below(3) as u32;
            let width = f64::from([10, 40, 300][((i / 5_000 + vm) % 3) as usize]);
            let line = line(vm, (rng.unit_f64().powi(2) * width) as u32);
            let tag = Tag::new(vm, rng.below(3) < u64::from(vm));
            let outcome = cache.access(line, tag);
            let dropped = tag.is_write() && outcome == Outcome::BYPASSED;
            assert_eq!(
                outcome.is_hit() || dropped,
                resident[line.index()] || dropped,
                "{spec}: {i}"
            );
            if let Some(victim) = outcome.evicted() {
                assert!(resident[victim.index()] && victim != line, "{spec}: access {i}");
                resident[victim.index()] = false;
            }
            resident[line.index()] = outcome.is_resident();
            bypassed += u32::from(!outcome.is_resident());
            assert!(cache.resident() <= 50, "{spec}: access {i}");
            if i % 1_000 == 999 {
                let count = resident.iter().filter(|r| **r).count() as u32;
                assert_eq!(cache.resident(), count, "{spec}: access {i}");
                cache.end_epoch(Nanos(0));
            }
        }
        assert_eq!(bypassed > 0, spec.starts_with("eci"), "{spec}: {bypassed} bypassed");
    }
}

#[test]
fn a_line_of_capacity_costs_eighteen_bytes_and_the_sample_is_bounded() {
    let mut equal = build("equal", 1 << 16, 4);
    equal.reserve(1 << 20);
    assert_eq!(equal.footprint(), Footprint { resident: 18 << 16, index: 4 << 20 });
    let mut ucp = build("ucp:sample=1000", 1 << 16, 2);
    ucp.reserve(1 << 20);
    (0..200_000).for_each(|i| {
        ucp.access(LineId(i), Tag::new(i % 2, false));
    });
    let sampled = ucp.footprint().resident - (18 << 16);
    assert!(sampled < 2 * (1000 * 90 + 512 * 8), "{sampled} B");
    assert!((18 << 16) + sampled <= 32 << 16);
}

#[test]
fn lookahead_reserves_the_sum_of_the_minima_and_uses_up_the_rest() {
    let flat = |min, max| Stake { hits: vec![0.0; 11], min, max };
    assert_eq!(allocate(&[flat(2, 10), flat(3, 10)], 10), [5, 5]);
    assert_eq!(allocate(&[flat(0, 2), flat(0, 10)], 10), [2, 8], "nobody earns: up to the maximum");
    assert_eq!(allocate(&[flat(0, 2), flat(0, 3)], 10), [5, 5], "then to all in turn");
    let cliff: Vec<f64> = (0..11).map(|k| if k >= 6 { 60.0 } else { 0.0 }).collect();
    let slope: Vec<f64> = (0..11).map(|k| 5.0 * f64::from(k)).collect();
    let stakes = [Stake { hits: cliff, min: 0, max: 10 }, Stake { hits: slope, min: 1, max: 10 }];
    assert_eq!(allocate(&stakes, 10), [6, 4]);
    assert_eq!(allocate(&stakes, 6), [0, 6], "the cliff is out of reach");
}

/// Running sums of falling gains.
fn concave(units: usize) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(0u32..100, units).prop_map(|mut gains| {
        gains.sort_unstable_by(|a, b| b.cmp(a));
        let mut sum = 0.0;
        let rising = gains.into_iter().map(|gain| {
            sum += f64::from(gain);
            sum
        });
        [0.0].into_iter().chain(rising).collect()
    })
}

proptest! {
    #[test]
    fn lookahead_is_optimal_on_concave_curves(curves in prop::collection::vec(concave(8), 3)) {
        let stakes: Vec<Stake> =
            curves.into_iter().map(|hits| Stake { hits, min: 0, max: 8 }).collect();
        let earn = |a: usize, b: usize| {
            stakes[0].hits[a] + stakes[1].hits[b] + stakes[2].hits[8 - a - b]
        };
        let best = (0..=8).flat_map(|a| (0..=8 - a).map(move |b| (a, b)));
        let best = best.map(|(a, b)| earn(a, b)).fold(0.0, f64::max);
        let given = allocate(&stakes, 8);
        prop_assert_eq!(given.iter().sum::<usize>(), 8);
        prop_assert_eq!(earn(given[0], given[1]), best);
    }

    #[test]
    fn equal_parts_differ_by_one_line_at_most(capacity in 1u32..1000, parts in 1u32..40) {
        let quotas = equal_parts(capacity, parts);
        prop_assert_eq!(quotas.iter().sum::<u32>(), capacity);
        let (low, high) = (quotas.iter().min(), quotas.iter().max());
        prop_assert!(high.zip(low).is_some_and(|(high, low)| high - low <= 1));
    }

    #[test]
    fn every_eviction_is_the_oldest_line_of_the_vm_that_must_give(
        steps in prop::collection::vec((0u32..3, 0u32..12, 0u32..60), 1..400),
    ) {
        const CAPACITY: u32 = 10;
        let mut partitions = Partitions::new(CAPACITY, 3);
        partitions.reserve(UNIVERSE);
        // Lines by VM, oldest first.
        let mut model: Vec<Vec<LineId>> = vec![Vec::new(); 3];
        for (vm, i, event) in steps {
            let line = line(vm, i);
            if event == 0 {
                let quotas = vec![i.min(5), CAPACITY - i.min(5) - vm, vm];
                partitions.set_quotas(quotas);
            } else if event == 1 {
                let before = model[vm as usize].len();
                model[vm as usize].retain(|l| *l != line);
                let dropped = before > model[vm as usize].len();
                prop_assert_eq!(partitions.invalidate(line), dropped);
            }
            let quota = partitions.quotas()[vm as usize] as usize;
            let total: usize = model.iter().map(Vec::len).sum();
            let outcome = partitions.access(line, vm);
            prop_assert_eq!(outcome.is_hit(), model[vm as usize].contains(&line));
            if !outcome.is_hit() {
                let giver = if quota == 0 {
                    None
                } else if model[vm as usize].len() >= quota {
                    Some(vm as usize)
                } else if total == CAPACITY as usize {
                    let over = |v: &usize| model[*v].len() > partitions.quotas()[*v] as usize;
                    let evicted = outcome.evicted().expect("a full cache evicts");
                    (0..3).filter(over).find(|v| model[*v].first() == Some(&evicted))
                } else {
                    None
                };
                let victim = giver.map(|v| model[v].remove(0));
                prop_assert_eq!(outcome.evicted(), victim);
                prop_assert_eq!(outcome.is_resident(), quota > 0);
            }
            model[vm as usize].retain(|l| *l != line);
            if outcome.is_resident() {
                model[vm as usize].push(line);
            }
            let lengths: Vec<u32> = (0..3).map(|v| partitions.resident_of(v)).collect();
            let expected: Vec<u32> = model.iter().map(|m| m.len() as u32).collect();
            prop_assert_eq!(&lengths, &expected);
            prop_assert_eq!(partitions.resident(), lengths.iter().sum::<u32>());
        }
    }
}
