//! Formatting and reading alone, step by step: what is asked of devices, and what failures mean.

use super::{BlockKind, ERASE_BYTES, Opened, Opening, Purpose, Reads, Step, by_block};
use crate::group_state::GroupState;
use crate::group_state::tests::{FAR, FAST, SLOW, group, land, sent};
use crate::opening::error::OpenError;
use crate::pools::flight::{Owner, TRIES_MAX};
use crate::pools::layout::region_bytes;
use crate::pools::pool::PoolState;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::{Bytes, Nanos, PoolId};

type Answer = Result<Payload, DeviceError>;

/// A group whose devices answer as they are told to.
struct Bench {
    group: GroupState,
    opening: Opening,
}

impl Bench {
    fn reading() -> Bench {
        let mut group = group();
        let opening = Opening::read(Nanos(0), &mut group.pools, None);
        Bench { group, opening }
    }

    /// Answers all requests for devices; what they were.
    fn answer(&mut self, answer: impl Fn(PoolId, &Io) -> Answer) -> Vec<(PoolId, Io)> {
        let Bench { group, opening } = self;
        let mut asked = Vec::new();
        for (pool, ticket, io) in sent(group) {
            let result = answer(pool, &io);
            let flight = land(group, pool, ticket, result.clone());
            let Owner::Open(index) = flight.owner else { panic!("{flight:?}") };
            opening.answered(Nanos(0), &mut group.pools, pool, index, result);
            asked.push((pool, io));
        }
        asked
    }

    fn advance(&mut self) -> Result<Option<Opened>, OpenError> {
        let Bench { group, opening } = self;
        opening.advance(Nanos(0), &mut group.pools, &mut group.map)
    }
}

/// An empty device.
fn zeroes(_: PoolId, io: &Io) -> Answer {
    match io {
        Io::Read { length, .. } => Ok(Payload::Zeroes(*length)),
        _ => Ok(Payload::EMPTY),
    }
}

#[test]
fn formatting_takes_the_room_of_all_metadata_with_forced_bytes() {
    let mut group = group();
    let opening = Opening::format(Nanos(0), &mut group.pools);
    let sizes = *group.pools.sizes();
    let mut bench = Bench { group, opening };
    assert!(matches!(bench.advance(), Ok(None)), "nothing is written yet");
    let asked = bench.answer(zeroes);
    let region = region_bytes(sizes.journal_blocks, sizes.area_blocks);
    for id in [FAST, SLOW, FAR] {
        let mut end = 0;
        for (_, io) in asked.iter().filter(|(pool, _)| *pool == id) {
            let Io::Write { offset, data: Payload::Bytes(data), fua: true } = io else {
                panic!("{io:?}")
            };
            assert!(offset.0 == end && data.len() <= ERASE_BYTES as usize);
            end += data.len() as u64;
        }
        let has_region = bench.group.pools[id].has_region;
        assert_eq!(end, if has_region { region } else { 8192 }, "{id:?}");
    }
    assert!(matches!(bench.advance(), Ok(Some(Opened::Formatted))));
}

#[test]
fn devices_are_flushed_before_anything_is_read() {
    let mut bench = Bench::reading();
    let flushed = bench.answer(zeroes);
    assert!(flushed.len() == 3 && flushed.iter().all(|(_, io)| *io == Io::Flush), "{flushed:?}");
    assert!(matches!(bench.advance(), Ok(None)));
    let read = bench.answer(zeroes);
    let both = Io::Read { offset: Bytes(0), length: 8192 };
    assert!(read.len() == 3 && read.iter().all(|(_, io)| *io == both), "{read:?}");
    assert!(bench.opening.superblock().is_none());
    assert_eq!(bench.advance().err(), Some(OpenError::NotAGroup), "the devices are empty");
}

#[test]
fn a_device_that_cannot_flush_keeps_the_group_closed_unless_it_is_far_or_gone() {
    let after = |pool: PoolId, error| {
        let mut bench = Bench::reading();
        let fails = |asked, io: &Io| match asked == pool && *io == Io::Flush {
            true => Err(error),
            false => zeroes(asked, io),
        };
        while !bench.answer(fails).iter().any(|(asked, _)| *asked != pool) {}
        while bench.answer(fails).len() == 1 {}
        (bench.advance().err(), bench.group.pools[pool].state)
    };
    let failed = Some(OpenError::FlushFailed(SLOW));
    assert_eq!(after(SLOW, DeviceError::Io), (failed, PoolState::Active));
    assert_eq!(after(SLOW, DeviceError::Gone), (None, PoolState::Dead));
    assert_eq!(after(FAR, DeviceError::Io), (None, PoolState::Dead), "it is tried again first");
}

#[test]
fn a_read_that_fails_is_tried_again_and_its_device_counts_as_dead_in_the_end() {
    let mut bench = Bench::reading();
    bench.answer(zeroes);
    assert!(matches!(bench.advance(), Ok(None)));
    let fails = |pool, io: &Io| if pool == FAST { Err(DeviceError::Io) } else { zeroes(pool, io) };
    assert_eq!(bench.answer(fails).len(), 3);
    for _ in 0..TRIES_MAX {
        assert_eq!(bench.group.pools[FAST].state, PoolState::Active);
        assert!(matches!(bench.advance(), Ok(None)), "it waits for the last one");
        assert_eq!(bench.answer(fails).len(), 1);
    }
    assert_eq!(bench.group.pools[FAST].state, PoolState::Dead);
    assert!(bench.advance().is_err());
}

#[test]
fn copies_of_a_block_are_found_in_whatever_read_has_it() {
    let step = |pool, first: u32, found: Option<Vec<u8>>| Step {
        pool,
        purpose: Purpose::Blocks(BlockKind::Journal, first),
        io: Io::Flush,
        tries: 0,
        found,
    };
    let blocks = |from: u8, count: u8| (from..from + count).flat_map(|n| vec![n; 4096]).collect();
    let steps = vec![
        step(FAST, 0, Some(blocks(0, 64))),
        step(FAST, 64, Some(blocks(64, 2))),
        step(SLOW, 0, None),
        step(SLOW, 64, Some(blocks(100, 2))),
    ];
    let reads = Reads { by_block: by_block(&steps), steps };
    let first_bytes = |kind, at| -> Vec<(PoolId, u8)> {
        reads.copies_by_pool(kind, at).map(|(pool, block)| (pool, block[0])).collect()
    };
    assert_eq!(first_bytes(BlockKind::Journal, 63), [(FAST, 63)], "the other could not be read");
    assert_eq!(first_bytes(BlockKind::Journal, 65), [(FAST, 65), (SLOW, 101)]);
    assert_eq!(first_bytes(BlockKind::Journal, 66), [], "nobody read so far");
    assert_eq!(first_bytes(BlockKind::Checkpoint, 5), []);
}
