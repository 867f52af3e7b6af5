//! Cost of a balancer for each request: nanoseconds for arrival, pick, dispatch and completion
//! together.
//!
//! `cargo run --release -p thermocline-policy --example balance_cost [NAME…]`
//!
//! Before 4, 16 and 64 equal sites come 2,000,000 requests, 10 µs apart, of which four a site are
//! under way; every site reports each millisecond, the half of what it says being of one other
//! balancer. Probes are answered at once. Processor time; the work of reports and probes is in it.
// A program that measures and reports, not a decision.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_macros)]

mod timing;

use std::collections::VecDeque;
use thermocline_policy::balance::{Balancer, Probe, Probing, Report};
use thermocline_policy::registry::{Build, PolicySpec, balancers};
use thermocline_units::{Nanos, SiteId};
use timing::cpu_nanos;

const REQUESTS: u64 = 2_000_000;
const GAP: Nanos = Nanos::from_micros(10);
const REPORT: Nanos = Nanos::from_micros(1000);
const SITES: [u16; 3] = [4, 16, 64];

fn main() {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        let real = balancers().filter(|entry| matches!(entry.build, Build::Balancer(_)));
        names = real.map(|entry| entry.name.to_string()).collect();
    }
    println!("{:<20} {:>10} {:>10} {:>10}", "ns a request before", "4 sites", "16", "64");
    for name in &names {
        let cost = SITES.map(|sites| measure(name, sites));
        println!("{name:<20} {:>10.0} {:>10.0} {:>10.0}", cost[0], cost[1], cost[2]);
    }
}

fn measure(name: &str, sites: u16) -> f64 {
    let spec = PolicySpec::parse(name).expect("a policy of the registry");
    let rule = spec.build_rule().expect("a balancer with valid settings");
    let mut balancer = Balancer::new(rule, 1);
    for _ in 0..sites {
        balancer.add_site(1.0);
    }
    let under_way = usize::from(sites) * 4;
    let mut sent: VecDeque<(SiteId, Nanos)> = VecDeque::with_capacity(under_way + 1);
    let mut probes = Vec::new();
    let mut now = Nanos(0);
    let start = cpu_nanos().unwrap_or(0);
    for request in 0..REQUESTS {
        now.0 += GAP.0;
        if (request * GAP.0).is_multiple_of(REPORT.0) {
            report(&mut balancer, sites, now);
        }
        balancer.arrived(now);
        if balancer.probing() != Probing::None {
            balancer.probes(now, &mut probes);
            for site in probes.drain(..) {
                let in_flight = balancer.board().site(site).outstanding() * 2;
                let probe = Probe { taken: now, in_flight, latency: Some(GAP) };
                balancer.probed(now, site, &probe);
            }
        }
        let site = balancer.pick(now, &[]).expect("every site is up");
        balancer.dispatched(now, site);
        sent.push_back((site, now));
        if sent.len() > under_way
            && let Some((site, at)) = sent.pop_front()
        {
            balancer.completed(now, site, Some(now.saturating_sub(at)));
        }
    }
    (cpu_nanos().unwrap_or(0) - start) as f64 / REQUESTS as f64
}

/// Every site reports as many of the other balancer's as of this one's.
fn report(balancer: &mut Balancer, sites: u16, now: Nanos) {
    for site in (0..sites).map(SiteId) {
        let own = balancer.board().site(site);
        let (queue, arrivals) = (own.outstanding() * 2, own.sent() * 2);
        let report = Report { taken: now, queue, arrivals, balancers: 2 };
        balancer.reported(now, site, report);
    }
}
