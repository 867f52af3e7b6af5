//! Crashes, orderly ends, what must be true after them, and what must be true in the end.

use crate::model::Deed;
use crate::ondisk::Slot;
use crate::run::Runner;
use std::ops::Range;
use thermocline_ports::SECTOR;
use thermocline_ports::faulty::Survival;
use thermocline_units::{Bytes, ChunkId, PoolId, VolumeId};
use thermocline_volume::{AdminError, Operation, OperationKind, PoolState, Service};

/// Reads of a chunk that may fail before it counts as lost.
const PROBES_MAX: u32 = 50;

impl Runner<'_> {
    /// The power fails now, or the program is killed.
    pub(crate) fn crash(&mut self, survival: Survival) -> Result<(), String> {
        self.mark(match self.world.group().service() {
            Service::Opening if !self.formatted => "crashes while formatting",
            Service::Opening => "crashes while recovering",
            Service::Ready => "crashes in service",
            Service::Closing => "crashes while closing",
            Service::Closed => "orderly ends",
            Service::Failed(_) => "groups given up",
        });
        if survival == Survival::Cached && self.formatted {
            self.mark("programs killed");
        }
        self.placing = false;
        self.bound = self.bound_for_dead_pools();
        self.model.crash();
        self.gone_wrong.clear();
        self.operations.clear();
        self.shares.clear();
        self.excused.clear();
        self.losses.clear();
        self.ended.clear();
        self.cancelled.clear();
        self.probe = None;
        self.adopted = false;
        self.opened = self.world.events();
        if self.formatted {
            self.world.crash(survival, self.plan.settings.clone());
            self.world.on_disk()?;
        } else {
            self.world.start_over(self.plan)?;
        }
        let said = self.world.exchange();
        self.hear(said)
    }

    /// Moves to dead pools that are under way or have failed, of chunks that are whole on a pool
    /// that lives; with the birth of each one's volume.
    fn bound_for_dead_pools(&self) -> Vec<(u32, Operation)> {
        if *self.world.group().service() != Service::Ready {
            return Vec::new();
        }
        let moves = self.operations.values().chain(&self.gone_wrong).filter(|operation| {
            let (chunk, to) = (operation.chunk, usize::from(operation.to.0));
            let group = self.world.group();
            let whole = |&pool: &usize| {
                let has_all = group.is_whole_on(chunk, PoolId(pool as u16));
                pool != to && has_all && self.serves(pool)
            };
            operation.kind == OperationKind::Migrate
                && !self.world.is_usable(to)
                && (0..self.pools.len()).any(|pool| whole(&pool))
        });
        let volumes = self.model.volumes();
        let birth = |operation: &Operation| {
            let volume = volumes.iter().find(|volume| volume.id == operation.chunk.volume);
            volume.map(|volume| volume.birth)
        };
        moves.filter_map(|operation| Some((birth(operation)?, *operation))).collect()
    }

    /// True if the group has the pool in use, and its disk answers.
    fn serves(&self, pool: usize) -> bool {
        let state = self.state_of(pool);
        let used = matches!(state, Some(PoolState::Active | PoolState::Draining));
        used && self.world.is_usable(pool)
    }

    /// Checks that what was whole when the power failed is not lost with a pool that it never came
    /// to.
    fn check_bound(&mut self) -> Result<(), String> {
        for (birth, operation) in std::mem::take(&mut self.bound) {
            let (chunk, to) = (operation.chunk, operation.to);
            let per_chunk = self.sectors_per_chunk();
            let has = self.model.volumes().iter().any(|volume| {
                let chunks = volume.sectors.count().div_ceil(per_chunk);
                volume.birth == birth
                    && volume.id == chunk.volume
                    && u64::from(chunk.index) < chunks
            });
            let places = if has { self.pools_of(chunk) } else { Vec::new() };
            if self.world.is_usable(usize::from(to.0)) || places.is_empty() {
                continue; // It is back with what it had, or the chunk has no contents.
            }
            self.mark("moves to a dead pool cut short by a crash");
            let above = self.redirected(chunk);
            if places.iter().chain(&above).all(|&pool| pool == to) {
                return Err(format!(
                    "{chunk} was whole, and is lost with {to:?}: it had not moved"
                ));
            }
        }
        Ok(())
    }

    /// The group gave up because of a device: it is opened again once the devices behave.
    pub(crate) fn reopen(&mut self) -> Result<(), String> {
        self.world.calm();
        self.crash(Survival::Kept)
    }

    /// An orderly end, after which nothing is lost whatever the disks had not written; unless the
    /// power fails before it is reached.
    pub(crate) fn close(&mut self, cut: Option<u16>) -> Result<(), String> {
        self.await_ready()?;
        let now = self.world.now;
        self.world.group_mut().close(now);
        let said = self.world.exchange();
        self.hear(said)?;
        let ended = |runner: &Runner<'_>| {
            matches!(runner.world.group().service(), Service::Closed | Service::Failed(_))
        };
        if let Some(events) = cut {
            for _ in 0..events {
                if ended(self) || !self.event()? {
                    break;
                }
            }
            if !ended(self) {
                let survival = Survival::draw(&mut self.dice.0);
                return self.crash(survival);
            }
        }
        self.until("closing", ended)?;
        if *self.world.group().service() == Service::Closed {
            if !self.model.flights().is_empty() || !self.operations.is_empty() {
                return Err(format!(
                    "closed, but not everything is answered; {}",
                    self.open_ends()
                ));
            }
            self.check_self()?;
            self.check_disk()?;
            self.model.all_durable();
        } else if !self.world.any_erred_since(self.opened) {
            return Err("closing failed though no device did".to_string());
        }
        self.crash(Survival::Lost)
    }

    /// After an orderly end the disks say what the group says.
    fn check_disk(&self) -> Result<(), String> {
        let disk = self.world.on_disk()?.ok_or("the disks hold no group")?;
        let lives = |pool: u16| self.world.is_usable(usize::from(pool));
        for volume in self.model.volumes() {
            let bytes = volume.sectors.count() * u64::from(SECTOR);
            if disk.volumes.get(&volume.id.0) != Some(&bytes) {
                return Err(format!("{} is not on disk with {bytes} bytes", volume.id));
            }
            let chunks = volume.sectors.count().div_ceil(self.sectors_per_chunk()) as u32;
            for index in 0..chunks {
                let chunk = ChunkId { volume: volume.id, index };
                let mut stored =
                    disk.chunks.get(&(volume.id.0, index)).cloned().unwrap_or_default();
                let told = self.places_of(chunk);
                let mut told: Vec<Slot> = told.iter().map(|p| (p.pool.0, p.slot)).collect();
                stored.extend(disk.overlays.get(&(volume.id.0, index)).map(|(pool, _)| (*pool, 0)));
                told.extend(self.redirected(chunk).map(|pool| (pool.0, 0)));
                for slots in [&mut stored, &mut told] {
                    slots.retain(|(pool, _)| lives(*pool));
                    slots.sort_unstable();
                }
                if stored != told {
                    return Err(format!(
                        "{}:{index} is at {stored:?} on disk, at {told:?} for the group",
                        volume.id
                    ));
                }
            }
        }
        Ok(())
    }

    /// The volumes are those that may be there.
    pub(crate) fn adopt(&mut self) -> Result<(), String> {
        if self.adopted {
            return self.retire();
        }
        self.adopted = true;
        while self.state_of(self.pools.len() - 1).is_none() {
            self.pools.pop();
            self.world.unplug();
        }
        let volumes = self.world.group().volumes();
        let found: Vec<(VolumeId, u64)> =
            volumes.map(|volume| (volume.id, volume.size.0 / u64::from(SECTOR))).collect();
        self.model.adopt(&found)?;
        self.check_bound()?;
        for id in self.model.doubtful() {
            let (_, sectors) = found.iter().find(|(found, _)| *found == id).expect("just adopted");
            // By chunks: what a dead pool keeps from us does not hide the rest.
            let per_chunk = self.sectors_per_chunk();
            let mut read = Vec::new();
            for start in (0..*sectors).step_by(per_chunk as usize) {
                let range = start..(start + per_chunk).min(*sectors);
                // A disk that misbehaves may fail what it reads well the next time.
                for _ in 0..PROBES_MAX {
                    self.probe(id, range.clone())?;
                    let (_, reply) = self.probe.take().expect("just read");
                    if let Some(pieces) = reply.and_then(|reply| reply.result.ok()) {
                        read.push((range, pieces));
                        break;
                    }
                }
            }
            self.model.choose(id, &read)?;
        }
        self.retire()
    }

    /// Recovery ends, the machine is in order, and part of everything is as it must be.
    pub(crate) fn verify(&mut self, eighths: u8) -> Result<(), String> {
        self.await_ready()?;
        self.check_self()?;
        let per_chunk = self.sectors_per_chunk();
        let mut reads: Vec<(u32, VolumeId, Range<u64>)> = Vec::new();
        for volume in self.model.volumes() {
            let size = volume.sectors.count();
            for start in (0..size).step_by(per_chunk as usize) {
                reads.push((volume.birth, volume.id, start..(start + per_chunk).min(size)));
            }
        }
        for (birth, volume, range) in reads {
            if self.dice.0.below(8) < u64::from(eighths) {
                self.submit(birth, volume, range, Deed::Read, None)?;
                let said = self.world.exchange();
                self.hear(said)?;
            }
        }
        let read =
            |runner: &Runner<'_>| runner.model.flights().values().all(|f| f.deed != Deed::Read);
        self.until("reading back", read)?;
        self.check_self()
    }

    /// The end of every run: all is answered and readable, and every slot can be had again.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        self.world.calm();
        self.world.group_mut().set_placement(None);
        self.await_fates()?;
        self.settle()?;
        self.verify(8)?;
        // A flush that failed meanwhile may have put the group out of service.
        self.await_ready()?;
        let volumes: Vec<(u32, VolumeId)> =
            self.model.volumes().iter().map(|volume| (volume.birth, volume.id)).collect();
        let now = self.world.now;
        for (birth, id) in volumes {
            let deleted = self.world.group_mut().delete_volume(now, id);
            deleted.map_err(|error| format!("{id} may not be deleted: {error}"))?;
            self.model.delete(birth);
        }
        let size = Bytes(u64::from(SECTOR));
        let created = self.world.group_mut().create_volume(now, size);
        if created == Err(AdminError::VolumeRoom) && self.has_more_room_than_at_first() {
            // Chunks that came later have taken the room that was kept for volumes.
            self.mark("volumes refused for want of room");
            self.settle()?;
            return self.until("giving slots back", |runner| runner.slots_used() == 0);
        }
        let id = created.map_err(|error| format!("the last volume: {error}"))?;
        self.model.create(id, 1)?;
        let birth = self.model.volumes().last().expect("just created").birth;
        self.submit(birth, id, 0..0, Deed::Flush, None)?;
        let said = self.world.exchange();
        self.hear(said)?;
        self.settle()?;
        self.until("giving slots back", |runner| runner.slots_used() == 0)?;
        self.crash(Survival::Lost)?;
        self.verify(8)?;
        match self.slots_used() {
            0 => Ok(()),
            leaked => Err(format!("{leaked} slots are taken again after a crash")),
        }
    }

    /// Lets what was asked of disks before they behaved come to its end: a flush among it may fail,
    /// and put the group out of service later than anybody expects it.
    fn await_fates(&mut self) -> Result<(), String> {
        self.await_ready()?;
        let asked: Vec<u64> = (0..self.pools.len()).map(|p| self.world.submitted(p)).collect();
        self.until("what was asked before", |runner| {
            let mut begun = asked.iter().enumerate();
            begun.all(|(pool, asked)| runner.world.has_answered(pool, *asked))
        })
    }

    /// Disks of removed pools are taken away.
    fn retire(&mut self) -> Result<(), String> {
        for pool in 0..self.pools.len() {
            if self.state_of(pool) == Some(PoolState::Removed) && self.world.retire(pool) {
                self.mark("pools removed");
            }
        }
        Ok(())
    }

    /// Slots taken on pools that live.
    fn slots_used(&self) -> u32 {
        let living = (0..self.pools.len()).filter(|&pool| self.world.is_usable(pool));
        let statuses =
            living.filter_map(|pool| self.world.group().pool_status(PoolId(pool as u16)));
        statuses.map(|status| status.slots_used).sum()
    }
}
