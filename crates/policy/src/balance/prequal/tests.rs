//! Prequal's order of answers, worked by hand, and what happens without any.

use super::super::tests::{balancer, shares};
use super::super::{Balancer, Probe, Probing};
use thermocline_units::{Nanos, SiteId};

fn answer(balancer: &mut Balancer, site: u16, in_flight: u32, millis: u64) {
    let latency = Some(Nanos(millis * 1_000_000));
    balancer.probed(Nanos(0), SiteId(site), &Probe { taken: Nanos(0), in_flight, latency });
}

#[test]
fn the_fastest_of_the_cold_is_taken_before_any_hot_one() {
    let mut prequal = balancer("prequal:mode=sync:quantile=0.5", 5, 1);
    assert_eq!(prequal.probing(), Probing::Awaited);
    // In flight 1, 2, 3, 8, 9: the median is 3, so sites 3 and 4 are hot however fast they are.
    for (site, in_flight, millis) in [(0, 1, 30), (1, 2, 20), (2, 3, 25), (3, 8, 1), (4, 9, 2)] {
        answer(&mut prequal, site, in_flight, millis);
    }
    assert_eq!(prequal.pick(Nanos(0), &[]), Some(SiteId(1)));
    assert_eq!(prequal.pick(Nanos(0), &[SiteId(0), SiteId(1), SiteId(2)]), Some(SiteId(3)));
}

#[test]
fn with_a_quantile_of_nothing_it_counts_what_is_in_flight() {
    let mut prequal = balancer("prequal:mode=sync:quantile=0", 3, 1);
    for (site, in_flight, millis) in [(0, 4, 1), (1, 2, 90), (2, 3, 1)] {
        answer(&mut prequal, site, in_flight, millis);
    }
    assert_eq!(prequal.pick(Nanos(0), &[]), Some(SiteId(1)));
}

#[test]
fn an_answer_remembers_what_was_sent_on_its_word() {
    let mut prequal = balancer("prequal:ttl=1h", 3, 1);
    // All hot but the first two, which are equal: they take turns.
    (0..2).for_each(|site| answer(&mut prequal, site, 1, 10));
    let first = prequal.pick(Nanos(0), &[]).unwrap();
    assert!(first.0 < 2);
}

#[test]
fn without_answers_it_is_random_and_old_answers_are_none() {
    let mut none = balancer("prequal", 4, 1);
    assert!(shares(&mut none, 400).iter().all(|share| (60..140).contains(share)));
    let mut old = balancer("prequal:ttl=1ms", 4, 1);
    (0..4).for_each(|site| answer(&mut old, site, u32::from(site), 1));
    let later = Nanos::from_secs(1);
    let mut got = [0; 4];
    for _ in 0..400 {
        got[old.pick(later, &[]).unwrap().index()] += 1;
    }
    assert!(got.iter().all(|count| (60..140).contains(count)), "{got:?}");
}

#[test]
fn three_different_sites_are_probed_for_a_request() {
    let mut prequal = balancer("prequal", 9, 1);
    let mut probes = Vec::new();
    prequal.probes(Nanos(0), &mut probes);
    probes.sort_unstable();
    probes.dedup();
    assert_eq!(probes.len(), 3);
}
