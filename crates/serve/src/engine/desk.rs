//! What an administrator may ask of a running engine. Everything here runs on the loop's thread and
//! answers at once; what takes time is begun, and told of by jobs, states and events.

use super::Engine;
use super::jobs::{self, Job as LiveJob};
use crate::api::{
    self, Counters, Event, Extent, Heat, Journal, Kind, Latency, NewJob, NewPolicy, NewPool,
    Operations, Policy, Pool, Refused, Second, Severity, Status, Volume,
};
use crate::metrics::Figures;
use std::collections::BTreeMap;
use std::path::Path;
use thermocline_policy::registry::{Build, PolicySpec};
use thermocline_ports::Device;
use thermocline_ports::model::Profile;
use thermocline_ports_os::{Disk, OpenOptions};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};
use thermocline_volume::{AdminError, Group, OperationKind, PoolSpec, PoolState, Service, Tap};

/// Extents told at once.
const EXTENTS_MAX: usize = 10_000;
/// Operations told at once.
const OPERATIONS_TOLD: usize = 64;
/// Chunks of a heat column that are looked at to tell where it lives.
const SAMPLES: u64 = 64;

/// See the module.
pub struct Desk<'a> {
    engine: &'a mut Engine,
}

impl From<AdminError> for Refused {
    fn from(error: AdminError) -> Refused {
        match error {
            AdminError::NotReady => Refused::unavailable(error),
            AdminError::NoVolume(_) | AdminError::NoPool(_) => Refused::missing(error),
            AdminError::PoolState { .. } | AdminError::LastPool(_) => Refused::conflict(error),
            _ => Refused::invalid(error),
        }
    }
}

/// The name of a state, as it is told.
fn state_name(state: PoolState) -> String {
    format!("{state:?}").to_lowercase()
}

impl<'a> Desk<'a> {
    pub(super) fn new(engine: &'a mut Engine) -> Desk<'a> {
        Desk { engine }
    }

    /// The engine at a glance.
    pub fn status(&self) -> Status {
        let Engine { group, watch, .. } = &*self.engine;
        let service = match group.service() {
            Service::Opening => "opening",
            Service::Ready => "ready",
            Service::Closing => "closing",
            Service::Closed => "closed",
            Service::Failed(_) => "failed",
        };
        let journal = group.journal();
        let pools = self.pools();
        let read: u64 = pools.iter().map(|pool| pool.counters.read_bytes).sum();
        let fastest = pools.first().map_or(0, |pool| pool.counters.read_bytes);
        Status {
            version: env!("CARGO_PKG_VERSION").to_string(),
            identity: format!("{:016x}", group.identity()),
            service: service.to_string(),
            uptime_seconds: self.engine.now().as_secs_f64(),
            chunk_bytes: group.chunk_size().0,
            epoch_seconds: group.settings().epoch.as_secs_f64(),
            policy: self.policy(),
            volumes: self.volumes(),
            pools,
            operations_pending: group.operations_pending() as u64,
            journal: Journal {
                blocks: journal.blocks,
                used: journal.used,
                written: journal.written,
            },
            connections: self.engine.connections.len() as u64,
            in_flight: self.engine.origins.len() as u64,
            map_bytes: group.map_memory().0,
            requests: watch.requests().map(|(kind, l)| (kind.to_string(), l.into())).collect(),
            fastest_pool_share: (read > 0).then(|| fastest as f64 / read as f64),
        }
    }

    /// A copy of everything that is measured.
    pub(crate) fn figures(&self) -> Figures {
        let group = &self.engine.group;
        let pools = (0..group.pool_count()).map(|id| {
            let latencies = group.pool_latencies(PoolId(id)).expect("ids below the count exist");
            [latencies.reads.clone(), latencies.writes.clone()]
        });
        Figures {
            status: self.status(),
            pools: pools.collect(),
            requests: self.engine.watch.requests().map(|(kind, l)| (kind, l.clone())).collect(),
        }
    }

    /// Volumes that exist.
    pub fn volumes(&self) -> Vec<Volume> {
        let exports = self.engine.exports.iter();
        exports
            .map(|export| Volume { name: export.name.clone(), size_bytes: export.size })
            .collect()
    }

    /// Makes a volume that reads as zeroes.
    ///
    /// # Errors
    /// When the size will not do, or there is no room for more volumes.
    pub fn create_volume(&mut self, size: Bytes) -> Result<Volume, Refused> {
        let now = self.engine.now();
        let id = self.engine.group.create_volume(now, size)?;
        self.engine.name_exports();
        self.engine.watch.note_volume(id, size.0);
        self.engine.event(Severity::Info, "volume", format!("{id} of {size} was made"));
        Ok(Volume { name: id.to_string(), size_bytes: size.0 })
    }

    /// Makes a volume larger. Clients see the new size when they attach it again: the NBD standard
    /// has no message for it.
    ///
    /// # Errors
    /// When there is no such volume, or the size is smaller than it is.
    pub fn grow_volume(&mut self, name: &str, size: Bytes) -> Result<Volume, Refused> {
        let id = self.volume(name)?;
        let now = self.engine.now();
        self.engine.group.grow_volume(now, id, size)?;
        self.engine.name_exports();
        self.engine.watch.note_volume(id, size.0);
        self.engine.event(Severity::Info, "volume", format!("{id} has {size} now"));
        Ok(Volume { name: id.to_string(), size_bytes: size.0 })
    }

    /// Deletes a volume with all it holds; requests of clients fail from now on.
    ///
    /// # Errors
    /// When there is no such volume.
    pub fn delete_volume(&mut self, name: &str) -> Result<(), Refused> {
        let id = self.volume(name)?;
        let now = self.engine.now();
        self.engine.group.delete_volume(now, id)?;
        self.engine.name_exports();
        self.engine.watch.forget_volume(id);
        self.engine.event(Severity::Info, "volume", format!("{id} was deleted"));
        Ok(())
    }

    fn volume(&self, name: &str) -> Result<VolumeId, Refused> {
        let export = self.engine.exports.iter().find(|export| export.name == name);
        let missing = || {
            let names: Vec<&str> =
                self.engine.exports.iter().map(|export| export.name.as_str()).collect();
            Refused::missing(format!("there is no volume {name}; there are: {}", names.join(", ")))
        };
        export.map(|export| VolumeId(export.volume)).ok_or_else(missing)
    }

    fn size_of(&self, volume: VolumeId) -> u64 {
        let export = self.engine.exports.iter().find(|export| export.volume == volume.0);
        export.map_or(0, |export| export.size)
    }

    /// Where the chunks of a range live, runs of equal ones together; at most 10,000 runs.
    ///
    /// # Errors
    /// When there is no such volume, or the range begins beyond its end.
    pub fn extents(
        &self,
        name: &str,
        offset: u64,
        length: Option<u64>,
    ) -> Result<Vec<Extent>, Refused> {
        let volume = self.volume(name)?;
        let range = self.chunks_of(volume, offset, length)?;
        let chunk_size = self.engine.group.chunk_size().0;
        let size = self.size_of(volume);
        let mut extents: Vec<Extent> = Vec::new();
        for index in range {
            let Some(chunk) = self.engine.group.locate(ChunkId { volume, index }) else { break };
            let start = u64::from(index) * chunk_size;
            let extent = Extent {
                offset_bytes: start,
                length_bytes: chunk_size.min(size - start),
                pools: chunk.copies.iter().map(|copy| copy.place.pool.0).collect(),
                redirected_to: chunk.redirected_to.map(|pool| pool.0),
                pinned: chunk.tag.pinned,
                reads: u64::from(chunk.reads),
                writes: u64::from(chunk.writes),
            };
            let full = extents.len() == EXTENTS_MAX;
            match extents.last_mut() {
                Some(last) if is_alike(last, &extent) => {
                    last.length_bytes += extent.length_bytes;
                    last.reads += extent.reads;
                    last.writes += extent.writes;
                }
                _ if full => break,
                _ => extents.push(extent),
            }
        }
        Ok(extents)
    }

    /// The chunks that a range of bytes touches.
    fn chunks_of(
        &self,
        volume: VolumeId,
        offset: u64,
        length: Option<u64>,
    ) -> Result<std::ops::Range<u32>, Refused> {
        let size = self.size_of(volume);
        let end = length.map_or(Some(size), |length| offset.checked_add(length));
        let end = end.filter(|&end| end <= size && offset < end).ok_or_else(|| {
            Refused::invalid(format!("the range is empty, or ends beyond {volume}'s {size} bytes"))
        })?;
        let chunk_size = self.engine.group.chunk_size().0;
        Ok((offset / chunk_size) as u32..end.div_ceil(chunk_size) as u32)
    }

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
        Pool {
            id: id.0,
            name: status.name,
            state: state_name(status.state),
            path: disk.map(|disk| disk.path().display().to_string()),
            direct: disk.is_some_and(Disk::is_direct),
            emulated: disk.is_some_and(Disk::is_emulated),
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
                rotten_blocks: counts.rotten_blocks,
            },
            read_latency: Latency::from(latencies.reads),
            write_latency: Latency::from(latencies.writes),
        }
    }

    fn pool_named(&self, name: &str) -> Result<PoolId, Refused> {
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
        let profile = pool.emulate.as_deref().map(Profile::built_in).transpose();
        let profile = profile.map_err(Refused::invalid)?;
        let options = OpenOptions { create: pool.size_bytes.map(Bytes), buffered: pool.buffered };
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
        self.engine.disks.push(Some(disk));
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

    /// Begins to do something with the chunks of a range.
    ///
    /// # Errors
    /// When the volume, the range or the pool is not there, or too many jobs are under way.
    pub fn begin(&mut self, wish: &NewJob) -> Result<api::Job, Refused> {
        let volume = self.volume(&wish.volume)?;
        let chunks = self.chunks_of(volume, wish.offset_bytes, wish.length_bytes)?;
        let needs_pool = !matches!(wish.kind, Kind::Pin | Kind::Unpin);
        let to = match &wish.pool {
            Some(name) => Some(self.pool_named(name)?),
            None if needs_pool => return Err(Refused::invalid("name the pool to move to")),
            None => None,
        };
        let job = LiveJob::new(wish.kind, volume, to, chunks.start, chunks.end);
        let begun = self.engine.begin_job(job);
        let id = begun.ok_or_else(|| Refused::conflict("too many jobs are under way"))?;
        self.job(id)
    }

    /// What became of a job.
    ///
    /// # Errors
    /// When there is no such job, or no longer.
    pub fn job(&self, id: u64) -> Result<api::Job, Refused> {
        let job = self.engine.jobs.get(id);
        let job = job.ok_or_else(|| Refused::missing(format!("there is no job {id}")))?;
        Ok(self.told(id, job))
    }

    fn told(&self, id: u64, job: &jobs::Job) -> api::Job {
        let pool = job.to.and_then(|to| self.engine.group.pool_status(to));
        let chunks = u64::from(job.end - job.first);
        let ended = job.ended();
        api::Job {
            id,
            kind: job.kind,
            volume: job.volume.to_string(),
            pool: pool.map(|pool| pool.name),
            chunks,
            ended,
            done: job.done,
            failed: job.failed,
            cancelled: job.cancelled,
            skipped: job.skipped.clone(),
            over: ended == chunks,
        }
    }

    /// Cancels what a job has not done yet.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn cancel(&mut self, id: u64) -> Result<api::Job, Refused> {
        if !self.engine.cancel_job(id) {
            return Err(Refused::missing(format!("there is no job {id}")));
        }
        self.job(id)
    }

    /// Everything that moves.
    pub fn operations(&self) -> Operations {
        let group = &self.engine.group;
        let chunk_size = group.chunk_size().0;
        let chunks = group.operations(OPERATIONS_TOLD).into_iter().map(|status| api::Operation {
            kind: match status.operation.kind {
                OperationKind::Migrate => "migrate",
                OperationKind::Replicate => "replicate",
                OperationKind::Prefetch => "prefetch",
                OperationKind::Redirect => "redirect",
            }
            .to_string(),
            volume: status.operation.chunk.volume.to_string(),
            offset_bytes: u64::from(status.operation.chunk.index) * chunk_size,
            from: status.from.map(|pool| pool.0),
            to: status.operation.to.0,
            copied_bytes: status.copied.0,
        });
        Operations {
            chunks: chunks.collect(),
            jobs: self.engine.jobs.iter().map(|(id, job)| self.told(id, job)).collect(),
            pending: group.operations_pending() as u64,
        }
    }

    /// Who decides about moves.
    pub fn policy(&self) -> Policy {
        let spec = self.engine.policy.clone();
        let parsed = PolicySpec::parse(&spec).ok();
        let pairs = parsed.iter().flat_map(|spec| spec.settings.iter());
        let settings: BTreeMap<String, String> =
            pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Policy { spec, settings }
    }

    /// Gives the decision about moves to another policy, or to nobody ("none").
    ///
    /// # Errors
    /// When there is no such placement, or a setting or the epoch is wrong.
    pub fn set_policy(&mut self, wish: &NewPolicy) -> Result<Policy, Refused> {
        let placement = match wish.spec.as_str() {
            "none" => None,
            spec => {
                let spec = PolicySpec::parse(spec).map_err(Refused::invalid)?;
                let Build::Placement(build) = spec.entry.build else {
                    let text = format!("`{}` is a cache, not a placement", spec.entry.name);
                    return Err(Refused::invalid(text));
                };
                let placement = build(&spec.settings).map_err(Refused::invalid)?;
                Some((spec.spelled_out(), placement))
            }
        };
        let now = self.engine.now();
        if let Some(seconds) = wish.epoch_seconds {
            if !(0.1..=1e6).contains(&seconds) {
                return Err(Refused::invalid("an epoch lasts from 0.1 to 1,000,000 seconds"));
            }
            self.engine.group.set_epoch(now, Nanos((seconds * 1e9) as u64));
        }
        match placement {
            Some((name, placement)) => self.engine.group.set_named_placement(&name, placement),
            None => self.engine.group.set_placement(None),
        }
        self.engine.policy.clone_from(&wish.spec);
        let text = format!("{} decides about moves from now on", wish.spec);
        self.engine.event(Severity::Info, "policy", text);
        Ok(self.policy())
    }

    /// Lets somebody hear what clients ask and what the policy sees and decides, in place of whoever
    /// did. A recording from which proposals can be had again begins before its policy is set.
    pub fn set_tap(&mut self, make: impl FnOnce(&Group) -> Box<dyn Tap>) {
        let tap = make(&self.engine.group);
        self.engine.group.set_tap(Some(tap));
    }

    /// Tells everybody who follows events that something has happened.
    pub fn note(&mut self, severity: Severity, subject: &str, text: String) {
        self.engine.event(severity, subject, text);
    }

    /// The last minutes, second by second, from a number on.
    pub fn history(&self, from: u64) -> Vec<Second> {
        self.engine.watch.seconds_from(from)
    }

    /// What happened after an event.
    pub fn events(&self, after: u64) -> Vec<Event> {
        self.engine.watch.events_after(after)
    }

    /// Where a volume was used in the last minutes, from a row on.
    ///
    /// # Errors
    /// When there is no such volume.
    pub fn heat(&self, name: &str, from_row: u64) -> Result<Heat, Refused> {
        let volume = self.volume(name)?;
        let heat = self.engine.watch.heat_of(volume).expect("every volume has a heat map");
        let (first_row, rows) = heat.rows_from(from_row);
        let columns = 0..super::heat::COLUMNS;
        Ok(Heat {
            volume: name.to_string(),
            column_bytes: heat.column,
            row_seconds: super::heat::ROW.as_secs_f64(),
            first_row,
            rows,
            pools: columns.map(|column| self.shares(volume, column, heat.column)).collect(),
        })
    }

    /// The share of a column's chunks on each pool; of large ones, of a sample.
    fn shares(&self, volume: VolumeId, column: u64, bytes: u64) -> Vec<f64> {
        let group = &self.engine.group;
        let chunk_size = group.chunk_size().0;
        let mut counts = vec![0_u64; usize::from(group.pool_count())];
        let size = self.size_of(volume);
        let (start, end) = (column * bytes, size.min((column + 1) * bytes));
        if start >= end {
            return vec![0.0; counts.len()];
        }
        let (first, last) = (start / chunk_size, (end - 1) / chunk_size);
        let step = (last - first + 1).div_ceil(SAMPLES);
        let mut looked = 0;
        for index in (first..=last).step_by(step as usize) {
            looked += 1;
            if let Some(pool) = group.pool_of(ChunkId { volume, index: index as u32 }) {
                counts[usize::from(pool.0)] += 1;
            }
        }
        counts.into_iter().map(|count| count as f64 / f64::from(looked)).collect()
    }
}

/// Whether two neighbouring runs can be told as one.
fn is_alike(one: &Extent, other: &Extent) -> bool {
    (&one.pools, one.redirected_to, one.pinned) == (&other.pools, other.redirected_to, other.pinned)
}
