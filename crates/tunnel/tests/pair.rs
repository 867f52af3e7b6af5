//! Two ends with a connection that loses nothing between them.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use std::collections::VecDeque;
use thermocline_tunnel::{Cache, End, FlowEvent, Settings, Sharing, Target};
use thermocline_units::{Bytes as Size, Nanos, Rng};
use thermocline_wire::{Config, Event, Role, Session};

const NOW: Nanos = Nanos(0);

fn end(role: Role, kib: u64, controller: &str) -> End {
    let run = if role == Role::Connector { 1 } else { 2 };
    let cache = Cache::new(Size::from_kib(kib), [run; 16], 5);
    let settings = Settings { controller: controller.to_string(), ..Settings::new(role, 1) };
    End::new(settings, cache, Box::new(|| Nanos(0)), NOW).unwrap()
}

/// Carries what both ends have to say; how many bytes.
fn carry(ends: &mut [End; 2]) -> usize {
    let mut carried = 0;
    loop {
        let before = carried;
        for (from, to) in [(0, 1), (1, 0)] {
            let mut out = VecDeque::new();
            carried += ends[from].transmit(NOW, &mut out, 1 << 20);
            for bytes in out {
                ends[to].receive(NOW, &bytes).unwrap();
            }
        }
        while let Some(event) = ends[1].next_event() {
            if let FlowEvent::Bytes { flow, bytes } = event {
                ends[1].taken(NOW, flow, bytes.len()).unwrap();
            }
        }
        if carried == before {
            return carried;
        }
    }
}

/// Bytes that both ways carried for `content`, with caches of so many KiB.
fn carried(kib: [u64; 2], content: &[u8]) -> usize {
    let controller = "content:size=512B";
    let mut ends =
        [end(Role::Connector, kib[0], controller), end(Role::Acceptor, kib[1], controller)];
    carry(&mut ends);
    let target = Target { address: "a:1".to_string(), class: 1, sharing: Sharing::All };
    let flow = ends[0].open(NOW, &target).unwrap();
    let (mut given, mut sum) = (0, 0);
    while given < content.len() {
        let length = ends[0].room(flow).min(content.len() - given).min(10_000);
        ends[0].give(NOW, flow, &content[given..given + length]);
        given += length;
        sum += carry(&mut ends);
    }
    ends[0].end(NOW, flow);
    sum + carry(&mut ends)
}

/// Pieces of 4 KiB that compress to a half, of which some come again after little and some after
/// much.
fn content() -> Vec<u8> {
    let mut rng = Rng::seeded(2);
    let mut piece =
        || -> Vec<u8> { (0..4096).map(|_| b"0123456789abcdef"[rng.below(16) as usize]).collect() };
    let pieces: Vec<Vec<u8>> = (0..200).map(|_| piece()).collect();
    let mut rng = Rng::seeded(3);
    let next = |at: u64| match rng.below(2) {
        0 => (at / 8 + rng.below(6)) % 200,
        _ => rng.below(200),
    };
    (0..1200).map(next).flat_map(|number| pieces[number as usize].clone()).collect()
}

#[test]
fn a_cache_that_only_one_end_has_costs_no_traffic() {
    let content = content();
    let small = carried([64, 64], &content);
    let large = carried([16_384, 16_384], &content);
    for kib in [[16_384, 64], [64, 16_384]] {
        let unequal = carried(kib, &content);
        assert!(unequal as f64 <= 1.02 * small as f64, "{kib:?}: {unequal}, small: {small}");
    }
    assert!((large as f64) < 0.9 * small as f64, "large: {large}, small: {small}");
}

#[test]
fn an_end_whose_words_break_the_format_is_told_so() {
    let mut end = end(Role::Acceptor, 64, "none");
    let mut config = Config::new(Role::Connector, [1; 16]);
    config.parameters = Bytes::from_static(&[1; 17]);
    let mut session = Session::new(config, NOW).unwrap();
    let mut failed = None;
    let mut said = String::new();
    for step in 0..4 {
        let mut out = VecDeque::new();
        session.transmit(NOW, &mut out, 1 << 20);
        for bytes in out {
            failed = failed.or(end.receive(NOW, &bytes).err());
        }
        let mut out = VecDeque::new();
        end.transmit(NOW, &mut out, 1 << 20);
        for bytes in out {
            session.receive(NOW, &bytes).unwrap();
        }
        while let Some(event) = session.next_event() {
            if let Event::Closing { reason, .. } = event {
                said = reason;
            }
        }
        match step {
            0 => drop(session.open(&[]).unwrap()),
            1 => drop(session.open(b"\x07none").unwrap()),
            _ => {}
        }
    }
    assert!(failed.is_some());
    assert!(said.contains("version of a flow's header is 7"), "{said}");
}
