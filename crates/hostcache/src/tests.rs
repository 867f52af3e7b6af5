//! Parts by themselves: the index against a map, numbers of former generations, and the layout:
//! round trips, every truncation, anything at all.

use crate::format::MESSAGE_HEADER_BYTES;
use crate::index::Index;
use crate::map::{Known, Map};
use crate::messages::{ContentId, HostId, How, ReadItem, ToAgent, ToPeer, ToServer, WriteItem};
use crate::names::Names;
use crate::{BLOCK_BYTES, Message, Why};
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Debug;

proptest! {
    #[test]
    fn an_index_finds_what_a_map_finds(
        steps in prop::collection::vec((0_u64..60, prop::bool::ANY), 0..600),
        secret in any::<u64>(),
    ) {
        // Numbers stand for keys; several share one, as hashes that begin alike do.
        let key_of = |number: u32| u64::from(number / 3);
        let (mut index, mut model) = (Index::new(secret), BTreeMap::new());
        for (number, inserts) in steps {
            let number = number as u32;
            if inserts && !model.contains_key(&number) {
                index.insert(key_of(number), number, key_of);
                model.insert(number, ());
            } else if !inserts {
                index.remove(key_of(number), number, key_of);
                model.remove(&number);
            }
            for number in 0..60 {
                let found = index.find(key_of(number), |other| other == number);
                prop_assert_eq!(found.is_some(), model.contains_key(&number));
            }
        }
    }

    #[test]
    fn anything_is_read_or_refused(
        kind in 0_u8..14,
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let body = Bytes::from(body);
        again(ToServer::read(kind, &body));
        again(ToAgent::read(kind, &body));
        again(ToPeer::read(kind, &body));
    }
}

/// Writes a message that was read, and compares the bytes.
fn again<M: Message + PartialEq + Debug>(read: Result<M, crate::FormatError>) {
    if let Ok(message) = read {
        round_trip(&message);
    }
}

fn round_trip<M: Message + PartialEq + Debug>(message: &M) -> Bytes {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    assert_eq!(bytes.len(), message.length(), "{message:?}");
    let kind = bytes[4];
    let body = Bytes::from(bytes.split_off(MESSAGE_HEADER_BYTES));
    assert_eq!(M::read(kind, &body).as_ref(), Ok(message));
    body
}

/// Round trip, and no truncation passes as the same message.
fn check<M: Message + PartialEq + Debug>(messages: &[M]) {
    for (kind, message) in (1_u8..).zip(messages) {
        let body = round_trip(message);
        for length in (0..body.len()).filter(|length| *length < 200 || length % 97 == 0) {
            let cut = M::read(kind, &body.slice(..length));
            assert_ne!(cut.as_ref(), Ok(message), "{length} of {}", body.len());
        }
    }
}

#[test]
fn messages_survive_a_round_trip_and_no_truncation_passes() {
    let (block, hash) = (Bytes::from(vec![7; BLOCK_BYTES]), [9; 32]);
    let (id, volume) = (ContentId(1 << 40), 3);
    let items = vec![
        WriteItem::Zero,
        WriteItem::Id(id),
        WriteItem::Hash(hash),
        WriteItem::Data(block.clone()),
    ];
    check(&[
        ToServer::Attach { request: 1, volume: "guest-1".to_string(), fence: 9 },
        ToServer::Release { volume, fence: 2, to: Some(HostId(4)) },
        ToServer::Renew { request: 5 },
        ToServer::Read { request: 6, volume, block: 7, count: 8, how: How::Bytes },
        ToServer::Write { request: 1, volume, fence: 2, block: 3, fua: true, items },
        ToServer::Flush { request: 1, volume, fence: 2 },
        ToServer::Map { request: 1, volume, base: true, block: 512 },
        ToServer::Evicted { ids: vec![id; 3] },
        ToServer::Held { hashes: vec![hash; 2] },
    ]);
    let items = vec![
        ReadItem::Zero,
        ReadItem::Id(id),
        ReadItem::Hash(id, hash),
        ReadItem::Data(id, hash, block.clone()),
        ReadItem::Plain(block.clone()),
        ReadItem::Deferred(id, hash, HostId(2), 77),
    ];
    check(&[
        ToAgent::Attached { request: 1, volume, fence: 2, blocks: 3, base: 4, lease: 5 },
        ToAgent::Renewed { request: 1 },
        ToAgent::Refused { request: 1, why: Why::Fenced },
        ToAgent::Lost { volume },
        ToAgent::Blocks { request: 1, version: 2, items },
        ToAgent::Written { request: 1, version: 2, ids: vec![0, 5, u64::MAX, u64::MAX - 3] },
        ToAgent::Flushed { request: 1 },
        ToAgent::Entries { request: 1, version: 2, runs: vec![(0, vec![1, 2])], next: Some(9) },
        ToAgent::Push { id, version: 1, blocks: vec![(1, 2), (3, 4)] },
        ToAgent::Serve { token: 1, id, to: HostId(9) },
        ToAgent::Named { ids: vec![0, 1] },
    ]);
    check(&[ToPeer::Block { token: 5, bytes: block }, ToPeer::Gone { token: 6 }]);
}

#[test]
fn numbers_of_former_generations_and_runs_mean_nothing() {
    let mut names = Names::new(64, 1, 7, 1);
    let place = names.take(100, |_| false, |_| panic!("nothing leaves"));
    let old = names.id(place);
    assert_eq!(names.place(old), Some(place));
    let mut left = None;
    assert_eq!(names.take(101, |_| false, |place| left = Some(place)), place, "no host holds it");
    assert_eq!((left, names.place(old), names.find(100)), (Some(place), None, None));
    assert_ne!(names.id(place), old);
    names.set_holder(place, 3, true);
    let other = names.take(102, |_| false, |_| panic!("what is held keeps its place"));
    assert_ne!(other, place);
    let later = Names::new(64, 1, 8, 1);
    assert_eq!(later.place(names.id(place)), None, "of another run");
}

#[test]
fn hosts_beyond_sixty_four_have_words_of_their_own() {
    let mut names = Names::new(130, 1, 1, 1);
    let places: Vec<u32> = (0..3)
        .map(|number| {
            let place = names.take(number, |_| true, |_| ());
            names.set_holder(place, 129, true);
            names.set_holder(place, 0, true);
            place
        })
        .collect();
    names.set_holder(places[1], 129, false);
    let holders = |place| names.holders(place).collect::<Vec<_>>();
    assert_eq!([holders(places[0]), holders(places[1])], [vec![0, 129], vec![0]]);
    names.forget_host(0);
    assert_eq!(names.holder_count(places[2]), 1);
}

#[test]
fn a_map_learns_nothing_that_is_older_than_a_write() {
    let mut map = Map::new(1000, 8);
    assert!(map.learns(5, 1));
    map.begin_write(5);
    assert!(!map.learns(5, 100), "its write is not answered");
    map.end_write(5, 10);
    assert_eq!([9, 10, 11].map(|version| map.learns(5, version)), [false, true, true]);
    assert!(map.learns(6, 1));
}

#[test]
fn clones_share_leaves_until_one_changes() {
    let mut image = Map::new(1024, 8);
    let mut refs = BTreeMap::new();
    let mut count = |content: u32, by: i32| *refs.entry(content).or_insert(0) += by;
    image.set(3, Known::Content(1), &mut count);
    image.set(600, Known::Content(2), &mut count);
    let mut clone = Map::new(1024, 8);
    clone.take_leaves(image.leaves());
    clone.set(3, Known::Zero, &mut count);
    assert_eq!((image.get(3), clone.get(3)), (Known::Content(1), Known::Zero));
    assert_eq!(clone.get(600), Known::Content(2));
    assert_eq!((refs[&1], refs[&2]), (1, 1), "the leaf with block 600 is still shared");
}

/// Answers to writes come in any order, and the table of versions is dropped with one that is not
/// the newest: the map then learnt content from before a write that had been answered.
#[test]
fn a_map_learns_nothing_older_than_a_write_whose_version_was_dropped() {
    let mut map = Map::new(1000, 2);
    for (block, version) in [(1, 90), (2, 40), (3, 50)] {
        map.begin_write(block);
        map.end_write(block, version);
    }
    assert!(!map.learns(1, 60), "the write of block 1 has version 90");
    assert!(map.learns(1, 90));
    // Nor does the next drop forget the first one.
    for (block, version) in [(4, 70), (5, 71), (6, 72)] {
        map.begin_write(block);
        map.end_write(block, version);
    }
    assert!(!map.learns(1, 80));
    map.begin_write(7);
    assert!(!map.learns(7, 1000), "a write that is not answered is not dropped");
}
