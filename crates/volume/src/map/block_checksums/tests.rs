//! Tables of checksums: read, lost, voided, written, and left unsaid in open regions.

use super::{BlockChecksums, ChecksumStatus, QUIET, region_of, table_name};
use crate::finding::FindingKind;
use crate::format::{Record, decode_table, encode_table};
use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::group_state::tests::{
    CHUNK, FAR, FAST, SLOW, add_copy, chunk, effects, group, group_with_checksums, land, put, said,
    sent, settle,
};
use crate::journal::Outcome;
use crate::journal::commit::Waiter;
use crate::map::place::Role;
use crate::map::sums::checksums;
use crate::map::{ChunkState, Table};
use crate::pools::flight::Owner;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::{ChunkId, Nanos, PoolId};

const BLOCK: u32 = 4096;

/// Contents of a chunk that is all sevens, and their checksums.
fn sevens() -> (Payload, Vec<u32>) {
    let contents = Payload::from(vec![7; CHUNK as usize]);
    let sums = checksums(&contents);
    (contents, sums)
}

/// A chunk of sevens on the fast and on the slow pool has a table that the journal calls right,
/// and that is not in memory; the table.
fn at_rest() -> (GroupState, BlockChecksums, Payload) {
    let mut group = group_with_checksums();
    put(&mut group, chunk(0), FAST);
    add_copy(&mut group, chunk(0), SLOW, Role::Wanted);
    let (table, sum) = encode_table(table_name(&group, chunk(0)), &sevens().1, CHUNK);
    let state = ChunkState { table: Table::Summed(sum), ..group.map.state(chunk(0)) };
    group.map.set_state(chunk(0), &state);
    (group, BlockChecksums::default(), table)
}

/// The only request for a device, which reads a table: it is answered. The pool.
fn answer(
    group: &mut GroupState,
    tables: &mut BlockChecksums,
    result: Result<Payload, DeviceError>,
) -> PoolId {
    let requests = sent(group);
    let [(pool, ticket, Io::Read { .. })] = requests[..] else { panic!("{requests:?}") };
    let flight = land(group, pool, ticket, result.clone());
    let Owner::TableRead { load } = flight.owner else { panic!("{flight:?}") };
    tables.table_read(group, Nanos(0), load, result);
    pool
}

fn at_hand(group: &mut GroupState, tables: &mut BlockChecksums) -> bool {
    tables.table_is_at_hand(group, Nanos(0), chunk(0))
}

/// A chunk gets a table for the first time.
fn write_table(group: &mut GroupState, tables: &mut BlockChecksums, chunk: ChunkId, pool: PoolId) {
    put(group, chunk, pool);
    tables.table_is_written(group, chunk, &sevens().1, 99, false);
}

fn waiters(outcomes: Vec<Outcome>) -> Vec<Waiter> {
    let waiters = |outcome| match outcome {
        Outcome::Durable { waiters, .. } => waiters,
        _ => Vec::new(),
    };
    outcomes.into_iter().flat_map(waiters).collect()
}

#[test]
fn a_table_is_read_once_and_reads_are_held_against_it() {
    let (mut group, mut tables, table) = at_rest();
    assert!(!at_hand(&mut group, &mut tables) && !at_hand(&mut group, &mut tables));
    assert_eq!(answer(&mut group, &mut tables, Ok(table)), FAST);
    assert!(at_hand(&mut group, &mut tables) && tables.can_verify(chunk(0), &(0..CHUNK)));
    let (contents, _) = sevens();
    assert_eq!(tables.wrong_blocks(chunk(0), 0, &contents, 1), 0);
    let wrong = Payload::from([vec![7; 4096], vec![8; 4096], vec![7; 4096]].concat());
    assert_eq!(tables.wrong_blocks(chunk(0), BLOCK, &wrong, 1), 1);
    assert_eq!(sent(&mut group), []);
}

#[test]
fn another_copy_has_the_table_where_the_first_is_damaged_or_another_chunks() {
    let foreign = |group: &GroupState, _: &Payload| {
        encode_table(table_name(group, chunk(1)), &sevens().1, CHUNK).0
    };
    let damaged = |_: &GroupState, table: &Payload| {
        let mut bytes = table.to_vec();
        bytes[100] ^= 1;
        Payload::from(bytes)
    };
    for first in [&foreign as &dyn Fn(&GroupState, &Payload) -> Payload, &damaged] {
        let (mut group, mut tables, table) = at_rest();
        at_hand(&mut group, &mut tables);
        let first = first(&group, &table);
        assert_eq!(answer(&mut group, &mut tables, Ok(first)), FAST);
        assert!(!at_hand(&mut group, &mut tables));
        assert_eq!(answer(&mut group, &mut tables, Ok(table)), SLOW);
        let mended = |effect: &Effect| matches!(effect, Effect::Mend { blocks: 0, .. });
        assert!(at_hand(&mut group, &mut tables) && effects(&mut group).iter().any(mended));
        assert_eq!(tables.status().lost, 0);
    }
}

#[test]
fn a_table_that_no_copy_has_is_told_of_and_the_journal_hears_before_a_write() {
    let (mut group, mut tables, _) = at_rest();
    at_hand(&mut group, &mut tables);
    for pool in [FAST, SLOW] {
        assert_eq!(answer(&mut group, &mut tables, Err(DeviceError::Io)), pool);
    }
    assert!(at_hand(&mut group, &mut tables), "reads go on unverified");
    assert!(!tables.can_verify(chunk(0), &(0..BLOCK)));
    let mut findings = Vec::new();
    group.findings.take(&mut findings);
    assert_eq!(findings.iter().map(|it| it.kind).collect::<Vec<_>>(), [FindingKind::ChecksumsLost]);
    assert_eq!(tables.status(), ChecksumStatus { lost: 1, ..ChecksumStatus::default() });
    assert!(waiters(settle(&mut group)).contains(&Waiter::Intent(chunk(0))));
}

#[test]
fn what_a_table_said_stays_known_until_it_is_written_over() {
    let (mut group, mut tables) = (group_with_checksums(), BlockChecksums::default());
    write_table(&mut group, &mut tables, chunk(0), FAST);
    tables.void_checksums(&mut group, Nanos(0), chunk(0));
    assert!(!group.map.entry(chunk(0)).has_checksums() && tables.status().broken == 1);
    assert!(tables.can_verify(chunk(0), &(0..CHUNK)));
    tables.write_begins(chunk(0), &(512..1024), 1);
    assert!(!tables.can_verify(chunk(0), &(0..BLOCK)));
    assert!(tables.can_verify(chunk(0), &(BLOCK..CHUNK)));
    assert!(tables.has_watched(), "it gets another table when it has come to rest");
}

#[test]
fn a_chunk_gets_its_tables_when_nobody_wrote_to_it_for_a_while() {
    let (mut group, mut tables) = (group_with_checksums(), BlockChecksums::default());
    put(&mut group, chunk(0), FAST);
    (0..2).for_each(|_| tables.watch(&mut group, Nanos(0), chunk(0)));
    assert_eq!(tables.watched.len(), 1);
    let mut look = |group: &mut GroupState, now: u64| {
        tables.checksum_quiet_chunks(group, Nanos(now));
        let is_it = |effect: &Effect| matches!(effect, Effect::Tables(of) if *of == chunk(0));
        effects(group).iter().any(is_it)
    };
    assert!(!look(&mut group, 1) && !look(&mut group, QUIET.0));
    group.map.count_access(chunk(0), 0, true);
    assert!(!look(&mut group, QUIET.0 + 1), "it was written");
    assert!(!look(&mut group, 2 * QUIET.0) && look(&mut group, 2 * QUIET.0 + 1));
    assert!(!look(&mut group, 9 * QUIET.0), "it is asked for once");
}

#[test]
fn chunks_across_a_network_and_groups_without_checksums_get_no_tables() {
    for (mut group, pool) in [(group_with_checksums(), FAR), (group(), FAST)] {
        let mut tables = BlockChecksums::default();
        put(&mut group, chunk(0), pool);
        tables.watch(&mut group, Nanos(0), chunk(0));
        (0..4).for_each(|n| tables.checksum_quiet_chunks(&mut group, Nanos(n * 2 * QUIET.0)));
        assert!(!group.has_effects() && !tables.has_watched(), "{pool:?}");
    }
}

#[test]
fn a_table_goes_with_the_last_copy_that_has_room_for_it() {
    for (bare, table) in [(true, false), (false, true)] {
        let (mut group, mut tables) = (group_with_checksums(), BlockChecksums::default());
        write_table(&mut group, &mut tables, chunk(0), FAST);
        add_copy(&mut group, chunk(0), SLOW, Role::Wanted);
        group.pools[SLOW].checksums = !bare;
        let mut state = group.map.state(chunk(0));
        state.lose_pool(FAST);
        tables.drop_orphaned_table(&mut group, chunk(0), &mut state);
        assert_eq!(state.table != Table::None, table, "{bare}");
        assert!(tables.can_verify(chunk(0), &(0..CHUNK)), "what it said is known");
    }
}

#[test]
fn the_first_write_to_a_region_speaks_for_all_its_chunks() {
    let (mut group, mut tables) = (group_with_checksums(), BlockChecksums::default());
    (0..2).for_each(|index| write_table(&mut group, &mut tables, chunk(index), FAST));
    settle(&mut group);
    group.announce_writes(chunk(0));
    tables.open_regions(&mut group, Nanos(0), chunk(0));
    let said_of = |records: &[Record], index| {
        let is_it = |record: &Record| {
            matches!(record, Record::Chunk(of, state)
            if *of == chunk(index) && state.table == Table::None)
        };
        records.iter().any(is_it)
    };
    assert!(group.map.entry(chunk(1)).is_unsaid() && group.map.entry(chunk(1)).has_checksums());
    assert!(tables.waits_for_region(&mut group, chunk(1)), "its record is not durable");
    let region = region_of(&group, chunk(1));
    let records = said(&mut group);
    assert!(said_of(&records, 0) && said_of(&records, 1), "{records:?}");
    tables.region_opened(&mut group, region);
    assert!(!tables.waits_for_region(&mut group, chunk(1)));
    tables.take_table(&mut group, Nanos(0), chunk(1));
    assert!(!group.map.entry(chunk(1)).has_checksums(), "and no record was needed");
}

#[test]
fn tables_in_an_open_region_are_said_when_it_is_closed() {
    let (mut group, mut tables) = (group_with_checksums(), BlockChecksums::default());
    write_table(&mut group, &mut tables, chunk(0), FAST);
    settle(&mut group);
    tables.open_regions(&mut group, Nanos(0), chunk(0));
    tables.close_regions(&mut group);
    assert!(tables.has_open_regions(), "it is only being opened");
    settle(&mut group);
    let region = region_of(&group, chunk(0));
    tables.region_opened(&mut group, region);
    settle(&mut group);
    write_table(&mut group, &mut tables, chunk(1), SLOW);
    assert!(group.map.entry(chunk(1)).is_unsaid() && !group.journal.is_queued());
    tables.close_regions(&mut group);
    assert!(group.map.entry(chunk(1)).is_called_right() && group.journal.is_queued());
    assert!(!tables.has_open_regions());
}

#[test]
fn a_table_is_written_at_each_copy_that_has_room_for_it() {
    let (mut group, mut tables) = (group_with_checksums(), BlockChecksums::default());
    let place = put(&mut group, chunk(0), FAST);
    add_copy(&mut group, chunk(0), SLOW, Role::Wanted);
    for (bare, count) in [(false, 2), (true, 1)] {
        group.pools[SLOW].checksums = !bare;
        let (written, sum) = tables.write_tables(&mut group, Nanos(0), chunk(0), &sevens().1);
        let requests = sent(&mut group);
        assert_eq!((written, requests.len()), (count, count as usize));
        let Io::Write { offset, data, fua: false } = &requests[0].2 else { panic!("{requests:?}") };
        assert_eq!(*offset, group.pools.table_address(place));
        let name = table_name(&group, chunk(0));
        let table = decode_table(name, Table::Summed(sum), &data.to_vec(), CHUNK);
        assert_eq!(table.map(|sums| sums.to_vec()), Some(sevens().1));
    }
}
