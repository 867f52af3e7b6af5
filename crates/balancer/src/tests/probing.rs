//! Probes through the dispatcher: answers decide, and are believed as far as reports are.

use super::*;

/// Asks both backends and answers for them.
fn answer(dispatcher: &mut Dispatcher, now: Nanos, queues: [u64; 2]) {
    dispatcher.arrived(now);
    assert_eq!(dispatcher.probing(), Probing::Awaited);
    let mut asked = Vec::new();
    dispatcher.probes(now, &mut asked);
    assert_eq!(asked.len(), 2);
    for asked in asked {
        let answer = LoadReport { queue: queues[asked.site.index()], ..LoadReport::default() };
        dispatcher.probed(now, &asked, &answer, Some(Nanos(1))).unwrap();
    }
}

fn picked(dispatcher: &mut Dispatcher, now: Nanos) -> SiteId {
    match dispatcher.place(now, &[]) {
        Decision::At(site) => site,
        other => panic!("it went {other:?}"),
    }
}

fn prequal() -> Dispatcher {
    dispatcher("prequal:mode=sync:probes=2:quantile=0", Settings::default(), &["a", "b"])
}

#[test]
fn a_request_goes_where_probes_find_the_least() {
    let mut dispatcher = prequal();
    for (n, queues) in [[5, 3], [0, 9], [7, 8]].into_iter().enumerate() {
        let now = Nanos(n as u64 * SECOND.0);
        answer(&mut dispatcher, now, queues);
        let site = picked(&mut dispatcher, now);
        assert_eq!(site, SiteId(u16::from(queues[1] < queues[0])));
        dispatcher.finished(now, site, Outcome::Served(Nanos(5)));
    }
    let counters: Vec<Counters> =
        dispatcher.status(SECOND).backends.iter().map(|backend| backend.counters).collect();
    assert_eq!(counters.iter().map(|counters| counters.sent).sum::<u64>(), 3);
}

#[test]
fn a_backend_that_claims_to_be_idle_gets_no_more_than_a_silent_one() {
    let mut dispatcher = prequal();
    // Four requests are at the first and do not come back; it denies them.
    for n in 0..4 {
        answer(&mut dispatcher, Nanos(n), [n, 9]);
        assert_eq!(picked(&mut dispatcher, Nanos(n)), SiteId(0));
    }
    answer(&mut dispatcher, SECOND, [0, 3]);
    assert_eq!(picked(&mut dispatcher, SECOND), SiteId(1));
    // Again and again: it is silenced.
    (0..7).for_each(|n| answer(&mut dispatcher, Nanos(SECOND.0 + n), [0, 4]));
    assert!(events(&mut dispatcher).contains(&Event::Silenced("a".to_string())));
    let mut asked = Vec::new();
    dispatcher.probes(SECOND, &mut asked);
    let first = asked.into_iter().find(|asked| asked.site == SiteId(0)).unwrap();
    let refused = dispatcher.probed(SECOND, &first, &LoadReport::default(), None);
    assert!(matches!(refused, Err(ReportError::Silenced(_))), "{refused:?}");
}

#[test]
fn what_cannot_be_is_refused() {
    let mut dispatcher = prequal();
    dispatcher.arrived(SECOND);
    let mut asked = Vec::new();
    dispatcher.probes(SECOND, &mut asked);
    let absurd = LoadReport { queue: 1 << 40, ..LoadReport::default() };
    assert!(dispatcher.probed(SECOND, &asked[0], &absurd, None).is_err());
    let old = LoadReport { age: Nanos::from_secs(100), ..LoadReport::default() };
    assert!(dispatcher.probed(SECOND, &asked[0], &old, None).is_err());
    dispatcher.configure(SECOND, Vec::new());
    let gone = dispatcher.probed(SECOND, &asked[0], &LoadReport::default(), None);
    assert_eq!(gone, Err(ReportError::Unknown));
}

#[test]
fn a_load_that_came_with_an_answer_is_one_more_answer() {
    let mut dispatcher = dispatcher("water-fill", Settings::default(), &["a", "b", "c"]);
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..60 {
        let now = Nanos(n * 1_000_000);
        let site = place(&mut dispatcher, now);
        let queue = [7, 2, 9][site.index()];
        let report = LoadReport { queue, ..LoadReport::default() };
        dispatcher.reported(now, site, &report).unwrap();
        dispatcher.told_with_answer(now, site, &report, None);
        dispatcher.finished(now, site, Outcome::Served(Nanos(500_000)));
        seen.insert(site);
    }
    assert_eq!(seen.len(), 3, "each was tried");
    let last = Nanos(60_000_000);
    assert_eq!(place(&mut dispatcher, last), SiteId(1));
}
