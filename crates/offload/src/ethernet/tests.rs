//! Two ends that find each other, and frames that are nobody's.

use super::{Arp, NEIGHBOURS_MAX, Neighbours, WAITING_MAX};
use bytes::Bytes;
use std::net::Ipv4Addr;
use thermocline_units::Nanos;

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn ends() -> (Neighbours, Neighbours) {
    let b = Neighbours::new([2, 0, 0, 0, 0, 2], vec![B, Ipv4Addr::new(10, 0, 0, 3)]);
    (Neighbours::new([2, 0, 0, 0, 0, 1], vec![A]), b)
}

#[test]
fn a_packet_waits_for_its_address_and_then_leaves() {
    let (mut a, mut b) = ends();
    let (mut to_b, mut to_a) = (Vec::new(), Vec::new());
    let packet = Bytes::from_static(b"a packet");
    a.send(Nanos(0), B, packet.clone(), &mut to_b);
    assert_eq!(to_b.len(), 1, "a question");
    assert_eq!(b.arrive(Nanos(1), &to_b.remove(0), &mut to_a), None);
    assert_eq!(a.arrive(Nanos(2), &to_a.remove(0), &mut to_b), None);
    assert_eq!(b.arrive(Nanos(3), &to_b.remove(0), &mut to_a), Some(packet.clone()));
    // The question told b who a is.
    b.send(Nanos(4), A, packet.clone(), &mut to_a);
    assert_eq!(a.arrive(Nanos(5), &to_a.remove(0), &mut to_b), Some(packet));
    assert!(to_a.is_empty() && to_b.is_empty());
}

#[test]
fn nobody_is_asked_for_ever_and_nothing_grows_without_a_bound() {
    let (mut a, _) = ends();
    let mut out = Vec::new();
    for _ in 0..100 {
        a.send(Nanos(0), B, Bytes::from_static(b"x"), &mut out);
    }
    for second in 1..10 {
        a.tick(Nanos::from_secs(second), &mut out);
    }
    assert_eq!((out.len(), a.unanswered()), (3, 100), "three questions; {WAITING_MAX} waited");
    for host in 0..2 * NEIGHBOURS_MAX as u32 {
        let to = Ipv4Addr::from_bits(0x0a01_0000 + host);
        a.send(Nanos::from_secs(20), to, Bytes::from_static(b"x"), &mut out);
    }
    assert_eq!(a.table.len(), NEIGHBOURS_MAX);
}

#[test]
fn an_answer_is_asked_for_again_before_it_is_old() {
    let (mut a, mut b) = ends();
    let (mut to_b, mut to_a) = (Vec::new(), Vec::new());
    a.send(Nanos(0), B, Bytes::from_static(b"x"), &mut to_b);
    b.arrive(Nanos(0), &to_b.remove(0), &mut to_a);
    a.arrive(Nanos(0), &to_a.remove(0), &mut to_b);
    to_b.clear();
    a.send(Nanos::from_secs(31), B, Bytes::from_static(b"x"), &mut to_b);
    assert_eq!(to_b.len(), 2, "the packet, and a question");
    to_b.clear();
    a.send(Nanos::from_secs(100), B, Bytes::from_static(b"x"), &mut to_b);
    let question = Arp::parse(&to_b[0][14..]).unwrap();
    assert!(question.is_question && question.target == B && question.sender.1 == A);
}

#[test]
fn frames_of_any_bytes_are_refused_or_read() {
    let (mut a, _) = ends();
    let mut out = Vec::new();
    a.send(Nanos(0), B, Bytes::from_static(b"x"), &mut out);
    let good = out.remove(0);
    let mut rng = thermocline_units::Rng::seeded(1);
    for _ in 0..20_000 {
        let mut bytes = good.to_vec();
        bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
        for _ in 0..rng.below(4) {
            let at = rng.below(bytes.len().max(1) as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.next_u64() as u8;
            }
        }
        let (_, mut b) = ends();
        b.arrive(Nanos(0), &Bytes::from(bytes), &mut out);
        assert!(out.len() <= 1 && b.table.len() <= 1);
        out.clear();
    }
}
