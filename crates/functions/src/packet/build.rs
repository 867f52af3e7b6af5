//! Packets from their parts, with right checksums: for generators of load, and for tests.
//!
//! It allocates, and computes checksums in full; nothing on the path of a packet uses it.

use super::checksum::Sum;
use super::{ICMP, Packet, TCP, UDP};
use std::net::IpAddr;

/// Ends of a packet: source and destination, each address and port.
pub type Ends = ((IpAddr, u16), (IpAddr, u16));

/// A UDP packet.
///
/// # Panics
/// If the addresses are of different versions, or the packet is longer than 65,535 bytes.
pub fn udp(ends: Ends, payload: &[u8]) -> Vec<u8> {
    let mut segment = ports(ends);
    segment.extend((payload.len() as u16 + 8).to_be_bytes());
    segment.extend([0, 0]);
    segment.extend(payload);
    ip(ends, UDP, &segment)
}

/// A TCP packet without options that acknowledges number 1; `flags` as the header has them.
///
/// # Panics
/// As [`udp`].
pub fn tcp(ends: Ends, flags: u8, sequence: u32, payload: &[u8]) -> Vec<u8> {
    tcp_answer(ends, flags, (sequence, 1), payload)
}

/// A packet as of [`tcp`], with a sequence number and one that is acknowledged.
///
/// # Panics
/// As [`udp`].
pub fn tcp_answer(ends: Ends, flags: u8, numbers: (u32, u32), payload: &[u8]) -> Vec<u8> {
    let mut segment = ports(ends);
    segment.extend(numbers.0.to_be_bytes());
    segment.extend(numbers.1.to_be_bytes());
    segment.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(payload);
    ip(ends, TCP, &segment)
}

/// An echo request or reply of IPv4; the identifier is the source's port.
///
/// # Panics
/// As [`udp`].
pub fn echo(ends: Ends, is_request: bool, payload: &[u8]) -> Vec<u8> {
    let mut message = vec![if is_request { 8 } else { 0 }, 0, 0, 0];
    message.extend(ends.0.1.to_be_bytes());
    message.extend([0, 1]);
    message.extend(payload);
    ip(ends, ICMP, &message)
}

/// An ICMP error of IPv4: port unreachable, with `quoted` as far as it shall be quoted.
///
/// # Panics
/// As [`udp`].
pub fn unreachable(source: IpAddr, destination: IpAddr, quoted: &[u8]) -> Vec<u8> {
    let mut message = vec![3, 3, 0, 0, 0, 0, 0, 0];
    message.extend(quoted);
    ip(((source, 0), (destination, 0)), ICMP, &message)
}

/// Fragments of a packet of IPv4 without options, each with at most `size` bytes behind the header;
/// `size` is a multiple of 8.
///
/// # Panics
/// If `packet` is no such packet, or `size` is none.
pub fn fragments(packet: &[u8], size: usize, id: u16) -> Vec<Vec<u8>> {
    assert!(packet[0] == 0x45 && size > 0 && size.is_multiple_of(8));
    let (header, rest) = packet.split_at(20);
    let count = rest.len().div_ceil(size);
    let pieces = rest.chunks(size).enumerate().map(|(nth, piece)| {
        let mut bytes = header.to_vec();
        let more = if nth + 1 < count { 0x2000 } else { 0 };
        bytes[2..4].copy_from_slice(&(20 + piece.len() as u16).to_be_bytes());
        bytes[4..6].copy_from_slice(&id.to_be_bytes());
        bytes[6..8].copy_from_slice(&((nth * size / 8) as u16 | more).to_be_bytes());
        seal_header(&mut bytes);
        bytes.extend(piece);
        bytes
    });
    pieces.collect()
}

fn ports(ends: Ends) -> Vec<u8> {
    [ends.0.1.to_be_bytes(), ends.1.1.to_be_bytes()].concat()
}

fn seal_header(bytes: &mut [u8]) {
    bytes[10..12].fill(0);
    let checksum = Sum::default().with(&bytes[..20]).checksum();
    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
}

fn ip(ends: Ends, protocol: u8, segment: &[u8]) -> Vec<u8> {
    let mut bytes = match (ends.0.0, ends.1.0) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut bytes = vec![0x45, 0];
            bytes.extend((segment.len() as u16 + 20).to_be_bytes());
            bytes.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
            seal_header(&mut bytes);
            bytes
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mut bytes = vec![0x60, 0, 0, 0];
            bytes.extend((segment.len() as u16).to_be_bytes());
            bytes.extend([protocol, 64]);
            bytes.extend(source.octets());
            bytes.extend(destination.octets());
            bytes
        }
        _ => panic!("addresses of two IP versions"),
    };
    bytes.extend(segment);
    let packet = Packet::parse(&bytes).expect("a packet that was just made");
    if let Some(at) = packet.checksum_at() {
        let covered = Sum::default().with(&bytes[packet.start..]);
        let sum = match protocol {
            ICMP => covered,
            _ => packet.pseudo_header(segment.len()).with(&bytes[packet.start..]),
        };
        let checksum = match sum.checksum() {
            0 if protocol == UDP => 0xffff,
            checksum => checksum,
        };
        bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }
    bytes
}
