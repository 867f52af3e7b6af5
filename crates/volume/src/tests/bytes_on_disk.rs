//! The stored formats: round trips, every bit that matters.

use super::Bench;
use crate::format::{
    BlockKind, Membership, PoolRecord, Record, Stamp, Superblock, VERSION, VolumeRecord,
    decode_records, encode_record, frame_block, open_block,
};
use crate::map::overlay::{Blocks, Side};
use crate::map::place::{ChunkCopy, Place, Role};
use crate::map::{ChunkState, Table};
use crate::pools::layout::{area_blocks, super_offset};
use crate::pools::ranks::Ranks;
use crate::{Group, Limits, OpenError, Service};
use thermocline_ports::faulty::SimDisk;
use thermocline_ports::{Device, Io, Payload, Ticket};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

const CHUNK: u32 = 1 << 20;
const STAMP: Stamp = Stamp { identity: 1, generation: 2, sequence: 3 };

fn superblock() -> Superblock {
    let pool = PoolRecord {
        name: "scm".to_string(),
        membership: Membership::Draining,
        slots: 7,
        reserve: 2,
        first_slot: 1 << 20,
        has_metadata_region: true,
        checksums: true,
        extents: Default::default(),
    };
    Superblock {
        version: VERSION,
        identity: 11,
        sequence: 12,
        this_pool: PoolId(1),
        chunk_size: CHUNK,
        journal_blocks: 64,
        area_blocks: 99,
        area: 1,
        checkpoint_blocks: 5,
        checkpoint_generation: 12,
        journal_generation: 8,
        journal_start: 1 << 33,
        replicas: vec![PoolId(0), PoolId(1)],
        pools: vec![pool.clone(), PoolRecord { name: "hdd".to_string(), checksums: false, ..pool }],
        next_volume: 9,
        ranks: Ranks::of_order(vec![PoolId(1), PoolId(0)]).expect("two pools"),
    }
}

fn records() -> Vec<Record> {
    let place = |pool, slot| Place { pool: PoolId(pool), slot };
    let mut redirected = Blocks::redirected(CHUNK);
    redirected.written(Side::Above, &(4096..40_960));
    let mut mirrored = Blocks::mirrored(CHUNK);
    mirrored.copied(&(8192..65_536));
    mirrored.written(Side::Base, &(8192..9000));
    let state = ChunkState {
        unsaid: false,
        copies: vec![
            ChunkCopy::wanted(place(0, 5)),
            ChunkCopy { place: place(3, 6), role: Role::Prefetched },
        ],
        dirty: true,
        table: Table::Summed(0xFEED_F00D),
        pinned: true,
        overlay: Some((place(2, 9), redirected)),
    };
    let mirror = ChunkState { overlay: Some((place(1, 2), mirrored)), ..state.clone() };
    let plain = ChunkState { table: Table::Plain, ..state.clone() };
    vec![
        Record::Volume(VolumeRecord {
            id: VolumeId(1),
            identity: 1 << 40,
            size: Bytes(1 << 40),
            name: "db-1".to_string(),
        }),
        Record::Chunk(ChunkId { volume: VolumeId(1), index: 77 }, state),
        Record::Chunk(ChunkId { volume: VolumeId(1), index: 76 }, plain),
        Record::Chunk(ChunkId { volume: VolumeId(1), index: 79 }, mirror),
        Record::Chunk(ChunkId { volume: VolumeId(1), index: 78 }, ChunkState::default()),
        Record::VolumeGone(VolumeId(4)),
        Record::PoolDead(PoolId(9)),
    ]
}

fn framed() -> Vec<u8> {
    let (mut payload, mut block) = (Vec::new(), Vec::new());
    records().iter().for_each(|record| encode_record(record, &mut payload));
    frame_block(BlockKind::Journal, STAMP, &payload, &mut block);
    block
}

#[test]
fn a_superblock_reads_back_as_written_and_with_any_byte_changed_not_at_all() {
    let bytes = superblock().encode();
    assert_eq!(Superblock::decode(&bytes), Some(superblock()));
    for at in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[at] ^= 0x40;
        assert_eq!(Superblock::decode(&broken), None, "byte {at}");
        assert_eq!(Superblock::decode(&bytes[..at]), None, "cut at {at}");
    }
}

#[test]
fn a_superblock_that_names_a_replica_twice_is_refused() {
    let twice = Superblock { replicas: vec![PoolId(1), PoolId(1)], ..superblock() };
    assert_eq!(Superblock::decode(&twice.encode()), None);
}

#[test]
fn a_superblock_is_of_the_oldest_version_that_can_say_which_pools_have_checksums() {
    for (checksums, version) in [([true, true], 4), ([false, false], 3), ([false, true], 5)] {
        let mut block = superblock();
        for (pool, has) in block.pools.iter_mut().zip(checksums) {
            pool.checksums = has;
        }
        let bytes = block.encode();
        assert_eq!(bytes[12..14], [version, 0], "{checksums:?}");
        assert_eq!(bytes[73], u8::from(version != 3), "some have them");
        let read = Superblock::decode(&bytes).expect("as it was written");
        assert_eq!(read, Superblock { version: version.into(), ..block });
    }
}

#[test]
fn a_superblock_without_an_order_of_pools_has_that_of_their_ids_and_a_wrong_order_is_refused() {
    let mut bytes = superblock().encode();
    let order = bytes.iter().rposition(|byte| *byte != 0).expect("it is not empty") - 1;
    assert_eq!(bytes[order..order + 3], [2, 1, 0], "the number of pools, and their ids");
    for (wrong, expected) in [
        ([0, 0, 0], Some(Ranks::by_id(2))),
        ([2, 0, 1], Some(Ranks::by_id(2))),
        ([2, 0, 0], None),
        ([2, 0, 2], None),
        ([1, 0, 0], None),
        ([3, 0, 1], None),
    ] {
        bytes[order..order + 3].copy_from_slice(&wrong);
        let crc = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Superblock::decode(&bytes).map(|block| block.ranks), expected, "{wrong:?}");
    }
}

#[test]
fn a_block_of_records_reads_back_as_written_and_with_any_byte_changed_not_at_all() {
    let block = framed();
    let payload = open_block(BlockKind::Journal, STAMP, &block).expect("whole");
    assert_eq!(decode_records(payload, CHUNK), Some(records()));
    for at in 0..block.len() {
        let mut broken = block.clone();
        broken[at] ^= 1;
        assert_eq!(open_block(BlockKind::Journal, STAMP, &broken), None, "byte {at}");
    }
}

#[test]
fn a_block_of_another_time_place_or_group_is_not_taken_for_this_one() {
    let block = framed();
    for stamp in [
        Stamp { identity: 9, ..STAMP },
        Stamp { generation: 9, ..STAMP },
        Stamp { sequence: 9, ..STAMP },
    ] {
        assert_eq!(open_block(BlockKind::Journal, stamp, &block), None);
    }
    assert_eq!(open_block(BlockKind::Checkpoint, STAMP, &block), None);
}

#[test]
fn records_cut_short_are_refused_and_never_panic() {
    let mut payload = Vec::new();
    records().iter().for_each(|record| encode_record(record, &mut payload));
    let whole = decode_records(&payload, CHUNK).expect("as written").len();
    for at in 1..payload.len() {
        let read = decode_records(&payload[..at], CHUNK);
        assert!(read.is_none_or(|records| records.len() < whole));
    }
}

#[test]
fn a_slot_with_the_number_of_none_is_refused() {
    // Found by fuzzing: the chunk lost its first copy, and the slots of the others nobody owned.
    let copy = |slot| ChunkCopy::wanted(Place { pool: PoolId(0), slot });
    let state = ChunkState { copies: vec![copy(u32::MAX), copy(7)], ..ChunkState::default() };
    let mut payload = Vec::new();
    encode_record(&Record::Chunk(ChunkId::default(), state), &mut payload);
    assert_eq!(decode_records(&payload, CHUNK), None);
}

#[test]
fn slots_that_begin_inside_metadata_or_off_their_alignment_are_not_believed() {
    let mut block = superblock();
    let pool = &mut block.pools[0];
    pool.first_slot = 64 << 20;
    block.pools.truncate(1);
    assert!(block.fits_its_pools());
    // Found by fuzzing: requests to such slots are no whole sectors.
    block.pools[0].first_slot += 100;
    assert!(!block.fits_its_pools());
    block.pools[0].first_slot = 64 << 10;
    assert!(!block.fits_its_pools());
}

/// The newest superblock of a disk, and which of the two it is.
fn newest(disk: &SimDisk) -> (u64, Superblock) {
    let read = |which| {
        let block = disk.peek_durable(super_offset(which), 4096).expect("readable").to_vec();
        Some((which, Superblock::decode(&block)?))
    };
    let found = [0, 1].into_iter().filter_map(read);
    found.max_by_key(|(_, block)| block.sequence).expect("the disk has one")
}

/// The version that a disk's newest superblock was written with.
pub(crate) fn version_of(disk: &SimDisk) -> u16 {
    newest(disk).1.version
}

/// Makes every superblock one of a version before, which ends with its pools as they all do.
pub(super) fn set_version(bench: &mut Bench, version: u16) {
    for index in 0..bench.disks.len() {
        for which in [0, 1] {
            let offset = super_offset(which);
            let block = bench.disks[index].peek_durable(offset, 4096).expect("readable");
            let mut block = block.to_vec();
            if Superblock::decode(&block).is_none() {
                continue;
            }
            block[12..14].copy_from_slice(&version.to_le_bytes());
            let crc = crc32c::crc32c(&block[12..]);
            block[8..12].copy_from_slice(&crc.to_le_bytes());
            write_durably(bench, index, offset, block);
        }
    }
}

fn write_durably(bench: &mut Bench, disk: usize, offset: Bytes, block: Vec<u8>) {
    let disk = &mut bench.disks[disk];
    let write = Io::Write { offset, data: Payload::from(block), fua: true };
    disk.submit(bench.now, Ticket(0), write);
    bench.now = disk.next_event().expect("it is under way");
    disk.poll(bench.now, &mut Vec::new());
}

/// Writes the newest superblock of every disk anew, with areas of so many blocks.
pub(super) fn forge_areas(bench: &mut Bench, area_blocks: u32) {
    for index in 0..bench.disks.len() {
        let (which, block) = newest(&bench.disks[index]);
        let forged = Superblock { area_blocks, ..block }.encode();
        write_durably(bench, index, super_offset(which), forged);
    }
}

#[test]
fn a_map_that_its_checkpoint_has_no_room_for_is_refused() {
    // Found by fuzzing: the first checkpoint after opening did not fit.
    let mut bench = Bench::new(&[8, 8]);
    bench.group.create_volume(Nanos(0), Bytes(4 * super::CHUNK)).expect("a volume");
    bench.write(0, 1, 2 * super::CHUNK as usize);
    bench.flush();
    while newest(&bench.disks[0]).1.area == 1 {
        bench.crash(); // The first area begins where it does, however long it is.
    }
    let one = Limits { volumes: 1, ..Limits::REAL };
    let fixed = area_blocks(0, super::CHUNK as u32, &one);
    forge_areas(&mut bench, fixed);
    let devices: Vec<_> = bench.disks.iter().map(|disk| Some(disk.geometry())).collect();
    bench.group = Group::open(Bench::settings(), &devices);
    bench.run();
    assert_eq!(*bench.group.service(), Service::Failed(OpenError::MapTooLarge));
}
