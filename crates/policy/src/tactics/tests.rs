//! Each tactic on made-up facts; sets of them, and their shadows.

use super::{
    BalancerTactics, CacheTactics, DirtyLines, ENTRIES, Failures, HeldBack, Kind, Pace, Room,
    SegmentUse, StoreTactics, VolumeTactics, Waiting,
};
use crate::balance::fitness::{Outliers, Window};
use crate::placement::{Route, Split};
use crate::registry::{PolicySpec, tactics};
use thermocline_units::{Bytes, Nanos, PoolId};

const POOLS: [PoolId; 3] = [PoolId(0), PoolId(1), PoolId(2)];

fn with(text: &str) -> VolumeTactics {
    let mut tactics = VolumeTactics::default();
    tactics.choose(&PolicySpec::parse(text).unwrap()).unwrap();
    tactics
}

fn balancing(text: &str) -> BalancerTactics {
    let mut tactics = BalancerTactics::default();
    tactics.choose(&PolicySpec::parse(text).unwrap()).unwrap();
    tactics
}

fn taken(tactic: &str, hinted: &[PoolId], rooms: [Room; 3]) -> Option<u16> {
    let room = |pool: PoolId| rooms[usize::from(pool.0)];
    let tactics = with(tactic);
    tactics.allocation.ask(|tactic| tactic.pool(hinted, &POOLS, &room)).map(|pool| pool.0)
}

#[test]
fn chunks_go_by_hint_then_by_the_tactic_and_far_pools_come_last() {
    let room = Room { free: 4, beside_reserve: 2, far: false };
    let full = Room { free: 0, beside_reserve: 0, ..room };
    let far = Room { far: true, ..room };
    let roomy = Room { free: 9, beside_reserve: 9, far: false };
    assert_eq!(taken("fastest-first", &[], [room; 3]), Some(0));
    assert_eq!(taken("slowest-first", &[], [room; 3]), Some(2));
    assert_eq!(taken("most-free", &[], [room, roomy, room]), Some(1));
    assert_eq!(taken("most-free", &[], [room; 3]), Some(0), "of equals the fastest");
    assert_eq!(taken("slowest-first", &[PoolId(1)], [room; 3]), Some(1), "hints come first");
    assert_eq!(taken("slowest-first", &[], [full, room, far]), Some(1), "near before far");
    assert_eq!(taken("fastest-first", &[PoolId(0)], [full, room, room]), Some(1));
    assert_eq!(taken("fastest-first", &[], [full; 3]), None);
}

#[test]
fn what_is_kept_for_moves_is_given_when_nothing_else_is_left() {
    let kept = Room { free: 1, beside_reserve: 0, far: false };
    let far = Room { free: 1, beside_reserve: 1, far: true };
    assert_eq!(taken("fastest-first", &[], [kept, kept, far]), Some(2), "even a far one");
    assert_eq!(taken("fastest-first", &[], [kept; 3]), Some(0));
}

#[test]
fn shares_are_spread_evenly_and_nobody_says_without_a_router() {
    assert_eq!(Split::default().goes_to_slower(false), None);
    let mut split = Split::by(Some(Route { reads: 250_000, writes: 0 }));
    let slow: Vec<bool> = (0..8).map(|_| split.goes_to_slower(false).unwrap()).collect();
    assert_eq!(slow, [false, false, false, true, false, false, false, true]);
    assert!(
        (0..8).all(|_| split.goes_to_slower(true) == Some(false)),
        "writes have a share of their own"
    );
}

#[test]
fn a_read_uses_the_copy_that_the_tactic_prefers_and_of_equals_the_first() {
    let copies = [(2e-3, 0), (1e-3, 1), (1e-3, 2)].map(|(wait_s, rank)| Waiting { wait_s, rank });
    let choose = |text: &str| with(text).replica.ask(|tactic| tactic.choose(&copies));
    assert_eq!((choose("shortest-wait"), choose("fastest-copy")), (1, 0));
}

#[test]
fn thresholds_are_what_the_settings_say() {
    let busy = |text: &str, depth| with(text).redirection.ask(|tactic| tactic.is_busy(depth));
    assert_eq!([3, 4].map(|depth| busy("queue-depth", depth)), [false, true]);
    assert_eq!([7, 8].map(|depth| busy("queue-depth:depth=8", depth)), [false, true]);
    assert!(!busy("no-redirection", u32::MAX));
    let pause = |text: &str, failed| with(text).probing.ask(|tactic| tactic.pause(failed));
    assert_eq!([0, 9].map(|n| pause("probe-every", n)), [Nanos::from_secs(5); 2]);
    let doubled = [0, 1, 2, 3, 99].map(|n| pause("probe-back-off:first=1s:most=5s", n).0);
    assert_eq!(doubled, [1, 2, 4, 5, 5].map(|s| Nanos::from_secs(s).0));
}

#[test]
fn a_copy_goes_on_when_its_patience_ends_or_what_is_owed_comes_first() {
    let second = Nanos::from_secs(1);
    let piece = |owed_at| HeldBack { now: second, since: second, patience: Nanos(50), owed_at };
    let goes = |text: &str, owed| with(text).yielding.ask(|tactic| tactic.goes_at(&piece(owed)));
    assert_eq!(goes("patient", None), Nanos(second.0 + 50));
    assert_eq!(goes("patient", Some(Nanos(second.0 + 7))), Nanos(second.0 + 7));
    assert_eq!(goes("patient", Some(Nanos(3))), second, "never before now");
    assert_eq!(goes("no-yielding", None), second);
}

#[test]
fn the_rate_follows_the_late_answers_of_the_worst_volume() {
    let pace = |late| Pace { rate: Bytes(500), least: Bytes(10), most: Bytes(1000), late };
    let rate = |text: &str, late| with(text).copy_rate.ask(|tactic| tactic.rate(&pace(late)).0);
    assert_eq!([0.0, 0.25, 0.5].map(|late| rate("aqueduct:percentile=75", late)), [600, 500, 400]);
    assert_eq!(rate("aqueduct:percentile=99", 1.0), 10, "the least");
    assert_eq!(rate("aqueduct:gain=0.5", 0.0), 1000);
    assert_eq!(rate("fixed-rate", 1.0), 1000);
}

#[test]
fn servers_that_fail_more_than_others_are_left_alone_unless_the_tactic_leaves_none() {
    let rules = Outliers { requests_min: 4, ..Outliers::default() };
    let own = Window { requests: 10, failures: 6 };
    let all = Window { requests: 100, failures: 8 };
    let out = |text: &str, window| balancing(text).ejection.ask(|t| t.ejects(&window, &rules));
    assert!(out("outlier-detection", Failures { own, all }));
    let common = Window { requests: 100, failures: 60 };
    assert!(!out("outlier-detection", Failures { own, all: common }), "a fault that all have");
    assert!(!out("no-ejection", Failures { own, all }));
}

#[test]
fn shadows_are_asked_the_same_and_count_what_they_would_answer_otherwise() {
    let mut tactics = VolumeTactics::default();
    tactics.follow(&PolicySpec::parse("queue-depth:depth=2").unwrap()).unwrap();
    let answers = (0..8).map(|depth| tactics.redirection.ask(|tactic| tactic.is_busy(depth)));
    assert_eq!(answers.filter(|busy| *busy).count(), 4, "the one in force is followed");
    let [told] = &tactics.disagreements()[..] else { panic!("there is one shadow") };
    assert_eq!((told.asked, told.differed), (8, 2));
    assert_eq!((&*told.in_force, &*told.shadow), ("queue-depth", "queue-depth:depth=2"));
    assert_eq!(tactics.clone().disagreements()[0].asked, 0, "a copy begins anew");
}

#[test]
fn a_shadow_that_could_say_nothing_is_refused() {
    let follow = |text: &str| {
        let spec = VolumeTactics::parse(text).unwrap();
        VolumeTactics::default().follow(&spec).unwrap_err().to_string()
    };
    assert_eq!(follow("fastest-first"), "`fastest-first` is given twice");
    assert!(follow("first-part").starts_with("`first-part` cannot be a shadow"));
}

#[test]
fn each_tactic_is_built_by_its_machine_and_refused_by_the_others() {
    for entry in tactics() {
        let spec = PolicySpec::parse(entry.name).unwrap();
        let askers = [
            VolumeTactics::default().choose(&spec).is_ok(),
            BalancerTactics::default().choose(&spec).is_ok(),
            StoreTactics::default().choose(&spec).is_ok(),
            CacheTactics::default().choose(&spec).is_ok(),
        ];
        let count = askers.iter().filter(|asks| **asks).count();
        assert_eq!(count, 1, "{}: one machine asks it", entry.name);
    }
    let spec = PolicySpec::parse("at-once").unwrap();
    let error = VolumeTactics::default().choose(&spec).unwrap_err().to_string();
    assert_eq!(error, "`at-once` is of the kind slow start, which a volume never asks");
    let error = VolumeTactics::parse("lru").unwrap_err().to_string();
    assert!(
        error.starts_with("`lru` is a cache, not a tactic; tactics of a volume are fastest-first"),
        "{error}"
    );
    let twice = VolumeTactics::of(&["most-free", "no-trial", "slowest-first"]).unwrap_err();
    let wanted =
        "`most-free` and `slowest-first` are of one kind (allocation); leave one of them out";
    assert_eq!(twice.to_string(), wanted);
    let same = VolumeTactics::of(&["no-trial", "no-trial"]).unwrap_err();
    assert_eq!(same.to_string(), "`no-trial` is given twice");
    let unknown = BalancerTactics::parse("at-onc").unwrap_err().to_string();
    assert!(unknown.starts_with("there is no tactic `at-onc`; did you mean `at-once`?"));
}

#[test]
fn entries_stand_by_kind_so_that_the_first_of_each_is_the_default() {
    let kinds: Vec<Kind> = ENTRIES.iter().filter_map(|entry| entry.tactic_kind()).collect();
    assert!(kinds.is_sorted() && kinds.len() == ENTRIES.len());
    let names = |all: Vec<(Kind, &str)>| all.into_iter().map(|(_, n)| n.to_string()).collect();
    let mut chosen: Vec<String> = names(VolumeTactics::default().in_force());
    chosen.extend::<Vec<String>>(names(BalancerTactics::default().in_force()));
    chosen.extend::<Vec<String>>(names(StoreTactics::default().in_force()));
    chosen.extend::<Vec<String>>(names(CacheTactics::default().in_force()));
    let first = |kind: &Kind| ENTRIES.iter().find(|e| e.tactic_kind() == Some(*kind)).unwrap().name;
    let mut each = kinds.clone();
    each.dedup();
    assert_eq!(chosen, each.iter().map(first).collect::<Vec<_>>());
}

#[test]
fn the_cleaner_weighs_holes_against_age_or_takes_the_emptiest_or_the_oldest() {
    let old = SegmentUse { slots: 100, live: 60, age: 50 };
    let empty = SegmentUse { slots: 100, live: 20, age: 2 };
    let takes_old = |name: &str| {
        let tactics = StoreTactics::of(&[name]).unwrap();
        tactics.cleaning.ask(|tactic| tactic.worth(&old) > tactic.worth(&empty))
    };
    // 40 holes of age 50 by 61, against 80 of age 2 by 21.
    assert!(takes_old("clean-cost-benefit") && takes_old("clean-oldest"));
    assert!(!takes_old("clean-greedy"));
}

#[test]
fn write_back_grows_with_the_dirty_lines_and_yields_to_clients_until_they_flood() {
    let graded = CacheTactics::default();
    let lines = |dirty: u64, clients_wait: bool| DirtyLines {
        slots: 1000,
        dirty,
        allowed: 100,
        runs_max: 16,
        clients_wait,
    };
    let runs = |dirty, wait| graded.write_back.ask(|it| it.runs(&lines(dirty, wait)));
    assert_eq!([101, 150, 200, 900].map(|dirty| runs(dirty, false)), [1, 9, 16, 16]);
    assert_eq!([101, 150, 900, 901].map(|dirty| runs(dirty, true)), [1, 1, 1, 16]);
    let used = |dirty| graded.write_back.ask(|it| it.takes_used(&lines(dirty, false)));
    assert_eq!([200, 201].map(used), [false, true], "lines in use stay up to twice as many");
    let at_once = CacheTactics::of(&["write-back-at-once"]).unwrap();
    assert_eq!(at_once.write_back.ask(|it| it.runs(&lines(101, true))), 16);
}
