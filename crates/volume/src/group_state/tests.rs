//! The state of a group by itself, in service, and small: three pools, one volume, no machine.
//! Parts that work on it are tested on this one.

use super::effect::Effect;
use super::service::Service;
use super::{GroupState, durable_state};
use crate::creation::on_empty_devices;
use crate::format::{BlockKind, Record, decode_records, read_block};
use crate::journal::{Below, Journal, Outcome};
use crate::map::ChunkState;
use crate::map::overlay::Blocks;
use crate::map::place::{ChunkCopy, Place, Role};
use crate::pools::flight::{Flight, Owner};
use crate::pools::pool::{PoolSpec, PoolState};
use crate::pools::tests;
use crate::settings::Settings;
use crate::sizes::BLOCK_BYTES;
use thermocline_ports::{Completion, DeviceError, Geometry, Io, Payload, Ticket};
use thermocline_units::{Bytes, ChunkId, PoolId, VolumeId};

/// Bytes of a chunk: 16 blocks.
pub(crate) const CHUNK: u32 = 64 << 10;
/// Chunks of the volume.
pub(crate) const CHUNKS: u32 = 8;
/// The fastest pool. Its slots read as zeroes, and two are reserved for prefetched copies.
pub(crate) const FAST: PoolId = PoolId(0);
/// A slower pool, whose slots read as garbage until they are discarded.
pub(crate) const SLOW: PoolId = PoolId(1);
/// The slowest pool, across a network, whose device discards nothing.
pub(crate) const FAR: PoolId = PoolId(2);

/// Settings without checksums.
pub(crate) fn settings() -> Settings {
    Settings {
        chunk_size: Bytes(CHUNK.into()),
        journal_blocks: 64,
        checksums: false,
        added_checksums: false,
        ..Settings::default()
    }
}

/// The group: its first checkpoint is in force, and no chunk holds anything.
pub(crate) fn group() -> GroupState {
    group_with(settings())
}

/// The same with tables of checksums on all pools.
pub(crate) fn group_with_checksums() -> GroupState {
    group_with(Settings { checksums: true, ..settings() })
}

/// The same with these settings.
pub(crate) fn group_with(settings: Settings) -> GroupState {
    let spec = |name: &str, mib, reserve_chunks, zeroed, discard_zeroes, far| PoolSpec {
        name: name.to_string(),
        geometry: Geometry { size: Bytes::from_mib(mib), discard_zeroes, far },
        zeroed,
        reserve_chunks,
    };
    let pools = [
        spec("fast", 4, 2, true, false, false),
        spec("slow", 8, 0, false, true, false),
        spec("far", 8, 0, false, false, true),
    ];
    let mut group = on_empty_devices(settings, &pools, 7).expect("the pools are large enough");
    group.pools.iter_mut().for_each(|pool| pool.state = PoolState::Active);
    group.service = Service::Ready;
    add_volume(&mut group, 0, CHUNKS);
    group.journal.want_checkpoint();
    settle(&mut group);
    assert!(group.journal.is_current(), "the first checkpoint is in force");
    group
}

/// Makes a volume of so many chunks.
pub(crate) fn add_volume(group: &mut GroupState, number: u32, chunks: u32) {
    let size = Bytes(u64::from(chunks) * u64::from(CHUNK));
    group.map.set_volume(VolumeId(number), size, CHUNK);
    let identity = group.map.take_identity();
    group.map.name_volume(VolumeId(number), identity, format!("v{number}"));
}

/// A chunk of the first volume.
pub(crate) fn chunk(index: u32) -> ChunkId {
    ChunkId { volume: VolumeId(0), index }
}

/// Takes a slot of a pool.
pub(crate) fn take_slot(group: &mut GroupState, pool: PoolId) -> Place {
    let (slot, _) = group.pools[pool].slots.take().expect("a slot is free");
    Place { pool, slot }
}

/// Takes all free slots of a pool; how many there were.
pub(crate) fn fill(group: &mut GroupState, pool: PoolId) -> u32 {
    let free = group.pools[pool].slots.free();
    (0..free).for_each(|_| _ = take_slot(group, pool));
    free
}

/// Gives a chunk its first copy.
pub(crate) fn put(group: &mut GroupState, chunk: ChunkId, pool: PoolId) -> Place {
    let place = take_slot(group, pool);
    let copies = vec![ChunkCopy::wanted(place)];
    group.map.set_state(chunk, &ChunkState { copies, ..ChunkState::default() });
    place
}

/// Gives a chunk another copy, which the journal calls equal to the first.
pub(crate) fn add_copy(group: &mut GroupState, chunk: ChunkId, pool: PoolId, role: Role) -> Place {
    let place = take_slot(group, pool);
    let mut state = group.map.state(chunk);
    state.copies.push(ChunkCopy { place, role });
    group.map.set_state(chunk, &state);
    group.pools[pool].count_copy(role);
    place
}

/// Mirrors a chunk: `blocks` of its 16 are on both sides, the others in its first copy.
pub(crate) fn mirror(
    group: &mut GroupState,
    chunk: ChunkId,
    above: PoolId,
    blocks: std::ops::Range<u32>,
) -> Place {
    let place = take_slot(group, above);
    let mut sides = Blocks::mirrored(CHUNK);
    sides.copied(&(blocks.start * 4096..blocks.end * 4096));
    group.map.add_overlay(chunk, place, sides);
    place
}

/// Queues records until nobody may add to them.
pub(crate) fn pile_up_records(group: &mut GroupState) {
    while !group.records_pile_up() {
        group.journal.record(&Record::VolumeGone(VolumeId(9)));
    }
}

/// Takes all that was left to others.
pub(crate) fn effects(group: &mut GroupState) -> Vec<Effect> {
    std::iter::from_fn(|| group.take_effect()).collect()
}

/// Requests for devices since this was last asked.
pub(crate) fn sent(group: &mut GroupState) -> Vec<(PoolId, Ticket, Io)> {
    let mut out = Vec::new();
    group.pools.take_io(&mut out);
    out
}

/// A device has answered.
pub(crate) fn land(
    group: &mut GroupState,
    pool: PoolId,
    ticket: Ticket,
    result: Result<Payload, DeviceError>,
) -> Flight {
    tests::land(&mut group.pools, pool, &Completion { ticket, result })
}

fn step(group: &mut GroupState, step: impl FnOnce(&mut Journal, &mut Below)) {
    let GroupState { journal, pools, map, busy_chunks, operations, now, .. } = group;
    let state_of = |chunk| durable_state(map, busy_chunks, operations, chunk);
    step(journal, &mut Below { now: *now, pools, map, state_of: &state_of });
}

/// Lets the journal make durable all that is queued, over devices that answer at once; what became
/// true.
pub(crate) fn settle(group: &mut GroupState) -> Vec<Outcome> {
    settle_by(group, &mut |_| ())
}

/// The same; what the journal says.
pub(crate) fn said(group: &mut GroupState) -> Vec<Record> {
    let mut written = Vec::new();
    let first = group.elect_replicas()[0];
    settle_by(group, &mut |(pool, owner, io)| match io {
        Io::Write { data, .. } if pool == first && owner == Owner::Journal => {
            written.extend(data.to_vec());
        }
        _ => {}
    });
    let payload = |block| read_block(BlockKind::Journal, block).expect("it is whole").payload;
    let records = |block| decode_records(payload(block), CHUNK).expect("they are in order");
    written.chunks(BLOCK_BYTES).flat_map(records).collect()
}

fn settle_by(group: &mut GroupState, see: &mut dyn FnMut((PoolId, Owner, Io))) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    group.want_commit_of_changes();
    loop {
        step(group, Journal::pump_checkpoint);
        if group.journal.commit_can_start(&group.pools, group.commit_demand()) {
            step(group, Journal::start_commit);
        }
        outcomes.append(&mut group.journal.take_outcomes());
        let sent = sent(group);
        if sent.is_empty() {
            return outcomes;
        }
        for (pool, ticket, io) in sent {
            let flight = land(group, pool, ticket, Ok(Payload::EMPTY));
            see((pool, flight.owner, io));
            step(group, |journal, below| match flight.owner {
                Owner::Flush => journal.flush_ended(below),
                Owner::Journal => journal.write_ended(below),
                Owner::Checkpoint => journal.batch_ended(below),
                Owner::Super => journal.superblock_ended(below),
                owner => panic!("{owner:?} is not the journal's"),
            });
        }
    }
}

#[test]
fn a_chunk_is_followed_until_nothing_is_under_way_on_it() {
    let mut group = group();
    group.busy_chunk_of(chunk(2)).begin_repair();
    group.forget_if_idle(chunk(2));
    assert!(group.map.is_busy(chunk(2)) && group.busy_chunks.len() == 1);
    group.busy_chunk_of(chunk(2)).end_repair();
    group.forget_if_idle(chunk(2));
    assert!(!group.map.is_busy(chunk(2)) && group.busy_chunks.is_empty());
}

#[test]
fn the_journal_is_told_that_copies_differ_while_it_is_announced() {
    let mut group = group();
    put(&mut group, chunk(0), FAST);
    add_copy(&mut group, chunk(0), SLOW, Role::Wanted);
    assert!(!group.durable_state(chunk(0)).dirty);
    group.announce_writes(chunk(0));
    assert!(group.durable_state(chunk(0)).dirty && !group.map.state(chunk(0)).dirty);
    let records = group.journal.is_queued();
    group.announce_writes(chunk(0));
    assert!(records && !group.lacks_announcement(chunk(0)), "it is announced once");
}

#[test]
fn what_follows_from_an_effect_is_done_before_the_next_one() {
    let mut group = group();
    group.emit(Effect::SlotFree);
    group.emit(Effect::Space(1));
    assert!(matches!(group.take_effect(), Some(Effect::SlotFree)));
    let rest = group.set_effects_aside();
    group.emit(Effect::Space(2));
    group.put_effects_back(rest);
    let spaces = |effect: Effect| if let Effect::Space(number) = effect { number } else { 0 };
    assert_eq!(effects(&mut group).into_iter().map(spaces).collect::<Vec<_>>(), [2, 1]);
}
