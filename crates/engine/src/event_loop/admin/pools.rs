//! Pools: added, drained, removed, and what they have done.

use super::super::health::health_of;
use super::{AdminApi, refused};
use crate::api::{BlockCache, Bucket, Counters, GrownPool, NewPool, Pool};
use crate::joining::{Joining, PoolLedger, Speed};
use crate::pools::place;
use std::path::Path;
use std::sync::Arc;
use thermocline_admin::api::{Latency, Refused, Severity};
use thermocline_blockcache::{LINE, PoolDevice};
use thermocline_ports_os::{Disk, Grower, Health};
use thermocline_units::{Bytes, Nanos, PoolId};
use thermocline_volume::{CreateError, PoolSpec, PoolState, check_pool_name, traits_of};

/// Pools to which the chunks of a pool that is drained may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Moves to pools that are here.
    Near,
    /// Moves to pools across a network, too.
    Anywhere,
}

/// The name of a state, as it is told.
fn state_name(state: PoolState) -> String {
    format!("{state:?}").to_lowercase()
}

/// The state as it is told: a pool in service whose device does not answer is suspect.
fn shown_state(state: PoolState, health: Health) -> String {
    match (state, health) {
        (PoolState::Active | PoolState::Draining, Health::Suspect { .. }) => "suspect".to_string(),
        _ => state_name(state),
    }
}

/// Status of the cache in front of a device.
fn block_cache(device: &PoolDevice<Disk>) -> Option<BlockCache> {
    let status = device.cache_status()?;
    let line = u64::from(LINE);
    Some(BlockCache {
        path: device.fast()?.path().display().to_string(),
        policy: status.policy.to_string(),
        size_bytes: u64::from(status.lines) * line,
        cached_bytes: u64::from(status.cached) * line,
        dirty_bytes: u64::from(status.dirty) * line,
        hit_ratio: status.hit_ratio(),
        hit_bytes: status.read_hits.0,
        missed_bytes: status.read_misses.0,
        read_around_bytes: status.read_around.0,
        written_bytes: status.written.0,
        written_around_bytes: status.written_around.0,
        filled_bytes: status.filled.0,
        written_back_bytes: status.written_back.0,
        table_bytes: status.table.0,
        memory_bytes: status.memory.0,
    })
}

/// Status of the bucket that a device is in.
fn bucket(device: &PoolDevice<Disk>) -> Option<Bucket> {
    let status = device.main().bucket_status()?;
    Some(Bucket {
        puts: status.puts,
        gets: status.gets,
        lists: status.lists,
        deletes: status.deletes,
        failed: status.failed,
        sent_bytes: status.sent.0,
        received_bytes: status.received.0,
        objects: status.objects,
        stored_bytes: status.stored.0,
        unsent_bytes: status.unsent.0,
        read_ahead_bytes: status.read_ahead.0,
        read_ahead_used_bytes: status.read_ahead_used.0,
        cost: status.cost,
        cost_month: status.cost_month,
        last_error: status.last_error,
    })
}

impl AdminApi<'_> {
    /// Pools, fastest first.
    pub fn pools(&self) -> Vec<Pool> {
        self.engine.group.pools_by_rank().iter().map(|&id| self.pool(id)).collect()
    }

    fn pool(&self, id: PoolId) -> Pool {
        let group = &self.engine.group;
        let status = group.pool_status(id).expect("ids below the count exist");
        let latencies = group.pool_latencies(id).expect("ids below the count exist");
        let disk = self.engine.disks[usize::from(id.0)].as_ref();
        let counts = status.counters;
        let health = disk.map_or(Health::Well, health_of);
        Pool {
            id: id.0,
            rank: status.rank,
            name: status.name,
            state: shown_state(status.state, health),
            full: status.full,
            unanswered_seconds: match health {
                Health::Suspect { since } => {
                    Some(self.engine.now().saturating_sub(since).as_secs_f64())
                }
                Health::Well | Health::GivenUp => None,
            },
            path: disk.map(|disk| disk.main().path().display().to_string()),
            direct: disk.is_some_and(|disk| disk.main().is_direct()),
            emulated: disk.is_some_and(|disk| disk.main().is_emulated()),
            checksums: status.checksums,
            chunks_total: u64::from(status.slots_total),
            chunks_used: u64::from(status.slots_used),
            chunks_prefetched: u64::from(status.prefetched),
            chunks_kept: u64::from(status.kept),
            in_flight: u64::from(status.in_flight),
            counters: Counters {
                reads: counts.reads,
                writes: counts.writes,
                read_bytes: counts.read_bytes,
                written_bytes: counts.written_bytes,
                moved_out_bytes: counts.copied_out_bytes,
                moved_in_bytes: counts.copied_in_bytes,
                metadata_bytes: counts.metadata_bytes,
                flushes: counts.flushes,
                errors: counts.errors,
                checksum_errors: counts.checksum_errors,
            },
            read_latency: Latency::from(latencies.reads),
            write_latency: Latency::from(latencies.writes),
            cache: disk.and_then(block_cache),
            bucket: disk.and_then(bucket),
            backing: self.engine.room.of_pool(id),
        }
    }

    pub(super) fn pool_named(&self, name: &str) -> Result<PoolId, Refused> {
        let group = &self.engine.group;
        let ids = (0..group.pool_count()).map(PoolId);
        let by_name = |&id: &PoolId| {
            let status = group.pool_status(id).expect("ids below the count exist");
            status.name == name && status.state != PoolState::Removed
        };
        let number = name.parse().ok().filter(|&id| id < group.pool_count()).map(PoolId);
        ids.into_iter().find(by_name).or(number).ok_or_else(|| {
            let pools = self.pools().into_iter().filter(|pool| !pool.is_removed());
            let names: Vec<String> = pools.map(|pool| pool.name).collect();
            Refused::missing(format!("there is no pool {name}; there are: {}", names.join(", ")))
        })
    }

    /// Checks what can be said of a pool that shall be added before its device is looked at; how it
    /// is to be written down.
    ///
    /// # Errors
    /// When the name or the path is taken, or is none.
    pub(crate) fn check_new_pool(
        &self,
        wish: &NewPool,
    ) -> Result<Option<Arc<dyn PoolLedger>>, Refused> {
        if wish.path.starts_with("s3://") {
            let text = "a pool in a bucket is in the configuration from the first start on";
            return Err(Refused::invalid(text));
        }
        check_pool_name(&wish.name).map_err(Refused::invalid)?;
        let path = Path::new(&wish.path);
        if !path.is_absolute() {
            let text = format!(
                "the path {} must begin with `/`: the engine's own folder is not yours",
                wish.path
            );
            return Err(Refused::invalid(text));
        }
        if let Some(ledger) = &self.engine.ledger {
            ledger.check_path(path).map_err(Refused::conflict)?;
        }
        if wish.slowest && wish.next_slower().is_some() {
            let text = "a pool is the slowest or comes before another one: leave `slowest` out";
            return Err(Refused::invalid(text));
        }
        if wish.before.is_some() && wish.replaces.is_some() {
            let text = "a pool that replaces another one takes its place: leave `before` out";
            return Err(Refused::invalid(text));
        }
        if let Some(other) = wish.next_slower() {
            self.living_pool(other)?;
        }
        let living = self.pools().into_iter().filter(|pool| !pool.is_removed());
        if living.map(|pool| pool.name).any(|name| name == wish.name) {
            return Err(Refused::conflict(CreateError::NameTaken(wish.name.clone())));
        }
        let wanted = place(path);
        for (id, disk) in (0..).zip(&self.engine.disks) {
            let taken = disk.iter().flat_map(PoolDevice::devices);
            if taken.map(|disk| place(disk.path())).any(|path| path == wanted) {
                let pool = self.pool(PoolId(id)).name;
                let text = format!("{} is pool {pool} of this engine already", wish.path);
                return Err(Refused::conflict(text));
            }
        }
        Ok(self.engine.ledger.clone())
    }

    /// The pool of this name or number, which is not removed.
    fn living_pool(&self, name: &str) -> Result<PoolId, Refused> {
        let id = self.pool_named(name)?;
        match self.pool(id).state.as_str() {
            "removed" => Err(Refused::conflict(format!("pool {name} was removed"))),
            _ => Ok(id),
        }
    }

    /// Pools by rank, and how the speed of each is known; those that were removed have none, and
    /// are left out.
    pub(crate) fn pool_speeds(&self) -> Vec<(String, Speed)> {
        let group = &self.engine.group;
        let living = group.pools_there().iter().filter_map(|&id| {
            let pool = group.pool_status(id)?;
            let disk = self.engine.disks[usize::from(id.0)].as_ref().map(PoolDevice::main);
            let speed = match (group.random_read_latency(id), disk) {
                _ if pool.far => Speed::Known(Nanos(u64::MAX)),
                (Some(latency), _) => Speed::Known(latency),
                (None, Some(disk)) if pool.state == PoolState::Active => {
                    Speed::Measured(disk.path().to_path_buf())
                }
                (None, _) => Speed::Unknown,
            };
            Some((pool.name, speed))
        });
        living.collect()
    }

    /// Checks whether the group would take a pool, and whether it has room for what the pool holds
    /// that it shall replace.
    ///
    /// # Errors
    /// When it would not, or has not.
    pub(crate) fn check_pool_spec(
        &mut self,
        spec: &PoolSpec,
        replaces: Option<&str>,
    ) -> Result<(), Refused> {
        let room = u64::from(self.engine.group.check_pool(spec).map_err(refused)?);
        let Some(replaced) = replaces else { return Ok(()) };
        let replaced = self.pool(self.living_pool(replaced)?);
        if replaced.chunks_used <= room {
            return Ok(());
        }
        let chunk = self.engine.group.chunk_size().0;
        Err(Refused::conflict(format!(
            "{} holds {}, and the new pool would have room for {}; name a larger device",
            replaced.name,
            Bytes(replaced.chunks_used * chunk),
            Bytes(room * chunk)
        )))
    }

    /// Adds a pool at its rank; it takes chunks once its state is "active".
    ///
    /// # Errors
    /// When it does not fit into the group, or the pool that it shall come before is gone.
    pub(crate) fn add_pool(&mut self, joining: Joining) -> Result<Pool, Refused> {
        let Joining { spec, disk, profile, destroyed, before, measured } = joining;
        let (now, name) = (self.engine.now(), spec.name.clone());
        let traits = profile.as_ref().map(traits_of);
        let before = match before {
            Some(before) => Some(self.living_pool(&before)?),
            None => traits.and_then(|traits| self.engine.group.first_slower(&traits)),
        };
        let id = self.engine.group.add_pool_before(now, spec, before).map_err(refused)?;
        self.engine.group.set_traits(id, traits);
        let path = disk.path().display().to_string();
        self.engine.disks.push(Some(PoolDevice::Bare(disk)));
        if let Some(contents) = destroyed {
            let text = format!("{path} held {contents}: destroyed, as was asked for");
            self.engine.event(Severity::Warning, "pool", text);
        }
        let measured = measured.map(|why| format!("; {why}")).unwrap_or_default();
        let rank = self.pool(id).rank;
        let text = format!("{name} was added: {path}, rank {rank}{measured}");
        self.engine.event(Severity::Info, "pool", text);
        Ok(self.pool(id))
    }

    /// A handle by which a thread that may wait makes a pool's device larger.
    ///
    /// # Errors
    /// When there is no such pool, or it is of a kind that cannot grow while it is in use.
    pub(crate) fn grower(&self, name: &str) -> Result<Grower, Refused> {
        let id = self.living_pool(name)?;
        let missing = || Refused::conflict(format!("pool {name} has no device"));
        let device = self.engine.disks[usize::from(id.0)].as_ref().ok_or_else(missing)?;
        let main = device.main();
        let fixed = match () {
            () if device.fast().is_some() => "has a block cache",
            () if main.bucket_status().is_some() => "is in a bucket",
            () if main.is_emulated() => "is slowed to a profile of its size",
            () => {
                let grower = main.grower().map_err(Refused::unavailable)?;
                return grower.ok_or_else(missing);
            }
        };
        Err(Refused::conflict(format!(
            "pool {name} {fixed} and cannot grow; add a larger pool, or replace this one"
        )))
    }

    /// Checks whether the group would let a pool grow to so many bytes.
    ///
    /// # Errors
    /// When it would not.
    pub(crate) fn check_growth(&mut self, name: &str, size: Bytes) -> Result<(), Refused> {
        let id = self.living_pool(name)?;
        self.engine.group.check_growth(id, size).map_err(refused)?;
        Ok(())
    }

    /// Lets a pool grow whose device has so many bytes now; what is new reads as zeroes from
    /// `zeroed_from` on.
    ///
    /// # Errors
    /// When the pool is gone, or the group does not take it.
    pub(crate) fn grow_pool(
        &mut self,
        name: &str,
        size: Bytes,
        zeroed_from: Bytes,
    ) -> Result<GrownPool, Refused> {
        let id = self.living_pool(name)?;
        let now = self.engine.now();
        if let Some(PoolDevice::Bare(disk)) = &mut self.engine.disks[usize::from(id.0)] {
            disk.has_grown(size);
        }
        let added =
            u64::from(self.engine.group.grow_pool(now, id, size, zeroed_from).map_err(refused)?);
        let (pool, bytes) = (self.pool(id), added * self.engine.group.chunk_size().0);
        let text = format!(
            "{} grows: its device has {size} now, and {} more for chunks",
            pool.name,
            Bytes(bytes)
        );
        self.engine.event(Severity::Info, "pool", text);
        Ok(GrownPool {
            name: pool.name,
            size_bytes: size.0,
            chunks_added: added,
            bytes_added: bytes,
        })
    }

    /// Moves everything off a pool, and lets nothing new onto it. Chunks stay on pools that are
    /// here unless `reach` says otherwise.
    ///
    /// # Errors
    /// When there is no such pool, it is the last, or the others have no room for its chunks.
    pub fn drain_pool(&mut self, name: &str, reach: Reach) -> Result<Pool, Refused> {
        let id = self.pool_named(name)?;
        let now = self.engine.now();
        match reach {
            Reach::Anywhere => self.engine.group.drain_pool_anywhere(now, id).map_err(refused)?,
            Reach::Near => {
                self.check_room_beside(id)?;
                self.engine.group.drain_pool(now, id).map_err(refused)?;
            }
        }
        Ok(self.pool(id))
    }

    /// Lets a pool that is being drained, or is drained, take chunks again.
    ///
    /// # Errors
    /// When there is no such pool, or it is neither being drained nor drained.
    pub fn undrain_pool(&mut self, name: &str) -> Result<Pool, Refused> {
        let id = self.pool_named(name)?;
        let now = self.engine.now();
        self.engine.group.undrain_pool(now, id).map_err(refused)?;
        let pool = self.pool(id);
        self.engine.event(Severity::Info, "pool", format!("{} takes chunks again", pool.name));
        Ok(pool)
    }

    /// Checks whether pools that are here can take what an active pool holds.
    fn check_room_beside(&self, id: PoolId) -> Result<(), Refused> {
        let group = &self.engine.group;
        let status = |id| group.pool_status(id).expect("ids below the count exist");
        let drained = status(id);
        if drained.far || drained.state != PoolState::Active {
            return Ok(());
        }
        let others = (0..group.pool_count()).map(PoolId).filter(|&other| other != id).map(status);
        let others = others.filter(|pool| pool.state == PoolState::Active);
        let (far, near): (Vec<_>, Vec<_>) = others.partition(|pool| pool.far);
        let room = near.iter().map(|pool| u64::from(pool.slots_total - pool.slots_used));
        let (needed, room) = (u64::from(drained.slots_used), room.sum::<u64>());
        if near.is_empty() && far.is_empty() || needed <= room {
            return Ok(()); // The last pool is refused with words of its own.
        }
        let chunk = group.chunk_size().0;
        let mut text = format!(
            "{} holds {}, and the other pools that are here have room for {}; add a pool first",
            drained.name,
            Bytes(needed * chunk),
            Bytes(room * chunk)
        );
        if !far.is_empty() {
            text +=
                ", or let its chunks go across the network: --to-far (in the API: ?to_far=true)";
        }
        Err(Refused::conflict(text))
    }

    /// Removes a pool that is drained or dead.
    ///
    /// # Errors
    /// When there is no such pool, or it still holds chunks.
    pub fn remove_pool(&mut self, name: &str) -> Result<(), Refused> {
        let id = self.pool_named(name)?;
        let now = self.engine.now();
        self.engine.group.remove_pool(now, id).map_err(refused)
    }
}
