//! A running engine as the subject of advice: a sample of what its clients ask for, and its pools
//! as modelled devices.

use crate::error::CliError;
use std::io::Cursor;
use std::path::Path;
use std::time::Duration;
use thermocline_admin::client::{CALL_TIME, Client};
use thermocline_blockcache::Settings;
use thermocline_engine::api::{Pool, Status};
use thermocline_ports::model::Profile;
use thermocline_sim::machine::{CachePlan, Load, PoolPlan, PoolSize};
use thermocline_trace::{ReadOptions, open};
use thermocline_units::{Bytes, Nanos};

/// Reads of a pool from which on their median tells what kind of device it is.
const READS: u64 = 100;

/// Device that a block cache is taken for.
const CACHE: &str = "nvme";

/// Kinds of devices that pools are taken for, with the latency in microseconds up to which a pool's
/// median read makes it one: geometric means between those of the profiles.
const KINDS: [(&str, f64); 4] =
    [("scm", 30.0), ("nvme", 81.0), ("ssd-sata", 1_100.0), ("hdd-7200", f64::INFINITY)];

/// The engine's status, and the load that its clients made in so long.
///
/// # Errors
/// When no engine is there, it is recorded already, or nobody asked for anything.
pub(super) fn sample(api: &Path, time: Nanos) -> Result<(Status, Load), CliError> {
    let seconds = time.as_secs_f64().round() as u64;
    if !(1..=600).contains(&seconds) {
        return Err(CliError::input("--live takes 1s to 10min"));
    }
    let client = Client::new(api).within(CALL_TIME + Duration::from_secs(seconds));
    let recording = client.bytes(&format!("/v1/sample?seconds={seconds}"))?;
    let status: Status = client.get("/v1/status")?;
    let source = Box::new(Cursor::new(recording));
    let mut reader = open(source, &api.display().to_string(), &ReadOptions::default())
        .map_err(CliError::failed)?;
    let load = Load::read(&mut *reader, &|_| ()).map_err(|error| {
        CliError::input(format!("{error}: clients asked for nothing in {seconds} s"))
    })?;
    Ok((status, load))
}

/// The engine's pools, fastest first, as modelled devices.
pub(super) fn pools(status: &Status) -> Vec<PoolPlan> {
    let serves = |pool: &&Pool| matches!(pool.state.as_str(), "active" | "suspect");
    let mut pools: Vec<&Pool> = status.pools.iter().filter(serves).collect();
    pools.sort_by_key(|pool| pool.rank);
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
