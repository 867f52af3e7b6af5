//! Bytes as Ethernet frames, one after the other: tables stay bounded, and no frame brings more
//! than one answer and what waited for its sender.
#![no_main]

use bytes::Bytes;
use std::net::Ipv4Addr;
use thermocline_offload::ethernet::Neighbours;
use thermocline_units::Nanos;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let own = vec![Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
    let mut neighbours = Neighbours::new([2, 0, 0, 0, 0, 1], own);
    let (mut out, mut now) = (Vec::new(), 0);
    for frame in data.chunks(64) {
        now += 500_000_000;
        out.clear();
        let packet = neighbours.arrive(Nanos(now), &Bytes::copy_from_slice(frame), &mut out);
        assert!(out.len() <= 17);
        if let Some(packet) = packet {
            let last = packet.first().copied().unwrap_or(9);
            neighbours.send(Nanos(now), Ipv4Addr::new(10, 0, 0, last), packet, &mut out);
        }
        neighbours.tick(Nanos(now), &mut out);
    }
});
