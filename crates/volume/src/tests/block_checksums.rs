//! Block checksums: found, repaired, told; and what a device lost or wrote elsewhere.

use super::{Bench, CHUNK};
use crate::{Action, Finding, FindingKind, OperationKind, Outcome, RequestError, Settings};
use thermocline_ports::{Device, Io, Payload, Ticket};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// One chunk with checksums, of ones on the first pool.
fn checksummed() -> Bench {
    let settings = Settings { checksums: true, ..Bench::settings() };
    let mut bench = Bench::with_settings(&[4, 8, 8], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    bench.write(0, 1, CHUNK as usize);
    bench.flush();
    bench.pass(Nanos::from_secs(60));
    assert_eq!(bench.group.checksum_status().checksummed, 1);
    bench
}

const WHOLE: Bytes = Bytes(CHUNK);
const MINUTE: Nanos = Nanos::from_secs(60);

fn chunk() -> ChunkId {
    ChunkId { volume: VolumeId(0), index: 0 }
}

/// Offset of the contents of the first chunk on a disk.
fn slot(bench: &Bench, disk: u16) -> Bytes {
    let pool = PoolId(disk);
    let copies = bench.group.locate(chunk()).expect("it exists").copies;
    let copy = copies.iter().find(|copy| copy.place.pool == pool).expect("it has one there");
    bench.group.machines.state.pools[pool].address(copy.place, 0, CHUNK as u32)
}

/// Offset of the table of the first chunk on a disk.
fn table(bench: &Bench, disk: u16) -> Bytes {
    let copies = bench.group.locate(chunk()).expect("it exists").copies;
    let copy = copies.iter().find(|copy| copy.place.pool == PoolId(disk)).expect("one is there");
    bench.group.machines.state.pools.table_address(copy.place)
}

/// Flips a bit of the first chunk's third block on a disk.
fn rot(bench: &mut Bench, disk: u16) {
    rot_block(bench, disk, 2);
}

fn rot_block(bench: &mut Bench, disk: u16, block: u64) {
    let at = Bytes(slot(bench, disk).0 + block * 4096);
    bench.disks[usize::from(disk)].flip_bit(at, 0);
}

/// Puts bytes onto a disk behind the group's back.
fn poke(bench: &mut Bench, disk: u16, offset: Bytes, data: Payload) {
    let disk = &mut bench.disks[usize::from(disk)];
    disk.submit(bench.now, Ticket(0), Io::Write { offset, data, fua: true });
    bench.now = disk.next_event().expect("it is under way");
    disk.poll(bench.now, &mut Vec::new());
}

fn peek(bench: &Bench, disk: u16, offset: Bytes, length: u64) -> Payload {
    bench.disks[usize::from(disk)].peek(offset, length as u32).expect("readable")
}

/// Findings since this was last asked: kinds, offsets and lengths, pools.
fn findings(bench: &mut Bench) -> Vec<(FindingKind, u64, u64, Option<u16>)> {
    let mut found: Vec<Finding> = Vec::new();
    bench.group.take_findings(&mut found);
    let told = |f: &Finding| (f.kind, f.offset.0, f.length.0, f.pool.map(|pool| pool.0));
    found.iter().map(told).collect()
}

fn scrub(bench: &mut Bench) {
    bench.group.scrub(bench.now);
    bench.pass(Nanos::from_secs(5));
    assert!(!bench.group.scrub_status().running);
}

fn errors(bench: &Bench, pool: u16) -> u64 {
    bench.group.pool_status(PoolId(pool)).expect("it exists").counters.checksum_errors
}

/// Two copies with checksums of a chunk of ones, on the first two pools.
fn replicated() -> Bench {
    let mut bench = checksummed();
    assert_eq!(bench.operate(OperationKind::Replicate, 0, 1), Outcome::Done);
    bench.pass(MINUTE);
    assert_eq!(bench.group.checksum_status().checksummed, 2, "checksums again after the move");
    bench
}

/// Lets the group forget what is not on disks.
fn reopen(bench: &mut Bench) {
    bench.flush();
    bench.crash();
}

#[test]
fn rot_in_a_chunk_with_checksums_is_an_error_and_never_data() {
    let mut bench = checksummed();
    rot(&mut bench, 0);
    assert_eq!(bench.read(0, 512), Ok(vec![1; 512]), "another block is well");
    assert_eq!(bench.read(8192 + 512, 512), Err(RequestError::Io));
    bench.check();
}

#[test]
fn a_read_of_a_rotten_copy_shows_the_good_one_and_repairs_it_in_place() {
    let mut bench = replicated();
    for disk in [0, 1] {
        rot(&mut bench, disk);
        // Whichever copy is asked first, and after a restart as well.
        reopen(&mut bench);
        for _ in 0..8 {
            assert_eq!(bench.read(0, CHUNK as u32), Ok(vec![1; CHUNK as usize]));
        }
        scrub(&mut bench);
        assert_eq!(
            peek(&bench, disk, slot(&bench, disk), CHUNK),
            Payload::from(vec![1; CHUNK as usize])
        );
        assert_eq!(findings(&mut bench), [(FindingKind::Repaired, 8192, 4096, Some(disk))]);
        assert!(errors(&bench, disk) >= 1 && errors(&bench, 1 - disk) == 0);
        assert_eq!(bench.pools_of(0), [0, 1], "no copy was dropped");
    }
    bench.check();
}

#[test]
fn two_copies_with_different_rotten_blocks_repair_each_other() {
    let mut bench = replicated();
    rot_block(&mut bench, 0, 2);
    rot_block(&mut bench, 1, 3);
    rot_block(&mut bench, 1, 4);
    scrub(&mut bench);
    let mut found = findings(&mut bench);
    found.sort_by_key(|found| found.1);
    let expected = [
        (FindingKind::Repaired, 2 * 4096, 4096, Some(0)),
        (FindingKind::Repaired, 3 * 4096, 2 * 4096, Some(1)),
    ];
    assert_eq!(found, expected);
    let status = bench.group.scrub_status();
    assert_eq!((status.repaired, status.checksum_errors, status.unrepairable), (3, 3, 0));
    for disk in [0, 1] {
        let found = peek(&bench, disk, slot(&bench, disk), CHUNK);
        assert_eq!(found, Payload::from(vec![1; CHUNK as usize]));
    }
    bench.check();
}

#[test]
fn rot_without_a_good_copy_is_told_once_and_stays_an_error() {
    let mut bench = checksummed();
    rot(&mut bench, 0);
    for _ in 0..3 {
        assert_eq!(bench.read(8192, 4096), Err(RequestError::Io));
        bench.pass(MINUTE);
    }
    assert_eq!(findings(&mut bench), [(FindingKind::Unrepairable, 8192, 4096, None)]);
    // A write beside it does not turn it into data, at once or later or after a restart.
    bench.write(0, 3, 4096);
    assert_eq!(bench.read(8192, 4096), Err(RequestError::Io));
    bench.pass(MINUTE);
    reopen(&mut bench);
    assert_eq!(bench.read(8192, 4096), Err(RequestError::Io));
    assert_eq!(bench.read(0, 4096), Ok(vec![3; 4096]));
    bench.write(8192, 4, 4096);
    assert_eq!(bench.read(8192, 4096), Ok(vec![4; 4096]));
    bench.pass(MINUTE);
    findings(&mut bench);
    scrub(&mut bench);
    assert_eq!(findings(&mut bench), [], "it is well again");
    bench.check();
}

#[test]
fn copies_that_differ_without_checksums_are_told_and_left() {
    // A scrub took what the first copy had for right, and wrote it over the other.
    for rotten in [0, 1] {
        let mut bench = Bench::with_settings(&[4, 8, 8], 0, Bench::settings());
        bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
        bench.write(0, 1, CHUNK as usize);
        assert_eq!(bench.operate(OperationKind::Replicate, 0, 1), Outcome::Done);
        bench.flush();
        rot(&mut bench, rotten);
        let before = [0, 1].map(|disk| peek(&bench, disk, slot(&bench, disk), CHUNK));
        scrub(&mut bench);
        assert_eq!(findings(&mut bench), [(FindingKind::Undecided, 8192, 4096, None)]);
        assert_eq!(bench.group.scrub_status().undecided, 1);
        let after = [0, 1].map(|disk| peek(&bench, disk, slot(&bench, disk), CHUNK));
        assert!(before == after && bench.pools_of(0) == [0, 1]);
        // A third copy decides.
        rot(&mut bench, rotten); // Flipped back.
        assert_eq!(bench.operate(OperationKind::Replicate, 0, 2), Outcome::Done);
        rot(&mut bench, rotten);
        scrub(&mut bench);
        assert_eq!(findings(&mut bench), [(FindingKind::Repaired, 8192, 4096, Some(rotten))]);
    }
}

#[test]
fn any_bit_flipped_in_a_framed_block_is_found() {
    let mut bench = checksummed();
    let start = slot(&bench, 0);
    let flips =
        (0..4096 * 8).map(|bit| 5 * 4096 * 8 + bit).chain((0..16).map(|b| b * 4096 * 8 + b));
    for bit in flips {
        let at = Bytes(start.0 + bit / 8);
        bench.disks[0].flip_bit(at, (bit % 8) as u8);
        let block = bit / 8 / 4096 * 4096;
        assert_eq!(bench.read(block, 4096), Err(RequestError::Io), "bit {bit}");
        bench.disks[0].flip_bit(at, (bit % 8) as u8);
    }
    assert_eq!(bench.read(0, CHUNK as u32), Ok(vec![1; CHUNK as usize]));
}

#[test]
fn a_flip_in_a_table_never_makes_honest_data_look_rotten() {
    let mut bench = checksummed();
    bench.flush();
    let at = table(&bench, 0);
    for byte in 0..512 {
        bench.disks[0].flip_bit(Bytes(at.0 + byte), (byte % 8) as u8);
        reopen(&mut bench);
        assert_eq!(bench.read(0, CHUNK as u32), Ok(vec![1; CHUNK as usize]), "byte {byte}");
        let whole = (FindingKind::ChecksumsLost, 0, CHUNK, None);
        assert_eq!(findings(&mut bench), [whole], "byte {byte}");
        bench.pass(MINUTE);
        assert_eq!(bench.group.checksum_status().checksummed, 1, "it gets a table again");
    }
}

/// The table could not be read, and the chunk was written to before the journal knew that the table
/// does not count any more: after a crash the honest block was held against the old table.
#[test]
fn a_write_waits_until_the_journal_knows_that_a_table_is_lost() {
    let mut bench = checksummed();
    reopen(&mut bench);
    bench.disks[0].fail_nth(1);
    let payload = Payload::from(vec![2; 4096]);
    bench.ask(Action::Write { offset: Bytes(0), payload, fua: true }).expect("written");
    bench.crash();
    assert_eq!(bench.read(0, 4096), Ok(vec![2; 4096]));
    assert_eq!(bench.read(4096, 4096), Ok(vec![1; 4096]));
}

#[test]
fn a_table_that_one_copy_lost_is_written_again_from_the_other() {
    let mut bench = replicated();
    for disk in [0, 1] {
        bench.flush();
        let at = table(&bench, disk);
        let before = peek(&bench, disk, at, 512);
        poke(&mut bench, disk, at, Payload::Zeroes(512));
        reopen(&mut bench);
        scrub(&mut bench);
        assert_eq!(peek(&bench, disk, at, 512), before);
        assert_eq!(bench.group.scrub_status().tables_repaired, 1);
        assert_eq!(bench.group.checksum_status().lost, 0);
    }
}

#[test]
fn a_write_that_landed_elsewhere_is_found_where_it_landed_and_where_it_is_missing() {
    let mut bench = checksummed();
    bench.write(CHUNK, 2, CHUNK as usize);
    bench.flush();
    // The device put the second chunk's third block over the first chunk's, and left its own old.
    let second = Bytes(slot(&bench, 0).0 + CHUNK);
    let stray = peek(&bench, 0, Bytes(second.0 + 8192), 4096);
    assert_eq!(stray, Payload::from(vec![2; 4096]));
    let first = Bytes(slot(&bench, 0).0 + 8192);
    poke(&mut bench, 0, first, stray);
    poke(&mut bench, 0, Bytes(second.0 + 8192), Payload::Zeroes(4096));
    bench.pass(MINUTE);
    for restart in [false, true] {
        if restart {
            reopen(&mut bench);
        }
        assert_eq!(bench.read(8192, 4096), Err(RequestError::Io));
        assert_eq!(bench.read(CHUNK + 8192, 4096), Err(RequestError::Io));
    }
    assert_eq!(bench.read(CHUNK, 8192), Ok(vec![2; 8192]));
}

#[test]
fn a_write_that_was_acknowledged_and_never_done_is_found() {
    let mut bench = checksummed();
    let old = peek(&bench, 0, slot(&bench, 0), CHUNK);
    bench.write(0, 2, CHUNK as usize);
    bench.flush();
    let at = slot(&bench, 0);
    poke(&mut bench, 0, at, old.clone());
    assert_eq!(bench.read(0, 4096), Err(RequestError::Io), "before it has checksums");
    bench.pass(MINUTE);
    reopen(&mut bench);
    assert_eq!(bench.read(0, 4096), Err(RequestError::Io), "and after");
}

#[test]
fn a_lost_write_of_data_and_table_alike_does_not_bring_the_old_ones_back() {
    let mut bench = replicated();
    let kept = [0, 1].map(|disk| {
        let (at, data) = (slot(&bench, disk), table(&bench, disk));
        (at, data, peek(&bench, disk, at, CHUNK), peek(&bench, disk, data, 512))
    });
    bench.write(0, 2, CHUNK as usize);
    bench.pass(MINUTE);
    bench.flush();
    let (at, tables, data, sums) = kept[0].clone();
    poke(&mut bench, 0, at, data);
    poke(&mut bench, 0, tables, sums);
    reopen(&mut bench);
    for _ in 0..8 {
        assert_eq!(bench.read(0, 4096), Ok(vec![2; 4096]), "the other copy is as it should be");
    }
    scrub(&mut bench);
    assert_eq!(peek(&bench, 0, at, CHUNK), Payload::from(vec![2; CHUNK as usize]));
}

#[test]
fn what_was_just_written_or_copied_gets_checksums_without_reading_it() {
    let mut bench = checksummed();
    let moved = bench.group.scrub_status().read;
    assert_eq!((moved, bench.group.checksum_status().unread), (Bytes(0), 1));
    bench.write(4096, 2, 4096); // One block of a chunk that rests.
    bench.pass(MINUTE);
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 1), Outcome::Done);
    bench.pass(MINUTE);
    reopen(&mut bench);
    bench.write(8192, 2, 4096); // Its table is read first.
    bench.pass(MINUTE);
    assert_eq!(bench.group.checksum_status().unread, 1);
    assert_eq!(bench.group.scrub_status().read, Bytes(0));
    // Parts of blocks are not known: these alone are read.
    bench.write(512, 5, 512);
    bench.pass(MINUTE);
    let piece = bench.group.settings().copying.piece_among([None]).min(WHOLE);
    assert_eq!(
        (bench.group.scrub_status().read, bench.group.checksum_status().checksummed),
        (piece, 2)
    );
    let read = bench.read(0, 12_288).expect("verified");
    assert_eq!([read[0], read[512], read[4096], read[8192]], [1, 5, 2, 2]);
}

#[test]
fn a_copy_that_cannot_be_repaired_in_place_is_made_anew() {
    let mut bench = replicated();
    rot(&mut bench, 0);
    reopen(&mut bench);
    bench.disks[0].fail_nth(3); // After the reads of table and data: the repair.
    bench.group.scrub(bench.now);
    bench.pass(Nanos::from_secs(30));
    let found = findings(&mut bench);
    assert!(found.iter().any(|found| found.0 == FindingKind::Dropped), "{found:?}");
    bench.pass(MINUTE);
    assert_eq!(bench.pools_of(0).len(), 2);
    assert_eq!(bench.read(0, CHUNK as u32), Ok(vec![1; CHUNK as usize]));
    bench.check();
}

#[test]
fn writes_wait_for_a_repair_and_are_not_overwritten_by_it() {
    for nth in 0..6 {
        let mut bench = replicated();
        rot(&mut bench, 0);
        bench.group.scrub(bench.now);
        bench.step(nth);
        let payload = Payload::from(vec![9; 4096]);
        let write = Action::Write { offset: Bytes(8192), payload, fua: false };
        bench.ask(write).expect("written");
        bench.pass(MINUTE);
        for _ in 0..4 {
            assert_eq!(bench.read(8192, 4096), Ok(vec![9; 4096]), "step {nth}");
        }
        for disk in [0, 1] {
            let found = peek(&bench, disk, Bytes(slot(&bench, disk).0 + 8192), 4096);
            assert_eq!(found, Payload::from(vec![9; 4096]), "step {nth}");
        }
        bench.check();
    }
}

#[test]
fn an_operation_does_not_carry_rot_along() {
    let mut bench = checksummed();
    rot(&mut bench, 0);
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 1), Outcome::Failed);
    assert_eq!(bench.pools_of(0), [0]);
    bench.check();
}

#[test]
fn a_write_voids_the_checksums_durably_before_it_happens() {
    let mut bench = checksummed();
    bench.write(4096, 2, 512);
    bench.crash();
    // The crash lost the write, or kept it: either way nothing is taken for rot.
    assert!(bench.read(0, CHUNK as u32).is_ok());
    bench.write(4096, 3, 512);
    bench.pass(Nanos::from_secs(60));
    bench.flush();
    bench.crash();
    let read = bench.read(0, CHUNK as u32).expect("new checksums");
    assert_eq!((read[4096], read[4608]), (3, 1));
}
