//! The pools by themselves: requests, retries, deaths, and the order of speed.

use super::{Pools, Retry, Sizes};
use crate::format::{Membership, PoolRecord};
use crate::pools::flight::{Flight, Owner, TRIES_MAX};
use crate::pools::pool::{Pool, PoolState};
use crate::settings::Limits;
use thermocline_policy::tactics::VolumeTactics;
use thermocline_ports::{Completion, DeviceError, Geometry, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos, PoolId};

const CHUNK: u32 = 64 << 10;
const NOW: Nanos = Nanos(1_000_000);

/// Returns this many pools of 16 slots, each with a metadata region.
pub(crate) fn pools(count: u16) -> Pools {
    let sizes = Sizes { chunk: CHUNK, journal_blocks: 64, area_blocks: 8, limits: Limits::REAL };
    let mut pools = Pools::new(sizes);
    for number in 0..count {
        pools.push(pool(&pools, number), None);
    }
    pools
}

/// Takes a device's answer, by the default tactics.
pub(crate) fn land(pools: &mut Pools, pool: PoolId, completion: &Completion) -> Flight {
    pools.land(NOW, pool, completion, &VolumeTactics::default().probing)
}

fn pool(pools: &Pools, number: u16) -> Pool {
    let record = PoolRecord {
        name: format!("p{number}"),
        membership: Membership::Active,
        slots: 16,
        reserve: 0,
        first_slot: 1 << 20,
        has_metadata_region: true,
        checksums: false,
        extents: Default::default(),
    };
    let geometry = Geometry { size: Bytes(2 << 20), discard_zeroes: false, far: false };
    Pool::new(&record, pools.tables_of(&record), geometry, PoolState::Active, true)
}

fn sent(pools: &mut Pools) -> Vec<(PoolId, Ticket, Io)> {
    let mut out = Vec::new();
    pools.take_io(&mut out);
    out
}

fn answer(ticket: Ticket, result: Result<Payload, DeviceError>) -> Completion {
    Completion { ticket, result }
}

#[test]
fn a_request_is_answered_once_and_makes_its_pool_dirty() {
    let mut pools = pools(2);
    let write = Io::WriteZeroes { offset: Bytes(0), length: Bytes(4096) };
    pools.send(NOW, PoolId(1), Owner::Clean { slot: 3 }, write, false);
    let (pool, ticket, _) = sent(&mut pools).remove(0);
    assert_eq!((pool, pools.is_quiet(), pools.any_dirty()), (PoolId(1), false, false));
    let flight = land(&mut pools, pool, &answer(ticket, Ok(Payload::EMPTY)));
    assert_eq!(flight.owner, Owner::Clean { slot: 3 });
    assert_eq!((pools.is_quiet(), pools.any_dirty()), (true, true));
}

#[test]
fn tickets_of_requests_in_the_same_place_differ() {
    let mut pools = pools(1);
    let mut tickets = Vec::new();
    for _ in 0..2 {
        pools.send(NOW, PoolId(0), Owner::Flush, Io::Flush, false);
        let (pool, ticket, _) = sent(&mut pools).remove(0);
        land(&mut pools, pool, &answer(ticket, Ok(Payload::EMPTY)));
        tickets.push(ticket.0);
    }
    assert_eq!(tickets[0] as u32, tickets[1] as u32, "the place is used again");
    assert_ne!(tickets[0], tickets[1]);
}

#[test]
fn a_failed_request_is_sent_again_until_its_last_try() {
    let mut pools = pools(1);
    pools.send(NOW, PoolId(0), Owner::Flush, Io::Flush, false);
    for tried in 0..=TRIES_MAX {
        let (pool, ticket, _) = sent(&mut pools).remove(0);
        let flight = land(&mut pools, pool, &answer(ticket, Err(DeviceError::Io)));
        let retry = pools.send_again(NOW, &flight);
        assert_eq!(retry, if tried < TRIES_MAX { Retry::Again } else { Retry::Spent });
    }
    assert_eq!(sent(&mut pools), []);
}

#[test]
fn a_dead_pool_says_once_that_its_writes_are_lost_and_gets_no_request_again() {
    let mut pools = pools(2);
    pools[PoolId(0)].dirty = true;
    pools.send(NOW, PoolId(0), Owner::Flush, Io::Flush, false);
    let (pool, ticket, _) = sent(&mut pools).remove(0);
    assert_eq!(pools.bury(PoolId(0)), Some(true));
    assert_eq!(pools.bury(PoolId(0)), None);
    assert_eq!(pools.bury(PoolId(1)), Some(false));
    assert!(!pools.any_alive());
    let flight = land(&mut pools, pool, &answer(ticket, Err(DeviceError::Gone)));
    assert_eq!(pools.send_again(NOW, &flight), Retry::Dead);
}

#[test]
fn a_pool_that_is_taken_away_again_leaves_the_order_as_it_was() {
    let mut pools = pools(2);
    let before = pools.ranks().clone();
    let third = pool(&pools, 2);
    pools.push(third, Some(PoolId(1)));
    assert_eq!(pools.ranks().order(), [PoolId(0), PoolId(2), PoolId(1)]);
    assert_eq!(pools.pop().map(|pool| pool.name), Some("p2".to_string()));
    assert_eq!(pools.ranks(), &before);
}

/// A check whether a pool may join made free for chunks what another one had grown by, and no
/// superblock said yet: after a crash the group would have been refused.
#[test]
fn slots_that_chunks_do_not_get_yet_are_held_back_again() {
    let mut pools = pools(2);
    let pool = &mut pools[PoolId(0)];
    pool.slots.grow(24, 16);
    pool.held = (16..24).rev().collect();
    let (held, used) = (pool.held.clone(), pool.slots.used());
    let before = pools.room_now();
    let need = crate::pools::layout::Need { slots: 4_000, overlays: 0, volumes: 1 };
    assert!(pools.grow_areas(need).is_new);
    assert!(pools[PoolId(0)].held.len() < held.len(), "metadata goes there first");
    pools.take_back_room(before);
    let pool = &pools[PoolId(0)];
    assert_eq!((&pool.held, pool.slots.used()), (&held, used));
    assert!(held.iter().all(|&slot| pool.slots.is_taken(slot)));
}

#[test]
fn areas_grow_in_slots_only_where_these_are_free() {
    let mut pools = pools(2);
    let need = crate::pools::layout::Need { slots: 4_000, overlays: 0, volumes: 1 };
    assert!(pools.lack_room(need) || pools.elect_replicas(need).is_empty());
    let before = pools.room_now();
    let growth = pools.grow_areas(need);
    assert!(growth.suffices && growth.is_new, "{growth:?}");
    assert_eq!(pools.elect_replicas(need), [PoolId(0), PoolId(1)]);
    pools.take_back_room(before);
    assert_eq!(pools[PoolId(0)].slots.used(), 0);
    for slot in 0..16 {
        assert!(pools[PoolId(0)].slots.take().is_some(), "{slot}");
    }
    assert!(!pools.grow_areas(crate::pools::layout::Need { slots: 100_000_000, ..need }).suffices);
}
