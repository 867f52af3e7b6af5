//! The chances are those that the papers' objective asks for.

use super::super::tests::{balancer, queue};
use super::super::{Balancer, Report};
use thermocline_units::{Nanos, SiteId};

/// Queues of sites, by reports that say that there are so many balancers.
fn among(policy: &str, balancers: u32, queues: &[u32]) -> Balancer {
    let mut balancer = balancer(policy, queues.len(), 1);
    for (site, length) in queues.iter().enumerate() {
        let report = Report { balancers, ..queue(Nanos(0), *length) };
        balancer.reported(Nanos(0), SiteId(site as u16), report);
    }
    balancer
}

const DRAWS: u32 = 20_000;

fn chances(balancer: &mut Balancer, sites: usize) -> Vec<f64> {
    let mut got = vec![0_u32; sites];
    for _ in 0..DRAWS {
        got[balancer.pick(Nanos(1), &[]).unwrap().index()] += 1;
    }
    got.into_iter().map(|count| f64::from(count) / f64::from(DRAWS)).collect()
}

/// The objective that chances keep low: the mean square above or below one level.
fn objective(chances: &[f64], queues: &[u32], rates: &[f64], all: f64) -> f64 {
    let each = chances.iter().zip(queues).zip(rates);
    let term = |((p, q), rate): ((&f64, &u32), &f64)| {
        ((2.0 * f64::from(*q) + 1.0) * p + (all - 1.0) * p * p) / rate
    };
    each.map(term).sum()
}

/// Moving a little chance from any site to any other makes it worse.
fn is_best(chances: &[f64], queues: &[u32], rates: &[f64], all: f64) {
    let best = objective(chances, queues, rates, all);
    for from in 0..chances.len() {
        for to in 0..chances.len() {
            let moved = chances[from].min(0.05);
            let mut other = chances.to_vec();
            other[from] -= moved;
            other[to] += moved;
            let value = objective(&other, queues, rates, all);
            assert!(value > best - 0.02, "{chances:?}: {from} to {to}, {value} < {best}");
        }
    }
}

#[test]
fn scd_and_twf_draw_with_the_chances_of_least_imbalance() {
    for queues in [[0, 1, 3, 9], [5, 5, 5, 5], [0, 0, 2, 2]] {
        let rates = [1.0, 3.0, 1.0, 3.0];
        let mut scd = among("scd:probes=0", 8, &queues);
        for site in [1, 3] {
            scd.set_weight(SiteId(site), 3.0);
        }
        is_best(&chances(&mut scd, 4), &queues, &rates, 8.0);
        let mut twf = among("twf:probes=0", 8, &queues);
        twf.set_weight(SiteId(1), 3.0);
        is_best(&chances(&mut twf, 4), &queues, &[1.0; 4], 8.0);
    }
}

#[test]
fn alone_and_with_all_known_they_take_the_shortest_queue() {
    for policy in ["scd:probes=0", "twf:probes=0"] {
        let got = chances(&mut among(policy, 1, &[2, 1, 4, 3]), 4);
        assert_eq!(got, [0.0, 1.0, 0.0, 0.0], "{policy}");
    }
}
