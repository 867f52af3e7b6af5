//! Pools: added, drained, removed, and what they have done.

use super::super::health::health_of;
use super::Desk;
use crate::api::{BlockCache, Bucket, Counters, Latency, NewPool, Pool, Refused, Severity};
use std::path::Path;
use thermocline_blockcache::{LINE, PoolDevice};
use thermocline_ports::Device;
use thermocline_ports::model::Profile;
use thermocline_ports_os::{Disk, Health, OpenOptions, Patience};
use thermocline_units::{Bytes, PoolId};
use thermocline_volume::{PoolSpec, PoolState, traits_of};

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

/// What is told about the cache in front of a device.
fn block_cache(device: &PoolDevice<Disk>) -> Option<BlockCache> {
    let status = device.cache_status()?;
    let line = u64::from(LINE);
    Some(BlockCache {
        path: device.fast()?.path().display().to_string(),
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

/// What is told about the bucket that a device is in.
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
        cost: status.cost,
        cost_month: status.cost_month,
        last_error: status.last_error,
    })
}

impl Desk<'_> {
    /// Pools, fastest first.
    pub fn pools(&self) -> Vec<Pool> {
        (0..self.engine.group.pool_count()).map(|id| self.pool(PoolId(id))).collect()
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
            name: status.name,
            state: shown_state(status.state, health),
            unanswered_seconds: match health {
                Health::Suspect { since } => {
                    Some(self.engine.now().saturating_sub(since).as_secs_f64())
                }
                Health::Well | Health::GivenUp => None,
            },
            path: disk.map(|disk| disk.main().path().display().to_string()),
            direct: disk.is_some_and(|disk| disk.main().is_direct()),
            emulated: disk.is_some_and(|disk| disk.main().is_emulated()),
            chunks_total: u64::from(status.slots_total),
            chunks_used: u64::from(status.slots_used),
            chunks_prefetched: u64::from(status.prefetched),
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
                rotten_blocks: counts.checksum_errors,
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
            let names: Vec<String> = self.pools().into_iter().map(|pool| pool.name).collect();
            Refused::missing(format!("there is no pool {name}; there are: {}", names.join(", ")))
        })
    }

    /// Adds a pool behind the others; it takes chunks once its state is "active".
    ///
    /// # Errors
    /// When the device cannot be opened, or does not fit into the group.
    pub fn add_pool(&mut self, pool: &NewPool) -> Result<Pool, Refused> {
        if pool.path.starts_with("s3://") {
            let text = "a pool in a bucket is in the configuration from the first start on";
            return Err(Refused::invalid(text));
        }
        let profile = pool.emulate.as_deref().map(Profile::built_in).transpose();
        let profile = profile.map_err(Refused::invalid)?;
        let options = OpenOptions {
            create: pool.size_bytes.map(Bytes),
            buffered: pool.buffered,
            patience: Patience::DEFAULT,
        };
        let disk = Disk::open(Path::new(&pool.path), options, profile.as_ref());
        let disk = disk.map_err(Refused::invalid)?;
        let spec = PoolSpec {
            name: pool.name.clone(),
            geometry: disk.geometry(),
            zeroed: false,
            reserve_chunks: 0,
        };
        let now = self.engine.now();
        let id = self.engine.group.add_pool(now, spec)?;
        self.engine.group.set_traits(id, profile.as_ref().map(traits_of));
        self.engine.disks.push(Some(PoolDevice::Bare(disk)));
        self.engine.event(Severity::Info, "pool", format!("{} was added", pool.name));
        Ok(self.pool(id))
    }

    /// Moves everything off a pool, and lets nothing new onto it.
    ///
    /// # Errors
    /// When there is no such pool, or it is the last.
    pub fn drain_pool(&mut self, name: &str) -> Result<Pool, Refused> {
        let id = self.pool_named(name)?;
        let now = self.engine.now();
        self.engine.group.drain_pool(now, id)?;
        Ok(self.pool(id))
    }

    /// Removes a pool that is drained or dead.
    ///
    /// # Errors
    /// When there is no such pool, or it still holds chunks.
    pub fn remove_pool(&mut self, name: &str) -> Result<(), Refused> {
        let id = self.pool_named(name)?;
        let now = self.engine.now();
        Ok(self.engine.group.remove_pool(now, id)?)
    }
}
