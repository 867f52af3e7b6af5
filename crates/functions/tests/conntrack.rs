//! Our NAT beside the kernel's, packet by packet: conntrack and nftables' masquerade in a network
//! namespace of its own, behind two TUN devices (`conntrack.py`).
//!
//! The same packets go to both. What comes out must be the same bytes, but for the TTL, which a
//! router counts down, and for an external port that the kernel chose differently: then each NAT
//! gets its answers at its own. SKIPPED without root, `ip`, `nft`, Python or TUN devices.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_macros)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use thermocline_functions::nat::{Nat, Settings};
use thermocline_functions::packet::{End, Packet, Transport, build, rewrite};
use thermocline_functions::{Function, Output, Side, Verdict};
use thermocline_units::{Nanos, Rng};

const EXTERNAL: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

struct Kernel(Child);

impl Kernel {
    /// The kernel's NAT; `None` where it cannot be had.
    fn start() -> Option<Kernel> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conntrack.py");
        let child = Command::new("python3")
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut kernel = Kernel(child);
        let mut ready = [0];
        kernel.0.stdout.as_mut()?.read_exact(&mut ready).ok()?;
        Some(kernel)
    }

    fn send(&mut self, from: Side, packet: &[u8]) -> Option<(Side, Vec<u8>)> {
        let stdin = self.0.stdin.as_mut().unwrap();
        let length = (packet.len() as u16).to_be_bytes();
        stdin.write_all(&[&[from as u8], &length[..], packet].concat()).unwrap();
        stdin.flush().unwrap();
        let stdout = self.0.stdout.as_mut().unwrap();
        let mut header = [0; 3];
        stdout.read_exact(&mut header).unwrap();
        let mut bytes = vec![0; usize::from(u16::from_be_bytes([header[1], header[2]]))];
        stdout.read_exact(&mut bytes).unwrap();
        let side = if header[0] == 0 { Side::Inside } else { Side::Outside };
        (header[0] < 2).then_some((side, bytes))
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

struct Ours(Nat);

impl Ours {
    fn send(&mut self, from: Side, packet: &[u8]) -> Option<(Side, Vec<u8>)> {
        let mut bytes = packet.to_vec();
        let other = if from == Side::Inside { Side::Outside } else { Side::Inside };
        match self.0.process(Nanos(0), from, &mut bytes, &mut Output::default()) {
            Verdict::Changed => Some((other, bytes)),
            Verdict::Dropped(_) => None,
            other => panic!("{other:?}"),
        }
    }
}

/// A packet as if its TTL were 64 and its external port, as source or destination, were `port`.
fn normal(mut bytes: Vec<u8>, port: u16) -> Vec<u8> {
    let mut packet = Packet::parse(&bytes).unwrap();
    bytes[8] = 64;
    bytes[10..12].fill(0);
    let checksum = thermocline_functions::packet::checksum::Sum::default()
        .with(&bytes[..packet.start])
        .checksum();
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
    if packet.source == IpAddr::V4(EXTERNAL) && packet.ports().is_some() {
        let address = packet.source;
        rewrite(&mut bytes, &mut packet, End::Source, address, Some(port));
    }
    bytes
}

/// Ends of a flow that began, and the external ports of ours and the kernel's.
type Begun = (u8, (IpAddr, u16), (IpAddr, u16), [u16; 2]);

#[test]
fn packets_come_out_as_conntrack_lets_them_out() {
    let Some(mut kernel) = Kernel::start() else {
        eprintln!("SKIPPED: the kernel's NAT needs root, ip, nft, python3 and /dev/net/tun");
        return;
    };
    let mut ours = Ours(Nat::new(Settings::new(vec![EXTERNAL])).unwrap());
    let (mut rng, mut begun) = (Rng::seeded(3), BTreeMap::<u64, Begun>::new());
    let mut answered = BTreeSet::new();
    let (mut same, mut dropped, mut other_ports) = (0, 0, 0);
    for _ in 0..600 {
        let ports = begun_or_new(&mut rng, &mut begun);
        let (kind, inside, remote, external) = begun[&ports];
        let mut step = rng.below(if external[0] == 0 { 1 } else { 5 });
        // The kernel lets segments out untranslated, as invalid, before the answer to a SYN.
        if kind == 1 && step > 0 && answered.insert(ports) {
            step = 2;
        }
        let packets = external.map(|port| draw(step, kind, inside, remote, port, &mut rng.clone()));
        rng.next_u64();
        let from = if step < 2 { Side::Inside } else { Side::Outside };
        let results = [ours.send(from, &packets[0]), kernel.send(from, &packets[1])];
        if step == 0 && external[0] == 0 {
            let port = |result: &Option<(Side, Vec<u8>)>| {
                let packet = Packet::parse(&result.as_ref().unwrap().1).unwrap();
                packet.ports().unwrap().0
            };
            let ports_of_both = [port(&results[0]), port(&results[1])];
            other_ports += usize::from(ports_of_both[0] != ports_of_both[1]);
            begun.get_mut(&ports).unwrap().3 = ports_of_both;
        }
        let [ours, kernels] =
            results.map(|result| result.map(|(side, bytes)| (side, normal(bytes, 7))));
        assert_eq!(ours, kernels, "step {step} of {kind} {inside:?} {remote:?}");
        same += usize::from(ours.is_some());
        dropped += usize::from(ours.is_none());
    }
    assert!(same > 300 && dropped > 20, "{same} {dropped}");
    eprintln!("{same} packets the same, {dropped} dropped by both, {other_ports} ports differ");
}

/// A flow that began already, or a new one whose ports are not known yet.
fn begun_or_new(rng: &mut Rng, begun: &mut BTreeMap<u64, Begun>) -> u64 {
    let number = rng.below(80);
    begun.entry(number).or_insert_with(|| {
        let kind = (number % 3) as u8;
        let host = Ipv4Addr::new(10, 0, 0, 2 + (number / 3 % 3) as u8);
        let remote = Ipv4Addr::new(198, 51, 100, 1 + (number / 9 % 3) as u8);
        let port = 2000 + (number / 27) as u16;
        (kind, (host.into(), port), (remote.into(), if kind == 2 { 0 } else { 443 }), [0, 0])
    });
    number
}

/// Step of a flow: 0 its first packet, 1 another one, 2 an answer, 3 a stranger's, 4 an error.
fn draw(
    step: u64,
    kind: u8,
    inside: (IpAddr, u16),
    remote: (IpAddr, u16),
    external: u16,
    rng: &mut Rng,
) -> Vec<u8> {
    let payload = vec![rng.next_u64() as u8; rng.below(40) as usize];
    let outside = (IpAddr::V4(EXTERNAL), external);
    let stranger = (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 200)), 5000);
    let request = |ends| match kind {
        0 => build::udp(ends, &payload),
        1 if step == 0 => build::tcp(ends, 2, 0, b""),
        1 => build::tcp(ends, 16, 1, &payload),
        _ => build::echo(ends, true, &payload),
    };
    match step {
        0 | 1 => request((inside, remote)),
        4 => {
            let sent = request((outside, remote));
            let router = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 77));
            assert!(!matches!(Packet::parse(&sent).unwrap().transport, Transport::Other));
            build::unreachable(router, outside.0, &sent)
        }
        _ => {
            let from = if step == 2 { remote } else { stranger };
            match kind {
                0 => build::udp((from, outside), &payload),
                1 => build::tcp((from, outside), 18, 0, b""),
                _ => build::echo(((from.0, external), (outside.0, 0)), false, &payload),
            }
        }
    }
}
