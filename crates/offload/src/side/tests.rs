//! The packets that functions see, and a hop.

#![allow(clippy::unwrap_used)]

use super::*;
use thermocline_functions::packet::build;

fn packet(ttl: u8) -> Bytes {
    let end = |n, port| (Ipv4Addr::new(10, 0, 0, n).into(), port);
    let mut packet = build::udp((end(1, 1000), end(2, 53)), b"question");
    let old = packet[8];
    packet[8] = ttl;
    let sum = u16::from_be_bytes([packet[10], packet[11]]);
    let change = Difference::default().replace(&[old, packet[9]], &[ttl, packet[9]]);
    packet[10..12].copy_from_slice(&change.apply(sum).to_be_bytes());
    packet.into()
}

/// An inspection took the bytes of packets that never left the pool for those of later ones.
#[test]
fn functions_see_no_packet_that_nobody_will_take() {
    for (ttl, has_more) in [(0, false), (1, false), (2, true), (255, true)] {
        let packet = packet(ttl);
        assert!(header_is_right(&packet));
        assert_eq!(has_hops(&packet), has_more, "{ttl}");
        assert_eq!(hopped(&packet).is_some(), has_more, "{ttl}");
    }
    let right = packet(64);
    assert!(header_is_right(&hopped(&right).unwrap().1));
    for at in 0..20 {
        let mut wrong = right.to_vec();
        wrong[at] ^= 4;
        assert!(!header_is_right(&wrong), "byte {at}");
    }
    assert!(!header_is_right(&right[..19]) && !header_is_right(&[]) && !has_hops(&[0x45]));
}
