//! ARA between its two ends, and what moves it.

use super::super::tests::{balancer, queue, shares};
use super::super::{Balancer, Truth};
use thermocline_units::{Nanos, Rng, SiteId};

/// Picks under queues that change before each of them.
fn picks(policy: &str) -> Vec<SiteId> {
    let mut balancer = balancer(policy, 16, 5);
    let mut rng = Rng::seeded(77);
    let mut pick = |n: u64| {
        let now = Nanos(n * 1000);
        (0..16).for_each(|site| {
            balancer.reported(now, SiteId(site), queue(now, rng.below(6) as u32));
        });
        balancer.arrived(now);
        balancer.pick(now, &[]).unwrap()
    };
    (0..500).map(&mut pick).collect()
}

#[test]
fn one_candidate_is_qlen_and_all_are_rand() {
    for ties in ["ties=first", "ties=random"] {
        assert_eq!(picks(&format!("ara-static:k=1:{ties}")), picks(&format!("qlen:{ties}")));
        assert_eq!(picks(&format!("ara-static:k=16:{ties}")), picks("rand"));
        assert_eq!(picks(&format!("ara:low=1:high=1:{ties}")), picks(&format!("qlen:{ties}")));
    }
}

/// A balancer whose site s has a queue of s.
fn ranked(policy: &str) -> Balancer {
    let mut balancer = balancer(policy, 8, 2);
    (0..8).for_each(|site| {
        balancer.reported(Nanos(0), SiteId(site), queue(Nanos(0), site.into()));
    });
    balancer
}

#[test]
fn the_k_best_share_and_the_others_get_nothing() {
    for policy in ["ara-static:k=3", "ara-static:k=0.375:ties=first"] {
        let got = shares(&mut ranked(policy), 3000);
        assert!(got[..3].iter().all(|share| (850..1150).contains(share)), "{policy}: {got:?}");
        assert_eq!(got[3..], [0; 5], "{policy}");
    }
    let mut weighted = ranked("ara-static:k=2");
    weighted.set_weight(SiteId(1), 3.0);
    let got = shares(&mut weighted, 3000);
    assert!((2150..2350).contains(&got[1]) && got[0] + got[1] == 3000, "{got:?}");
}

#[test]
fn told_of_a_burst_ara_spreads_and_told_of_its_end_it_is_greedy() {
    let mut ara = ranked("ara-opt:high=6");
    let mut used = |bursting: bool| {
        let mut got = [0; 8];
        for _ in 0..600 {
            ara.told(&Truth { bursting, queues: &[0; 8] });
            got[ara.pick(Nanos(1), &[]).unwrap().index()] += 1;
        }
        assert_eq!(ara.mood().bursting, Some(bursting));
        got.iter().filter(|count| **count > 0).count()
    };
    assert_eq!([used(false), used(true), used(false)], [1, 6, 1]);
}

#[test]
fn two_own_arrivals_within_the_age_of_the_reports_are_a_burst() {
    let mut ara = ranked("ara-count");
    let mut bursting_at = |millis: u64| {
        let now = Nanos::from_micros(millis * 1000);
        let taken = now.saturating_sub(Nanos::from_secs(1));
        ara.reported(now, SiteId(0), queue(taken, 0));
        (1..8).for_each(|site| ara.reported(now, SiteId(site), queue(taken, 1)));
        ara.arrived(now);
        ara.mood().bursting.unwrap()
    };
    let at = [2000, 5000, 5900, 6900, 7800, 9000];
    let seen: Vec<bool> = at.into_iter().map(&mut bursting_at).collect();
    assert_eq!(seen, [false, false, true, false, true, false]);
}

#[test]
fn candidates_are_whole_sites_or_a_share() {
    use crate::registry::PolicySpec;
    let message = |text: &str| {
        let spec = PolicySpec::parse(text).unwrap();
        spec.build_rule().err().expect("no number of sites").to_string()
    };
    for wrong in ["ara-static:k=0", "ara-static:k=1.5", "ara:high=-1"] {
        assert!(message(wrong).contains("from 1, or a share") || message(wrong).contains("from 0"));
    }
}
