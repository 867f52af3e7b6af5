//! The faulty link breaks what it was asked to break, and nothing else.

use super::super::{LinkFaults, SimLink};
use crate::{Link, Packet, Payload};
use std::collections::BTreeMap;
use thermocline_units::Nanos;

const PACKETS: u64 = 2_000;

/// Sends a packet every 100 µs and returns what arrives, with its time.
fn send_all(seed: u64, faults: LinkFaults) -> Vec<(Nanos, Packet)> {
    let mut link = SimLink::new(seed, faults);
    let mut all = Vec::new();
    let mut arrived = Vec::new();
    for tag in 0..PACKETS {
        let data = Payload::from(vec![tag as u8; 64]);
        link.send(Nanos::from_micros(100 * tag), Packet { tag, data });
    }
    while let Some(now) = link.next_event() {
        link.poll(now, &mut arrived);
        all.extend(arrived.drain(..).map(|packet| (now, packet)));
    }
    all
}

fn tags(arrived: &[(Nanos, Packet)]) -> Vec<u64> {
    arrived.iter().map(|(_, packet)| packet.tag).collect()
}

#[test]
fn a_link_without_faults_keeps_packets_whole_and_in_order() {
    let arrived = send_all(1, LinkFaults::NONE);
    assert_eq!(tags(&arrived), (0..PACKETS).collect::<Vec<_>>());
    for (time, packet) in arrived {
        assert_eq!(packet.data, Payload::from(vec![packet.tag as u8; 64]));
        assert_eq!(time, Nanos::from_micros(100 * packet.tag + 1000));
    }
}

#[test]
fn packets_are_lost_and_doubled_as_often_as_asked() {
    let lost = send_all(2, LinkFaults { lose: 0.1, ..LinkFaults::NONE });
    assert!((1_750..1_850).contains(&lost.len()), "{} arrived", lost.len());
    let doubled = send_all(2, LinkFaults { duplicate: 0.1, ..LinkFaults::NONE });
    let mut times: BTreeMap<u64, u32> = BTreeMap::new();
    tags(&doubled).into_iter().for_each(|tag| *times.entry(tag).or_default() += 1);
    assert_eq!(times.len() as u64, PACKETS, "none is lost");
    let twice = times.values().filter(|&&n| n == 2).count();
    assert!((150..250).contains(&twice) && times.values().all(|&n| n <= 2), "{twice} came twice");
}

#[test]
fn reordered_packets_arrive_late_and_delayed_ones_hold_up_the_rest() {
    let reordered = tags(&send_all(3, LinkFaults { reorder: 0.1, ..LinkFaults::NONE }));
    assert!(!reordered.is_sorted());
    let delayed = send_all(3, LinkFaults { delay: 0.01, ..LinkFaults::NONE });
    assert!(tags(&delayed).is_sorted());
    let late = |(time, packet): &(Nanos, Packet)| time.0 > (100 * packet.tag + 1000) * 1000;
    assert!(delayed.iter().any(late));
}

#[test]
fn a_corrupted_packet_differs_in_one_bit() {
    let arrived = send_all(4, LinkFaults { corrupt: 0.1, ..LinkFaults::NONE });
    let flipped = |packet: &Packet| -> u32 {
        packet.data.to_vec().iter().map(|&b| (b ^ packet.tag as u8).count_ones()).sum()
    };
    let wrong: Vec<u32> = arrived.iter().map(|(_, p)| flipped(p)).filter(|&n| n > 0).collect();
    assert!((150..250).contains(&wrong.len()), "{} were corrupted", wrong.len());
    assert!(wrong.iter().all(|&bits| bits == 1));
}

#[test]
fn a_cut_link_delivers_nothing_until_it_is_mended() {
    let mut link = SimLink::new(1, LinkFaults::NONE);
    let packet = |tag| Packet { tag, data: Payload::Zeroes(1) };
    link.send(Nanos(0), packet(1));
    link.cut();
    link.send(Nanos(1), packet(2));
    link.mend();
    link.send(Nanos(2), packet(3));
    let mut arrived = Vec::new();
    link.poll(Nanos::from_secs(1), &mut arrived);
    assert_eq!(arrived, [packet(3)]);
}

#[test]
fn same_seed_same_arrivals() {
    let faults = LinkFaults { lose: 0.1, duplicate: 0.1, reorder: 0.2, ..LinkFaults::NONE };
    assert_eq!(send_all(5, faults), send_all(5, faults));
    assert_ne!(tags(&send_all(5, faults)), tags(&send_all(6, faults)));
}
