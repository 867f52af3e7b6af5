//! The contract of network interfaces, as a check that both ends of any cable can be held to:
//! modelled ones, faulty ones without faults, real interfaces.
//!
//! Both ends send batches of numbered packets of random lengths. What arrives is what the other end
//! sent: whole, in order, none twice, none missing. Packets of others, which real interfaces carry
//! too, are recognised by their protocol number and left out.

use crate::packets::{ETHERNET_BYTES, Medium, Packets};
use bytes::Bytes;
use thermocline_units::{Nanos, Rng};

/// EtherType for experiments within one site (IEEE Std 802).
const EXPERIMENT: [u8; 2] = [0x88, 0xb5];
/// IP protocol for experiments (RFC 3692).
const IP_EXPERIMENT: u8 = 253;
/// Bytes of an IPv4 header without options.
const IP_BYTES: usize = 20;
/// Packets that are under way at once; real interfaces have short queues.
const UNDER_WAY_MAX: u64 = 128;

/// An end's side of the check.
struct Traffic {
    sent: Vec<Bytes>,
    arrived: usize,
}

/// Holds both ends of an interface to the contract with `packets` packets in each direction, of
/// load `seed`. `wait` is called when nothing is to be had now, and says what time it is then.
///
/// # Panics
/// When an end breaks the contract; that is the point.
pub fn check_packets<A: Packets, B: Packets>(
    (a, b): (&mut A, &mut B),
    wait: &mut dyn FnMut(&A, &B, Nanos) -> Nanos,
    seed: u64,
    packets: u64,
) {
    let mut rng = Rng::seeded(seed);
    let mut traffic = [0, 1].map(|_| Traffic { sent: Vec::new(), arrived: 0 });
    let (mut now, mut arrived) = (Nanos(0), Vec::new());
    loop {
        let [to_b, to_a] = &mut traffic;
        let mut moved = false;
        moved |= send(a, now, &mut rng, to_b, (packets, b.medium()));
        moved |= send(b, now, &mut rng, to_a, (packets, a.medium()));
        a.receive(now, 1 + rng.below(64) as usize, &mut arrived);
        moved |= judge(seed, a.medium(), to_a, &mut arrived);
        b.receive(now, 1 + rng.below(64) as usize, &mut arrived);
        moved |= judge(seed, b.medium(), to_b, &mut arrived);
        let is_done = |traffic: &Traffic| traffic.arrived as u64 == packets;
        if traffic.iter().all(is_done) {
            break;
        }
        if !moved {
            now = wait(a, b, now);
        }
    }
    assert!(a.counts().sent >= packets && b.counts().received >= packets, "seed {seed}: counts");
}

fn send<P: Packets>(
    end: &mut P,
    now: Nanos,
    rng: &mut Rng,
    traffic: &mut Traffic,
    (packets, to): (u64, Medium),
) -> bool {
    let under_way = (traffic.sent.len() - traffic.arrived) as u64;
    let left = packets - traffic.sent.len() as u64;
    let count = (1 + rng.below(32)).min(left).min(UNDER_WAY_MAX.saturating_sub(under_way));
    let mut batch: Vec<Bytes> = Vec::new();
    for _ in 0..count {
        let number = traffic.sent.len() as u32;
        let packet = numbered(rng, (end.medium(), to), end.mtu(), number);
        traffic.sent.push(packet.clone());
        batch.push(packet);
    }
    end.send(now, &mut batch);
    assert!(batch.is_empty(), "a batch is emptied");
    count > 0
}

/// A packet with this number in it, of random length.
fn numbered(rng: &mut Rng, (from, to): (Medium, Medium), mtu: usize, number: u32) -> Bytes {
    let mut bytes = Vec::new();
    let length = 46 + rng.below((mtu - 46) as u64 + 1) as usize;
    if let (Medium::Ethernet { address: from }, Medium::Ethernet { address: to }) = (from, to) {
        bytes.extend_from_slice(&to);
        bytes.extend_from_slice(&from);
        bytes.extend_from_slice(&EXPERIMENT);
    } else {
        bytes.extend_from_slice(&[0x45, 0]);
        bytes.extend_from_slice(&(length as u16).to_be_bytes());
        bytes.extend_from_slice(&[0, 0, 0, 0, 64, IP_EXPERIMENT, 0, 0]);
        bytes.extend_from_slice(&[10, 99, 0, 1, 10, 99, 0, 2]);
    }
    let start = bytes.len();
    bytes.extend_from_slice(&number.to_be_bytes());
    let whole = if start == ETHERNET_BYTES { start + length } else { length };
    bytes.extend((start + 4..whole).map(|at| (at as u32 ^ number) as u8));
    Bytes::from(bytes)
}

fn judge(seed: u64, medium: Medium, traffic: &mut Traffic, arrived: &mut Vec<Bytes>) -> bool {
    let is_any = !arrived.is_empty();
    for bytes in arrived.drain(..) {
        let is_ours = match medium {
            Medium::Ethernet { .. } => bytes.get(12..ETHERNET_BYTES) == Some(&EXPERIMENT[..]),
            Medium::Ip => bytes.len() > IP_BYTES && bytes[9] == IP_EXPERIMENT,
        };
        if is_ours {
            let right = traffic.sent.get(traffic.arrived);
            assert!(right == Some(&bytes), "seed {seed}: packet {} is another", traffic.arrived);
            traffic.arrived += 1;
        }
    }
    is_any
}

#[cfg(test)]
mod tests;
