//! Tables of a pool that has grown stand in slots that no chunk gets, one apart from the other.

use super::{Shape, Tables};
use crate::pools::layout::{head_bytes, slots_behind, table_bytes};
use std::collections::BTreeSet;
use thermocline_units::Bytes;

fn made_of(size: Bytes, chunk_size: u32, checksums: bool) -> (Tables, u32, u64) {
    let head = head_bytes(64, 10, true);
    let (slots, first_slot) = slots_behind(size, head, chunk_size, checksums);
    let shape = Shape {
        journal_blocks: 64,
        area_blocks: 10,
        chunk_size,
        checksums,
        has_region: true,
        first_slot,
    };
    (Tables::new(shape), slots as u32, first_slot)
}

#[test]
fn a_pool_that_has_not_grown_has_all_tables_before_its_first_slot() {
    for chunk_size in [64 << 10, 1 << 20, 1 << 30] {
        let (tables, slots, first_slot) = made_of(Bytes::from_gib(20), chunk_size, true);
        assert!(tables.all_before(slots));
        assert_eq!(tables.count(slots), 0);
        let last = tables.offset(slots - 1).0 + table_bytes(chunk_size);
        assert!(last <= first_slot, "chunks of {chunk_size}");
    }
}

#[test]
fn each_slot_of_a_grown_pool_has_a_table_of_its_own_where_no_chunk_is() {
    for chunk_size in [64_u32 << 10, 256 << 10, 1 << 20] {
        let (tables, made_with, first_slot) = made_of(Bytes::from_mib(64), chunk_size, true);
        let slots = made_with + 5000;
        let held: BTreeSet<u32> = tables.among(0..slots).collect();
        assert_eq!(held.len() as u32, tables.count(slots));
        assert!(held.iter().all(|&slot| slot >= made_with), "what was there keeps its place");
        let mut seen = BTreeSet::new();
        for slot in (0..slots).filter(|slot| !held.contains(slot)) {
            let at = tables.offset(slot).0;
            assert!(seen.insert(at), "two slots have the table at {at}");
            if at >= first_slot {
                let on = ((at - first_slot) / u64::from(chunk_size)) as u32;
                assert!(held.contains(&on), "the table of slot {slot} is on slot {on}");
                let within = (at - first_slot) % u64::from(chunk_size);
                assert!(within + table_bytes(chunk_size) <= u64::from(chunk_size));
            }
        }
    }
}

#[test]
fn growing_twice_is_as_growing_once() {
    let (tables, made_with, _) = made_of(Bytes::from_mib(64), 64 << 10, true);
    let (middle, end) = (made_with + 77, made_with + 4000);
    let once: Vec<u32> = tables.among(made_with..end).collect();
    let twice: Vec<u32> =
        tables.among(made_with..middle).chain(tables.among(middle..end)).collect();
    assert_eq!(once, twice);
    assert!(once.len() > 10);
}

#[test]
fn a_group_without_checksums_gives_no_slot_away() {
    let (tables, made_with, _) = made_of(Bytes::from_mib(64), 64 << 10, false);
    assert_eq!(tables.count(made_with + 100_000), 0);
}
