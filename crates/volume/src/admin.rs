//! Calls of administrators, and of programs beside the clients: volumes, pools, the placement and
//! its shadows, hints, scrubs.
//!
//! A change of volumes or pools shows at once, and is durable after the next completed flush or
//! with the checkpoint that follows; a pool takes chunks, and is let go, only then.

pub(crate) mod error;

pub use error::AdminError;

use crate::creation::join;
use crate::epoch::hinting::{HINT_WISHES_MAX, HintCounts, HintRefusal, range_within};
use crate::epoch::observer::Observer;
use crate::format::Record;
use crate::group::Group;
use crate::group_state::GroupState;
use crate::group_state::service::Service;
use crate::machines::Machines;
use crate::map::naming::is_volume_name;
use crate::moves::operation::Refusal;
use crate::pools::growing::{Before, enlarge};
use crate::pools::pool::{Evacuation, PoolSpec, PoolState};
use crate::settings::VOLUME_CHUNKS_MAX;
use thermocline_policy::hints::Level;
use thermocline_policy::hints::rules::Classes;
use thermocline_policy::hints::store::{Held, Hint, HintError, Hints};
use thermocline_policy::migration::WearBudget;
use thermocline_policy::placement::shadow::ShadowError;
use thermocline_policy::placement::{Placement, PoolTraits, Sla, Unreadable, VolumeView};
use thermocline_ports::SECTOR;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

impl Group {
    /// Makes a volume of `size` bytes that reads as zeroes, with `v` and its number for a name, or
    /// the next that is free.
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
            if !is_volume_name(name) || name.len() > self.machines.state.settings.limits.volume_name
            {
                return Err(AdminError::VolumeName(name.to_string()));
            }
            if self.machines.state.map.volume_named(name).is_some() {
                return Err(AdminError::NameTaken(name.to_string()));
            }
        }
        let mut ids = (0..self.machines.state.settings.limits.volumes as u32).map(VolumeId);
        let free = ids.find(|&id| {
            self.machines.state.map.volume(id).is_none() && !self.machines.deletion.is_dying(id)
        });
        let id = free.ok_or(AdminError::TooManyVolumes)?;
        if !self.machines.state.makes_room_for_volume() {
            return Err(AdminError::VolumeRoom);
        }
        let name = name.map_or_else(|| self.machines.state.map.default_name(id), str::to_string);
        let identity = self.machines.state.map.take_identity();
        assert!(self.machines.state.map.volume(id).is_none(), "the number is free");
        self.machines.state.map.set_volume(id, size, self.machines.state.pools.chunk_bytes());
        self.machines.state.map.name_volume(id, identity, name);
        self.record_volume(id);
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
        self.machines.state.map.set_volume(id, size, self.machines.state.pools.chunk_bytes());
        if !mutant("growth_not_recorded") {
            self.record_volume(id);
        }
        assert_eq!(self.living(id), Ok(size), "it has the size that was asked for");
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
        let Machines { deletion, state, requests, hinting, moves, .. } = &mut self.machines;
        deletion.begin(state, id);
        requests.slas.forget(id);
        hinting.forget_volume(id);
        moves.forget_volume(id);
        self.machines.bury_volumes();
        assert!(self.living(id).is_err(), "it takes no more requests");
        self.pump(now);
        Ok(())
    }

    fn check_ready(&self) -> Result<(), AdminError> {
        if self.machines.state.service == Service::Ready {
            Ok(())
        } else {
            Err(AdminError::NotReady)
        }
    }

    /// Tells the journal of a volume's identity, name and size.
    fn record_volume(&mut self, id: VolumeId) {
        let GroupState { map, journal, .. } = &mut self.machines.state;
        let volume = map.volume(id).expect("the caller has made or found it");
        assert!(volume.identity() > 0, "a volume has its identity before the journal hears of it");
        journal.record(&Record::of_volume(id, volume));
    }

    fn check_size(&self, size: Bytes, old: Bytes) -> Result<(), AdminError> {
        let most = Bytes(VOLUME_CHUNKS_MAX * u64::from(self.machines.state.pools.chunk_bytes()));
        let whole = size.0.is_multiple_of(u64::from(SECTOR)) && size.0 > 0;
        match () {
            () if !whole => Err(AdminError::Size(size)),
            () if size < old => Err(AdminError::Shrinks { old, size }),
            () if size > most => Err(AdminError::SizeMax { size, most }),
            () => Ok(()),
        }
    }

    /// The size of a volume that is not being deleted.
    fn living(&self, id: VolumeId) -> Result<Bytes, AdminError> {
        let volume = self.machines.state.map.living(id).ok_or(AdminError::NoVolume(id))?;
        Ok(volume.size())
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

    /// Adds a pool as [`Group::add_pool`] does. It counts as faster than `before`, and as slower
    /// than those that are faster than that one; `None`: as slower than all others.
    ///
    /// # Errors
    /// Those of [`Group::add_pool`], and when there is no pool `before`.
    pub fn add_pool_before(
        &mut self,
        now: Nanos,
        spec: PoolSpec,
        before: Option<PoolId>,
    ) -> Result<PoolId, AdminError> {
        join(&mut self.machines.state, &spec, before)?;
        let id = PoolId(self.machines.state.pools.count() as u16 - 1);
        assert_eq!(self.machines.state.pools[id].name, spec.name, "the last pool has joined");
        self.machines.state.pools.note_joined();
        self.machines.tell_of_pools(now);
        self.machines.state.journal.want_checkpoint();
        self.pump(now);
        Ok(id)
    }

    /// Checks whether [`Group::add_pool`] would take a pool now, and says how many chunks it would
    /// have room for. Changes nothing.
    ///
    /// # Errors
    /// As there.
    pub fn check_pool(&mut self, spec: &PoolSpec) -> Result<u32, AdminError> {
        let count = self.machines.state.pools.count();
        let before = join(&mut self.machines.state, spec, None)?;
        let chunks = self.machines.state.pools.pop().map_or(0, |pool| pool.slots_for_chunks());
        self.machines.state.pools.take_back_room(before);
        assert_eq!(self.machines.state.pools.count(), count, "a check changes nothing");
        Ok(chunks)
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
        let state = self.machines.state.pools.find(id).ok_or(AdminError::NoPool(id))?.state;
        match (state, to) {
            (PoolState::Active, _) => {}
            (PoolState::Draining, Evacuation::Anywhere) => {
                self.machines.state.pools[id].evacuation = to;
                return Ok(());
            }
            _ => return Err(AdminError::NotActive { pool: id, state }),
        }
        if self.machines.state.pools.iter().filter(|pool| pool.takes_chunks()).count() == 1 {
            return Err(AdminError::LastPool(id));
        }
        let pool = &mut self.machines.state.pools[id];
        pool.state = PoolState::Draining;
        pool.evacuation = to;
        let takes = self.machines.state.pools.iter().any(|pool| pool.takes_chunks());
        assert!(takes, "a pool is left for new chunks");
        self.machines.state.journal.want_checkpoint();
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
        let state = self.machines.state.pools.find(id).ok_or(AdminError::NoPool(id))?.state;
        if !matches!(state, PoolState::Draining | PoolState::Drained) {
            return Err(AdminError::NotDraining { pool: id, state });
        }
        let pool = &mut self.machines.state.pools[id];
        pool.state = PoolState::Active;
        pool.evacuation = Evacuation::default();
        assert!(pool.takes_chunks() || pool.is_full(), "it takes chunks again");
        self.machines.state.journal.want_checkpoint();
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
        let pool = self.machines.state.pools.find(id).ok_or(AdminError::NoPool(id))?;
        let empty = pool.slots_used() == 0;
        match pool.state {
            PoolState::Drained | PoolState::Dead if empty => {}
            state => return Err(AdminError::PoolState { pool: id, state }),
        }
        if !self.has_replica_beside(id) {
            return Err(AdminError::LastPool(id));
        }
        let pool = &mut self.machines.state.pools[id];
        assert_eq!(pool.prefetched, 0, "no copy is on it");
        pool.gone = pool.state == PoolState::Dead;
        pool.state = PoolState::Removing;
        self.machines.state.journal.want_checkpoint();
        self.pump(now);
        Ok(())
    }

    /// True if a pool other than `id` can hold journal and checkpoints, and will stay.
    fn has_replica_beside(&self, id: PoolId) -> bool {
        self.machines.state.elect_replicas().iter().any(|&replica| replica != id)
    }

    /// Pins a chunk where it is, or lets it go: placements leave a pinned chunk alone, whoever asks
    /// for an operation by name does not. The pin goes with the contents, when the chunk is
    /// discarded.
    ///
    /// # Errors
    /// When the group is not in service, or the chunk holds nothing.
    pub fn pin(&mut self, now: Nanos, chunk: ChunkId, pinned: bool) -> Result<(), Refusal> {
        if self.machines.state.service != Service::Ready {
            return Err(Refusal::NotReady);
        }
        if self.machines.state.map.living(chunk.volume).is_none()
            || self.machines.state.pool_of(chunk).is_none()
        {
            return Err(Refusal::Unmapped);
        }
        if self.machines.state.map.entry(chunk).is_pinned() != pinned {
            self.machines.state.map.set_pinned(chunk, pinned);
            assert!(self.machines.state.pool_of(chunk).is_some(), "nothing cannot be pinned");
            let state = self.machines.state.durable_state(chunk);
            self.machines.state.journal.change(&Record::Chunk(chunk, state), chunk, &[]);
            self.pump(now);
        }
        Ok(())
    }

    /// Sets how many per cent of the fastest pool are lent to lines from now on, where the
    /// placement says nothing of it; more than 100 count as 100. What is too much goes back by and
    /// by.
    pub fn set_lent_percent(&mut self, percent: u8) {
        self.machines.state.settings.lent_percent = percent.min(100);
    }

    /// Sets how often the placement is asked; the epoch under way ends so long from now.
    pub fn set_epoch(&mut self, now: Nanos, epoch: Nanos) {
        self.machines.state.settings.epoch = Nanos(epoch.0.max(1));
        self.machines.epochs.set_end(now, self.machines.state.settings.epoch);
    }

    /// Gives the decision about moves to a placement, or to nobody; what the one before has
    /// proposed and has not begun is dropped.
    pub fn set_placement(&mut self, placement: Option<Box<dyn Placement>>) {
        self.place("", placement);
    }

    /// Sets a placement of the registry as [`Group::set_placement`] does: `name` says which, with
    /// all its settings, so that a recording can be replayed.
    pub fn set_named_placement(&mut self, name: &str, placement: Box<dyn Placement>) {
        self.place(name, Some(placement));
    }

    fn place(&mut self, name: &str, placement: Option<Box<dyn Placement>>) {
        let Machines { moves, epochs, routing, state, .. } = &mut self.machines;
        moves.drop_proposal(state.now);
        let routes = epochs.place(state.now, name, placement);
        routing.begin(state.now, routes, &mut state.pools);
        assert_eq!(routing.route().is_some(), routes, "a router is asked, or nobody");
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
        self.living(volume)?;
        self.machines.requests.slas.set(volume, sla);
        Ok(())
    }

    /// Says what a pool can do; `None`: nothing is known, and something is assumed. Nothing happens
    /// when there is no such pool.
    pub fn set_traits(&mut self, pool: PoolId, traits: Option<PoolTraits>) {
        if let Some(pool) = self.machines.state.pools.find_mut(pool) {
            pool.traits = traits;
        }
    }

    /// Lets moves of placements write so many bytes a day to a pool; `None`: as many as they like.
    /// Nothing happens when there is no such pool.
    pub fn set_wear_budget(&mut self, pool: PoolId, per_day: Option<Bytes>) {
        if let Some(pool) = self.machines.state.pools.find_mut(pool) {
            pool.wear = WearBudget::new(self.machines.state.now, per_day);
        }
    }

    /// Lets so many parts of requests be under way on a pool at once; `None`: as many as the
    /// settings say for all of them. Nothing happens when there is no such pool.
    pub fn set_pool_depth(&mut self, pool: PoolId, depth: Option<u32>) {
        if self.machines.state.pools.find(pool).is_some() {
            self.machines.requests.set_pool_depth(pool, depth);
        }
    }

    /// Name of the placement in force; empty when it was not said.
    pub fn placement_name(&self) -> &str {
        self.machines.epochs.placement_name()
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
        let chunks = enlarge(&mut self.machines.state, id, size, zeroed_from)?;
        if mutant("grown_slots_before_the_superblock") {
            self.machines.state.pools[id].release_held();
        }
        let pool = &self.machines.state.pools[id];
        assert_eq!(pool.geometry.size, size, "the pool knows its device");
        self.machines.state.journal.want_checkpoint();
        self.pump(now);
        Ok(chunks)
    }

    /// Checks whether [`Group::grow_pool`] would let a pool grow to so many bytes, and says by how
    /// many chunks. Changes nothing.
    ///
    /// # Errors
    /// As there.
    pub fn check_growth(&mut self, id: PoolId, size: Bytes) -> Result<u32, AdminError> {
        let Machines { state, .. } = &mut self.machines;
        met_if(state.lines.lent() > 0, "lines taken back for a pool that grows");
        state.lines.take_back_all(&mut state.pools);
        let before = Before::of(&self.machines.state);
        let total = self.machines.state.pools.find(id).map(|pool| pool.slots.total());
        let chunks = enlarge(&mut self.machines.state, id, size, Bytes(u64::MAX))?;
        before.restore(&mut self.machines.state, id);
        let after = self.machines.state.pools.find(id).map(|pool| pool.slots.total());
        assert_eq!(after, total, "a check changes nothing");
        Ok(chunks)
    }

    /// Begins to read and verify everything that pools hold, but for what is across a network only;
    /// one that is under way begins anew.
    pub fn scrub(&mut self, now: Nanos) {
        self.begin_scrub(now, None);
    }

    /// Begins to read and verify all copies of chunks that have one on `pool`.
    pub fn scrub_pool(&mut self, now: Nanos, pool: PoolId) {
        self.begin_scrub(now, Some(pool));
    }

    fn begin_scrub(&mut self, now: Nanos, pool: Option<PoolId>) {
        if self.machines.state.service == Service::Ready {
            self.machines.scrub.begin(&self.machines.state.map, pool);
            assert!(self.machines.scrub.status().run.is_some(), "the scrub has begun");
            self.pump(now);
        }
    }

    /// Ends the scrub that is under way, once what is on devices has come back; whether there was
    /// one.
    pub fn cancel_scrub(&mut self) -> bool {
        self.machines.scrub.cancel()
    }

    /// Takes a hint: its class by the table in force. What of its range lies beyond the volume's
    /// end is left out.
    ///
    /// # Errors
    /// When it is malformed, there are too many, or its volume does not exist.
    pub fn hint(&mut self, now: Nanos, hint: &Hint<'_>) -> Result<u8, HintRefusal> {
        if self.machines.state.service != Service::Ready {
            return Err(HintRefusal::NotReady);
        }
        let range = range_within(&self.machines.state, hint.volume, hint.range)?;
        assert!(range.1 <= hint.range.1, "a range only shrinks");
        self.hear(now, |hints| hints.take(now, &Hint { range, ..*hint }))
    }

    /// Takes back a range that was hinted before a restart; what lies beyond the volume's end is
    /// left out.
    ///
    /// # Errors
    /// As [`Group::hint`].
    pub fn put_back_hint(&mut self, now: Nanos, held: &Held<'_>) -> Result<(), HintRefusal> {
        let range = range_within(&self.machines.state, held.volume, held.range)?;
        self.hear(now, |hints| hints.put_back(now, &Held { range, ..held.clone() }))
    }

    fn hear<T>(
        &mut self,
        now: Nanos,
        word: impl FnOnce(&mut Hints) -> Result<T, HintError>,
    ) -> Result<T, HintRefusal> {
        let Machines { epochs, hinting, state, .. } = &mut self.machines;
        Ok(epochs.hear(now, state.settings.epoch, &mut hinting.hints, word)?)
    }

    /// Wishes copies of a range's chunks in the reserve of a faster pool; they come one after the
    /// other, as copying allows: those first that are needed first, `due`, and last those of which
    /// that is not known. How many chunks that are.
    ///
    /// # Errors
    /// When there is no such volume, or the range begins beyond its end.
    pub fn prefetch(
        &mut self,
        now: Nanos,
        volume: VolumeId,
        range: (u64, u64),
        due: Option<Nanos>,
    ) -> Result<u64, HintRefusal> {
        let wished =
            self.machines.hinting.wish_prefetches(&self.machines.state, volume, range, due)?;
        assert!(wished <= HINT_WISHES_MAX as u64, "wishes have a bound");
        self.pump(now);
        Ok(wished)
    }

    /// Lets somebody listen from now on, in place of whoever did, who is returned.
    ///
    /// What a placement has learnt before is not told: a recording from which its proposals shall
    /// be had again begins before the placement is set.
    pub fn set_observer(
        &mut self,
        observer: Option<Box<dyn Observer>>,
    ) -> Option<Box<dyn Observer>> {
        self.machines.epochs.set_observer(observer)
    }

    /// True if somebody listens.
    pub fn is_observed(&self) -> bool {
        self.machines.epochs.is_observed()
    }

    /// Hints in force, by source.
    pub fn hints(&self) -> &Hints {
        &self.machines.hinting.hints
    }

    /// Counts of what hints led to.
    pub fn hint_counts(&self) -> HintCounts {
        self.machines.hinting.counts()
    }

    /// Withdraws what a source said of a range of a volume at a level.
    pub fn withdraw_hint(
        &mut self,
        source: &str,
        level: Level,
        volume: VolumeId,
        range: std::ops::Range<u64>,
    ) {
        self.machines.hinting.hints.withdraw(source, level, volume, range);
    }

    /// Withdraws everything that a source said. Whether there is such a source.
    pub fn forget_hints(&mut self, source: &str) -> bool {
        self.machines.hinting.hints.forget(source)
    }

    /// Accuracy of a source, as it was before a restart.
    pub fn put_back_score(&mut self, source: &str, class: &str, score: f64) {
        self.machines.hinting.hints.put_back_score(source, class, score);
    }

    /// Takes another table of classes; hints given before are forgotten, since they were classified
    /// by the old one.
    pub fn set_hint_classes(&mut self, classes: Classes) {
        let share = self.machines.hinting.hints.pin_share();
        self.machines.hinting.hints = Hints::new(classes);
        self.machines.hinting.hints.set_pin_share(share);
    }

    /// Sets the share of each pool's chunks that may be pinned, 0 to 1.
    pub fn set_pin_share(&mut self, share: f64) {
        self.machines.hinting.hints.set_pin_share(share);
    }

    /// Chunks that may still be pinned by name, by pool: the budget of each less those that are.
    /// O(chunks).
    pub fn pins_left(&self) -> Vec<u64> {
        let (state, view) = (&self.machines.state, self.machines.view());
        let share = self.machines.hinting.hints.pin_share();
        let mut left = vec![0; state.pools.count()];
        for (rank, pool) in (0..).map(PoolId).zip(state.pools.ranks().there()) {
            left[usize::from(pool.0)] = (view.capacity_chunks(rank) as f64 * share) as u64;
        }
        for chunk in state.map.chunks().filter(|&chunk| state.map.entry(chunk).is_pinned()) {
            if let Some(pool) = state.pool_of(chunk) {
                let left = &mut left[usize::from(pool.0)];
                *left = left.saturating_sub(1);
            }
        }
        left
    }

    /// Lets a placement begin as a shadow: see [`Shadows::begin`]. Epochs pass from now on, also
    /// when nobody decides.
    ///
    /// # Errors
    /// See [`Shadows::begin`].
    ///
    /// [`Shadows::begin`]: thermocline_policy::placement::shadow::Shadows::begin
    pub fn begin_shadow(
        &mut self,
        now: Nanos,
        rival: (&str, Box<dyn Placement>),
        one_in: Option<u32>,
    ) -> Result<(), ShadowError> {
        let Machines { epochs, hinting, state, requests, .. } = &mut self.machines;
        epochs.begin_shadow(now, (state, &requests.slas, &hinting.hints), rival, one_in)
    }

    /// Ends a shadow: see [`Shadows::end`].
    ///
    /// [`Shadows::end`]: thermocline_policy::placement::shadow::Shadows::end
    pub fn end_shadow(&mut self, name: &str) -> Option<Box<dyn Placement>> {
        self.machines.epochs.end_shadow(name)
    }

    /// Lets the placement go on from what one of the same name had learnt, which knew these pools,
    /// fastest first: pools may have joined and gone since.
    ///
    /// # Errors
    /// When nobody decides, or the bytes are not its own.
    pub fn learn_from(&mut self, learnt: &[u8], pools: &[PoolId]) -> Result<(), Unreadable> {
        self.machines.epochs.learn_from(&self.machines.state, learnt, pools)
    }
}
