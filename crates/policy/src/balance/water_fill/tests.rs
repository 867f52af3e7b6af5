//! Water-filling is `least` where nothing is of others, spreads where much is unseen, believes
//! answers while they are young, and learns who is slow.

use super::super::tests::{balancer, queue};
use super::super::{Balancer, Probe, Probing, Report};
use proptest::prelude::*;
use std::collections::VecDeque;
use thermocline_units::{Nanos, Rng, SiteId};

const SITES: u16 = 6;

/// One balancer before sites that report truthfully, a second late; its picks.
fn alone(policy: &str, seed: u64) -> Vec<SiteId> {
    let mut balancer = balancer(policy, SITES.into(), seed);
    let mut rng = Rng::seeded(seed ^ 99);
    let late = Nanos::from_secs(1);
    let (mut queues, mut arrivals) = ([0_u32; SITES as usize], [0_u64; SITES as usize]);
    let mut reports: VecDeque<(SiteId, Report)> = VecDeque::new();
    let mut now = Nanos(0);
    let mut picks = Vec::new();
    for _ in 0..400 {
        now.0 += (rng.exponential(0.2) * 1e9) as u64;
        while reports.front().is_some_and(|(_, report)| report.taken.0 + late.0 <= now.0) {
            let (site, report) = reports.pop_front().unwrap();
            balancer.reported(now, site, report);
        }
        let busy: Vec<u16> = (0..SITES).filter(|site| queues[usize::from(*site)] > 0).collect();
        let site = if !busy.is_empty() && rng.below(2) == 0 {
            let site = SiteId(busy[rng.below(busy.len() as u64) as usize]);
            queues[site.index()] -= 1;
            balancer.completed(now, site, Some(Nanos::from_secs(2)));
            site
        } else {
            balancer.arrived(now);
            let site = balancer.pick(now, &[]).unwrap();
            balancer.dispatched(now, site);
            queues[site.index()] += 1;
            arrivals[site.index()] += 1;
            picks.push(site);
            site
        };
        let (queue, arrivals) = (queues[site.index()], arrivals[site.index()]);
        reports.push_back((site, Report { taken: now, queue, arrivals, balancers: 1 }));
    }
    picks
}

proptest! {
    #[test]
    fn with_one_balancer_it_is_least_pick_for_pick(seed in any::<u64>()) {
        prop_assert_eq!(alone("water-fill:learn=0", seed), alone("least", seed));
    }
}

/// Site s has s requests of others, who send `rate` a second to each, by reports one second old.
fn beside_others(rate: u64) -> Balancer {
    let mut balancer = balancer("water-fill", 4, 1);
    for (second, now) in [(0, 1), (1, 2)] {
        for site in 0..4 {
            let report = Report {
                arrivals: second * rate,
                balancers: 2,
                ..queue(Nanos::from_secs(second), site)
            };
            balancer.reported(Nanos::from_secs(now), SiteId(site as u16), report);
        }
    }
    balancer
}

fn drawn(balancer: &mut Balancer) -> [u32; 4] {
    let mut got = [0; 4];
    for _ in 0..4000 {
        got[balancer.pick(Nanos::from_secs(2), &[]).unwrap().index()] += 1;
    }
    got
}

#[test]
fn the_unseen_fill_the_sites_up_to_one_level() {
    assert_eq!(drawn(&mut beside_others(0)), [4000, 0, 0, 0]);
    // Three unseen on 0, 1, 2, 3: the level is 2, and the room 2, 1, 0, 0.
    let mut three = beside_others(3);
    three.set_standing(SiteId(3), super::super::Standing::Down);
    let unseen = super::unseen_of_others(Nanos::from_secs(2), three.board());
    assert_eq!(unseen, 9.0);
    // Nine on 0, 1, 2: the level is 4, and the room 4, 3, 2.
    let got = drawn(&mut three);
    let want = [4000 * 4 / 9, 4000 * 3 / 9, 4000 * 2 / 9, 0];
    let off = got.iter().zip(want).map(|(got, want)| got.abs_diff(want)).max();
    assert!(off < Some(180), "{got:?} {want:?}");
}

#[test]
fn old_reports_are_not_believed() {
    let mut balancer = beside_others(5);
    let send = |balancer: &mut Balancer, now: Nanos| {
        let site = balancer.pick(now, &[]).unwrap();
        balancer.dispatched(now, site);
        site
    };
    // Requests take 10 ms: the reports are a hundred times older.
    for n in 0..4 {
        let now = Nanos(2_000_000_000 + n * 20_000_000);
        let site = send(&mut balancer, now);
        balancer.completed(Nanos(now.0 + 10_000_000), site, Some(Nanos(10_000_000)));
    }
    // Own requests alone decide: none is out, so four more go to four sites.
    let now = Nanos::from_secs(3);
    let mut used: Vec<SiteId> = (0..4).map(|_| send(&mut balancer, now)).collect();
    used.sort_unstable();
    used.dedup();
    assert_eq!(used.len(), 4);
    // A rule that trusts reports for ever stays away from site 3.
    let mut trusting = beside_others(0);
    assert_eq!(drawn(&mut trusting)[3], 0);
}

/// Sends one request at a time, of 10 ms each but for `slow` at the last site; what sites got.
fn served(balancer: &mut Balancer, requests: u64, slow: u64) -> [u64; 4] {
    let mut got = [0; 4];
    for n in 0..requests {
        let now = Nanos(n * 100_000_000);
        balancer.arrived(now);
        let site = balancer.pick(now, &[]).unwrap();
        balancer.dispatched(now, site);
        let took = Nanos(if site == SiteId(3) { slow } else { 10_000_000 });
        balancer.completed(Nanos(now.0 + took.0), site, Some(took));
        got[site.index()] += 1;
    }
    got
}

#[test]
fn a_slow_site_is_noticed_and_left_alone() {
    let equal = served(&mut balancer("water-fill", 4, 1), 4000, 10_000_000);
    assert!(equal.iter().all(|count| (850..1150).contains(count)), "{equal:?}");
    let slow = served(&mut balancer("water-fill", 4, 1), 4000, 30_000_000);
    assert!(slow[3] < 200, "it is tried now and then: {slow:?}");
    let blind = served(&mut balancer("water-fill:learn=0", 4, 1), 4000, 30_000_000);
    assert!((850..1150).contains(&blind[3]), "{blind:?}");
}

fn answer(balancer: &mut Balancer, now: Nanos, site: u16, taken: Nanos, in_flight: u32) {
    balancer.probed(now, SiteId(site), &Probe { taken, in_flight, latency: None });
}

#[test]
fn answers_decide_while_they_are_young() {
    let mut balancer = balancer("water-fill", 4, 1);
    served(&mut balancer, 400, 10_000_000);
    let second = Nanos::from_secs;
    for n in 0..40 {
        for site in 0..4 {
            answer(&mut balancer, second(100 + n), site, second(100 + n), 4);
        }
    }
    let now = second(200);
    for (site, in_flight) in [(0, 6), (1, 1), (2, 5), (3, 9)] {
        answer(&mut balancer, now, site, now, in_flight);
    }
    let picks = |balancer: &mut Balancer, now: Nanos| {
        let mut got = [0; 4];
        (0..400).for_each(|_| got[balancer.pick(now, &[]).unwrap().index()] += 1);
        got
    };
    assert_eq!(picks(&mut balancer, now), [0, 400, 0, 0]);
    // Its own requests are added to what the answer said of others.
    (0..5).for_each(|_| balancer.dispatched(now, SiteId(1)));
    assert_eq!(picks(&mut balancer, now), [0, 0, 400, 0]);
}

#[test]
fn a_request_waits_for_its_probes_only_where_old_answers_cost_more() {
    let mut balancer = balancer("water-fill", 4, 1);
    assert_eq!(balancer.probing(), Probing::Aside, "nobody has answered yet");
    served(&mut balancer, 40, 10_000_000);
    let (mut now, mut out) = (Nanos::from_secs(10), Vec::new());
    let ask = |balancer: &mut Balancer, now: Nanos, out: &mut Vec<SiteId>| {
        out.clear();
        balancer.arrived(now);
        let probing = balancer.probing();
        balancer.probes(now, out);
        assert_eq!(out.len(), 3);
        probing
    };
    assert_eq!(ask(&mut balancer, now, &mut out), Probing::Aside, "nobody has answered yet");
    // Answers take 1 ms there and back.
    for _ in 0..64 {
        now.0 += 1_000_000;
        answer(&mut balancer, now, 0, Nanos(now.0 - 500_000), 1);
    }
    assert_eq!(ask(&mut balancer, Nanos(now.0 + 20_000_000), &mut out), Probing::Awaited);
    now.0 += 25_000_000;
    assert_eq!(ask(&mut balancer, now, &mut out), Probing::Aside, "the last ones are 5 ms old");
    // Nobody answers any more: nothing is waited for.
    let waited = |n: u64| Nanos(now.0 + n * 1_000_000_000);
    let probing: Vec<Probing> = (1..40).map(|n| ask(&mut balancer, waited(n), &mut out)).collect();
    assert_eq!(probing[0], Probing::Awaited);
    assert_eq!(probing[38], Probing::Aside);
    // Answers that take longer than half a request are not waited for.
    let late = waited(50);
    (0..64).for_each(|_| answer(&mut balancer, late, 0, Nanos(late.0 - 4_000_000), 1));
    assert_eq!(ask(&mut balancer, waited(60), &mut out), Probing::Aside);
}

#[test]
fn a_balancer_that_met_bursts_spreads_its_first_request_too() {
    // 256 balancers: this one has sent nothing since the reports, but often had when it sent.
    let spread = |met: u64| {
        let mut balancer = balancer("water-fill:probes=0:learn=0", 4, 1);
        for round in 0..50 {
            let now = Nanos::from_secs(round * 10);
            for site in 0..4 {
                let report = Report { balancers: 256, ..queue(now, site) };
                balancer.reported(now, SiteId(site as u16), report);
            }
            for _ in 0..=met {
                let site = balancer.pick(now, &[]).unwrap();
                balancer.dispatched(Nanos(now.0 + 1), site);
                balancer.completed(Nanos(now.0 + 2), site, None);
            }
        }
        let now = Nanos::from_secs(500);
        for site in 0..4 {
            let report = Report { balancers: 256, ..queue(now, site) };
            balancer.reported(now, SiteId(site as u16), report);
        }
        balancer.pick(now, &[]).unwrap();
        balancer.mood().candidates.unwrap()
    };
    assert_eq!(spread(0), 1.0, "it never had any");
    assert_eq!(spread(3), 4.0);
}
