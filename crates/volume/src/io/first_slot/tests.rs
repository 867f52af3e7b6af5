//! The search for a first slot: where it ends, what is cleaned, who waits for room.

use super::{FirstSlot, open_chunk, opened, try_again};
use crate::epoch::hinting::Hinting;
use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::group_state::tests::{
    FAR, FAST, SLOW, add_copy, chunk, effects, fill, group, pile_up_records, put, settle,
};
use crate::io::busy_chunk::tests::{come, write};
use crate::io::leaving::Leaving;
use crate::io::request::RequestError;
use crate::journal::Outcome;
use crate::journal::commit::Waiter;
use crate::map::block_checksums::BlockChecksums;
use crate::map::place::{Place, Role};
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::{Bytes, PoolId};

/// A write to a chunk that holds nothing, and the parts that its search meets.
struct Bench {
    group: GroupState,
    checksums: BlockChecksums,
    hinting: Hinting,
    leaving: Leaving,
    sub_request: u32,
}

impl Bench {
    fn new() -> Bench {
        let mut group = group();
        let sub_request = come(&mut group, chunk(0), 0..512, write(&(0..512)));
        Bench {
            group,
            checksums: BlockChecksums::default(),
            hinting: Hinting::default(),
            leaving: Leaving::default(),
            sub_request,
        }
    }

    /// The same, where no pool but these has a free slot.
    fn with_room_on(pools: &[PoolId]) -> Bench {
        let mut bench = Bench::new();
        for pool in [FAST, SLOW, FAR].into_iter().filter(|pool| !pools.contains(pool)) {
            assert!(fill(&mut bench.group, pool) > 0);
        }
        bench
    }

    fn open(&mut self) -> FirstSlot {
        let Bench { group, checksums, hinting, leaving, sub_request } = self;
        open_chunk(group, checksums, hinting, leaving, *sub_request)
    }

    fn try_again(&mut self) -> FirstSlot {
        let Bench { group, checksums, hinting, leaving, sub_request } = self;
        try_again(group, checksums, hinting, leaving, *sub_request)
    }

    fn opened(&mut self, pool: PoolId, result: Result<Payload, DeviceError>) -> FirstSlot {
        let Bench { group, checksums, hinting, leaving, sub_request } = self;
        opened(group, checksums, hinting, leaving, *sub_request, pool, &result)
    }

    fn error(&self) -> Option<RequestError> {
        self.group.sub_requests[self.sub_request].error
    }
}

/// The pool and the request of a slot that must be cleaned.
fn cleaning(slot: FirstSlot) -> (Place, Io) {
    let FirstSlot::Cleaning(place, io) = slot else { panic!("{slot:?}") };
    (place, io)
}

#[test]
fn a_slot_that_reads_as_zeroes_is_ready_at_once() {
    let mut bench = Bench::new();
    let free = bench.group.pools[FAST].slots.free();
    let slot = bench.open();
    assert!(matches!(slot, FirstSlot::Ready(Place { pool: FAST, .. })), "{slot:?}");
    assert_eq!(bench.group.pools[FAST].slots.free(), free - 1);
    assert!(bench.group.busy_chunk(chunk(0)).is_some_and(|busy| busy.opening.is_none()));
}

#[test]
fn a_slot_with_older_contents_is_ready_when_its_device_has_made_it_zeroes() {
    let mut bench = Bench::with_room_on(&[SLOW]);
    let (place, io) = cleaning(bench.open());
    let Io::Discard { offset, length } = io else { panic!("its device discards to zeroes") };
    assert_eq!((place.pool, length), (SLOW, Bytes(64 << 10)));
    assert_eq!(offset, bench.group.pools[SLOW].address(place, 0, 64 << 10), "all of the slot");
    let busy = bench.group.busy_chunk(chunk(0)).expect("it is opened");
    assert_eq!(busy.slot_that_opens(), Some((bench.sub_request, place)));
    let slot = bench.opened(SLOW, Ok(Payload::EMPTY));
    assert!(matches!(slot, FirstSlot::Ready(ready) if ready == place), "{slot:?}");
}

#[test]
fn a_pool_that_cannot_clean_its_slot_gets_it_back_and_is_not_asked_again() {
    let mut bench = Bench::with_room_on(&[SLOW, FAR]);
    let free = bench.group.pools[SLOW].slots.free();
    cleaning(bench.open());
    let (place, io) = cleaning(bench.opened(SLOW, Err(DeviceError::Io)));
    assert!(place.pool == FAR && matches!(io, Io::WriteZeroes { .. }), "its device discards not");
    assert_eq!((bench.group.pools[SLOW].slots.free(), bench.error()), (free, None));
    let slot = bench.opened(FAR, Err(DeviceError::NoSpace));
    assert!(matches!(slot, FirstSlot::Missing), "{slot:?}");
    assert_eq!(bench.error(), Some(RequestError::NoSpace));
}

#[test]
fn without_a_slot_anywhere_the_write_fails_for_want_of_space() {
    let mut bench = Bench::with_room_on(&[]);
    assert!(matches!(bench.open(), FirstSlot::Missing));
    assert_eq!(bench.error(), Some(RequestError::NoSpace));
    assert!(!bench.group.journal.is_queued() && bench.leaving.waiting.is_empty());
}

#[test]
fn a_prefetched_copy_gives_up_its_slot_once_the_journal_knows() {
    let mut bench = Bench::new();
    put(&mut bench.group, chunk(1), SLOW);
    let prefetched = add_copy(&mut bench.group, chunk(1), FAST, Role::Prefetched);
    for pool in [FAST, SLOW, FAR] {
        fill(&mut bench.group, pool);
    }
    assert!(matches!(bench.open(), FirstSlot::Waits));
    assert_eq!(bench.group.map.copies(chunk(1)).count(), 1);
    assert!(bench.group.pools[FAST].slots.is_taken(prefetched.slot));
    let outcomes = settle(&mut bench.group);
    let [Outcome::Durable { left, waiters }] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(left, &[(chunk(1), prefetched)]);
    assert!(waiters.contains(&Waiter::Space(bench.sub_request)));
    bench.group.pools[FAST].slots.give_back(prefetched.slot, false);
    assert_eq!(cleaning(bench.try_again()).0, prefetched, "its contents are another chunk's");
}

#[test]
fn a_write_waits_for_a_slot_that_is_leaving_and_lets_its_own_chunk_go_on() {
    let mut bench = Bench::with_room_on(&[]);
    bench.leaving.slot_leaves();
    assert!(matches!(bench.open(), FirstSlot::Waits));
    assert_eq!((bench.leaving.waiting.clone(), bench.error()), (vec![bench.sub_request], None));
    assert!(matches!(effects(&mut bench.group)[..], [Effect::Eased(eased)] if eased == chunk(0)));
}

#[test]
fn a_write_that_found_room_waits_where_its_record_would_have_none() {
    let mut bench = Bench::with_room_on(&[]);
    bench.leaving.slot_leaves();
    bench.open();
    pile_up_records(&mut bench.group);
    assert!(matches!(bench.try_again(), FirstSlot::Waits));
    let outcomes = settle(&mut bench.group);
    let waits = |outcome: &Outcome| match outcome {
        Outcome::Durable { waiters, .. } => waiters.contains(&Waiter::Space(bench.sub_request)),
        _ => false,
    };
    assert!(outcomes.iter().any(waits), "it is told when there is room");
}
