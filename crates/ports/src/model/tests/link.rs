//! Latency, bandwidth, jitter, order, queue, losses.

use super::super::{LinkCounts, LinkProfile, ModelLink};
use crate::{Link, Packet, Payload};
use thermocline_units::Nanos;

const GIGABIT: LinkProfile = LinkProfile::new(125_000_000, Nanos::from_micros(500));

fn arrivals(profile: LinkProfile, seed: u64, gap: u64) -> Vec<(Nanos, u64)> {
    let mut link = ModelLink::new(profile, seed);
    for tag in 0..1000 {
        link.send(Nanos(tag * gap), Packet { tag, data: Payload::Zeroes(1250) });
    }
    let mut all = Vec::new();
    let mut arrived = Vec::new();
    while let Some(now) = link.next_event() {
        link.poll(now, &mut arrived);
        all.extend(arrived.drain(..).map(|packet| (now, packet.tag)));
    }
    all
}

#[test]
fn a_packet_takes_its_bytes_over_the_bandwidth_and_the_latency() {
    let alone = arrivals(GIGABIT, 1, 1_000_000);
    assert!(alone.iter().all(|&(at, tag)| at.0 == tag * 1_000_000 + 510_000));
    let queued = arrivals(GIGABIT, 1, 0);
    assert!(queued.iter().all(|&(at, tag)| at.0 == (tag + 1) * 10_000 + 500_000));
}

#[test]
fn jitter_has_its_mean_follows_its_seed_and_keeps_the_order() {
    let profile = LinkProfile { jitter: Nanos::from_micros(200), ..GIGABIT };
    let sparse = arrivals(profile, 1, 10_000_000);
    let mean =
        sparse.iter().map(|&(at, tag)| at.0 - tag * 10_000_000 - 510_000).sum::<u64>() / 1000;
    assert!((180_000..220_000).contains(&mean), "{mean} ns");
    let dense = arrivals(profile, 1, 20_000);
    assert!(dense.is_sorted() && dense.iter().map(|&(_, tag)| tag).eq(0..1000));
    assert_eq!(dense, arrivals(profile, 1, 20_000));
    assert_ne!(dense, arrivals(profile, 2, 20_000));
}

#[test]
fn a_packet_that_would_wait_longer_than_the_queue_is_dropped() {
    let profile = LinkProfile { queue: Some(Nanos::from_micros(100)), ..GIGABIT };
    // Of packets of 10 us that come at once eleven wait no longer than 100 us.
    let kept = arrivals(profile, 1, 0);
    assert_eq!(kept.len(), 11);
    assert!(kept.iter().all(|&(at, tag)| at.0 == (tag + 1) * 10_000 + 500_000));
    assert_eq!(arrivals(profile, 1, 10_000).len(), 1000, "those that come one by one all pass");
}

#[test]
fn losses_have_their_share_follow_their_seed_and_take_bandwidth() {
    let profile = LinkProfile { lost_per_million: 100_000, ..GIGABIT };
    let kept = arrivals(profile, 1, 0);
    assert!((870..930).contains(&kept.len()), "{}", kept.len());
    assert!(kept.iter().all(|&(at, tag)| at.0 == (tag + 1) * 10_000 + 500_000));
    assert_eq!(kept, arrivals(profile, 1, 0));
    assert_ne!(kept, arrivals(profile, 2, 0));
}

#[test]
fn packets_are_counted() {
    let queue = Some(Nanos::from_micros(100));
    let mut link = ModelLink::new(LinkProfile { queue, lost_per_million: 1_000_000, ..GIGABIT }, 1);
    for tag in 0..20 {
        link.send(Nanos(0), Packet { tag, data: Payload::Zeroes(1250) });
    }
    let counts = LinkCounts { packets: 20, bytes: 25_000, dropped: 9, lost: 11 };
    assert_eq!((link.counts(), link.next_event()), (counts, None));
}
