//! Room for the map on disk: how large checkpoint areas are, and how they grow.
//!
//! 1. The map needs room for every slot that some pool has, because each may hold a chunk.
//! 2. A pool that is added brings slots. The two fastest pools that can hold the metadata get more
//!    room for it first, in slots of their own (`extents`), for both areas.
//! 3. The superblock that makes the new pool a member lists these slots too. A crash before it
//!    leaves neither.
//!    A checkpoint that was begun before the room was needed says nothing of it: it begins anew
//!    when one of its homes has no room.
//! 4. A pool without enough free slots cannot hold the metadata any more, until it has; another
//!    one takes its place at the next checkpoint. If none is left, the new pool is refused.

use crate::checkpoint::REPLICAS;
use crate::extents::{Area, Extents, RUNS_MAX};
use crate::format::{BLOCK_BYTES, PoolRecord};
use crate::group::Group;
use crate::layout::{self, Need};
use crate::pool::{Pool, PoolState};
use crate::slots::Slots;
use crate::tables::{Shape, Tables};
use thermocline_units::PoolId;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

impl Pool {
    /// Slots that metadata may have: free ones, and those that chunks do not get yet. A superblock
    /// that puts a checkpoint in force says also how large the pool is.
    fn free_for_metadata(&self) -> u32 {
        self.free_beside_reserve().saturating_add(self.held.len() as u32)
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
    slot
}

impl Group {
    /// One of the two checkpoint areas of a pool.
    pub(crate) fn area_of(&self, pool: PoolId, area: u8) -> Area<'_> {
        let state = self.pool(pool);
        Area {
            area,
            journal_blocks: self.settings.journal_blocks,
            area_blocks: self.area_blocks,
            chunk_size: self.chunk_size,
            first_slot: state.first_slot,
            extents: &state.extents[usize::from(area)],
        }
    }

    /// Where the tables of a pool's checksums stand.
    pub(crate) fn tables_of(&self, pool: &PoolRecord) -> Tables {
        Tables::new(Shape {
            journal_blocks: self.settings.journal_blocks,
            area_blocks: self.area_blocks,
            chunk_size: self.chunk_size,
            checksums: pool.checksums,
            has_region: pool.has_metadata_region,
            first_slot: pool.first_slot,
        })
    }

    /// Number of slots that chunks of the map may be on; of dead pools those that chunks have.
    pub(crate) fn slots_in_all(&self) -> u64 {
        let all = mutant("homes_without_room_for_a_growth");
        let slots = |pool: &Pool| match pool.state {
            PoolState::Removed => 0,
            _ if pool.is_alive() || all => pool.slots.total(),
            _ => pool.slots_used(),
        };
        self.pools.iter().map(|pool| u64::from(slots(pool))).sum()
    }

    /// True if each home of the checkpoint under way has room for the map as it may become.
    pub(crate) fn coming_homes_have_room(&self) -> bool {
        let need = self.need();
        self.checkpoint.coming_homes().iter().all(|&home| self.has_room_for_map(home, need))
    }

    /// True if both areas of the pool have room for that.
    pub(crate) fn has_room_for_map(&self, pool: PoolId, need: Need) -> bool {
        let blocks = self.capacity_of(pool);
        layout::has_room(blocks, need, self.chunk_size, &self.settings.limits)
    }

    /// What checkpoints must have room for as the group is now.
    pub(crate) fn need(&self) -> Need {
        let overlays = self.copier.overlays;
        Need { slots: self.slots_in_all(), overlays, volumes: self.map.living_volumes() }
    }

    /// True if checkpoints have room for another volume; makes room where they have not.
    pub(crate) fn makes_room_for_volume(&mut self) -> bool {
        let has_room = |group: &Group| {
            let need = Need { volumes: group.map.living_volumes() + 1, ..group.need() };
            let blocks = group.area_capacity();
            layout::has_room(blocks, need, group.chunk_size, &group.settings.limits)
        };
        has_room(self) || self.grow_areas() && has_room(self)
    }

    /// Blocks that the smaller of the pool's areas has.
    fn capacity_of(&self, pool: PoolId) -> u32 {
        self.area_of(pool, 0).capacity().min(self.area_of(pool, 1).capacity())
    }

    /// Blocks that every checkpoint under way or to come may have.
    pub(crate) fn area_capacity(&self) -> u32 {
        let homes = self.elect_homes();
        let coming = self.checkpoint.coming_homes();
        let each = homes.iter().chain(coming).map(|&home| self.capacity_of(home));
        each.min().unwrap_or(self.area_blocks)
    }

    /// Pools that can hold the metadata if it fits, far ones last.
    pub(crate) fn replica_candidates(&self) -> Vec<PoolId> {
        let can = |pool: &PoolId| self.pool(*pool).has_region && self.pool(*pool).is_alive();
        let mut able: Vec<PoolId> = self.ranks.order().iter().copied().filter(can).collect();
        able.sort_by_key(|&pool| self.pool(pool).is_far());
        able
    }

    /// Those of them that stay.
    fn staying_candidates(&self) -> Vec<PoolId> {
        let mut able = self.replica_candidates();
        able.retain(|&pool| self.pool(pool).state != PoolState::Removing);
        able
    }

    /// Gives the areas of the fastest pools room for the map of all slots; true if one at least
    /// has it afterwards.
    pub(crate) fn grow_areas(&mut self) -> bool {
        let need = self.need();
        let roomy = layout::blocks_for(need.slots, self.chunk_size, &self.settings.limits);
        let mut able = 0;
        for pool in self.staying_candidates() {
            if able == REPLICAS {
                break;
            }
            if !self.has_room_for_map(pool, need) && self.extend_areas(pool, roomy) {
                self.checkpoint.wanted = true;
            }
            able += usize::from(self.has_room_for_map(pool, need));
        }
        able > 0
    }

    /// Tries again to give areas room, where a pool that could hold the metadata lacks it.
    pub(crate) fn grow_areas_when_short(&mut self) {
        let could = self.staying_candidates().len().min(REPLICAS);
        if self.elect_homes().len() < could {
            self.grow_areas();
        }
    }

    /// Gives both areas of a pool slots until they have so many blocks; false, and nothing is
    /// changed, when it has not enough free ones.
    fn extend_areas(&mut self, pool: PoolId, blocks: u32) -> bool {
        let per_slot = self.chunk_size / BLOCK_BYTES as u32;
        let missing = |area| {
            let has = self.area_of(pool, area).capacity();
            blocks.saturating_sub(has).div_ceil(per_slot)
        };
        let missing = [missing(0), missing(1)];
        let state = self.pool_mut(pool);
        if missing[0].saturating_add(missing[1]) > state.free_for_metadata() {
            return false;
        }
        let before = state.extents.clone();
        for (extents, missing) in state.extents.iter_mut().zip(missing) {
            for _ in 0..missing {
                extents.push(take_for_metadata(&mut state.slots, &mut state.held));
            }
        }
        let lists = self.pools.iter().flat_map(|pool| &pool.extents);
        if lists.map(|extents| extents.runs().len()).sum::<usize>() > RUNS_MAX {
            self.pool_mut(pool).take_back_extents(before);
            return false;
        }
        true
    }

    /// Takes back the room that [`Group::grow_areas`] gave: the extents are what they were.
    pub(crate) fn take_back_extents(&mut self, before: Vec<[Extents; 2]>) {
        for (pool, before) in self.pools.iter_mut().zip(before) {
            pool.take_back_extents(before);
        }
    }
}
