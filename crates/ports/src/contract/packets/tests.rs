//! The modelled and the faulty cable keep the contract; a cable that misbehaves does not pass.

use super::check_packets;
use crate::faulty::{LinkFaults, SimLink};
use crate::model::{LinkProfile, ModelLink};
use crate::packets::{CableEnd, Packets, cable};
use crate::{Link, Medium};
use bytes::Bytes;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thermocline_units::Nanos;

fn virtual_time<L: Link>(a: &CableEnd<L>, b: &CableEnd<L>, now: Nanos) -> Nanos {
    let next = [a.next_event(), b.next_event()].into_iter().flatten().min();
    let next = next.expect("packets are missing, and none is under way");
    assert!(next > now, "nothing was received, and an event is due");
    next
}

fn faulty(seed: u64, faults: LinkFaults) -> [CableEnd<SimLink>; 2] {
    cable([SimLink::new(seed, faults), SimLink::new(seed ^ 1, faults)], 1500)
}

#[test]
fn modelled_cables_keep_the_contract() {
    let profile = LinkProfile::new(125_000_000, Nanos::from_micros(10));
    for seed in 0..10 {
        let links = [ModelLink::new(profile, seed), ModelLink::new(profile, seed + 1)];
        let [mut a, mut b] = cable(links, 1500);
        check_packets((&mut a, &mut b), &mut virtual_time, seed, 500);
    }
}

#[test]
fn a_faulty_cable_without_faults_keeps_the_contract() {
    for seed in 0..10 {
        let [mut a, mut b] = faulty(seed, LinkFaults::NONE);
        check_packets((&mut a, &mut b), &mut virtual_time, seed, 500);
    }
}

#[test]
fn every_fault_of_a_cable_is_found() {
    let some = LinkFaults::NONE;
    let broken = [
        LinkFaults { lose: 0.01, ..some },
        LinkFaults { duplicate: 0.01, ..some },
        LinkFaults { reorder: 0.01, ..some },
        LinkFaults { corrupt: 0.01, ..some },
    ];
    for faults in broken {
        let [mut a, mut b] = faulty(7, faults);
        let check = || check_packets((&mut a, &mut b), &mut virtual_time, 7, 2000);
        assert!(catch_unwind(AssertUnwindSafe(check)).is_err(), "{faults:?} passed");
    }
}

#[test]
fn a_packet_that_is_too_long_is_refused_and_counted() {
    let [mut a, mut b] = faulty(1, LinkFaults::NONE);
    let mut batch = vec![Bytes::from(vec![0; 1515]), Bytes::from(vec![0; 1514])];
    a.send(Nanos(0), &mut batch);
    let mut arrived = Vec::new();
    b.receive(Nanos::from_secs(1), 10, &mut arrived);
    assert_eq!((arrived.len(), a.counts().refused, b.counts().received), (1, 1, 1));
    assert_ne!(a.medium(), b.medium());
    assert_ne!(a.medium(), Medium::Ip);
}
