//! Metadata that a medium returns damaged. The accident: one flipped bit in a journal block counted
//! as the torn end of the journal, so that a group without a crash came back empty and nobody was
//! told.

use super::{Bench, CHUNK};
use crate::pools::layout::{journal_offset, region_bytes};
use crate::sizes::BLOCK_BYTES;
use crate::{DamagedReplica, Group, Salvage, Service};
use std::collections::BTreeSet;
use thermocline_ports::Device;
use thermocline_ports::faulty::{SimDisk, Survival};
use thermocline_units::{Bytes, Nanos, PoolId, Rng};

const CHUNKS: u64 = 4;

/// A group on one pool whose volume was written in several commits, chunk by chunk.
fn written() -> Bench {
    let mut bench = Bench::new(&[4]);
    bench.group.create_volume(Nanos(0), Bytes(CHUNKS * CHUNK)).expect("a volume");
    for chunk in 0..CHUNKS {
        bench.write(chunk * CHUNK, 1 + chunk as u8, CHUNK as usize);
        bench.flush();
    }
    bench
}

/// Contents of a group that opens on these disks; `None` when it is refused.
fn held(bench: &mut Bench, disks: &[SimDisk]) -> Option<Vec<u8>> {
    bench.disks = disks.to_vec();
    let devices: Vec<_> = disks.iter().map(|disk| Some(disk.geometry())).collect();
    bench.group = Group::open(bench.settings.clone(), &devices);
    bench.run();
    match bench.group.service() {
        Service::Ready => {}
        Service::Failed(_) => return None,
        other => panic!("opening ended with {other:?}"),
    }
    bench.check();
    if bench.group.volumes().next().is_none() {
        return Some(Vec::new());
    }
    let read = bench.read(0, (CHUNKS * CHUNK) as u32);
    Some(read.expect("no device failed"))
}

/// The bits to change of a byte: one of them, or all with `THERMOCLINE_EVERY_BIT=1`.
fn bits(at: u64) -> std::ops::Range<u8> {
    match std::env::var_os("THERMOCLINE_EVERY_BIT") {
        Some(_) => 0..8,
        None => (at % 8) as u8..(at % 8) as u8 + 1,
    }
}

/// Opens the group with each byte of its metadata changed in turn: offsets at which it was opened
/// and did not hold `right`, and how often it was refused. What follows the last byte of a block
/// that is not zero is only sampled.
fn damaged_at_each_byte(bench: &mut Bench, right: &[u8]) -> (BTreeSet<u64>, u32) {
    let disks = bench.disks.clone();
    let region = region_bytes(
        bench.settings.journal_blocks,
        bench.group.machines.state.pools.sizes().area_blocks,
    );
    let (mut wrong, mut refused) = (BTreeSet::new(), 0);
    for block in (0..region).step_by(BLOCK_BYTES) {
        let bytes = disks[0].peek(Bytes(block), BLOCK_BYTES as u32).expect("readable").to_vec();
        let is_ours = bytes.starts_with(b"T"); // As all magic numbers do; the rest is as it was.
        let last = bytes.iter().rposition(|&byte| byte != 0).filter(|_| is_ours);
        let used = last.map_or(0, |last| last as u64 + 1);
        let beyond = (used..BLOCK_BYTES as u64).step_by(1024);
        for at in (0..used).chain(beyond).map(|at| block + at) {
            for bit in bits(at) {
                let mut damaged = disks.clone();
                damaged[0].flip_bit(Bytes(at), bit);
                match held(bench, &damaged) {
                    None => refused += 1,
                    Some(found) if found == right => {}
                    Some(_) => {
                        wrong.insert(at);
                    }
                }
            }
        }
    }
    (wrong, refused)
}

#[test]
fn no_changed_byte_of_a_stopped_groups_metadata_changes_what_it_holds() {
    let mut bench = written();
    let right = bench.read(0, (CHUNKS * CHUNK) as u32).expect("readable");
    let now = bench.now;
    bench.group.close(now);
    bench.run();
    assert_eq!(*bench.group.service(), Service::Closed);
    let (wrong, refused) = damaged_at_each_byte(&mut bench, &right);
    assert_eq!(wrong.first(), None, "opened with other contents");
    assert!(refused > 0, "damage to a checkpoint on one pool cannot be made good");
}

#[test]
fn after_a_crash_only_damage_to_the_last_commit_can_pass_for_a_torn_write() {
    let mut bench = written();
    let right = bench.read(0, (CHUNKS * CHUNK) as u32).expect("readable");
    let last = bench.group.machines.state.journal.written() - 1;
    let end =
        bench.group.machines.state.journal.written() - bench.group.machines.state.journal.used();
    assert!(last >= end + 3, "several commits are in the journal");
    for disk in &mut bench.disks {
        disk.crash(&mut Rng::seeded(5), Survival::Lost);
    }
    let (wrong, refused) = damaged_at_each_byte(&mut bench, &right);
    let torn = journal_offset(last % u64::from(bench.settings.journal_blocks)).0;
    let mut elsewhere = wrong.iter().filter(|at| !(torn..torn + BLOCK_BYTES as u64).contains(at));
    assert_eq!(elsewhere.next(), None, "opened with other contents");
    assert!(refused >= 3 * 40, "damage inside the journal is told apart");
}

/// `check` said "no flaws", and nobody was told until the other replica was damaged too.
#[test]
fn damage_to_one_of_two_replicas_is_told_and_loses_nothing() {
    let mut bench = Bench::new(&[8, 8]);
    bench.group.create_volume(Nanos(0), Bytes(CHUNKS * CHUNK)).expect("a volume");
    for chunk in 0..CHUNKS {
        bench.write(chunk * CHUNK, 1 + chunk as u8, CHUNK as usize);
        bench.flush();
    }
    let right = bench.read(0, (CHUNKS * CHUNK) as u32).expect("readable");
    let region = region_bytes(
        bench.settings.journal_blocks,
        bench.group.machines.state.pools.sizes().area_blocks,
    );
    for clean in [true, false] {
        if clean {
            let now = bench.now;
            bench.group.close(now);
            bench.run();
        }
        let disks = bench.disks.clone();
        let mut told = DamagedReplica::default();
        for block in (2 * BLOCK_BYTES as u64..region).step_by(BLOCK_BYTES) {
            let mut damaged = disks.clone();
            damaged[0].flip_bit(Bytes(block + 40), 3);
            assert!(held(&mut bench, &damaged).as_ref() == Some(&right), "block at {block}");
            for (pool, damaged) in bench.group.damaged_replicas() {
                assert_eq!(pool, PoolId(0));
                told.checkpoint_blocks += damaged.checkpoint_blocks;
                told.journal_blocks += damaged.journal_blocks;
            }
        }
        assert!(told.checkpoint_blocks == 1, "clean {clean}: {told:?}");
        assert_eq!(told.journal_blocks > 0, !clean, "clean {clean}: {told:?}");
        assert!(held(&mut bench, &disks).is_some());
        assert_eq!(bench.group.damaged_replicas().count(), 0, "nothing was damaged");
        for _ in 0..2 {
            let now = bench.now;
            bench.group.create_volume(now, Bytes(CHUNK)).expect("a commit of its own");
            bench.flush();
        }
    }
}

#[test]
fn a_damaged_superblock_does_not_bring_back_the_group_of_the_session_before() {
    let mut bench = written();
    bench.crash();
    bench.write(0, 99, CHUNK as usize);
    bench.group.create_volume(Nanos(0), Bytes(CHUNK)).expect("a second volume");
    bench.flush();
    let right = bench.read(0, (CHUNKS * CHUNK) as u32).expect("readable");
    for disk in &mut bench.disks {
        disk.crash(&mut Rng::seeded(5), Survival::Lost);
    }
    let disks = bench.disks.clone();
    let mut refused = 0;
    for at in (0..2 * BLOCK_BYTES as u64).filter(|at| at % 4096 < 160 || at % 512 == 0) {
        let mut damaged = disks.clone();
        damaged[0].flip_bit(Bytes(at), (at % 8) as u8);
        match held(&mut bench, &damaged) {
            None => refused += 1,
            Some(found) => {
                assert!(found == right, "the changed byte {at} brought other contents back");
                assert_eq!(bench.group.volumes().count(), 2, "byte {at}");
            }
        }
    }
    assert_eq!(refused, 160 + 7, "the newest superblock cannot be done without");
}

/// Opens the group on these disks and accepts what is lost.
fn salvaged(bench: &mut Bench, disks: &[SimDisk]) -> Salvage {
    bench.disks = disks.to_vec();
    let devices: Vec<_> = disks.iter().map(|disk| Some(disk.geometry())).collect();
    bench.group = Group::open_damaged(bench.settings.clone(), &devices);
    bench.run();
    assert_eq!(*bench.group.service(), Service::Ready);
    bench.check();
    bench.group.salvage().expect("it was opened as damaged").clone()
}

/// A group after a crash, what it holds, and the sequence of the first block in its journal.
fn crashed() -> (Bench, Vec<u8>, u64) {
    let mut bench = written();
    let right = bench.read(0, (CHUNKS * CHUNK) as u32).expect("readable");
    let first =
        bench.group.machines.state.journal.written() - bench.group.machines.state.journal.used();
    for disk in &mut bench.disks {
        disk.crash(&mut Rng::seeded(5), Survival::Lost);
    }
    (bench, right, first)
}

#[test]
fn one_flipped_bit_in_a_journal_block_or_superblock_is_set_right() {
    let (mut bench, right, first) = crashed();
    let disks = bench.disks.clone();
    for block in [journal_offset(first % 64), journal_offset((first + 1) % 64)] {
        for at in [0, 5, 9, 33, 60, 4095] {
            let mut damaged = disks.clone();
            damaged[0].flip_bit(Bytes(block.0 + at), 3);
            assert_eq!(held(&mut bench, &damaged), None, "refused without leave");
            let salvage = salvaged(&mut bench, &damaged);
            assert!(salvage.is_complete() && salvage.corrected == 1, "{salvage:?}");
            assert_eq!(bench.read(0, (CHUNKS * CHUNK) as u32), Ok(right.clone()));
            bench.crash(); // It is a whole group now.
            assert_eq!(bench.read(0, (CHUNKS * CHUNK) as u32), Ok(right.clone()));
        }
    }
}

#[test]
fn a_journal_block_that_is_gone_costs_what_it_named_and_nothing_else() {
    let (mut bench, right, first) = crashed();
    let mut damaged = bench.disks.clone();
    let block = (first + 2) % 64;
    for at in [40, 50, 60] {
        damaged[0].flip_bit(Bytes(journal_offset(block).0 + at), 1);
    }
    let salvage = salvaged(&mut bench, &damaged);
    assert_eq!(salvage.journal_blocks, [first + 2]);
    let found = bench.read(0, (CHUNKS * CHUNK) as u32).expect("readable");
    let chunks = || found.chunks(CHUNK as usize).zip(right.chunks(CHUNK as usize));
    assert_eq!(chunks().filter(|(found, right)| found == right).count() as u64, CHUNKS - 1);
}

#[test]
fn a_checkpoint_block_that_is_gone_is_told_by_the_chunks_around_it() {
    let mut bench = written();
    let now = bench.now;
    bench.group.close(now);
    bench.run();
    let area = bench
        .group
        .machines
        .state
        .pools
        .area(thermocline_units::PoolId(0), bench.group.machines.state.journal.area());
    let (offset, _) = area.pieces(0..1)[0].clone();
    let mut damaged = bench.disks.clone();
    for at in [40, 50, 60] {
        damaged[0].flip_bit(Bytes(offset.0 + at), 1);
    }
    let salvage = salvaged(&mut bench, &damaged);
    assert!(!salvage.is_complete());
    assert_eq!(salvage.gaps, [(None, None)], "the map had one block");
}
