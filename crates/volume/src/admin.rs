//! Volumes and pools: made, changed, taken away.
//!
//! What is done here shows at once, and is durable after the next completed flush or with the
//! checkpoint that follows; a pool takes chunks, and is let go, only then.

use crate::creation::new_pool;
use crate::format::Record;
use crate::group::Group;
use crate::group_state::service::Service;
use crate::growing::{Before, enlarge};
use crate::layout;
use crate::naming::is_volume_name;
use crate::opening::CreateError;
use crate::operation::Refusal;
use crate::pools::extents::Extents;
use crate::pools::pool::{Evacuation, PoolSpec, PoolState};
use crate::scheduler::Lane;
use crate::settings::{POOLS_MAX, VOLUME_CHUNKS_MAX, VOLUME_NAME_BYTES_MAX, VOLUMES_MAX};
use thermocline_policy::migration::WearBudget;
use thermocline_policy::placement::{Placement, PoolTraits, Sla};
use thermocline_ports::SECTOR;
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Reason why an administrator's wish was not granted. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The group is not in service.
    #[error("the volume group is not in service")]
    NotReady,
    /// A size is zero, not in sectors, too large, or smaller than before.
    #[error(
        "{0} is no size for this volume: a multiple of 512 bytes above 0, not smaller than before, \
         of {VOLUME_CHUNKS_MAX} chunks at most"
    )]
    Size(Bytes),
    /// There is no such volume.
    #[error("there is no volume {0}")]
    NoVolume(VolumeId),
    /// A name that no volume can have.
    #[error(
        "`{0}` is no name for a volume; give 1 to {VOLUME_NAME_BYTES_MAX} letters, digits, dots, \
         hyphens or underscores that do not begin with a dot or a hyphen"
    )]
    VolumeName(String),
    /// Another volume has that name.
    #[error("there is a volume `{0}` already; give another name, or delete it first")]
    NameTaken(String),
    /// Too many.
    #[error("there are {VOLUMES_MAX} volumes, and no room for more")]
    TooManyVolumes,
    /// The metadata has no room for another volume's record, and cannot grow.
    #[error(
        "no pool has enough free chunks for the metadata of another volume; free some of the \
         fastest pool's, or delete a volume first"
    )]
    VolumeRoom,
    /// There is no such pool.
    #[error("there is no pool {}", .0.0)]
    NoPool(PoolId),
    /// The pool is in the wrong state for that.
    #[error("pool {} is {state:?}; it must be drained, or dead, before it is removed", pool.0)]
    PoolState {
        /// The pool.
        pool: PoolId,
        /// Its state.
        state: PoolState,
    },
    /// Only active pools are drained.
    #[error("pool {} is {state:?}; only an active pool can be drained", pool.0)]
    NotActive {
        /// The pool.
        pool: PoolId,
        /// Its state.
        state: PoolState,
    },
    /// Only a pool that is being drained, or is drained, can be undrained.
    #[error(
        "pool {} is {state:?}; only one that is being drained or is drained can be undrained",
        pool.0
    )]
    NotDraining {
        /// The pool.
        pool: PoolId,
        /// Its state.
        state: PoolState,
    },
    /// Only active pools grow.
    #[error("pool {} is {state:?}; only an active pool can grow", pool.0)]
    CannotGrow {
        /// The pool.
        pool: PoolId,
        /// Its state.
        state: PoolState,
    },
    /// One at a time.
    #[error("pool `{0}` is growing already; ask again when that is done")]
    Growing(String),
    /// The device has no room for another chunk.
    #[error(
        "the device of pool `{name}` has {size}, and the pool ends at {pool_ends}: there is no \
         room for another chunk; a pool never shrinks"
    )]
    NotLarger {
        /// The pool's name.
        name: String,
        /// Bytes of the device.
        size: Bytes,
        /// Bytes that the pool has of it.
        pool_ends: Bytes,
    },
    /// The last pool.
    #[error("pool {} is the last that takes chunks, or that has room for the metadata", .0.0)]
    LastPool(PoolId),
    /// The pool does not fit into the group.
    #[error(transparent)]
    Pool(#[from] CreateError),
    /// No pool has free chunks for the larger map.
    #[error(
        "no pool has enough free chunks for the map that pool `{0}` would need; free some of the \
         fastest pool's, or add a smaller pool first"
    )]
    MetadataRoom(String),
}

impl Group {
    /// Makes a volume of `size` bytes that reads as zeroes, with the first free name of its kind:
    /// `v` and a number.
    ///
    /// # Errors
    /// As [`Group::create_named_volume`].
    pub fn create_volume(&mut self, now: Nanos, size: Bytes) -> Result<VolumeId, AdminError> {
        self.create_named_volume(now, None, size)
    }

    /// Makes a volume of `size` bytes that reads as zeroes.
    ///
    /// # Errors
    /// When the name will not do or is taken, the size is zero or not in whole sectors, there
    /// are too many volumes, or the metadata has no room for one more.
    pub fn create_named_volume(
        &mut self,
        now: Nanos,
        name: Option<&str>,
        size: Bytes,
    ) -> Result<VolumeId, AdminError> {
        self.check_ready()?;
        self.check_size(size, Bytes(0))?;
        if let Some(name) = name {
            if !is_volume_name(name) || name.len() > self.state.settings.limits.volume_name {
                return Err(AdminError::VolumeName(name.to_string()));
            }
            if self.state.map.volume_named(name).is_some() {
                return Err(AdminError::NameTaken(name.to_string()));
            }
        }
        let mut ids = (0..self.state.settings.limits.volumes as u32).map(VolumeId);
        let free = ids.find(|&id| self.state.map.volume(id).is_none() && !self.is_dying(id));
        let id = free.ok_or(AdminError::TooManyVolumes)?;
        if !self.state.makes_room_for_volume() {
            return Err(AdminError::VolumeRoom);
        }
        let name = name.map_or_else(|| self.state.map.default_name(id), str::to_string);
        let identity = self.state.map.take_identity();
        self.state.map.set_volume(id, size, self.state.pools.chunk_bytes());
        let volume = self.state.map.volume_mut(id).expect("just made");
        (volume.identity, volume.name) = (identity, name);
        let record = self.state.map.volume_record(id);
        self.state.journal.record(&record);
        self.pump(now);
        Ok(id)
    }

    /// Makes a volume larger; what is new reads as zeroes.
    ///
    /// # Errors
    /// When there is no such volume, or the size is smaller than it is.
    pub fn grow_volume(&mut self, now: Nanos, id: VolumeId, size: Bytes) -> Result<(), AdminError> {
        self.check_ready()?;
        let old = self.living(id)?;
        self.check_size(size, old)?;
        self.state.map.set_volume(id, size, self.state.pools.chunk_bytes());
        if !mutant("growth_not_recorded") {
            let record = self.state.map.volume_record(id);
            self.state.journal.record(&record);
        }
        self.pump(now);
        Ok(())
    }

    /// Deletes a volume. It takes no more requests; those under way end first.
    ///
    /// # Errors
    /// When there is no such volume.
    pub fn delete_volume(&mut self, now: Nanos, id: VolumeId) -> Result<(), AdminError> {
        self.check_ready()?;
        self.living(id)?;
        self.state.map.volume_mut(id).expect("it lives").deleting = true;
        // Said now, for the next flush; and once more when the slots are given back.
        if !mutant("deletion_said_late") {
            self.state.journal.record(&Record::VolumeGone(id));
        }
        self.requests.slas.forget(id);
        self.hinting.hints.forget_volume(id);
        self.state.operations.cancel_volume(id);
        self.housekeeping.dying_volumes.push(id);
        self.bury_volumes();
        self.pump(now);
        Ok(())
    }

    fn check_ready(&self) -> Result<(), AdminError> {
        if self.state.service == Service::Ready { Ok(()) } else { Err(AdminError::NotReady) }
    }

    fn check_size(&self, size: Bytes, old: Bytes) -> Result<(), AdminError> {
        let chunks = size.0.div_ceil(u64::from(self.state.pools.chunk_bytes()));
        let whole = size.0.is_multiple_of(u64::from(SECTOR)) && size.0 > 0;
        if whole && size >= old && chunks <= VOLUME_CHUNKS_MAX {
            Ok(())
        } else {
            Err(AdminError::Size(size))
        }
    }

    fn is_dying(&self, id: VolumeId) -> bool {
        self.housekeeping.dying_volumes.contains(&id)
    }

    /// The size of a volume that is not being deleted.
    fn living(&self, id: VolumeId) -> Result<Bytes, AdminError> {
        let volume = self.state.map.volume(id).filter(|volume| !volume.deleting);
        volume.map(|volume| volume.size).ok_or(AdminError::NoVolume(id))
    }

    /// Adds a pool that counts as slower than all others; it takes chunks once its state is
    /// [`PoolState::Active`].
    ///
    /// # Errors
    /// When it is too small, there are too many, or the metadata would not have room for
    /// its chunks.
    pub fn add_pool(&mut self, now: Nanos, spec: PoolSpec) -> Result<PoolId, AdminError> {
        self.add_pool_before(now, spec, None)
    }

    /// As [`Group::add_pool`], for a pool that counts as faster than `before`, and as slower than
    /// those that are faster than that one; `None`: as slower than all others.
    ///
    /// # Errors
    /// As there, and when there is no pool `before`.
    pub fn add_pool_before(
        &mut self,
        now: Nanos,
        spec: PoolSpec,
        before: Option<PoolId>,
    ) -> Result<PoolId, AdminError> {
        self.join(&spec, before)?;
        let id = PoolId(self.state.pools.count() as u16 - 1);
        self.epochs.shadows.insert_pool(self.state.pools.ranks().rank_of(id));
        self.state.journal.want_checkpoint();
        self.pump(now);
        Ok(id)
    }

    /// Checks whether [`Group::add_pool`] would take a pool now, and says how many chunks it would
    /// have room for. Changes nothing.
    ///
    /// # Errors
    /// As there.
    pub fn check_pool(&mut self, spec: &PoolSpec) -> Result<u32, AdminError> {
        let before = self.join(spec, None)?;
        let chunks = self.state.pools.pop().map_or(0, |pool| pool.slots_for_chunks());
        self.state.pools.take_back_extents(before);
        Ok(chunks)
    }

    /// Puts a pool among the others, and gives the metadata room for its chunks; the extents of
    /// the others as they were before.
    fn join(
        &mut self,
        spec: &PoolSpec,
        before: Option<PoolId>,
    ) -> Result<Vec<[Extents; 2]>, AdminError> {
        self.check_ready()?;
        let is_there = |id: &PoolId| {
            let pool = self.state.pools.find(*id);
            pool.is_some_and(|pool| pool.state != PoolState::Removed)
        };
        if let Some(id) = before.filter(|id| !is_there(id)) {
            return Err(AdminError::NoPool(id));
        }
        if self.state.pools.count() >= POOLS_MAX {
            return Err(CreateError::PoolCount(self.state.pools.count() + 1).into());
        }
        let sizes = self.state.pools.sizes();
        let region = layout::region_bytes(sizes.journal_blocks, sizes.area_blocks);
        let has_region = region <= spec.geometry.size.0 / 8;
        let pool = new_pool(self, spec, has_region, self.state.settings.added_checksums)?;
        let extents = self.state.pools.extents();
        self.state.pools.push(pool, before);
        if !self.state.pools.grow_areas(self.state.need()).suffices {
            self.state.pools.pop();
            self.state.pools.take_back_extents(extents);
            return Err(AdminError::MetadataRoom(spec.name.clone()));
        }
        Ok(extents)
    }

    /// Lets nothing new onto a pool, and moves its chunks to others; [`PoolState::Drained`] when
    /// empty. Chunks of a pool that is here go to others that are here, and wait until one has
    /// room: what lies across a network is slow, and may cost money.
    ///
    /// # Errors
    /// When the pool does not exist, is not active, or is the last.
    pub fn drain_pool(&mut self, now: Nanos, id: PoolId) -> Result<(), AdminError> {
        self.drain(now, id, Evacuation::Near)
    }

    /// The same, also to pools across a network; a drain that is under way goes on so. Nothing of
    /// it is kept over a restart, after which the drain goes on as [`Group::drain_pool`] would.
    ///
    /// # Errors
    /// When the pool does not exist, is neither active nor being drained, or is the last.
    pub fn drain_pool_anywhere(&mut self, now: Nanos, id: PoolId) -> Result<(), AdminError> {
        self.drain(now, id, Evacuation::Anywhere)
    }

    fn drain(&mut self, now: Nanos, id: PoolId, to: Evacuation) -> Result<(), AdminError> {
        self.check_ready()?;
        let state = self.state.pools.find(id).ok_or(AdminError::NoPool(id))?.state;
        match (state, to) {
            (PoolState::Active, _) => {}
            (PoolState::Draining, Evacuation::Anywhere) => {
                self.state.pools[id].evacuation = to;
                return Ok(());
            }
            _ => return Err(AdminError::NotActive { pool: id, state }),
        }
        if self.state.pools.iter().filter(|pool| pool.takes_chunks()).count() == 1 {
            return Err(AdminError::LastPool(id));
        }
        let pool = &mut self.state.pools[id];
        pool.state = PoolState::Draining;
        pool.evacuation = to;
        self.state.journal.want_checkpoint();
        self.pump(now);
        Ok(())
    }

    /// Lets a pool that is being drained, or is drained, take chunks again. Operations that are
    /// under way go on, so chunks may still leave it; what has left does not come back by itself.
    /// Until the checkpoint that follows is durable, a crash lets the drain go on.
    ///
    /// # Errors
    /// When the pool does not exist, or is neither being drained nor drained.
    pub fn undrain_pool(&mut self, now: Nanos, id: PoolId) -> Result<(), AdminError> {
        self.check_ready()?;
        let state = self.state.pools.find(id).ok_or(AdminError::NoPool(id))?.state;
        if !matches!(state, PoolState::Draining | PoolState::Drained) {
            return Err(AdminError::NotDraining { pool: id, state });
        }
        let pool = &mut self.state.pools[id];
        pool.state = PoolState::Active;
        pool.evacuation = Evacuation::default();
        self.state.journal.want_checkpoint();
        self.pump(now);
        Ok(())
    }

    /// Removes a pool that is drained or dead; its device may go once it is [`PoolState::Removed`].
    /// Chunks that were only on a dead pool go on answering with I/O errors until discarded.
    ///
    /// # Errors
    /// When the pool does not exist, is neither drained nor dead, or is the last that has room for
    /// journal and checkpoints.
    pub fn remove_pool(&mut self, now: Nanos, id: PoolId) -> Result<(), AdminError> {
        self.check_ready()?;
        let pool = self.state.pools.find(id).ok_or(AdminError::NoPool(id))?;
        let empty = pool.slots_used() == 0;
        match pool.state {
            PoolState::Drained | PoolState::Dead if empty => {}
            state => return Err(AdminError::PoolState { pool: id, state }),
        }
        if !self.has_replica_beside(id) {
            return Err(AdminError::LastPool(id));
        }
        let pool = &mut self.state.pools[id];
        pool.gone = pool.state == PoolState::Dead;
        pool.state = PoolState::Removing;
        self.state.journal.want_checkpoint();
        self.pump(now);
        Ok(())
    }

    /// True if a pool other than `id` can hold journal and checkpoints, and will stay.
    fn has_replica_beside(&self, id: PoolId) -> bool {
        self.state.elect_replicas().iter().any(|&replica| replica != id)
    }

    /// Pins a chunk where it is, or lets it go: placements leave a pinned chunk alone, whoever asks
    /// for an operation by name does not. The pin goes with the contents, when the chunk is
    /// discarded.
    ///
    /// # Errors
    /// When the group is not in service, or the chunk holds nothing.
    pub fn pin(&mut self, now: Nanos, chunk: ChunkId, pinned: bool) -> Result<(), Refusal> {
        if self.state.service != Service::Ready {
            return Err(Refusal::NotReady);
        }
        let volume = self.state.map.volume(chunk.volume).filter(|volume| !volume.deleting);
        if volume.is_none() || self.state.pool_of(chunk).is_none() {
            return Err(Refusal::Unmapped);
        }
        if self.state.map.entry(chunk).tag.pinned != pinned {
            self.state.map.entry_mut(chunk).tag.pinned = pinned;
            let state = self.state.durable_state(chunk);
            self.state.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
            self.pump(now);
        }
        Ok(())
    }

    /// Sets how often the placement is asked; the epoch under way ends so long from now.
    pub fn set_epoch(&mut self, now: Nanos, epoch: Nanos) {
        self.state.settings.epoch = Nanos(epoch.0.max(1));
        self.housekeeping.epoch_end = Nanos(now.0 + self.state.settings.epoch.0);
    }

    /// Gives the decision about moves to a placement, or to nobody; what the one before has
    /// proposed and has not begun is dropped.
    pub fn set_placement(&mut self, placement: Option<Box<dyn Placement>>) {
        self.moves.proposal.replace(self.state.now, Vec::new());
        self.epochs.placement = placement;
        self.epochs.placement_name.clear();
        self.placement_begins();
    }

    /// As [`Group::set_placement`], for a placement of the registry: `name` says which, with all
    /// its settings, so that a recording can be replayed.
    pub fn set_named_placement(&mut self, name: &str, placement: Box<dyn Placement>) {
        self.moves.proposal.replace(self.state.now, Vec::new());
        self.epochs.placement = Some(placement);
        self.epochs.placement_name = name.to_string();
        self.placement_begins();
    }

    /// A placement has taken over, or nobody.
    fn placement_begins(&mut self) {
        let routes =
            self.epochs.placement.as_mut().is_some_and(|placement| placement.router().is_some());
        self.routing.begin(self.state.now, routes, &mut self.state.pools);
        if let Some(observer) = &mut self.epochs.observer {
            observer.placed(self.state.now, &self.epochs.placement_name);
        }
    }

    /// Gives a volume an SLA, or takes it away; counts begin at 0 when it is
    /// another one than before.
    ///
    /// # Errors
    /// When there is no such volume.
    ///
    /// # Panics
    /// When a latency of 0 is asked for.
    pub fn set_sla(&mut self, volume: VolumeId, sla: Option<Sla>) -> Result<(), AdminError> {
        if self.state.map.volume(volume).is_none_or(|volume| volume.deleting) {
            return Err(AdminError::NoVolume(volume));
        }
        self.requests.slas.set(volume, sla);
        Ok(())
    }

    /// Says what a pool can do; `None`: nothing is known, and something is assumed. Nothing happens
    /// when there is no such pool.
    pub fn set_traits(&mut self, pool: PoolId, traits: Option<PoolTraits>) {
        if let Some(pool) = self.state.pools.find_mut(pool) {
            pool.traits = traits;
        }
    }

    /// Lets moves of placements write so many bytes a day to a pool; `None`: as many as they like.
    /// Nothing happens when there is no such pool.
    pub fn set_wear_budget(&mut self, pool: PoolId, per_day: Option<Bytes>) {
        if let Some(pool) = self.state.pools.find_mut(pool) {
            pool.wear = WearBudget::new(self.state.now, per_day);
        }
    }

    /// Lets so many parts of requests be under way on a pool at once; `None`: as many as the
    /// settings say for all of them. Nothing happens when there is no such pool.
    pub fn set_pool_depth(&mut self, pool: PoolId, depth: Option<u32>) {
        if self.state.pools.find(pool).is_some() {
            self.requests.scheduler.set_depth(Lane::of(pool), depth);
        }
    }

    /// Name of the placement in force; empty when it was not said.
    pub fn placement_name(&self) -> &str {
        &self.epochs.placement_name
    }

    /// Tells the group that a pool's device has so many bytes now, durably; the pool gets the slots
    /// that it has room for. Bytes from `zeroed_from` on read as zeroes. How many chunks more the
    /// pool holds, as soon as a superblock says so.
    ///
    /// # Errors
    /// When the pool does not exist, is not active, grows already, or the device has no room for a
    /// chunk more; or when the metadata has none for the larger map. Nothing has changed then.
    pub fn grow_pool(
        &mut self,
        now: Nanos,
        id: PoolId,
        size: Bytes,
        zeroed_from: Bytes,
    ) -> Result<u32, AdminError> {
        let chunks = enlarge(&mut self.state, id, size, zeroed_from)?;
        if mutant("grown_slots_before_the_superblock") {
            self.state.pools[id].release_held();
        }
        self.state.journal.want_checkpoint();
        self.pump(now);
        Ok(chunks)
    }

    /// Checks whether [`Group::grow_pool`] would let a pool grow to so many bytes, and says by how
    /// many chunks. Changes nothing.
    ///
    /// # Errors
    /// As there.
    pub fn check_growth(&mut self, id: PoolId, size: Bytes) -> Result<u32, AdminError> {
        let before = Before::of(&self.state);
        let chunks = enlarge(&mut self.state, id, size, Bytes(u64::MAX))?;
        before.restore(&mut self.state, id);
        Ok(chunks)
    }
}
