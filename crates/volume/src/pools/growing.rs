//! A pool whose device has become larger.
//!
//! 1. Slots are added behind the last one; all that is there keeps its place. The tables of their
//!    checksums stand in some of them ([`crate::pools::tables`]).
//! 2. The map needs room for more chunks: checkpoint areas grow as when a pool is added, into the
//!    new slots where they can.
//! 3. Chunks get the others when a superblock that says how large the pool is is durable. A crash
//!    before that leaves the pool as it was, on a device that is larger: nothing of value is there.

use crate::admin::error::AdminError;
use crate::group_state::GroupState;
use crate::group_state::service::Service;
use crate::pools::extents::Extents;
use crate::pools::layout;
use crate::pools::pool::{Pool, PoolState};
use crate::pools::slots::Slots;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{Bytes, PoolId};

impl Pool {
    /// Adds slots, which chunks do not get yet; those from byte `zeroed_from` on read as zeroes.
    fn add_slots(&mut self, total: u32, zeroed_from: Bytes, chunk_size: u32) {
        assert!(self.held.is_empty(), "what the pool grew by before is in force");
        let before = self.slots.total();
        let zeroed = zeroed_from.0.saturating_sub(self.first_slot).div_ceil(u64::from(chunk_size));
        let clean_from = u32::try_from(zeroed).unwrap_or(u32::MAX);
        let clean_from = if mutant("grown_slots_called_clean") { before } else { clean_from };
        self.slots.grow(total, clean_from);
        for slot in self.tables.among(before..total) {
            self.slots.release(slot);
            self.slots.claim(slot);
        }
        self.held = (before..total).rev().filter(|&slot| !self.tables.is_on(slot)).collect();
        let taken = |slot: &u32| self.slots.is_taken(*slot);
        debug_assert!((before..total).all(|slot| taken(&slot)), "chunks get none of it yet");
    }

    /// Lets chunks have what the pool has grown by.
    pub(crate) fn release_held(&mut self) {
        for slot in std::mem::take(&mut self.held) {
            self.slots.release(slot);
        }
    }
}

/// Gives a pool the slots that its device has room for; how many chunks more that are. None, where
/// metadata that grows with it takes them all.
pub(crate) fn enlarge(
    group: &mut GroupState,
    id: PoolId,
    size: Bytes,
    zeroed_from: Bytes,
) -> Result<u32, AdminError> {
    if group.service != Service::Ready {
        return Err(AdminError::NotReady);
    }
    let pool = group.pools.find(id).ok_or(AdminError::NoPool(id))?;
    if pool.state != PoolState::Active {
        return Err(AdminError::CannotGrow { pool: id, state: pool.state });
    }
    if !pool.held.is_empty() {
        return Err(AdminError::Growing(pool.name.clone()));
    }
    let (name, has) = (pool.name.clone(), pool.slots_for_chunks());
    let total = layout::slots_from(size, pool.first_slot, group.pools.chunk_bytes());
    if total <= pool.slots.total() {
        let chunks = u64::from(pool.slots.total()) * u64::from(group.pools.chunk_bytes());
        let pool_ends = Bytes(pool.first_slot + chunks);
        return Err(AdminError::NotLarger { name, size, pool_ends });
    }
    // Metadata may need what is lent.
    met_if(group.lines.lent() > 0, "lines taken back for a pool that grows");
    group.lines.take_back_all(&mut group.pools);
    let (before, chunk_size) = (Before::of(group), group.pools.chunk_bytes());
    let pool = &mut group.pools[id];
    pool.geometry.size = size;
    pool.add_slots(total, zeroed_from, chunk_size);
    if !mutant("growth_without_room_for_its_map") && !group.pools.grow_areas(group.need()).suffices
    {
        before.restore(group, id);
        return Err(AdminError::MetadataRoom(name));
    }
    let pool = &group.pools[id];
    assert_eq!(pool.slots.total(), total, "it has what its device has room for");
    met_if(!pool.tables.all_before(total), "pool grew beyond its first tables");
    let chunks = pool.slots_for_chunks() + pool.held.len() as u32;
    met_if(chunks < has, "pool grew by less than its metadata took");
    Ok(chunks.saturating_sub(has))
}

/// State that growing changes, as it was.
pub(crate) struct Before {
    pools: Vec<(Slots, Bytes)>,
    extents: Vec<[Extents; 2]>,
    /// Slots that chunks do not get yet, of pools that grew before.
    held: Vec<Vec<u32>>,
}

impl Before {
    pub(crate) fn of(group: &GroupState) -> Before {
        let pools = group.pools.iter().map(|pool| (pool.slots.clone(), pool.geometry.size));
        let extents = group.pools.iter().map(|pool| pool.extents.clone());
        let held = group.pools.iter().map(|pool| pool.held.clone());
        Before { pools: pools.collect(), extents: extents.collect(), held: held.collect() }
    }

    /// Makes it so again; `growing` is the pool whose slots became more.
    pub(crate) fn restore(self, group: &mut GroupState, growing: PoolId) {
        assert_eq!(self.pools.len(), group.pools.count(), "the same pools");
        assert!(self.held[usize::from(growing.0)].is_empty(), "what it grew by before is in force");
        let all = self.pools.into_iter().zip(self.extents).zip(self.held);
        for (pool, (((slots, size), extents), held)) in group.pools.iter_mut().zip(all) {
            (pool.slots, pool.geometry.size, pool.extents) = (slots, size, extents);
            pool.held = held;
        }
    }
}

#[cfg(test)]
mod tests;
