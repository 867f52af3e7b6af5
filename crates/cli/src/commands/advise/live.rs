//! A running engine as the subject of advice: a sample of what its clients ask for, and its pools
//! as modelled devices.

use crate::error::CliError;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;
use thermocline_admin::client::{CALL_TIME, Client};
use thermocline_blockcache::Settings;
use thermocline_engine::api::{Extent, Pool, Status};
use thermocline_ports::model::Profile;
use thermocline_sim::machine::{
    CachePlan, Load, PoolPlan, PoolSize, START_CHUNKS_MAX, Start, StartPool,
};
use thermocline_trace::{ReadOptions, open};
use thermocline_units::{Bytes, ChunkId, Nanos, VolumeId};

/// Reads of a pool from which on their median tells what kind of device it is.
const READS: u64 = 100;

/// Device that a block cache is taken for.
const CACHE: &str = "nvme";

/// Kinds of devices that pools are taken for, with the latency in microseconds up to which a pool's
/// median read makes it one: geometric means between those of the profiles.
const KINDS: [(&str, f64); 4] =
    [("scm", 30.0), ("nvme", 81.0), ("ssd-sata", 1_100.0), ("hdd-7200", f64::INFINITY)];

/// A sample of a running engine.
pub(super) struct Sample {
    /// Its status when the sample had ended.
    pub(super) status: Status,
    /// Requests of its clients.
    pub(super) load: Load,
    /// Places of chunks when it began; `None`: there are more than the laboratory fills.
    pub(super) start: Option<Start>,
}

/// A sample of what the engine's clients ask for in so long.
///
/// # Errors
/// When no engine is there, it is recorded already, or nobody asked for anything.
pub(super) fn sample(api: &Path, time: Nanos) -> Result<Sample, CliError> {
    let seconds = time.as_secs_f64().round() as u64;
    if !(1..=600).contains(&seconds) {
        return Err(CliError::input("--live takes 1s to 10min"));
    }
    let client = Client::new(api).within(CALL_TIME + Duration::from_secs(seconds));
    let before: Status = Client::new(api).get("/v1/status")?;
    let places = Places::of(&Client::new(api), &before)?;
    let recording = client.bytes(&format!("/v1/sample?seconds={seconds}"))?;
    let status: Status = client.get("/v1/status")?;
    let source = Box::new(Cursor::new(recording));
    let mut reader = open(source, &api.display().to_string(), &ReadOptions::default())
        .map_err(CliError::failed)?;
    let load = Load::read(&mut *reader, &|_| ()).map_err(|error| {
        CliError::input(format!("{error}: clients asked for nothing in {seconds} s"))
    })?;
    let start = places.map(|places| places.start(&before, &load));
    Ok(Sample { status, load, start })
}

/// Places of the chunks that the engine stores, by number of the volume: where each run of chunks
/// ends, and its pool.
struct Places(BTreeMap<u32, Vec<(u64, Option<u16>)>>);

impl Places {
    /// Asks the engine for its map; `None`: it stores more than the laboratory fills.
    fn of(client: &Client, status: &Status) -> Result<Option<Places>, CliError> {
        let used: u64 = serving(status).iter().map(|pool| pool.chunks_used).sum();
        if used > START_CHUNKS_MAX {
            return Ok(None);
        }
        let mut places = BTreeMap::new();
        for volume in &status.volumes {
            let mut runs = Vec::new();
            let mut at = 0;
            while at < volume.size_bytes {
                let path = format!("/v1/volumes/{}/extents?offset_bytes={at}", volume.name);
                let extents: Vec<Extent> = client.get(&path)?;
                let Some(last) = extents.last() else { break };
                at = last.offset_bytes + last.length_bytes;
                let run = |extent: &Extent| {
                    (extent.offset_bytes + extent.length_bytes, extent.pools.first().copied())
                };
                runs.extend(extents.iter().map(run));
            }
            places.insert(volume.number, runs);
        }
        Ok(Some(Places(places)))
    }

    /// Id of the pool where a byte is.
    fn pool_at(&self, volume: u32, byte: u64) -> Option<u16> {
        let runs = self.0.get(&volume)?;
        runs.get(runs.partition_point(|&(end, _)| end <= byte))?.1
    }

    /// The chunks of a load among all others, by pool.
    fn start(&self, status: &Status, load: &Load) -> Start {
        let numbers: Vec<Option<u32>> = load.volumes.iter().map(|name| number_of(name)).collect();
        let mut chunks: BTreeMap<u16, Vec<ChunkId>> = BTreeMap::new();
        for chunk in load.touched(Bytes(status.chunk_bytes)) {
            let VolumeId(volume) = chunk.volume;
            let number = numbers.get(volume as usize).copied().flatten();
            let at = u64::from(chunk.index) * status.chunk_bytes;
            if let Some(pool) = number.and_then(|number| self.pool_at(number, at)) {
                chunks.entry(pool).or_default().push(chunk);
            }
        }
        let pool = |pool: &&Pool| {
            let own = chunks.remove(&pool.id).unwrap_or_default();
            // Prefetched and kept copies give up their room.
            let given_up = pool.chunks_prefetched + pool.chunks_kept;
            let lasting = pool.chunks_used.saturating_sub(given_up);
            StartPool {
                name: pool.name.clone(),
                others: lasting.saturating_sub(own.len() as u64),
                chunks: own,
                free: pool.chunks_total.max(1).saturating_sub(lasting),
            }
        };
        Start { pools: serving(status).iter().map(pool).collect() }
    }
}

/// Number of a volume in the engine, by its name in a sample (`v3`).
fn number_of(name: &str) -> Option<u32> {
    name.strip_prefix('v')?.parse().ok()
}

/// Pools that serve, fastest first.
fn serving(status: &Status) -> Vec<&Pool> {
    let serves = |pool: &&Pool| matches!(pool.state.as_str(), "active" | "suspect");
    let mut pools: Vec<&Pool> = status.pools.iter().filter(serves).collect();
    pools.sort_by_key(|pool| pool.rank);
    pools
}

/// The engine's pools, fastest first, as modelled devices.
pub(super) fn pools(status: &Status) -> Vec<PoolPlan> {
    let pools = serving(status);
    let last = pools.len().saturating_sub(1);
    let plan = |(place, pool): (usize, &&Pool)| {
        let profile = kind(pool, place, last);
        PoolPlan {
            name: pool.name.clone(),
            profile_name: profile.to_string(),
            profile: Profile::built_in(profile).expect("it is built in"),
            size: PoolSize::Bytes(Bytes(pool.chunks_total.max(1) * status.chunk_bytes)),
            reserve: Bytes(0),
            cache: pool.cache.as_ref().map(|cache| CachePlan {
                profile_name: CACHE.to_string(),
                profile: Profile::built_in(CACHE).expect("it is built in"),
                size: PoolSize::Bytes(Bytes(cache.size_bytes)),
                policy: Settings::default().policy,
            }),
        }
    };
    pools.iter().enumerate().map(plan).collect()
}

/// The kind of device that a pool is: a bucket, what its reads took, or its place among the pools.
fn kind(pool: &Pool, place: usize, last: usize) -> &'static str {
    if pool.bucket.is_some() {
        return "s3-1gbps";
    }
    let read = pool.read_latency;
    if read.count >= READS && pool.cache.is_none() {
        let found = KINDS.iter().find(|(_, most)| read.p50_us <= *most);
        return found.expect("the last one takes all").0;
    }
    match place {
        0 => "nvme",
        place if place == last => "hdd-7200",
        _ => "ssd-sata",
    }
}

#[cfg(test)]
mod tests;
