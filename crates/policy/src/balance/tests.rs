//! Properties of every balancer: only sites that are up, equal picks from equal seeds.

use super::{Balancer, Latency, Report, Standing};
use crate::registry::{PolicySpec, balancers};
use proptest::prelude::*;
use thermocline_units::{Nanos, Rng, SiteId};

pub(super) fn balancer(policy: &str, sites: usize, seed: u64) -> Balancer {
    let rule = PolicySpec::parse(policy).unwrap().build_rule().unwrap();
    let mut balancer = Balancer::new(rule, seed);
    for _ in 0..sites {
        balancer.add_site(1.0);
    }
    balancer
}

/// A queue as reported at `taken`.
pub(super) fn queue(taken: Nanos, queue: u32) -> Report {
    Report { taken, queue, arrivals: 0, balancers: 1 }
}

/// Sends `requests` and nothing ever comes back; how many each site got.
pub(super) fn shares(balancer: &mut Balancer, requests: u64) -> Vec<u64> {
    for n in 0..requests {
        let now = Nanos(n * 1000);
        balancer.arrived(now);
        let site = balancer.pick(now, &[]).unwrap();
        balancer.dispatched(now, site);
    }
    let board = balancer.board();
    (0..board.slots()).map(|slot| board.site(SiteId(slot as u16)).sent()).collect()
}

/// Anything that can happen to a balancer, drawn from `rng`; returns its picks.
fn drive(balancer: &mut Balancer, rng: &mut Rng, events: u32) -> Vec<Option<SiteId>> {
    let mut picks = Vec::new();
    let mut now = Nanos(0);
    let mut sites: Vec<SiteId> = balancer.board().up().to_vec();
    let mut under_way: Vec<(SiteId, Nanos)> = Vec::new();
    let mut probes = Vec::new();
    for _ in 0..events {
        now.0 += rng.below(2_000_000_000);
        let site = sites[rng.below(sites.len() as u64) as usize];
        let gone = balancer.board().site(site).standing() == Standing::Vacant;
        match rng.below(16) {
            0 => sites.push(balancer.add_site([0.5, 1.0, 4.0][rng.below(3) as usize])),
            1 if !gone => balancer.set_standing(site, Standing::Down),
            2 if !gone => balancer.set_standing(site, Standing::Draining),
            3 | 4 if !gone => balancer.set_standing(site, Standing::Up),
            5 if !gone && rng.below(4) == 0 => balancer.set_standing(site, Standing::Vacant),
            6 if !gone => balancer.set_weight(site, 1.0 + rng.below(3) as f64),
            7 | 8 => {
                let taken = now.saturating_sub(Nanos(rng.below(3_000_000_000)));
                let report = Report {
                    taken,
                    queue: rng.below(20) as u32,
                    arrivals: now.0 / 1_000_000_000,
                    balancers: rng.below(4) as u32,
                };
                balancer.reported(now, site, report);
            }
            9 | 10 if !under_way.is_empty() => {
                let (site, sent) =
                    under_way.swap_remove(rng.below(under_way.len() as u64) as usize);
                let latency = (rng.below(8) > 0).then_some(now.saturating_sub(sent));
                balancer.completed(now, site, latency);
            }
            _ => {
                balancer.arrived(now);
                balancer.probes(now, &mut probes);
                for site in probes.drain(..) {
                    assert_eq!(balancer.board().site(site).standing(), Standing::Up);
                    let probe = super::Probe {
                        taken: now,
                        in_flight: rng.below(9) as u32,
                        latency: (rng.below(2) == 0).then_some(Nanos(rng.below(1_000_000))),
                    };
                    balancer.probed(now, site, &probe);
                }
                let avoid = if rng.below(4) == 0 { &[site][..] } else { &[] };
                let queues: Vec<u32> =
                    (0..balancer.board().slots()).map(|_| rng.below(9) as u32).collect();
                balancer.told(&super::Truth { bursting: rng.below(2) == 0, queues: &queues });
                let pick = balancer.pick(now, avoid);
                if let Some(site) = pick {
                    assert_eq!(balancer.board().site(site).standing(), Standing::Up);
                    assert!(!avoid.contains(&site), "it was told to avoid {site:?}");
                    balancer.dispatched(now, site);
                    under_way.push((site, now));
                    if rng.below(5) == 0 {
                        balancer.idle(now, site);
                    }
                } else {
                    let up = balancer.board().up().iter().any(|up| !avoid.contains(up));
                    assert!(!up, "a site is up and was not picked");
                }
                picks.push(pick);
            }
        }
    }
    picks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_policy_picks_a_site_that_is_not_up_and_seeds_decide_everything(seed in any::<u64>()) {
        for entry in balancers() {
            let run = || {
                let mut balancer = balancer(entry.name, 3, seed);
                drive(&mut balancer, &mut Rng::seeded(seed), 300)
            };
            prop_assert_eq!(run(), run(), "{}", entry.name);
        }
    }
}

#[test]
fn the_number_of_a_removed_site_waits_for_what_was_sent_there() {
    let mut balancer = balancer("rand", 2, 1);
    let first = SiteId(0);
    balancer.dispatched(Nanos(1), first);
    balancer.set_standing(first, Standing::Vacant);
    assert_eq!(balancer.add_site(1.0), SiteId(2));
    balancer.completed(Nanos(2), first, None);
    assert_eq!(balancer.add_site(1.0), first);
    assert_eq!(balancer.board().site(first).sent(), 0);
}

#[test]
fn rand_is_fair_and_follows_weights() {
    let mut even = balancer("rand", 8, 3);
    for share in shares(&mut even, 80_000) {
        // 10,000 each; six standard deviations are 560.
        assert!(share.abs_diff(10_000) < 560, "{share}");
    }
    let mut uneven = balancer("rand", 2, 3);
    uneven.set_weight(SiteId(0), 3.0);
    assert!(shares(&mut uneven, 80_000)[0].abs_diff(60_000) < 740);
}

#[test]
fn round_robin_takes_turns_and_follows_weights() {
    let mut even = balancer("round-robin", 5, 3);
    assert_eq!(shares(&mut even, 500), [100; 5]);
    let mut uneven = balancer("round-robin", 3, 3);
    uneven.set_weight(SiteId(1), 5.0);
    let got = shares(&mut uneven, 700);
    let off = [100, 500, 100].iter().zip(&got).map(|(want, got)| got.abs_diff(*want)).max();
    assert!(off <= Some(1), "{got:?}");
}

#[test]
fn balancers_that_start_together_do_not_start_at_the_same_site() {
    for policy in ["rand", "round-robin", "least", "qlen", "p2c"] {
        let mut first = [0; 4];
        for seed in 0..400 {
            let mut balancer = balancer(policy, 4, seed);
            first[balancer.pick(Nanos(0), &[]).unwrap().index()] += 1;
        }
        assert!(first.iter().all(|count| (50..150).contains(count)), "{policy}: {first:?}");
    }
}

#[test]
fn qlen_believes_old_reports_and_least_its_own_counts() {
    let mut qlen = balancer("qlen", 3, 1);
    let mut least = balancer("least", 3, 1);
    for (site, length) in [(0, 4), (1, 1), (2, 2)] {
        qlen.reported(Nanos(0), SiteId(site), queue(Nanos(0), length));
        least.reported(Nanos(0), SiteId(site), queue(Nanos(0), length));
    }
    assert_eq!(shares(&mut qlen, 30), [0, 30, 0]);
    assert_eq!(shares(&mut least, 30), [10, 10, 10]);
}

#[test]
fn equally_short_queues_are_shared_unless_the_first_is_to_be_taken() {
    assert!(shares(&mut balancer("qlen", 4, 1), 400).iter().all(|share| (60..140).contains(share)));
    assert_eq!(shares(&mut balancer("qlen:ties=first", 4, 1), 400), [400, 0, 0, 0]);
}

#[test]
fn all_choices_are_the_least_and_one_is_rand() {
    let fill = |policy: &str| shares(&mut balancer(policy, 6, 9), 600);
    assert_eq!(fill("p2c:d=6"), [100; 6]);
    let one = fill("p2c:d=1");
    assert!(
        one.iter().any(|share| *share != 100) && one.iter().all(|share| *share > 50),
        "{one:?}"
    );
}

#[test]
fn jiq_uses_each_token_once_and_then_is_random() {
    let mut jiq = balancer("jiq", 4, 1);
    assert_eq!(shares(&mut jiq, 4), [1; 4]);
    jiq.idle(Nanos(5), SiteId(2));
    jiq.idle(Nanos(5), SiteId(2));
    assert_eq!(jiq.pick(Nanos(5), &[]), Some(SiteId(2)));
    jiq.dispatched(Nanos(5), SiteId(2));
    let after = shares(&mut jiq, 4000);
    assert!(after.iter().all(|share| (850..1150).contains(share)), "{after:?}");
}

#[test]
fn peak_ewma_leaves_a_slow_site_and_comes_back_to_it() {
    let mut ewma = balancer("peak-ewma:d=3:decay=10s", 3, 1);
    for (site, seconds) in [(0, 1), (1, 8), (2, 1)] {
        ewma.dispatched(Nanos(0), SiteId(site));
        ewma.completed(Nanos(0), SiteId(site), Some(Nanos::from_secs(seconds)));
    }
    let got = shares(&mut ewma, 12);
    assert!(got[1] <= 2 && got[0] + got[2] >= 12, "{got:?}");
    // A minute later the others have answered again, and little is left of the peak.
    let later = Nanos::from_secs(60);
    for site in [0, 2] {
        ewma.completed(later, SiteId(site), Some(Nanos::from_secs(1)));
    }
    assert_eq!(ewma.pick(later, &[]), Some(SiteId(1)));
}

#[test]
fn jsq_knows_the_queues_of_all_balancers() {
    let mut jsq = balancer("jsq", 3, 1);
    jsq.reported(Nanos(0), SiteId(2), queue(Nanos(0), 0));
    jsq.told(&super::Truth { bursting: false, queues: &[4, 1, 3] });
    assert_eq!(jsq.pick(Nanos(0), &[]), Some(SiteId(1)));
}

/// Site s reports s requests, a second late, and that there are four balancers.
fn among_four(policy: &str) -> Balancer {
    let mut balancer = balancer(policy, 4, 1);
    for site in 0..4 {
        let report = Report { balancers: 4, ..queue(Nanos(0), site) };
        balancer.reported(Nanos::from_secs(1), SiteId(site as u16), report);
    }
    balancer
}

#[test]
fn li_own_counts_an_own_request_once_for_each_balancer() {
    // 0, 1, 2, 3: one to the first makes it 4, then 1 is the least, then 2, then 3.
    assert_eq!(shares_at(&mut among_four("li-own"), 4), [1, 1, 1, 1]);
    assert_eq!(shares_at(&mut among_four("li-own"), 1), [1, 0, 0, 0]);
}

/// Shares as [`shares`] gives them, at one moment after the reports.
fn shares_at(balancer: &mut Balancer, requests: u64) -> Vec<u64> {
    let now = Nanos::from_secs(2);
    for _ in 0..requests {
        let site = balancer.pick(now, &[]).unwrap();
        balancer.dispatched(now, site);
    }
    (0..4).map(|slot| balancer.board().site(SiteId(slot)).sent()).collect()
}

#[test]
fn li_spreads_over_the_room_that_the_unseen_leave() {
    let mut li = among_four("li");
    li.dispatched(Nanos::from_secs(2), SiteId(0));
    // Four unseen on 0, 1, 2, 3: the level is 7/3, and the room 7, 4, 1, 0 thirds.
    let mut got = [0_u32; 4];
    for _ in 0..12_000 {
        got[li.pick(Nanos::from_secs(2), &[]).unwrap().index()] += 1;
    }
    let off = [7000, 4000, 1000, 0].iter().zip(got).map(|(want, got)| got.abs_diff(*want)).max();
    assert!(off < Some(300), "{got:?}");
}

#[test]
fn a_report_says_what_is_of_others_and_what_it_has_not_seen() {
    let mut least = balancer("least", 1, 1);
    let site = SiteId(0);
    let second = Nanos::from_secs;
    let board = |balancer: &Balancer| {
        let site = balancer.board().site(site).clone();
        (site.outstanding(), site.unseen(), site.others(), site.finished_unseen())
    };
    for at in [1, 2, 4] {
        least.dispatched(second(at), site);
    }
    least.completed(second(3), site, None);
    assert_eq!(board(&least), (2, 3, 0, 1));
    // Taken at 2.5 s: two of its own were there.
    let report = Report { arrivals: 7, ..queue(Nanos(2_500_000_000), 5) };
    least.reported(second(5), site, report);
    assert_eq!(board(&least), (2, 1, 3, 1));
    assert_eq!(least.board().site(site).age(second(6)), Some(Nanos(3_500_000_000)));
    // An older one that was overtaken changes nothing.
    least.reported(second(6), site, queue(second(1), 50));
    assert_eq!(board(&least), (2, 1, 3, 1));
    // Twelve arrived in 4 s, of which one was its own.
    let report = Report { arrivals: 19, ..queue(Nanos(6_500_000_000), 1) };
    least.reported(second(7), site, report);
    assert_eq!(least.board().site(site).others_rate(), Some(11.0 / 4.0));
}

#[test]
fn a_latency_is_forgotten_and_a_peak_counts_at_once() {
    let (second, decay) = (1_000_000_000, 10.0);
    let mut latency = Latency::assumed(0.0);
    latency.peak(Nanos(0), 4.0, decay);
    assert_eq!(latency.cost(Nanos(0), 1, decay), 8.0, "twice, with one under way");
    assert!((latency.cost(Nanos(10 * second), 0, decay) - 4.0 / std::f64::consts::E).abs() < 1e-9);
    latency.peak(Nanos(second), 1.0, decay);
    let after = latency.cost(Nanos(second), 0, decay);
    assert!((3.5..4.0).contains(&after), "a low one is averaged in: {after}");
    let mut mean = Latency::assumed(0.0);
    mean.mean(Nanos(0), 16.0, decay);
    assert_eq!(mean.cost(Nanos(0), 0, decay), 1.0);
    mean.mean(Nanos(100 * second), 2.0, decay);
    assert!((mean.cost(Nanos(100 * second), 0, decay) - 2.0).abs() < 1e-3, "it is all there is");
}
