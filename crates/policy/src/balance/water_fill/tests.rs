//! Water-filling is `least` where nothing is of others, and spreads where much is unseen.

use super::super::tests::{balancer, queue};
use super::super::{Balancer, Report};
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
        prop_assert_eq!(alone("water-fill", seed), alone("least", seed));
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
