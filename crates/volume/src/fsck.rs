//! The machine's own check: every slot has exactly one owner, every count is right.
//!
//! Holds at any moment between two events, not only at rest: slots on their way in belong to an
//! operation, slots on their way out to a queued record, to the chunk's state, or to a discard.
//!
//! After each recovery, when nothing is under way, its cheap form runs ([`check_recovered`]): no
//! slot was claimed twice, so the map is right if each pool has as many slots taken as the map
//! names.

use crate::group_state::GroupState;
use crate::group_state::service::Service;
use crate::io::requests::Requests;
use crate::map::block_checksums::table::table_places;
use crate::map::place::{Place, Role};
use crate::opening::error::OpenError;
use crate::pools::flight::Owner;
use std::collections::BTreeMap;
use thermocline_units::PoolId;

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Flaw(String);

/// Everything that is wrong; empty when all is well. O(chunks + slots).
pub(crate) fn fsck(group: &GroupState, requests: &Requests) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    let mut owners: BTreeMap<Place, String> = BTreeMap::new();
    let mut own = |place: Place, owner: String| {
        if let Some(other) = owners.insert(place, owner.clone()) {
            flaws.push(Flaw(format!("{place:?} belongs to {other} and to {owner}")));
        }
    };
    owned_by_chunks(group, &mut own);
    for place in group.operations.destinations() {
        own(place, "an operation".to_string());
    }
    for (index, pool) in group.pools.iter().enumerate() {
        for slot in pool.extents.iter().flat_map(|extents| extents.slots()) {
            own(Place { pool: PoolId(index as u16), slot }, "the metadata".to_string());
        }
        for slot in pool.tables.among(0..pool.slots.total()) {
            own(Place { pool: PoolId(index as u16), slot }, "checksums".to_string());
        }
        for &slot in &pool.held {
            own(Place { pool: PoolId(index as u16), slot }, "the pool's growth".to_string());
        }
    }
    for place in group.lines.places() {
        own(place, "lines".to_string());
    }
    for place in group.journal.places_left() {
        own(place, "a queued record".to_string());
    }
    for (index, busy) in group.busy_chunks.iter() {
        busy.slots_left().for_each(|place| own(place, format!("busy {index}")));
        if let Some((sub_request, place)) = busy.slot_that_opens() {
            own(place, format!("sub-request {sub_request}, which opens it"));
        }
    }
    for flight in group.pools.flights() {
        if let Owner::Clean { slot } | Owner::Probe { slot } = flight.owner {
            own(Place { pool: flight.pool, slot }, "a discard".to_string());
        }
    }
    flaws.extend(check_slots(group, &owners));
    flaws.extend(check_counts(group, requests));
    flaws.extend(check_tables(group));
    flaws
}

/// Counts what the map names against what pools have taken, after a recovery that has claimed each
/// slot once. O(chunks), 12 bytes a pool.
///
/// # Errors
/// When a pool has slots that nobody owns, or lacks some, or counts of sub-requests and of
/// prefetched copies are wrong: a bug of the recovery.
pub(crate) fn check_recovered(group: &GroupState) -> Result<(), OpenError> {
    let mut named = vec![0_u32; group.pools.count()];
    let mut spare = vec![0_u32; group.pools.count()];
    let mut overlays = 0;
    for chunk in group.map.chunks() {
        for copy in group.map.copies(chunk) {
            named[usize::from(copy.place.pool.0)] += 1;
            spare[usize::from(copy.place.pool.0)] += u32::from(copy.gives_way());
        }
        if let Some(overlay) = group.map.overlay(chunk) {
            named[usize::from(overlay.place.pool.0)] += 1;
            overlays += 1;
        }
    }
    for (id, (named, spare)) in group.pools.ids().zip(named.into_iter().zip(spare)) {
        let pool = &group.pools[id];
        if pool.slots_used() != named || pool.prefetched + pool.kept != spare {
            return Err(OpenError::Miscounted { pool: id, named, taken: pool.slots_used() });
        }
    }
    assert_eq!(overlays, group.map.overlays(), "chunks in two parts are counted as they are read");
    Ok(())
}

fn owned_by_chunks(group: &GroupState, own: &mut impl FnMut(Place, String)) {
    for chunk in group.map.chunks() {
        for copy in group.map.copies(chunk) {
            own(copy.place, format!("chunk {chunk}"));
        }
        if let Some(overlay) = group.map.overlay(chunk) {
            own(overlay.place, format!("the overlay of chunk {chunk}"));
        }
    }
}

/// No chunk has a table where no copy has room for one.
fn check_tables(group: &GroupState) -> impl Iterator<Item = Flaw> {
    let checksummed = group.map.chunks().filter(|&chunk| group.map.entry(chunk).has_checksums());
    let bare = checksummed.filter(|&chunk| table_places(group, chunk).next().is_none());
    bare.map(|chunk| Flaw(format!("chunk {chunk} has checksums, and no copy has room for them")))
}

fn check_slots(group: &GroupState, owners: &BTreeMap<Place, String>) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    for (index, pool) in group.pools.iter().enumerate() {
        let id = PoolId(index as u16);
        for slot in 0..pool.slots.total() {
            let place = Place { pool: id, slot };
            match (pool.slots.is_taken(slot), owners.get(&place)) {
                (true, None) => flaws.push(Flaw(format!("{place:?} is taken by nobody"))),
                (false, Some(owner)) => {
                    flaws.push(Flaw(format!("{place:?} is free and belongs to {owner}")));
                }
                _ => {}
            }
        }
    }
    for place in owners.keys() {
        let pool = group.pools.find(place.pool);
        if pool.is_none_or(|pool| place.slot >= pool.slots.total()) {
            flaws.push(Flaw(format!("{place:?} does not exist")));
        }
    }
    flaws
}

fn check_counts(group: &GroupState, requests: &Requests) -> Vec<Flaw> {
    let mut flaws = Vec::new();
    let mut counted = vec![(0, 0); group.pools.count()];
    for copy in group.map.chunks().flat_map(|chunk| group.map.copies(chunk)) {
        let (prefetched, kept) = &mut counted[usize::from(copy.place.pool.0)];
        *prefetched += u32::from(copy.role == Role::Prefetched);
        *kept += u32::from(copy.role == Role::Kept);
    }
    for place in group.operations.prefetching() {
        counted[usize::from(place.pool.0)].0 += 1;
    }
    for (pool, counted) in group.pools.iter().zip(counted) {
        if (pool.prefetched, pool.kept) != counted {
            let (name, noted) = (&pool.name, (pool.prefetched, pool.kept));
            let text = format!(
                "pool {name} notes {noted:?} prefetched and kept copies and has {counted:?}"
            );
            flaws.push(Flaw(text));
        }
    }
    // Who fails answers all requests at once, whatever parts of them are still under way.
    let failed = matches!(group.service, Service::Failed(_));
    let sub_requests = !group.sub_requests.is_empty() || requests.has_queued();
    if requests.is_idle() && sub_requests && !failed {
        flaws.push(Flaw("parts without requests".to_string()));
    }
    flaws
}
