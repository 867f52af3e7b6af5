//! ChewAnalyzer against hand-worked epochs on the three pools of its case study.

use super::library::{Dimension, Library, Range, Rule, Thresholds, Tier, When};
use super::taxonomy::{Profile, Taxonomy};
use super::{Options, build as build_from};
use crate::placement::tests::pools::{Pools, chunk};
use crate::placement::tests::{build, propose_to};
use crate::placement::{ChunkAccess, Pattern, Placement};
use crate::registry::{Build, PolicySpec};
use expect_test::{Expect, expect};
use thermocline_units::{Bytes, Nanos, Rng};

/// `times` accesses of 4 KiB (8 units of 512 B each) to a chunk, at most 64: none of them
/// sequential, because an empty one to a chunk far away stands between, and none to a page that was
/// written.
pub(super) fn ask(chew: &mut dyn Placement, index: u32, times: u64, write: bool) {
    let mut access = |index, offset, bytes, write| {
        let (at, chunk) = (Nanos(0), chunk(index));
        chew.observe(&ChunkAccess { at, chunk, offset: Bytes(offset), bytes: Bytes(bytes), write });
    };
    for place in (0..64).rev().take(times as usize) {
        access(index, place << 14, 4096, write);
        access(9999, 0, 0, false);
    }
}

/// Chunks 0 to 9 on the slowest of three pools.
fn pools(fast: u64, middle: u64) -> Pools {
    let at: Vec<_> = (0..10).map(|index| (index, 2)).collect();
    let mut pools = Pools::new(&[fast, middle, 2000], &at);
    pools.epoch = Nanos::from_secs(1);
    pools
}

fn check(lines: &[String], expected: Expect) {
    expected.assert_eq(&lines.join("\n"));
}

/// The case study, with these settings.
fn chew(settings: &str) -> Box<dyn Placement> {
    build(&format!("chew:of=none:demote=always{settings}"))
}

#[test]
fn with_room_everywhere_intensity_decides() {
    let mut chew = chew("");
    // 8 units each: 320, 160 and 8 units a second.
    for (index, times) in [(0, 40), (1, 20), (2, 1)] {
        ask(chew.as_mut(), index, times, false);
    }
    assert_eq!(propose_to(chew.as_mut(), &pools(500, 500)), [(0, 0), (1, 1)]);
    check(
        &chew.explain(chunk(0)),
        expect![[r#"
            when last accessed: 320.0 units of 512 B a second, 0 % of them written; 100 % of accesses random, 0 % of writes overwriting
            level 1, intensity: weight 320.0, top I/Os, for the fastest pool: pool 0 takes it"#]],
    );
    assert_eq!(chew.explain(chunk(9)), Vec::<String>::new(), "nobody asked for it");
}

#[test]
fn what_finds_no_space_is_classified_by_the_next_level() {
    let mut chew = chew("");
    // 64 × 8 = 512 units and 40 × 8 = 320. The heaviest takes the fastest pool's only place. Chunk
    // 2 is intensive read on the second level, and takes the other pool's; for chunk 1, which is
    // written, that pool comes into question on the last level only.
    ask(chew.as_mut(), 0, 64, true);
    ask(chew.as_mut(), 1, 40, true);
    ask(chew.as_mut(), 2, 40, false);
    assert_eq!(propose_to(chew.as_mut(), &pools(1, 1)), [(0, 0), (2, 1)]);
    check(
        &chew.explain(chunk(1)),
        expect![[r#"
            when last accessed: 320.0 units of 512 B a second, 100 % of them written; 100 % of accesses random, 0 % of writes overwriting
            level 1, intensity: weight 320.0, top I/Os, for the fastest pool: no space left
            level 2, reads and writes: weight 640.0, very intensive, for the fastest pool: no space left
            level 3, randomness: weight 1280.0, intensive random write, for the fastest pool: no space left
            level 4, overwrites: weight 1280.0, fully random write, for the fastest pool, then a pool in the middle: no space left
            left over, by weight 1280.0: pool 2 takes it"#]],
    );
    check(
        &chew.explain(chunk(2)),
        expect![[r#"
            when last accessed: 320.0 units of 512 B a second, 0 % of them written; 100 % of accesses random, 0 % of writes overwriting
            level 1, intensity: weight 320.0, top I/Os, for the fastest pool: no space left
            level 2, reads and writes: weight 320.0, intensive read, for a pool in the middle: pool 1 takes it"#]],
    );
}

#[test]
fn a_pattern_is_placed_whole_or_not_at_all_when_asked_so() {
    // Three chunks of 320 units a second, two of them written, and two places on the fastest pool.
    let run = |settings: &str| {
        let mut chew = chew(settings);
        for (index, write) in [(0, false), (1, true), (2, true)] {
            ask(chew.as_mut(), index, 40, write);
        }
        propose_to(chew.as_mut(), &pools(2, 9))
    };
    // Equally intense, the first two are placed at once, and the third when the middle comes into
    // question. As a group they do not fit; those that are very intensive with their writes do.
    assert_eq!(run(""), [(1, 0), (2, 1), (0, 0)]);
    assert_eq!(run(":accept=group"), [(1, 0), (2, 0), (0, 1)]);
}

#[test]
fn a_chunk_that_was_not_accessed_keeps_its_place_until_that_is_needed() {
    let mut chew = build("chew:of=none");
    let mut view = pools(2, 500);
    view.at.extend([(8, 0), (9, 0)]);
    ask(chew.as_mut(), 9, 1, false); // few I/Os: it belongs on the slowest pool, but nobody comes
    assert_eq!(propose_to(chew.as_mut(), &view), []);
    ask(chew.as_mut(), 9, 1, false);
    ask(chew.as_mut(), 0, 40, false);
    assert_eq!(propose_to(chew.as_mut(), &view), [(8, 1), (0, 0)]);
}

/// The fastest pool has two chunks and should have one, as it is where chunks have taken what was
/// kept for others: it has no place for both.
#[test]
fn a_pool_that_is_more_than_full_keeps_what_it_has_places_for() {
    let mut chew = chew("");
    let mut view = pools(1, 500);
    view.at.extend([(8, 0), (9, 0)]);
    ask(chew.as_mut(), 8, 40, false);
    ask(chew.as_mut(), 9, 64, false);
    assert_eq!(propose_to(chew.as_mut(), &view), [(8, 1)]);
}

#[test]
fn time_that_a_pool_does_not_have_is_a_reason_too() {
    // 64 random reads a second are 0.00017 of an NVMe SSD's time: it takes one such chunk.
    let mut chew = chew(":peak=0.0003");
    ask(chew.as_mut(), 0, 64, false);
    ask(chew.as_mut(), 1, 64, false);
    assert_eq!(propose_to(chew.as_mut(), &pools(9, 9)), [(0, 0), (1, 0)]);
    check(
        &chew.explain(chunk(1)),
        expect![[r#"
        when last accessed: 512.0 units of 512 B a second, 0 % of them written; 100 % of accesses random, 0 % of writes overwriting
        level 1, intensity: weight 512.0, top I/Os, for the fastest pool: no time left
        level 2, reads and writes: weight 512.0, very intensive, for the fastest pool: no time left
        level 3, randomness: weight 1024.0, intensive random read, for a pool in the middle: no time left
        level 4, overwrites: weight 1024.0, random read, for a pool in the middle, then the fastest pool: no time left
        left over, by weight 1024.0: pool 0 takes it"#]],
    );
}

#[test]
fn weights_take_in_one_dimension_after_the_other() {
    let library = Library::three_pools(Thresholds::default());
    assert!(library.levels.iter().map(|level| level.weight).eq(Dimension::ALL));
    let taxonomy = Taxonomy::new(library);
    let profile = Profile { intensity: 100.0, writes: 0.5, random: 0.25, overwritten: 0.5 };
    let weights = [0, 1, 2, 3].map(|level| taxonomy.weight_on(&profile, level));
    // Half of it counts twice; a quarter of that twice; writes count 2 × 1.5: 100 × 2 × 1.25.
    assert_eq!(weights, [100.0, 150.0, 187.5, 250.0]);
}

#[test]
fn the_case_study_sorts_its_patterns_as_the_source_says() {
    let taxonomy = Taxonomy::new(Library::three_pools(Thresholds::default()));
    let of = |level: usize, intensity: f32, writes: f32, random: f32, overwritten: f32| {
        let profile = Profile { intensity, writes, random, overwritten };
        let rule = taxonomy.rule(&profile, level);
        (rule.pattern.clone(), rule.pools[0])
    };
    for (level, profile, pattern, tier) in [
        (0, (300.0, 0.0, 0.0, 0.0), "top I/Os", Tier::Fastest),
        (0, (299.0, 0.0, 0.0, 0.0), "2nd high I/Os", Tier::Middle),
        (0, (9.9, 0.0, 0.0, 0.0), "low I/Os", Tier::Slowest),
        (1, (500.0, 0.0, 0.0, 0.0), "very intensive", Tier::Fastest),
        (1, (200.0, 0.6, 0.0, 0.0), "intensive write", Tier::Fastest),
        (1, (210.0, 0.5, 0.0, 0.0), "intensive read", Tier::Middle),
        (1, (10.0, 0.0, 0.0, 0.0), "moderate read/write", Tier::Middle),
        (2, (400.0, 0.9, 0.4, 0.0), "sequential access", Tier::Slowest),
        (2, (400.0, 0.9, 0.6, 0.0), "intensive random write", Tier::Fastest),
        (2, (400.0, 0.1, 0.6, 0.0), "intensive random read", Tier::Middle),
        (3, (400.0, 0.9, 0.6, 0.6), "overwritten", Tier::Fastest),
        (3, (400.0, 0.9, 0.6, 0.5), "fully random write", Tier::Fastest),
        (3, (400.0, 0.1, 0.6, 0.0), "random read", Tier::Middle),
    ] {
        let (intensity, writes, random, overwritten) = profile;
        let found = of(level, intensity, writes, random, overwritten);
        assert_eq!(found, (pattern.to_string(), tier), "level {}", level + 1);
    }
}

#[test]
fn tiers_mean_pools_whatever_their_number() {
    let pools = |tier: Tier, count| tier.pools(count).map(|pool| pool.0).collect::<Vec<_>>();
    assert_eq!(
        [2, 3, 5].map(|count| pools(Tier::Middle, count)),
        [vec![0], vec![1], vec![1, 2, 3]]
    );
    assert_eq!([1, 2, 5].map(|count| pools(Tier::Slowest, count)), [vec![0], vec![1], vec![4]]);
    assert_eq!(pools(Tier::Fastest, 4), [0]);
}

#[test]
fn a_library_of_ones_own_decides_and_a_wrong_one_says_what_is_wrong() {
    let mut library = Library::three_pools(Thresholds::default());
    library.levels.truncate(1);
    let reads = When { intensity: Range::from(1.0), writes: Range::below(0.1), ..When::ALWAYS };
    let rules = &mut library.levels[0].rules;
    rules.insert(0, Rule { pattern: "read only".into(), when: reads, pools: vec![Tier::Middle] });
    let mut chew = build_from(library.clone(), Options::default()).unwrap();
    ask(chew.as_mut(), 0, 64, false);
    assert_eq!(propose_to(chew.as_mut(), &pools(500, 500)), [(0, 1)]);
    let wrong = |change: fn(&mut Library), part: &str| {
        let mut library = library.clone();
        change(&mut library);
        let error = build_from(library, Options::default()).err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    };
    wrong(|library| library.levels.clear(), "0 levels; it has 1 to 8");
    wrong(|library| _ = library.levels[0].rules.pop(), "must end with a rule that always fits");
    wrong(|library| library.levels[0].rules[0].pools.clear(), "`read only` of level `intensity`");
    wrong(|library| library.write = f64::NAN, "weight write = NaN");
    wrong(|library| library.unit = Bytes(0), "a unit of 0 B");
}

#[test]
fn a_library_spelled_out_is_the_same_library() {
    let mut library =
        Library::three_pools(Thresholds { low: 0.1, top: 1.0 / 3.0, very_intense: 1e9 });
    let rules = &mut library.levels[1].rules;
    rules[0].when.random = Range::between(-1.0, 0.7_f64.next_up());
    rules[0].pools = vec![Tier::Slowest, Tier::Middle, Tier::Fastest];
    let text = library.spelled_out();
    assert_eq!(Library::parse(&text), Ok(library));
    assert!(!text.contains([':', '+', ',']), "{text}");
    assert!(text.len() < 1200, "{} B", text.len());
}

#[test]
fn a_line_that_is_cut_or_changed_is_no_library_and_never_panics() {
    let text = Library::three_pools(Thresholds::default()).spelled_out();
    for cut in 0..text.len() {
        assert!(Library::parse(&text[..cut]).is_err(), "cut at {cut}");
        for other in ['{', '}', ';', '|', '@', '[', '=', '.', '9', 'x', 'é'] {
            let mut changed = text.clone();
            changed.replace_range(cut..=cut, &other.to_string());
            if let Ok(library) = Library::parse(&changed) {
                assert_eq!(Library::parse(&library.spelled_out()), Ok(library), "{changed}");
            }
        }
    }
}

#[test]
fn a_library_in_the_settings_decides_as_the_same_one_built_by_hand() {
    let mut library = Library::three_pools(Thresholds { top: 100.0, ..Thresholds::default() });
    library.name = "mine".to_string();
    let mut own = build(&format!("chew:demote=always:library={}", library.spelled_out()));
    let mut same = chew(":top=100");
    for chew in [&mut own, &mut same] {
        ask(chew.as_mut(), 0, 20, false);
        ask(chew.as_mut(), 1, 10, true);
    }
    let moves = propose_to(own.as_mut(), &pools(1, 500));
    assert_eq!(moves, [(0, 0), (1, 1)]);
    assert_eq!(propose_to(same.as_mut(), &pools(1, 500)), moves);
    assert_eq!(own.explain(chunk(1)), same.explain(chunk(1)));
}

#[test]
fn thresholds_are_for_chunks_of_256_mib_and_are_scaled_to_others() {
    // 16 units a second on 1 MiB are 4,096 on 256 MiB.
    for (settings, moves) in [("", vec![(0, 0)]), (":of=none", vec![]), (":of=1MiB", vec![])] {
        let mut chew = build(&format!("chew{settings}"));
        ask(chew.as_mut(), 0, 2, false);
        let mut view = pools(500, 500);
        view.at.extend([(0, 1)]);
        assert_eq!(propose_to(chew.as_mut(), &view), moves, "{settings}");
    }
    let spec = PolicySpec::parse("chew:of=0").unwrap();
    let Build::Placement(build) = spec.entry.build else { unreachable!("it is a placement") };
    let said = build(&spec.settings).err().expect("no chunk has no bytes").to_string();
    assert!(said.contains("`of=0`") && said.contains("256MiB, or none"), "{said}");
}

#[test]
fn thresholds_beside_a_library_of_ones_own_are_refused() {
    let said = |settings: &str| {
        let spec = PolicySpec::parse(&format!("chew:{settings}")).unwrap();
        let Build::Placement(build) = spec.entry.build else { unreachable!("it is a placement") };
        build(&spec.settings).err().expect("these do not fit").to_string()
    };
    let own = Library::three_pools(Thresholds::default()).spelled_out();
    let beside = said(&format!("top=5:library={own}"));
    assert!(beside.contains("`top=5`") && beside.contains("stands"), "{beside}");
    assert!(said("library=mine.toml").contains("`library=mine.toml`: expected three-pools or"));
    let broken = own.replace("fastest", "");
    let broken = said(&format!("library={broken}"));
    assert!(broken.contains("names no pool") && !broken.contains('{'), "{broken}");
}

#[test]
fn a_cold_case_fits_the_rule_that_it_fits_when_all_are_tried() {
    let mut rng = Rng::seeded(2);
    let mut library = Library::three_pools(Thresholds { low: 0.3, top: 20.0, very_intense: 50.0 });
    library.levels[2].rules[0].when = When { random: Range::below(0.2), ..When::ALWAYS };
    let taxonomy = Taxonomy::new(library.clone());
    let mut last = [0; 4];
    for _ in 0..20_000 {
        let share = |rng: &mut Rng| [0.0, 1.0, rng.unit_f64() as f32][rng.below(3) as usize];
        let intensity = (rng.unit_f64() * 8.0 - 5.0).exp2() as f32;
        let (writes, random, overwritten) = (share(&mut rng), share(&mut rng), share(&mut rng));
        let profile = Profile { intensity, writes, random, overwritten };
        for (number, level) in library.levels.iter().enumerate() {
            let weight = taxonomy.weight_on(&profile, number);
            let numbers = [intensity, writes, random, overwritten].map(f64::from);
            let [intensity, writes, random, overwritten] = numbers;
            let fits = |rule: &Rule| {
                let has = |range: Range, number: f64| range.from <= number && number < range.to;
                has(rule.when.intensity, intensity)
                    && has(rule.when.weight, weight)
                    && has(rule.when.writes, writes)
                    && has(rule.when.random, random)
                    && has(rule.when.overwritten, overwritten)
            };
            let expected = level.rules.iter().position(fits).unwrap();
            assert_eq!(taxonomy.rule_number(&profile, number), expected, "{profile:?}");
            last[number] += u32::from(expected + 1 == level.rules.len());
        }
    }
    assert!(last.iter().all(|count| (1000..19_000).contains(count)), "{last:?}");
}

#[test]
fn a_cold_chunk_that_its_only_pool_refuses_is_told_so_on_every_level() {
    // A random read takes a disk 12.5 ms: of two chunks with one a second each, it takes one.
    let mut chew = chew(":peak=0.02");
    ask(chew.as_mut(), 0, 1, false);
    ask(chew.as_mut(), 1, 1, false);
    assert_eq!(propose_to(chew.as_mut(), &pools(9, 9)), [(1, 1)]);
    check(
        &chew.explain(chunk(1)),
        expect![[r#"
            when last accessed: 8.0 units of 512 B a second, 0 % of them written; 100 % of accesses random, 0 % of writes overwriting
            level 1, intensity: weight 8.0, low I/Os, for the slowest pool: no time left
            level 2, reads and writes: weight 8.0, low I/Os, for the slowest pool: no time left
            level 3, randomness: weight 16.0, moderate read/write, for a pool in the middle: pool 1 takes it"#]],
    );
    let mut library = Library::three_pools(Thresholds::default());
    library.levels.truncate(2);
    let options = Options { peak: 0.02, ..Options::default() };
    let mut chew = build_from(library, options).unwrap();
    ask(chew.as_mut(), 0, 1, false);
    ask(chew.as_mut(), 1, 1, false);
    propose_to(chew.as_mut(), &pools(9, 9));
    check(
        &chew.explain(chunk(1)),
        expect![[r#"
            when last accessed: 8.0 units of 512 B a second, 0 % of them written; 100 % of accesses random, 0 % of writes overwriting
            level 1, intensity: weight 8.0, low I/Os, for the slowest pool: no time left
            level 2, reads and writes: weight 8.0, low I/Os, for the slowest pool: no time left
            left over, by weight 8.0: pool 0 takes it"#]],
    );
}

#[test]
fn weights_are_what_the_pool_in_the_middle_shows() {
    // A chunk of 320 units a second of random writes on three pools, by a weight of 2: 640, very
    // intensive. The pool in the middle serves a write as fast as a read, then a fifth as fast.
    let first_reason = |settings: &str, writes_per_s: u64, wears: bool| {
        let mut chew = chew(settings);
        let mut view = pools(0, 500);
        view.traits[1].services[Pattern::RandomRead as usize].per_second = 10_000;
        view.traits[1].services[Pattern::RandomWrite as usize].per_second = writes_per_s;
        view.traits[1].overwrites = wears.then_some(3000);
        ask(chew.as_mut(), 0, 40, true);
        propose_to(chew.as_mut(), &view);
        chew.explain(chunk(0)).into_iter().find(|line| line.contains("reads and writes")).unwrap()
    };
    assert!(first_reason("", 10_000, false).contains("weight 640.0"));
    assert!(first_reason(":write=measured", 10_000, false).contains("weight 320.0"));
    assert!(first_reason(":write=measured", 2_000, false).contains("weight 1600.0"));
    // What wears is spared by w0, what does not wear is not.
    assert!(first_reason(":write=measured:wear=2", 2_000, true).contains("weight 3200.0"));
    assert!(first_reason(":write=measured:wear=2", 2_000, false).contains("weight 1600.0"));
}

#[test]
fn random_accesses_weigh_what_the_pool_in_the_middle_shows() {
    let reason = |settings: &str| {
        let mut chew = chew(settings);
        let mut view = pools(0, 0);
        view.traits[1].services[Pattern::RandomRead as usize].per_second = 10_000;
        view.traits[1].services[Pattern::SequentialRead as usize].per_second = 30_000;
        ask(chew.as_mut(), 0, 40, false);
        propose_to(chew.as_mut(), &view);
        chew.explain(chunk(0)).into_iter().find(|line| line.contains("randomness")).unwrap()
    };
    assert!(reason("").contains("weight 640.0"));
    assert!(reason(":random=measured").contains("weight 960.0"), "{}", reason(":random=measured"));
}

#[test]
fn a_factor_for_wear_without_a_measured_weight_is_refused() {
    let spec = PolicySpec::parse("chew:wear=3").unwrap();
    let error = spec.build_placement().err().expect("it has nothing to raise").to_string();
    assert!(error.contains("wear") && error.contains("not measured"), "{error}");
    assert!(PolicySpec::parse("chew:write=measured:wear=0.5").unwrap().build_placement().is_err());
    assert!(PolicySpec::parse("chew:write=weighed").unwrap().build_placement().is_err());
}
