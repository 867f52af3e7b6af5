//! Bytes as a packet: every part lies within them, and an edit there and back leaves what was
//! there.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thermocline_functions::packet::{End, Packet, Quoted, rewrite};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(packet) = Packet::parse(data) else { return };
    assert!(packet.start <= packet.end && packet.end <= data.len());
    let _ = (packet.payload(data), packet.transport_checksum_is_right(data));
    let is_right = packet.transport_checksum_is_right(data);
    // A sum of nothing but zeroes is the other form of zero, which no sender writes.
    let has_bits = data[packet.start..packet.end].iter().any(|&byte| byte != 0);
    let other = match packet.source {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(1)),
    };
    for end in [End::Source, End::Destination] {
        let (mut bytes, mut edited) = (data.to_vec(), packet);
        let old = if end == End::Source { packet.source } else { packet.destination };
        let port = packet.ports().map(|ports| if end == End::Source { ports.0 } else { ports.1 });
        rewrite(&mut bytes, &mut edited, end, other, port.map(|_| 7));
        assert_eq!(Packet::parse(&bytes), Ok(edited));
        assert!(!has_bits || edited.transport_checksum_is_right(&bytes) == is_right);
        rewrite(&mut bytes, &mut edited, end, old, port);
        // A checksum has two forms of zero; everything else is as it was.
        let differ = bytes.iter().zip(data).filter(|(new, old)| new != old).count();
        assert!(differ <= 4, "{differ} bytes differ");
    }
    if let Some(mut quoted) = Quoted::parse(data, &packet) {
        let mut bytes = data.to_vec();
        quoted.rewrite(&mut bytes, &packet, End::Source, (Ipv4Addr::new(10, 0, 0, 1), 9));
        assert_eq!(Quoted::parse(&bytes, &packet), Some(quoted));
        assert_eq!(packet.transport_checksum_is_right(&bytes), is_right);
    }
});
