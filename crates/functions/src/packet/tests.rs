//! Checksums beside a plain recomputation, edits, quoted packets, and any bytes.

use super::checksum::{Difference, Sum};
use super::*;
use proptest::prelude::*;

/// A checksum as RFC 1071 describes it, word by word.
pub(crate) fn plain_checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for word in bytes.chunks(2) {
        sum += u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// True if the checksums of IPv4's header and of TCP, UDP or ICMP are right, recomputed plainly.
pub(crate) fn checksums_are_right(bytes: &[u8]) -> bool {
    let packet = Packet::parse(bytes).unwrap();
    let header = packet.source.is_ipv6() || plain_checksum(&bytes[..packet.start]) == 0;
    let segment = &bytes[packet.start..packet.end];
    let covered = match (packet.protocol, packet.source, packet.destination) {
        (ICMP, ..) => segment.to_vec(),
        (UDP, ..) if segment[6..8] == [0, 0] => return header,
        (_, IpAddr::V4(a), IpAddr::V4(b)) => {
            let length = (segment.len() as u16).to_be_bytes();
            [&a.octets()[..], &b.octets(), &[0, packet.protocol], &length, segment].concat()
        }
        (_, IpAddr::V6(a), IpAddr::V6(b)) => {
            let length = (segment.len() as u32).to_be_bytes();
            let next = [0, 0, 0, packet.protocol];
            [&a.octets()[..], &b.octets(), &length, &next, segment].concat()
        }
        _ => panic!("two versions"),
    };
    header && plain_checksum(&covered) == 0
}

fn v4(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, n))
}

/// RFC 1624, section 4: 0xdd2f with a word that changes from 0x5555 to 0x3285 becomes 0x0000.
#[test]
fn the_example_of_rfc_1624_comes_out() {
    assert_eq!(Difference::default().replace_word(0x5555, 0x3285).apply(0xdd2f), 0);
}

/// RFC 1071, section 3.
#[test]
fn the_example_of_rfc_1071_comes_out() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(Sum::default().with(&bytes).checksum(), !0xddf2);
}

proptest! {
    #[test]
    fn sums_are_those_of_a_plain_recomputation(bytes: Vec<u8>) {
        prop_assert_eq!(Sum::default().with(&bytes).checksum(), plain_checksum(&bytes));
    }

    #[test]
    fn any_bytes_are_parsed_within_their_bounds(mut bytes: Vec<u8>, version in 0..3u8) {
        if let (Some(first), 1..) = (bytes.first_mut(), version) {
            *first = if version == 1 { 0x45 } else { 0x60 };
        }
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert!(packet.start <= packet.end && packet.end <= bytes.len());
            let _ = (packet.payload(&bytes), packet.transport_checksum_is_right(&bytes));
            let _ = Quoted::parse(&bytes, &packet);
        }
    }

    #[test]
    fn edits_leave_right_checksums_and_everything_else(
        payload: Vec<u8>, kind in 0..3, is_v6: bool, address: u128, port: u16, is_source: bool,
    ) {
        let address_of = |n: u128| match is_v6 {
            true => IpAddr::V6(Ipv6Addr::from_bits(n)),
            false => IpAddr::V4(Ipv4Addr::from_bits(n as u32)),
        };
        let ends = ((address_of(7 << 90 | 9), 1234), (address_of(u128::MAX), 53));
        let before = match kind {
            0 => build::udp(ends, &payload),
            1 => build::tcp(ends, 0x18, 77, &payload),
            _ if is_v6 => return Ok(()),
            _ => build::echo(ends, true, &payload),
        };
        prop_assert!(checksums_are_right(&before));
        let (mut after, mut packet) = (before.clone(), Packet::parse(&before).unwrap());
        let end = if is_source { End::Source } else { End::Destination };
        rewrite(&mut after, &mut packet, end, address_of(address), Some(port));
        prop_assert!(checksums_are_right(&after));
        prop_assert_eq!(packet, Packet::parse(&after).unwrap());
        let new = (address_of(address), port);
        let ends = if is_source { (new, ends.1) } else { (ends.0, new) };
        let expected = match kind {
            0 => build::udp(ends, &payload),
            1 => build::tcp(ends, 0x18, 77, &payload),
            _ => build::echo(((ends.0.0, port), ends.1), true, &payload),
        };
        prop_assert_eq!(after, expected);
    }
}

#[test]
fn a_missing_udp_checksum_stays_missing_and_zero_is_never_a_result() {
    let ends = ((v4(1), 1000), (v4(2), 53));
    let mut none = build::udp(ends, b"hello");
    none[26..28].fill(0);
    let mut packet = Packet::parse(&none).unwrap();
    rewrite(&mut none, &mut packet, End::Source, v4(9), Some(5));
    assert_eq!(none[26..28], [0, 0]);
    // One port of 65,536 makes the sum come out as zero, which UDP writes as ones.
    let ones = (1..=u16::MAX).filter(|&port| {
        let mut bytes = build::udp(ends, b"hello");
        let mut packet = Packet::parse(&bytes).unwrap();
        rewrite(&mut bytes, &mut packet, End::Source, v4(9), Some(port));
        assert_ne!(bytes[26..28], [0, 0]);
        bytes[26..28] == [255, 255]
    });
    assert_eq!(ones.count(), 1);
}

#[test]
fn quoted_packets_are_edited_with_all_three_checksums() {
    let ends = ((v4(1), 40_000), (v4(2), 80));
    let quotes = [build::udp(ends, b"0123456789"), build::tcp(ends, 2, 5, b"x")];
    for (quote, length) in quotes.iter().flat_map(|quote| [(quote, 28), (quote, quote.len())]) {
        let mut error = build::unreachable(v4(7), v4(1), &quote[..length]);
        let packet = Packet::parse(&error).unwrap();
        let mut quoted = Quoted::parse(&error, &packet).unwrap();
        assert_eq!(
            (quoted.source, quoted.destination.1),
            ((Ipv4Addr::new(192, 0, 2, 1), 40_000), 80)
        );
        quoted.rewrite(&mut error, &packet, End::Source, (Ipv4Addr::new(10, 1, 2, 3), 5));
        assert!(checksums_are_right(&error));
        let inner = &error[28..];
        assert_eq!(plain_checksum(&inner[..20]), 0);
        assert_eq!(Quoted::parse(&error, &packet), Some(quoted));
        if length == quote.len() {
            assert!(checksums_are_right(inner), "the quoted packet's own checksum");
        }
    }
}

#[test]
fn extension_headers_are_followed_up_to_a_bound() {
    let ends = |n| (IpAddr::V6(Ipv6Addr::from_bits(n)), 9);
    let plain = build::udp((ends(1), ends(2)), b"data");
    for count in [1, EXTENSION_HEADERS_MAX, EXTENSION_HEADERS_MAX + 1] {
        let mut bytes = plain[..40].to_vec();
        for nth in 0..count {
            bytes.extend([if nth + 1 == count { UDP } else { 60 }, 0, 0, 0, 0, 0, 0, 0]);
        }
        bytes[6] = 60;
        bytes.extend(&plain[40..]);
        let length = (bytes.len() - 40) as u16;
        bytes[4..6].copy_from_slice(&length.to_be_bytes());
        match Packet::parse(&bytes) {
            Ok(packet) => {
                assert!(count <= EXTENSION_HEADERS_MAX);
                assert_eq!((packet.protocol, packet.payload(&bytes)), (UDP, &b"data"[..]));
                assert!(packet.transport_checksum_is_right(&bytes));
            }
            Err(error) => {
                assert_eq!(
                    (count, error),
                    (EXTENSION_HEADERS_MAX + 1, Malformed::ExtensionHeaders)
                );
            }
        }
    }
}
