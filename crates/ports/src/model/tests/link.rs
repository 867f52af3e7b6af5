//! Latency, bandwidth, jitter, order.

use super::super::{Lane, LinkProfile, ModelLink};
use crate::{Link, Packet, Payload};
use thermocline_units::Nanos;

const GIGABIT: LinkProfile = LinkProfile {
    latency: Nanos::from_micros(500),
    jitter: Nanos(0),
    lane: Lane { bytes_per_s: 125_000_000, command: Nanos(0) },
};

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
