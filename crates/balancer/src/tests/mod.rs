//! The dispatcher by itself, step by step; [`world`] puts it among backends that misbehave.

mod failures;
mod probing;
mod taking_over;
mod world;

use crate::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Nanos, SiteId};

const SECOND: Nanos = Nanos::from_secs(1);

fn backend(name: &str) -> BackendSettings {
    BackendSettings { name: name.to_string(), weight: 1.0, requests_max: u32::MAX }
}

fn dispatcher(policy: &str, settings: Settings, names: &[&str]) -> Dispatcher {
    let rule = PolicySpec::parse(policy).unwrap().build_rule().unwrap();
    let mut dispatcher = Dispatcher::new(Nanos(0), settings, rule, 7);
    dispatcher.configure(Nanos(0), names.iter().map(|name| backend(name)).collect());
    dispatcher
}

fn least(settings: Settings, names: &[&str]) -> Dispatcher {
    dispatcher("least", settings, names)
}

/// Places a request that must find a backend.
fn place(dispatcher: &mut Dispatcher, now: Nanos) -> SiteId {
    dispatcher.arrived(now);
    match dispatcher.place(now, &[]) {
        Decision::At(site) => site,
        other => panic!("it went {other:?}"),
    }
}

/// Sends a request where it is picked and ends it.
fn round(dispatcher: &mut Dispatcher, now: Nanos, outcome: Outcome) -> SiteId {
    let site = place(dispatcher, now);
    dispatcher.finished(now, site, outcome);
    site
}

fn events(dispatcher: &mut Dispatcher) -> Vec<Event> {
    let mut events = Vec::new();
    dispatcher.take_events(&mut events);
    events
}

fn grants(dispatcher: &mut Dispatcher) -> Vec<Grant> {
    let mut grants = Vec::new();
    dispatcher.take_grants(&mut grants);
    grants
}

#[test]
fn balancers_started_together_do_not_all_begin_with_the_first_backend() {
    let first = |seed| {
        let rule = PolicySpec::parse("water-fill").unwrap().build_rule().unwrap();
        let mut dispatcher = Dispatcher::new(Nanos(0), Settings::default(), rule, seed);
        dispatcher.configure(Nanos(0), ["a", "b", "c", "d"].map(backend).to_vec());
        place(&mut dispatcher, Nanos(1))
    };
    let mut counts = [0; 4];
    (0..400).for_each(|seed| counts[first(seed).index()] += 1);
    assert!(counts.iter().all(|count| (60..140).contains(count)), "{counts:?}");
}

#[test]
fn a_retry_goes_elsewhere_and_nowhere_when_all_were_tried() {
    let mut dispatcher = least(Settings::default(), &["a", "b"]);
    let one = place(&mut dispatcher, Nanos(0));
    dispatcher.finished(Nanos(1), one, Outcome::Unreachable);
    assert!(dispatcher.retry(Nanos(1), 1, one));
    let Decision::At(other) = dispatcher.place(Nanos(1), &[one]) else { panic!("none") };
    assert_ne!(one, other);
    dispatcher.finished(Nanos(2), other, Outcome::Broken);
    assert_eq!(dispatcher.place(Nanos(2), &[one, other]), Decision::Nowhere);
}

#[test]
fn retries_are_a_share_of_the_load_and_a_floor() {
    let mut settings = Settings { retry_floor_per_s: 0.0, ..Settings::default() };
    settings.outliers.consecutive = 0;
    let mut dispatcher = least(settings, &["a", "b"]);
    let mut allowed = 0;
    for at in 0..1000 {
        let site = round(&mut dispatcher, Nanos(at), Outcome::Broken);
        allowed += u32::from(dispatcher.retry(Nanos(at), 1, site));
    }
    assert!((200..=210).contains(&allowed), "a fifth, and ten at the start: {allowed}");
    assert_eq!(dispatcher.status(Nanos(1000)).retries_denied, u64::from(1000 - allowed));
    let floor = Settings { retry_share: 0.0, retry_floor_per_s: 10.0, ..Settings::default() };
    let mut dispatcher = least(floor, &["a"]);
    let site = place(&mut dispatcher, Nanos(0));
    let seconds = (0..20_000).map(|ms| Nanos(ms * 1_000_000));
    let allowed = seconds.filter(|now| dispatcher.retry(*now, 1, site)).count();
    assert!((295..=305).contains(&allowed), "100 held, 10 a second for 20 s: {allowed}");
    assert!(!dispatcher.retry(Nanos(0), 3, site), "a request is tried three times at most");
}

#[test]
fn requests_wait_in_order_and_each_hears_once() {
    let mut dispatcher = least(Settings { queue_max: 2, ..Settings::default() }, &[]);
    let limited = BackendSettings { requests_max: 1, ..backend("a") };
    dispatcher.configure(Nanos(0), vec![limited]);
    let site = place(&mut dispatcher, Nanos(0));
    assert_eq!(dispatcher.place(Nanos(1), &[]), Decision::Full);
    let first = dispatcher.wait(Nanos(1)).unwrap();
    let second = dispatcher.wait(Nanos(2)).unwrap();
    assert_eq!(dispatcher.wait(Nanos(3)), None, "there are two places");
    dispatcher.finished(Nanos(4), site, Outcome::Served(Nanos(4)));
    assert_eq!(grants(&mut dispatcher), [Grant { ticket: first, site: Some(site) }]);
    assert!(!dispatcher.withdraw(first), "it has been granted");
    assert_eq!(dispatcher.place(Nanos(5), &[]), Decision::Full, "others were first");
    dispatcher.tick(Nanos(2 + SECOND.0));
    assert_eq!(grants(&mut dispatcher), [Grant { ticket: second, site: None }]);
    dispatcher.finished(SECOND, site, Outcome::ClientFailed);
    assert_eq!(grants(&mut dispatcher), []);
    assert_eq!(dispatcher.status(SECOND).turned_away, 2);
}

#[test]
fn a_withdrawn_request_gets_no_grant() {
    let mut dispatcher = least(Settings::default(), &[]);
    dispatcher.configure(Nanos(0), vec![BackendSettings { requests_max: 1, ..backend("a") }]);
    let site = place(&mut dispatcher, Nanos(0));
    let ticket = dispatcher.wait(Nanos(0)).unwrap();
    assert!(dispatcher.withdraw(ticket));
    dispatcher.finished(Nanos(1), site, Outcome::ClientFailed);
    assert_eq!(grants(&mut dispatcher), []);
    assert_eq!(dispatcher.board().site(site).outstanding(), 0);
}

#[test]
fn failures_in_a_row_eject_for_longer_each_time() {
    let mut dispatcher = least(Settings::default(), &["a", "b"]);
    let a = dispatcher.site_of("a").unwrap();
    let (mut now, mut times) = (Nanos(0), Vec::new());
    while times.len() < 7 {
        now.0 += 1_000_000;
        dispatcher.tick(now);
        if dispatcher.state(a) != State::Ejected {
            let site = place(&mut dispatcher, now);
            let outcome = if site == a { Outcome::Broken } else { Outcome::Served(Nanos(1)) };
            dispatcher.finished(now, site, outcome);
        }
        times.extend(events(&mut dispatcher).into_iter().filter_map(|event| match event {
            Event::Ejected(_, time) => Some(time.0 / SECOND.0),
            _ => None,
        }));
    }
    assert_eq!(times, [10, 20, 40, 80, 160, 300, 300]);
}

#[test]
fn a_backend_that_fails_every_other_request_is_ejected_though_never_five_in_a_row() {
    let mut dispatcher = dispatcher("round-robin", Settings::default(), &["a", "b", "c"]);
    let a = dispatcher.site_of("a").unwrap();
    let mut failed = 0;
    for at in 0..300 {
        let now = Nanos(at * 20_000_000);
        let site = place(&mut dispatcher, now);
        failed += u32::from(site == a);
        let fails = site == a && failed % 2 == 0;
        let outcome = if fails { Outcome::ServerError } else { Outcome::Served(Nanos(1)) };
        dispatcher.finished(now, site, outcome);
    }
    assert_eq!(dispatcher.state(a), State::Up);
    dispatcher.tick(Nanos(10 * SECOND.0));
    assert_eq!(dispatcher.state(a), State::Ejected);
}

#[test]
fn a_fault_that_all_have_ejects_half_of_them_at_most_and_never_an_only_one() {
    let names = ["a", "b", "c", "d", "e"];
    let mut many = least(Settings::default(), &names);
    (0..1000).for_each(|at| {
        round(&mut many, Nanos(at), Outcome::ServerError);
    });
    let states = many.status(Nanos(1000)).backends.into_iter().map(|backend| backend.state);
    assert_eq!(states.filter(|state| *state == State::Ejected).count(), 2);
    let mut only = least(Settings::default(), &["a"]);
    (0..100).for_each(|at| {
        round(&mut only, Nanos(at), Outcome::Broken);
    });
    assert_eq!(only.state(SiteId(0)), State::Up);
}

#[test]
fn clients_that_go_away_eject_nobody() {
    let mut dispatcher = least(Settings::default(), &["a", "b"]);
    (0..100).for_each(|at| {
        round(&mut dispatcher, Nanos(at), Outcome::ClientFailed);
    });
    assert!(dispatcher.status(Nanos(100)).backends.iter().all(|b| b.state == State::Up));
}

fn checked_settings() -> Settings {
    Settings { checks: Some(Checks::default()), ..Settings::default() }
}

#[test]
fn the_first_check_decides_and_then_results_in_a_row() {
    let mut dispatcher = least(checked_settings(), &["a", "b"]);
    let (a, b) = (SiteId(0), SiteId(1));
    assert_eq!(dispatcher.state(a), State::New);
    dispatcher.checked(Nanos(1), a, true);
    dispatcher.checked(Nanos(1), b, false);
    assert_eq!((dispatcher.state(a), dispatcher.state(b)), (State::Up, State::Down));
    let results = [(false, State::Up), (false, State::Up), (true, State::Up), (false, State::Up)];
    let fall = [(false, State::Up), (false, State::Down), (true, State::Down), (true, State::Up)];
    for (passed, then) in results.into_iter().chain(fall) {
        dispatcher.checked(Nanos(2), a, passed);
        assert_eq!(dispatcher.state(a), then);
    }
}

#[test]
fn checks_are_due_once_an_interval_more_or_less() {
    let mut dispatcher = least(checked_settings(), &["a"]);
    let mut due = Vec::new();
    let mut times = Vec::new();
    for ms in 0..100_000 {
        due.clear();
        dispatcher.checks_due(Nanos(ms * 1_000_000), &mut due);
        times.extend(due.iter().map(|_| ms));
    }
    let gaps: BTreeSet<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| (1600..=2400).contains(gap)), "{gaps:?}");
    assert!(gaps.len() > 20, "they are not in step: {gaps:?}");
}

#[test]
fn when_none_is_fit_all_are_tried_unless_that_is_switched_off() {
    for panic in [true, false] {
        let settings = Settings { panic, ..checked_settings() };
        let mut dispatcher = least(settings, &["a", "b", "c"]);
        dispatcher.drain(Nanos(0), SiteId(2));
        (0..2).for_each(|site| dispatcher.checked(Nanos(1), SiteId(site), false));
        assert_eq!(dispatcher.status(Nanos(1)).panic, panic);
        dispatcher.arrived(Nanos(1));
        match dispatcher.place(Nanos(1), &[]) {
            Decision::At(site) => assert!(panic && site != SiteId(2), "drained means drained"),
            other => assert_eq!((panic, other), (false, Decision::Nowhere)),
        }
        (0..2).for_each(|_| dispatcher.checked(Nanos(2), SiteId(0), true));
        assert!(!dispatcher.status(Nanos(2)).panic);
    }
}

#[test]
fn who_comes_back_gets_little_at_first_and_who_begins_with_all_gets_its_share() {
    let mut dispatcher = least(Settings::default(), &["a", "b"]);
    assert_eq!(dispatcher.board().site(SiteId(0)).weight(), 1.0);
    dispatcher.drain(Nanos(0), SiteId(0));
    let mut weights = Vec::new();
    for tenths in 0..=220 {
        let now = Nanos(tenths * 100_000_000);
        if tenths == 110 {
            dispatcher.undrain(now, SiteId(0));
            assert_eq!(dispatcher.state(SiteId(0)), State::SlowStart);
        }
        dispatcher.tick(now);
        weights.push(dispatcher.board().site(SiteId(0)).weight());
    }
    assert!((0.09..0.11).contains(&weights[110]), "{}", weights[110]);
    assert!((0.5..0.6).contains(&weights[160]), "{}", weights[160]);
    assert_eq!(weights[220], 1.0);
    assert_eq!(dispatcher.state(SiteId(0)), State::Up);
}

#[test]
fn a_drained_backend_finishes_what_it_has() {
    let mut dispatcher = least(Settings::default(), &["a"]);
    let site = place(&mut dispatcher, Nanos(0));
    dispatcher.drain(Nanos(1), site);
    assert_eq!(dispatcher.place(Nanos(1), &[]), Decision::Nowhere);
    assert!(!events(&mut dispatcher).contains(&Event::Drained("a".to_string())));
    dispatcher.finished(Nanos(2), site, Outcome::Served(Nanos(2)));
    assert_eq!(events(&mut dispatcher), [Event::Drained("a".to_string())]);
}

#[test]
fn a_new_list_keeps_what_is_known_and_lets_requests_finish() {
    let mut dispatcher = least(Settings::default(), &["a", "b"]);
    let (one, other) = (place(&mut dispatcher, Nanos(0)), place(&mut dispatcher, Nanos(0)));
    assert_ne!(one, other);
    let heavy = BackendSettings { weight: 3.0, ..backend("b") };
    dispatcher.configure(Nanos(1), vec![heavy, backend("c")]);
    let status = dispatcher.status(Nanos(1));
    let told: Vec<_> = status.backends.iter().map(|b| (b.name.as_str(), b.outstanding)).collect();
    assert_eq!(told, [("b", 1), ("c", 0)], "the number of a is not given while it has requests");
    assert_eq!(status.backends[0].weight, 3.0);
    dispatcher.finished(Nanos(2), SiteId(0), Outcome::Served(Nanos(2)));
    dispatcher.configure(Nanos(3), vec![backend("b"), backend("c"), backend("d")]);
    assert_eq!(dispatcher.site_of("d"), Some(SiteId(0)), "now it is");
    assert_eq!(dispatcher.site_of("a"), None);
}

#[test]
fn another_rule_takes_over_with_requests_under_way() {
    let mut dispatcher = least(Settings::default(), &["a", "b", "c"]);
    let sites = [(); 3].map(|()| place(&mut dispatcher, Nanos(0)));
    dispatcher.configure(Nanos(1), vec![backend("a"), backend("c")]);
    dispatcher.drain(Nanos(1), SiteId(0));
    let rule = PolicySpec::parse("jiq").unwrap().build_rule().unwrap();
    dispatcher.set_rule(Nanos(2), rule, 1);
    assert_eq!(place(&mut dispatcher, Nanos(2)), SiteId(2));
    sites.iter().for_each(|s| dispatcher.finished(Nanos(3), *s, Outcome::Served(Nanos(3))));
    assert_eq!(dispatcher.board().site(SiteId(2)).outstanding(), 1);
}

fn report(queue: u64) -> LoadReport {
    LoadReport { queue, arrivals: 0, balancers: 1, age: Nanos(0) }
}

#[test]
fn reports_that_cannot_be_are_refused() {
    let mut dispatcher = least(Settings::default(), &["a"]);
    let site = SiteId(0);
    let old = LoadReport { age: Nanos::from_secs(11), ..report(1) };
    let error = dispatcher.reported(SECOND, site, &old).unwrap_err();
    assert_eq!(error, ReportError::Old { age: old.age, max: Nanos::from_secs(10) });
    let error = dispatcher.reported(SECOND, site, &report(u64::MAX)).unwrap_err();
    assert_eq!(error, ReportError::Queue(u64::MAX));
    let crowd = LoadReport { balancers: 1 << 40, ..report(1) };
    assert_eq!(dispatcher.reported(SECOND, site, &crowd), Err(ReportError::Balancers(1 << 40)));
    assert_eq!(dispatcher.reported(SECOND, SiteId(9), &report(1)), Err(ReportError::Unknown));
    let status = dispatcher.status(SECOND);
    assert_eq!(status.backends[0].reported_queue, None);
    assert_eq!(status.backends[0].counters.reports_refused, 3);
    dispatcher.reported(SECOND, site, &report(5)).unwrap();
    assert_eq!(dispatcher.status(SECOND).backends[0].reported_queue, Some(5));
}

#[test]
fn a_backend_that_claims_to_be_idle_is_taken_for_what_is_known_and_then_silenced() {
    let mut dispatcher = dispatcher("qlen", Settings::default(), &["a", "b"]);
    for at in 0..10 {
        place(&mut dispatcher, Nanos(at));
    }
    let liar = SiteId(0);
    let own = dispatcher.board().site(liar).outstanding();
    assert!(own > 0);
    for at in 0..8 {
        let now = Nanos(1000 + at);
        dispatcher.reported(now, liar, &report(0)).unwrap();
        assert_eq!(dispatcher.status(now).backends[0].reported_queue, Some(own));
    }
    let error = dispatcher.reported(Nanos(2000), liar, &report(0)).unwrap_err();
    assert!(matches!(error, ReportError::Silenced(_)), "{error}");
    assert!(events(&mut dispatcher).contains(&Event::Silenced("a".to_string())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Anything may happen in any order: counts stay right and nothing waits for ever.
    #[test]
    fn whatever_happens_is_counted_and_nothing_is_stuck(
        steps in proptest::collection::vec((0u8..10, 0u16..4, 0u64..3_000_000_000), 1..300),
    ) {
        let mut dispatcher = least(Settings { queue_max: 5, ..checked_settings() }, &[]);
        let of = |n: u16| BackendSettings { requests_max: 2, ..backend(&n.to_string()) };
        let all: Vec<_> = (0..4).map(of).collect();
        dispatcher.configure(Nanos(0), all.clone());
        let (mut now, mut under_way, mut waiting) = (Nanos(0), Vec::new(), BTreeSet::new());
        let served = Outcome::Served(Nanos(5));
        let outcomes = [served, Outcome::Broken, Outcome::ClientFailed, Outcome::TimedOut];
        for (step, which, time) in steps {
            now.0 += time;
            let site = dispatcher.site_of(&which.to_string());
            match (step, site) {
                (0..=3, _) => {
                    dispatcher.arrived(now);
                    match dispatcher.place(now, &[]) {
                        Decision::At(site) => under_way.push(site),
                        Decision::Full => waiting.extend(dispatcher.wait(now)),
                        Decision::Nowhere => {}
                    }
                }
                (4 | 5, _) if !under_way.is_empty() => {
                    let site = under_way.swap_remove(usize::from(which) % under_way.len());
                    dispatcher.finished(now, site, outcomes[usize::from(which)]);
                }
                (6, Some(site)) => dispatcher.checked(now, site, time % 2 == 0),
                (7, Some(site)) if time % 2 == 0 => dispatcher.drain(now, site),
                (7, Some(site)) => dispatcher.undrain(now, site),
                (8, _) => dispatcher.configure(now, all[usize::from(which)..].to_vec()),
                _ => dispatcher.tick(now),
            }
            for grant in grants(&mut dispatcher) {
                prop_assert!(waiting.remove(&grant.ticket), "granted twice, or never asked");
                under_way.extend(grant.site);
            }
            let board = dispatcher.board();
            let slots = 0..board.slots() as u16;
            let each = slots.map(|slot| board.site(SiteId(slot)).outstanding());
            let out: u32 = each.clone().sum();
            prop_assert_eq!(out as usize, under_way.len());
            prop_assert!(each.max().unwrap_or(0) <= 2);
            prop_assert_eq!(dispatcher.status(now).waiting as usize, waiting.len());
        }
        dispatcher.tick(Nanos(now.0 + 2 * SECOND.0));
        grants(&mut dispatcher).iter().for_each(|grant| { waiting.remove(&grant.ticket); });
        prop_assert!(waiting.is_empty());
    }
}
