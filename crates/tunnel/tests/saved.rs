//! A cache that is saved: what comes back, and bytes that are refused.

#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;
use thermocline_tunnel::{Cache, End, FlowEvent, SavedError, Settings, Sharing, Target};
use thermocline_units::{Bytes, Nanos, Rng};
use thermocline_wire::Role;

const NOW: Nanos = Nanos(0);
const CAPACITY: Bytes = Bytes::from_mib(1);

fn ends(caches: [Cache; 2]) -> [End; 2] {
    let mut roles = [Role::Connector, Role::Acceptor].into_iter();
    caches.map(|cache| {
        let controller = "content:size=512B".to_string();
        let settings = Settings { controller, ..Settings::new(roles.next().unwrap(), 1) };
        End::new(settings, cache, Box::new(|| Nanos(0)), NOW).unwrap()
    })
}

/// Carries what both ends have to say; how many bytes, and what the acceptor's client gets.
fn carry(ends: &mut [End; 2], got: &mut Vec<u8>) -> usize {
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
                got.extend(&bytes);
                ends[1].taken(NOW, flow, bytes.len()).unwrap();
            }
        }
        if carried == before {
            return carried;
        }
    }
}

/// Sends `content` over a new connection; bytes that the link carried, and the caches afterwards.
fn send(caches: [Cache; 2], content: &[u8]) -> (usize, [Cache; 2]) {
    let mut ends = ends(caches);
    let (mut got, mut given) = (Vec::new(), 0);
    let mut sum = carry(&mut ends, &mut got);
    let target = Target { address: "a:1".to_string(), class: 1, sharing: Sharing::All };
    let flow = ends[0].open(NOW, &target).unwrap();
    while given < content.len() {
        let length = ends[0].room(flow).min(content.len() - given).min(10_000);
        ends[0].give(NOW, flow, &content[given..given + length]);
        given += length;
        sum += carry(&mut ends, &mut got);
    }
    ends[0].end(NOW, flow);
    sum += carry(&mut ends, &mut got);
    assert!(got == content, "every byte arrives");
    (sum, ends.map(End::into_cache))
}

fn content(seed: u64) -> Vec<u8> {
    let mut rng = Rng::seeded(seed);
    (0..100_000).map(|_| rng.next_u64() as u8).collect()
}

fn new() -> [Cache; 2] {
    [Cache::new(CAPACITY, [1; 16], 5), Cache::new(CAPACITY, [2; 16], 6)]
}

fn saved(cache: &Cache) -> Vec<u8> {
    let mut bytes = Vec::new();
    cache.write_saved(&mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<Cache, SavedError> {
    Cache::read_saved(bytes, CAPACITY)
}

#[test]
fn what_was_sent_before_a_restart_is_sent_as_references_after_it() {
    let content = content(1);
    let (first, [enter, exit]) = send(new(), &content);
    assert!(first > content.len(), "random bytes cannot be compressed: {first}");
    for restarts in [[true, false], [false, true], [true, true]] {
        let (first, caches) = send(new(), &content);
        let mut restarts = restarts.into_iter();
        let caches = caches.map(|cache| match restarts.next().unwrap() {
            true => read(&saved(&cache)).unwrap(),
            false => cache,
        });
        let (again, _) = send(caches, &content);
        assert!(again * 10 < first, "{again} of {first} bytes");
    }
    // One end that kept nothing makes both begin anew.
    let (lost, _) = send([enter, new().into_iter().nth(1).unwrap()], &content);
    assert!(lost > content.len(), "{lost}");
    drop(exit);
}

/// The larger of two unequal caches was read with all of its room, became as small as the other one
/// at the first word, and lost all that it had kept.
#[test]
fn unequal_caches_are_kept_over_a_restart_of_the_larger() {
    let content = content(1);
    let unequal = [Cache::new(Bytes::from_kib(256), [1; 16], 5), new().into_iter().nth(1).unwrap()];
    let (first, [enter, exit]) = send(unequal, &content);
    let (again, _) = send([enter, read(&saved(&exit)).unwrap()], &content);
    assert!(again * 10 < first, "{again} of {first} bytes");
}

#[test]
fn names_go_on_where_they_stopped() {
    let (_, [enter, exit]) = send(new(), &content(1));
    let (_, [enter, exit]) = send([read(&saved(&enter)).unwrap(), exit], &content(2));
    // Content that came after the restart has names of its own, at both ends.
    let (again, _) = send([enter, exit], &[content(1), content(2)].concat());
    assert!(again < 20_000, "{again}");
}

#[test]
fn a_smaller_cache_takes_the_newest_chunks() {
    let (_, [enter, _]) = send(new(), &content(1));
    let less = Cache::read_saved(&saved(&enter)[..], Bytes::from_kib(40)).unwrap();
    let bytes = saved(&less);
    assert!(less.chunks() > 20 && less.chunks() < enter.chunks() / 2);
    assert!(bytes.len() < 44 * 1024, "{}", bytes.len());
}

#[test]
fn bytes_that_are_saved_again_are_the_same() {
    let (_, [enter, exit]) = send(new(), &content(3));
    for cache in [enter, exit] {
        let bytes = saved(&cache);
        assert_eq!(saved(&read(&bytes).unwrap()), bytes);
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_refused() {
    let small = content(4)[..3000].to_vec();
    let (_, [_, exit]) = send(new(), &small);
    let bytes = saved(&exit);
    assert!(exit.chunks() > 1);
    for at in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[at / 8] ^= 1 << (at % 8);
        assert!(read(&flipped).is_err(), "bit {at}");
    }
    for length in 0..bytes.len() {
        let error = read(&bytes[..length]).err().unwrap().to_string();
        assert!(error.contains("it ends within"), "{length}: {error}");
    }
    let error = read(&[&bytes[..], b"x"].concat()).err().unwrap().to_string();
    assert_eq!(error, format!("byte {}: bytes behind the end", bytes.len()));
}
