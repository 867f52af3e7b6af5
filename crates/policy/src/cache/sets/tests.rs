//! Properties of sets: a line is in one slot of its set, victims are the farthest, owners are
//! asked.

use super::{Placed, SetRule, Sets};
use crate::cache::tests::{bytes_per_line, misses};
use std::collections::BTreeMap;
use thermocline_units::Rng;

fn place(sets: &mut Sets, line: u32) -> Option<u32> {
    sets.place(line, |_, _| true).expect("any line may leave").evicted
}

#[test]
fn a_line_that_came_once_leaves_before_one_that_came_again() {
    let mut sets = Sets::new(4, 4, SetRule::Srrip);
    for line in 0..4 {
        assert_eq!(place(&mut sets, line), None);
    }
    for line in [0, 1, 3] {
        let slot = sets.find(line).expect("it was put there");
        sets.hit(slot);
    }
    assert_eq!(place(&mut sets, 4), Some(2));
    // 4 came once; the others had been hit, and are a step nearer to leaving now.
    assert_eq!(place(&mut sets, 5), Some(4));
}

#[test]
fn a_scan_leaves_what_is_hit_between_its_lines() {
    for rule in [SetRule::Srrip, SetRule::S3Fifo] {
        scan(rule);
    }
}

fn scan(rule: SetRule) {
    let mut sets = Sets::new(1600, 16, rule);
    let hot: Vec<u32> = (0..400).collect();
    for line in 0..100_000 {
        let coming = [hot[line % 400], 400 + line as u32];
        for line in coming {
            match sets.find(line) {
                Some(slot) => sets.hit(slot),
                None => _ = place(&mut sets, line),
            }
        }
    }
    let stayed = hot.iter().filter(|&&line| sets.find(line).is_some()).count();
    assert!(stayed > 390, "{stayed} of 400 hot lines are left");
}

#[test]
fn every_line_is_found_where_it_was_put_and_nowhere_else() {
    let shapes = [1, 5, 16, 17, 1000].into_iter();
    for (slots, rule) in shapes.flat_map(|slots| SetRule::ALL.map(|rule| (slots, rule))) {
        let mut sets = Sets::new(slots, 16, rule);
        let mut rng = Rng::seeded(u64::from(slots));
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        for _ in 0..5_000 {
            let line = rng.below(1 << 32) as u32 % 4_000_000_000 / 7 * 7;
            let line = if rng.below(2) == 0 { line } else { line % (4 * slots) };
            assert_eq!(sets.find(line), model.get(&line).copied());
            if let Some(slot) = sets.find(line) {
                match rng.below(8) {
                    0 | 1 => {
                        sets.remove(slot);
                        model.remove(&line);
                    }
                    2 => sets.expect_last(slot),
                    _ => sets.hit(slot),
                }
                continue;
            }
            let Placed { slot, evicted, .. } =
                sets.place(line, |_, _| true).expect("any may leave");
            if let Some(evicted) = evicted {
                assert_eq!(model.remove(&evicted), Some(slot));
            }
            assert!(model.values().all(|&taken| taken != slot), "two lines in slot {slot}");
            model.insert(line, slot);
            assert_eq!(sets.line_in(slot), Some(line));
            assert!(sets.fits(line, slot));
        }
        assert_eq!(sets.resident() as usize, model.len());
    }
}

#[test]
fn an_owner_s_refusal_is_respected_and_its_marks_are_kept() {
    for rule in SetRule::ALL {
        refuse(rule);
    }
}

fn refuse(rule: SetRule) {
    let mut sets = Sets::new(2, 2, rule);
    place(&mut sets, 0);
    place(&mut sets, 1);
    let kept = sets.find(0).expect("it was put there");
    sets.set_marks(kept, 0b10_1010);
    let placed = sets.place(2, |sets, slot| sets.marks(slot) == 0).expect("1 may leave");
    assert_eq!(placed.evicted, Some(1));
    assert_eq!(sets.marks(kept), 0b10_1010);
    assert_eq!(sets.place(3, |_, _| false), None);
    assert_eq!(sets.find(0), Some(kept));
}

#[test]
fn lines_a_power_of_two_apart_do_not_share_a_set() {
    let mut sets = Sets::new(1 << 15, 16, SetRule::Srrip);
    // The first line of each block group of a file system of 1 TiB: 128 MiB apart.
    for group in 0..8192 {
        place(&mut sets, group << 15);
    }
    let left = (0..8192).filter(|group| sets.find(group << 15).is_some()).count();
    assert!(left > 8000, "{left} of 8192 lines found room in a cache of 32768");
}

#[test]
fn neighbours_lie_side_by_side_in_an_empty_cache() {
    let mut sets = Sets::new(1 << 15, 16, SetRule::Srrip);
    let slots: Vec<u32> = (500..532)
        .map(|line| {
            place(&mut sets, line);
            sets.find(line).expect("it was put there")
        })
        .collect();
    let breaks = slots.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
    assert!(breaks <= 1, "a row may wrap once: {slots:?}");
}

#[test]
fn a_line_takes_five_bytes_and_one_set_beats_no_policy_of_sets() {
    assert_eq!(bytes_per_line("srrip"), 5.0);
    // One set of all lines, beside sixteen to a set: what the sets cost in misses.
    let (whole, sets) = (misses("srrip:ways=64", 64), misses("srrip", 64));
    assert!(sets < whole + whole / 20, "{sets} misses in sets, {whole} in one");
}

#[test]
fn whoever_may_leave_leaves_whatever_the_others_were_hit() {
    for rule in SetRule::ALL {
        let mut rng = Rng::seeded(7);
        let mut sets = Sets::new(16, 16, rule);
        for line in 0..16 {
            place(&mut sets, line);
        }
        for line in 16..500 {
            (0..rng.below(40)).for_each(|_| sets.hit(rng.below(16) as u32));
            let only = rng.below(16) as u32;
            let leaving = sets.line_in(only);
            let placed = sets.place(line, |_, slot| slot == only).expect("one may leave");
            assert_eq!((placed.slot, placed.evicted), (only, leaving), "{rule:?}");
        }
    }
}

#[test]
fn a_line_that_is_expected_last_leaves_first() {
    for rule in SetRule::ALL {
        let mut sets = Sets::new(16, 16, rule);
        for line in 0..16 {
            place(&mut sets, line);
            sets.hit(sets.find(line).expect("it was put there"));
        }
        for line in [3, 15, 0] {
            sets.expect_last(sets.find(line).expect("nobody took its slot"));
            assert_eq!(place(&mut sets, 100 + line), Some(line), "{rule:?}");
        }
    }
}

#[test]
fn what_returns_soon_after_it_left_is_kept_longer() {
    let mut sets = Sets::new(16, 16, SetRule::S3Fifo);
    (0..16).for_each(|line| _ = place(&mut sets, line));
    // Small's oldest leaves, and comes again: main's then.
    let left = place(&mut sets, 100).expect("the set was full");
    place(&mut sets, left);
    (200..216).for_each(|line| _ = place(&mut sets, line));
    assert!(sets.find(left).is_some(), "a scan drove out a line that had returned");
    let once = sets.find(100);
    assert_eq!(once, None, "a line that came once outlived a scan of the whole set");
}

#[test]
fn lru_in_one_set_is_lru() {
    let trace = |policy: &str| misses(policy, 16);
    assert_eq!(trace("lru-sets"), trace("lru"));
}

#[test]
fn rules_say_what_a_line_costs() {
    assert_eq!(bytes_per_line("lru-sets"), 6.0);
    let s3 = bytes_per_line("s3-fifo-sets");
    assert!((8.0..8.1).contains(&s3), "{s3} B a line");
}

#[test]
fn every_rule_is_found_by_its_name() {
    for rule in SetRule::ALL {
        assert_eq!(rule.name().parse(), Ok(rule));
    }
    let refusal = "fifo".parse::<SetRule>().expect_err("it is not in sets");
    assert!(refusal.contains("srrip, lru-sets, s3-fifo-sets"), "{refusal}");
}
