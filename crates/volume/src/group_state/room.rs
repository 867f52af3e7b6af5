//! Room for the map on disk, as the group is now; [`crate::pools`] has it.

use super::GroupState;
use crate::pools::layout::{self, Need};
use thermocline_units::PoolId;

impl GroupState {
    /// Room that checkpoints must have as the group is now.
    pub(crate) fn need(&self) -> Need {
        self.pools.need(self.map.overlays(), self.map.living_volumes())
    }

    /// The pools that would hold journal and checkpoints now.
    pub(crate) fn elect_replicas(&self) -> Vec<PoolId> {
        self.pools.elect_replicas(self.need())
    }

    /// True if checkpoints have room for another volume; makes room where they have not.
    pub(crate) fn makes_room_for_volume(&mut self) -> bool {
        let volumes = self.map.living_volumes();
        assert!(volumes < self.settings.limits.volumes, "another volume may be made");
        let has_room = |group: &GroupState| {
            let now = group.need();
            let need = Need { volumes: now.volumes + 1, ..now };
            group.pools.have_room(now, group.journal.coming_replicas(), need)
        };
        has_room(self) || self.grow_areas() && has_room(self)
    }

    /// Blocks that every checkpoint under way or to come may have.
    pub(crate) fn area_capacity(&self) -> u32 {
        self.pools.capacity(self.need(), self.journal.coming_replicas())
    }

    /// Gives the metadata room for the map of all slots; true if some pool has it afterwards.
    fn grow_areas(&mut self) -> bool {
        if let Some(pool) = self.lines.pool() {
            let wanted = self.pools.wanted_by_metadata(pool, self.need());
            let lacks = wanted.saturating_sub(self.pools[pool].free_for_metadata());
            // Slots that are going back already come with their last request.
            let leaving = self.pools[pool].lent - self.lines.lent();
            for _ in leaving..lacks {
                self.lines.take_back(&mut self.pools);
            }
        }
        let growth = self.pools.grow_areas(self.need());
        if growth.is_new {
            self.journal.want_checkpoint();
        }
        assert!(!growth.is_new || !self.journal.is_current(), "a superblock says what has grown");
        growth.suffices
    }

    /// Number of chunks more that may be in two parts: the checkpoint has room for their bits.
    pub(crate) fn overlay_room(&self) -> usize {
        // As many volumes as there may be: another one shall not need an overlay's room.
        let need = Need { volumes: self.settings.limits.volumes, ..self.need() };
        let (blocks, limits) = (self.area_capacity(), &self.settings.limits);
        let most = layout::overlays_max(blocks, need, self.pools.chunk_bytes(), limits);
        most.saturating_sub(self.map.overlays())
    }

    /// Tries again to give areas room, where a pool that could hold the metadata lacks it.
    pub(crate) fn grow_areas_when_short(&mut self) {
        if self.pools.lack_room(self.need()) {
            self.grow_areas();
        }
    }
}
