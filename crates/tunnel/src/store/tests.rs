//! The store against a plain list, and what it costs.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use thermocline_units::Rng;

fn us(number: u64) -> Name {
    Name { owner: Owner::Us, number }
}

fn content(number: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::seeded(number);
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

/// A weak fingerprint on purpose: equal ones for unlike content.
fn weak(bytes: &[u8]) -> u64 {
    u64::from(bytes[0] % 16) << 60
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is found has the very bytes that were inserted under its name; what is asked for
    /// right after it came is there.
    #[test]
    fn what_is_found_is_what_was_inserted(seed: u64, capacity in 600_u64..5000, steps in 1_u64..600) {
        let mut store = Store::new(Bytes(capacity), 7);
        let mut model = BTreeMap::new();
        let mut rng = Rng::seeded(seed);
        for number in 0..steps {
            let bytes = content(seed ^ number, 1 + rng.below(capacity / 8) as usize);
            store.insert(us(number), weak(&bytes), &bytes);
            model.insert(number, bytes.clone());
            prop_assert_eq!(store.get(us(number)), Some(&bytes[..]));
            let asked = rng.below(number + 1);
            if let Some(found) = store.get(us(asked)) {
                prop_assert_eq!(found, &model[&asked][..]);
            }
            let other = &model[&rng.below(number + 1)];
            if let Some(name) = store.find(weak(other), other) {
                prop_assert_eq!(&model[&name.number], other);
            }
            let held: usize = store.entries.iter().map(|entry| entry.extent.length()).sum();
            prop_assert!(held as u64 <= capacity && store.arena.len() as u64 <= capacity);
        }
        // Every entry is still found both ways.
        for entry in store.entries.clone() {
            let name = Name::unpacked(entry.name);
            let bytes = model[&name.number].clone();
            prop_assert_eq!(store.get(name), Some(&bytes[..]));
        }
    }
}

#[test]
fn a_chunk_in_use_outlives_those_that_are_not() {
    let mut store = Store::new(Bytes(10_000), 7);
    for number in 0..1000 {
        store.insert(us(number), number << 54, &content(number, 100));
        assert!(store.get(us(0)).is_some(), "used at every step, gone after {number}");
    }
    assert!(store.get(us(500)).is_none());
    assert!(store.counts().kept > 5);
}

#[test]
fn names_of_an_end_that_began_anew_are_forgotten_and_others_kept() {
    let mut store = Store::new(Bytes(100_000), 7);
    for number in 0..300 {
        let owner = if number % 3 == 0 { Owner::Peer } else { Owner::Us };
        store.insert(Name { owner, number }, number << 54, &content(number, 100));
    }
    store.forget(Owner::Peer);
    assert_eq!(store.len(), 200);
    assert!(store.get(Name { owner: Owner::Peer, number: 3 }).is_none());
    assert_eq!(store.get(us(4)), Some(&content(4, 100)[..]));
    // The room of what was forgotten is used again.
    for number in 300..3000 {
        store.insert(us(number), number << 54, &content(number, 100));
    }
    assert_eq!(store.get(us(2999)), Some(&content(2999, 100)[..]));
}

#[test]
fn a_chunk_that_would_drive_out_all_others_is_not_kept() {
    let mut store = Store::new(Bytes(800), 7);
    store.insert(us(0), 1, &[7; 101]);
    assert!(store.is_empty());
    store.insert(us(1), 1, &[7; 100]);
    assert_eq!(store.find(1, &[7; 100]), Some(us(1)));
    assert_eq!(store.find(1, &[8; 100]), None, "the same fingerprint, other bytes");
}

#[test]
fn memory_beside_the_bytes_is_at_most_forty_bytes_a_chunk() {
    let mut store = Store::new(Bytes::from_mib(64), 7);
    for number in 0..2_000_000_u64 {
        store.insert(us(number), spread(0, number), &number.to_le_bytes());
        if number > 10_000 && number % 997 == 0 {
            let each = store.overhead().0 as f64 / store.len() as f64;
            assert!(each <= 40.0, "{each} B a chunk with {number}");
        }
    }
}

#[test]
fn equal_fingerprints_and_names_given_twice_cost_no_more_than_others() {
    let mut store = Store::new(Bytes::from_mib(8), 7);
    // By the square this would be ten thousand million steps.
    for number in 0..200_000 {
        store.insert(us(number), 5, b"the same content under ever new names");
        store.insert(us(3), number, b"other content under the same name");
    }
    assert!(store.find(5, b"the same content under ever new names").is_some());
    assert_eq!(store.get(us(199_999)), Some(&b"the same content under ever new names"[..]));
    assert_eq!(store.by_content.count(), 2, "one for each fingerprint");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The index against a plain map, with hashes of which many meet in one place.
    #[test]
    fn an_index_finds_what_is_in_it_and_nothing_else(
        seed: u64,
        bits in 1_u32..12,
        steps in 1_u32..1500,
    ) {
        let hash_of = |number: u32| spread(3, u64::from(number)) >> (64 - bits) << (64 - bits);
        let (mut index, mut model) = (Index::new(), BTreeMap::new());
        let mut rng = Rng::seeded(seed);
        for _ in 0..steps {
            let number = rng.below(600) as u32;
            let hash = hash_of(number);
            if rng.below(3) == 0 {
                let there = model.remove(&number).is_some();
                prop_assert_eq!(index.remove(hash, number), there);
            } else if !model.contains_key(&number) && index.insert(hash, number, hash_of) {
                model.insert(number, ());
            }
        }
        prop_assert_eq!(index.count(), model.len());
        for number in 0..600 {
            let found = index.find(hash_of(number), |other| other == number);
            prop_assert_eq!(found.is_some(), model.contains_key(&number), "{}", number);
        }
    }
}

#[test]
fn an_index_refuses_what_all_meets_in_one_place() {
    let mut index = Index::new();
    let added = (0..10_000).filter(|&number| index.insert(5, number, |_| 5)).count();
    assert_eq!(added, 255, "as many as a byte of distance can say");
    assert!(index.memory() < 64 << 10, "{} B for {added} numbers", index.memory());
    // Elsewhere others are as welcome as before.
    let others: Vec<u32> = (10_000..20_000).collect();
    let hash_of = |number| match number {
        0..10_000 => 5,
        _ => spread(3, u64::from(number)) | 1 << 63,
    };
    assert!(others.iter().all(|&number| index.insert(hash_of(number), number, hash_of)));
    assert!(others.iter().all(|&number| index.find(hash_of(number), |n| n == number).is_some()));
    assert!((0..255).all(|number| index.remove(5, number)));
}

/// A store whose memory has given up chunks to its device.
fn spilled() -> Store {
    let mut store = Store::new(Bytes::from_kib(64), 7).with_disk(Bytes::from_mib(1));
    for number in 0..200 {
        store.insert(us(number), number, &content(number, 1000));
    }
    store
}

#[test]
fn a_device_owes_no_more_reads_than_a_bound() {
    let mut store = spilled();
    let asked = (0..2 * disk::READS_MAX).filter_map(|_| store.fetch(us(0), 1000)).count();
    assert_eq!(asked, disk::READS_MAX);
    let jobs = std::iter::from_fn(|| store.next_disk_job());
    let ticket = jobs.filter_map(|job| match job {
        DiskJob::Read { ticket, .. } => Some(ticket),
        DiskJob::Write { .. } => None,
    });
    let tickets: Vec<Ticket> = ticket.collect();
    let bytes = Some(content(0, 1000));
    assert!(store.disk_done(DiskDone::Read { ticket: tickets[0], bytes }).is_some());
    assert!(store.fetch(us(0), 1000).is_some(), "an answer makes room");
}

#[test]
fn a_device_that_was_given_up_is_not_announced() {
    let mut store = spilled();
    assert_eq!(store.most(), Bytes(64 * 1024 + (1 << 20)));
    store.disk_done(DiskDone::Written { is_written: false });
    assert_eq!(store.most(), Bytes::from_kib(64));
    store.limit(Bytes::from_mib(4));
    assert_eq!(store.fetch(us(0), 1000), None);
}
