//! Room for the map on disk: how large checkpoint areas are, and how they grow.
//!
//! 1. The map needs room for every slot that some pool has, because each may hold a chunk.
//! 2. A pool that is added brings slots. The two fastest pools that can hold the metadata get more
//!    room for it first, in slots of their own (`extents`), for both areas.
//! 3. The superblock that makes the new pool a member lists these slots too. A crash before it
//!    leaves neither.
//!    A checkpoint that was begun before the room was needed says nothing of it: it begins anew
//!    when one of its replicas has no room.
//! 4. A pool without enough free slots cannot hold the metadata any more, until it has; another
//!    one takes its place at the next checkpoint. If none is left, the new pool is refused.

use crate::format::PoolRecord;
use crate::pools::Pools;
use crate::pools::extents::{Area, Extents};
use crate::pools::layout::{self, Need};
use crate::pools::pool::{Pool, PoolState};
use crate::pools::slots::{CHECKED_MAX, Slots};
use crate::pools::tables::Tables;
use crate::sizes::{BLOCK_BYTES, RUNS_MAX};
use thermocline_units::PoolId;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

/// Pools that hold journal and checkpoints, where there are as many.
pub(crate) const REPLICAS: usize = 2;

/// Result of a wish for more room for the map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Growth {
    /// True if some pool has room for the map of all slots.
    pub(crate) suffices: bool,
    /// True if areas have become larger, which the next superblock must say.
    pub(crate) is_new: bool,
}

/// Room of a pool's metadata, and the slots that chunks did not get yet, to be taken back to.
pub(crate) struct RoomBefore {
    extents: [Extents; 2],
    held: Vec<u32>,
}

impl Pool {
    /// Slots that metadata may have: free ones, and those that chunks do not get yet. A superblock
    /// that puts a checkpoint in force says also how large the pool is.
    pub(crate) fn free_for_metadata(&self) -> u32 {
        // What is lent to lines is none of them: it is taken back before.
        let free = self.free_beside_reserve().min(self.slots.free());
        free.saturating_add(self.held.len() as u32)
    }

    /// Room as it is now.
    fn room_now(&self) -> RoomBefore {
        RoomBefore { extents: self.extents.clone(), held: self.held.clone() }
    }

    /// Makes the room what it was before extents were appended, which nothing has used. Slots that
    /// chunks did not get yet are held back again: no superblock says that the pool has them.
    fn take_back_room(&mut self, before: RoomBefore) {
        let now = std::mem::replace(&mut self.extents, before.extents);
        let left = std::mem::replace(&mut self.held, before.held).len();
        let came_from_held = &self.held[left..];
        for (now, before) in now.iter().zip(&self.extents) {
            assert!(now.count() >= before.count(), "extents only ever grow");
            for slot in now.slots().skip(before.count() as usize) {
                if !came_from_held.contains(&slot) {
                    self.slots.give_back(slot, false);
                }
            }
        }
    }
}

/// Takes a slot for metadata; of those that are held back first.
fn take_for_metadata(slots: &mut Slots, held: &mut Vec<u32>) -> u32 {
    let Some(slot) = held.pop() else {
        return slots.take().expect("enough slots are free").0;
    };
    met("metadata went on in slots that a pool grew by");
    slots.release(slot);
    slots.claim(slot);
    let is_single = || held.len() > CHECKED_MAX as usize || !held.contains(&slot);
    debug_assert!(is_single(), "a slot is held back once");
    slot
}

impl Pools {
    /// One of the two checkpoint areas of a pool.
    pub(crate) fn area(&self, pool: PoolId, area: u8) -> Area<'_> {
        let state = &self[pool];
        self.sizes.places().area(area, state.first_slot, &state.extents[usize::from(area)])
    }

    /// Places of the tables of a pool's checksums.
    pub(crate) fn tables_of(&self, pool: &PoolRecord) -> Tables {
        self.sizes.places().tables_of(pool)
    }

    /// Number of slots that chunks of the map may be on; of dead pools those that chunks have.
    fn slots_in_all(&self) -> u64 {
        let all = mutant("replicas_without_room_for_a_growth");
        let slots = |pool: &Pool| match pool.state {
            PoolState::Removed => 0,
            _ if pool.is_alive() || all => pool.slots.total(),
            _ => pool.slots_used(),
        };
        self.iter().map(|pool| u64::from(slots(pool))).sum()
    }

    /// Room that checkpoints must have, with so many chunks in two parts and so many volumes.
    pub(crate) fn need(&self, overlays: usize, volumes: usize) -> Need {
        Need { slots: self.slots_in_all(), overlays, volumes }
    }

    /// True if both areas of the pool have room for that.
    pub(crate) fn has_room(&self, pool: PoolId, need: Need) -> bool {
        self.suffice(self.capacity_of(pool), need)
    }

    /// True if areas of so many blocks have room for that.
    fn suffice(&self, blocks: u32, need: Need) -> bool {
        layout::has_room(blocks, need, self.sizes.chunk, &self.sizes.limits)
    }

    /// True if checkpoints of now, and one under way on these replicas, have room for that.
    pub(crate) fn have_room(&self, now: Need, coming: &[PoolId], need: Need) -> bool {
        self.suffice(self.capacity(now, coming), need)
    }

    /// Blocks that the smaller of the pool's areas has.
    fn capacity_of(&self, pool: PoolId) -> u32 {
        self.area(pool, 0).capacity().min(self.area(pool, 1).capacity())
    }

    /// Blocks that every checkpoint may have: one under way on these replicas, and those to come.
    pub(crate) fn capacity(&self, need: Need, coming: &[PoolId]) -> u32 {
        let replicas = self.elect_replicas(need);
        let each = replicas.iter().chain(coming).map(|&replica| self.capacity_of(replica));
        each.min().unwrap_or(self.sizes.area_blocks)
    }

    /// The fastest pools that have a metadata region with room for the map and will stay, far ones
    /// last; when none is left, one that was to be removed has to wait.
    pub(crate) fn elect_replicas(&self, need: Need) -> Vec<PoolId> {
        let mut able = self.replica_candidates();
        able.retain(|&pool| self.has_room(pool, need));
        let stays = |pool: &PoolId| self[*pool].state != PoolState::Removing;
        let mut replicas: Vec<PoolId> = able.iter().copied().filter(stays).take(REPLICAS).collect();
        if replicas.is_empty() {
            replicas.extend(able.first());
        }
        replicas
    }

    /// Pools that can hold the metadata if it fits, far ones last.
    fn replica_candidates(&self) -> Vec<PoolId> {
        let can = |pool: &PoolId| self[*pool].has_region && self[*pool].is_alive();
        let mut able: Vec<PoolId> = self.ranks.there().iter().copied().filter(can).collect();
        able.sort_by_key(|&pool| self[pool].is_far());
        able
    }

    /// Those of them that stay.
    fn staying_candidates(&self) -> Vec<PoolId> {
        let mut able = self.replica_candidates();
        able.retain(|&pool| self[pool].state != PoolState::Removing);
        able
    }

    /// Gives the areas of the fastest pools room for that.
    pub(crate) fn grow_areas(&mut self, need: Need) -> Growth {
        let roomy = layout::blocks_for(need.slots, self.sizes.chunk, &self.sizes.limits);
        let (mut able, mut is_new) = (0, false);
        for pool in self.staying_candidates() {
            if able == REPLICAS {
                break;
            }
            is_new |= !self.has_room(pool, need) && self.extend_areas(pool, roomy);
            able += usize::from(self.has_room(pool, need));
        }
        let elected = self.elect_replicas(need).len();
        assert_eq!(elected, able.max(usize::from(elected > 0)), "who has room can be a replica");
        Growth { suffices: able > 0, is_new }
    }

    /// True if a pool that could hold the metadata lacks room for it.
    pub(crate) fn lack_room(&self, need: Need) -> bool {
        let could = self.staying_candidates().len().min(REPLICAS);
        self.elect_replicas(need).len() < could
    }

    /// Slots that each area of a pool lacks to have so many blocks.
    fn missing(&self, pool: PoolId, blocks: u32) -> [u32; 2] {
        let per_slot = self.sizes.chunk / BLOCK_BYTES as u32;
        [0, 1].map(|area| {
            let has = self.area(pool, area).capacity();
            blocks.saturating_sub(has).div_ceil(per_slot)
        })
    }

    /// Slots that the metadata wants on a pool, among those that are free or lent to lines; 0: it
    /// has its room there, is not to be there, or would not have room with all of them.
    pub(crate) fn wanted_by_metadata(&self, id: PoolId, need: Need) -> u32 {
        let mut candidates = self.staying_candidates().into_iter().take(REPLICAS);
        if self.has_room(id, need) || !candidates.any(|candidate| candidate == id) {
            return 0;
        }
        let roomy = layout::blocks_for(need.slots, self.sizes.chunk, &self.sizes.limits);
        let [first, second] = self.missing(id, roomy);
        let (pool, missing) = (&self[id], first.saturating_add(second));
        if missing <= pool.free_for_metadata() + pool.lent { missing } else { 0 }
    }

    /// Gives both areas of a pool slots until they have so many blocks; false, and nothing is
    /// changed, when it has not enough free ones.
    fn extend_areas(&mut self, pool: PoolId, blocks: u32) -> bool {
        let missing = self.missing(pool, blocks);
        let state = &mut self[pool];
        if missing[0].saturating_add(missing[1]) > state.free_for_metadata() {
            return false;
        }
        let before = state.room_now();
        for (extents, missing) in state.extents.iter_mut().zip(missing) {
            for _ in 0..missing {
                extents.push(take_for_metadata(&mut state.slots, &mut state.held));
            }
        }
        let lists = self.iter().flat_map(|pool| &pool.extents);
        if lists.map(|extents| extents.runs().len()).sum::<usize>() > RUNS_MAX {
            self[pool].take_back_room(before);
            return false;
        }
        assert!(self.capacity_of(pool) >= blocks, "both areas have what was asked for");
        true
    }

    /// The room of all pools, to be taken back to.
    pub(crate) fn room_now(&self) -> Vec<RoomBefore> {
        self.iter().map(Pool::room_now).collect()
    }

    /// Takes back the room that [`Pools::grow_areas`] gave: it is what it was.
    pub(crate) fn take_back_room(&mut self, before: Vec<RoomBefore>) {
        assert_eq!(before.len(), self.count(), "the same pools");
        for (pool, before) in self.iter_mut().zip(before) {
            pool.take_back_room(before);
        }
    }
}
