//! `[pool.s3]`: how the bucket is asked that a pool's `path` names.

use super::keys::{At, ConfigError, Keys};
use super::read::quantity_or_none;
use std::path::{Path, PathBuf};
use thermocline_engine::pools::{BucketConfig, DeviceConfig};
use thermocline_ports::model::LinkProfile;
use thermocline_ports_os::Patience;
use thermocline_ports_os::objects::format::{EXTENT_BYTES, EXTENTS_MAX};
use thermocline_ports_os::objects::{BucketOptions, Limits, Prices};
use thermocline_units::{Bytes, Nanos};

/// Beginning of the paths of buckets.
pub(super) const SCHEME: &str = "s3://";
/// Writes held in memory.
const BUFFER: Bytes = Bytes::from_mib(64);
/// Bytes read ahead of a stream of reads.
const READ_AHEAD: Bytes = Bytes::from_mib(8);
/// Time that flushes wait for a store that fails.
const PATIENCE: Nanos = Nanos::from_secs(24 * 3600);
/// Extents that this must have room for: one on its way, one over it, and their neighbours.
const BUFFER_EXTENTS_MIN: u64 = 4;
/// Longest deadlines, and times of tries.
const SPAN_MAX: Nanos = Nanos::from_secs(3600);

/// True if a device's path names a bucket.
pub(super) fn is_in_one(device: &DeviceConfig) -> bool {
    device.path.to_str().is_some_and(|path| path.starts_with(SCHEME))
}

/// The bucket that a pool's device is in, if it is in one.
pub(super) fn bucket(
    keys: &mut Keys<'_>,
    device: &DeviceConfig,
    beside: &Path,
    memory: PathBuf,
    chunk_size: Bytes,
) -> Result<Option<BucketConfig>, ConfigError> {
    let table = keys.table_if_any("s3")?;
    if !is_in_one(device) {
        return match table {
            None => Ok(None),
            Some(table) => Err(table.problem("[pool.s3] needs `path = \"s3://BUCKET/PREFIX\"`")),
        };
    }
    let path = device.path.to_string_lossy();
    let url = path.parse().map_err(|error| keys.problem(format!("`path` is `{path}`; {error}")))?;
    if device.emulate.is_some() || device.buffered {
        let wrong = "a pool in a bucket has neither `emulate` nor `buffered`; `link` slows it";
        return Err(keys.problem(wrong));
    }
    if device.patience != Patience::DEFAULT {
        let wrong = "a pool in a bucket has neither `suspect-after` nor `fail-after`; \
                     [pool.s3] has `patience`";
        return Err(keys.problem(wrong));
    }
    let extents = device.size.map_or(1, |size| size.0 / chunk_size.0 + 2);
    if u32::try_from(chunk_size.0).map_or(true, |size| !EXTENT_BYTES.contains(&size))
        || extents >= EXTENTS_MAX
    {
        let most = Bytes(chunk_size.0.saturating_mul(EXTENTS_MAX - 3));
        return Err(
            keys.problem(format!("with chunks of {chunk_size} a bucket takes up to {most}"))
        );
    }
    let options = BucketOptions::new(url);
    let least = Bytes(chunk_size.0 * BUFFER_EXTENTS_MIN);
    let (buffer, patience) = (BUFFER.max(least), PATIENCE);
    let read_ahead = READ_AHEAD;
    let default = BucketConfig { options, buffer, read_ahead, patience, memory };
    match table {
        Some(table) => read(table, default, beside, least).map(Some),
        None => Ok(Some(default)),
    }
}

fn read(
    mut keys: Keys<'_>,
    mut bucket: BucketConfig,
    beside: &Path,
    least: Bytes,
) -> Result<BucketConfig, ConfigError> {
    let options = &mut bucket.options;
    options.allow_http = keys.flag("allow-http")?.unwrap_or(false);
    if let Some(endpoint) = keys.text("endpoint")? {
        options.endpoint = Some(endpoint.value);
        let checked = options.check_endpoint();
        checked.map_err(|problem| keys.file.problem(endpoint.line, problem))?;
    }
    options.region = keys.text("region")?.map(|region| region.value);
    options.virtual_host = keys.flag("virtual-host")?.unwrap_or(false);
    options.ca_file = keys.text("ca-file")?.map(|path| beside.join(path.value));
    options.limits = limits(&mut keys)?;
    options.link = link(&mut keys)?;
    options.prices = prices(&mut keys)?;
    let wanted = format!("a size from {least}, four chunks, to 64GiB");
    let fits = |size: &Bytes| (least..=Bytes::from_gib(64)).contains(size);
    if let Some(size) = keys.quantity("buffer", &wanted, fits)? {
        bucket.buffer = size.value;
    }
    let wanted =
        "`read-ahead` must be a size from 1MiB to 1GiB, such as \"8MiB\", or \"none\"".to_string();
    let fits = |size: &Bytes| (Bytes::from_mib(1)..=Bytes::from_gib(1)).contains(size);
    if let Some(size) = quantity_or_none(&mut keys, "read-ahead", wanted, fits)? {
        bucket.read_ahead = size.unwrap_or(Bytes(0));
    }
    let wanted = "a time up to 1000h, such as \"24h\"";
    let fits = |span: &Nanos| *span <= Nanos::from_secs(1000 * 3600);
    if let Some(span) = keys.quantity("patience", wanted, fits)? {
        bucket.patience = span.value;
    }
    keys.finish()?;
    Ok(bucket)
}

fn limits(keys: &mut Keys<'_>) -> Result<Limits, ConfigError> {
    let mut limits = Limits::default();
    limits.connections = keys.count("connections", 1..=1024)?.unwrap_or(limits.connections);
    limits.requests_per_s = keys.count("requests-per-s", 1..=1_000_000)?;
    let wanted = "bytes a second from 64KiB on, such as \"16MiB\"";
    let fits = |rate: &Bytes| *rate >= Bytes::from_kib(64);
    limits.bytes_per_s = keys.quantity("bytes-per-s", wanted, fits)?.map(|rate| rate.value);
    let fits = |span: &Nanos| span.0 >= 1_000_000 && *span <= SPAN_MAX;
    let mut span = |key, default: Nanos| {
        let wanted = "a time from 1ms to 1h, such as \"20s\"";
        Ok::<_, ConfigError>(keys.quantity(key, wanted, fits)?.map_or(default, |span| span.value))
    };
    limits.deadline = span("deadline", limits.deadline)?;
    limits.retry_for = span("retry-for", limits.retry_for)?;
    limits.retries = keys.count("retries", 0..=100)?.unwrap_or(limits.retries);
    Ok(limits)
}

/// An emulated link in front of the store.
fn link(keys: &mut Keys<'_>) -> Result<Option<LinkProfile>, ConfigError> {
    let rate = keys.bandwidth("link")?;
    let fits = |span: &Nanos| *span <= Nanos::from_secs(10);
    let latency = keys.quantity("link-latency", "a time up to 10s, such as \"5ms\"", fits)?;
    let Some(At { value: bytes_per_s, .. }) = rate else {
        return match latency {
            Some(At { line, .. }) => {
                Err(keys.file.problem(line, "`link-latency` needs a `link`: its bandwidth"))
            }
            None => Ok(None),
        };
    };
    let latency = latency.map_or(Nanos(0), |latency| latency.value);
    Ok(Some(LinkProfile::new(bytes_per_s, latency)))
}

fn prices(keys: &mut Keys<'_>) -> Result<Prices, ConfigError> {
    let mut price = |key| {
        let fits = |price: f64| (0.0..=1e6).contains(&price);
        let wanted = "a price from 0 to 1000000, in whatever currency";
        Ok::<_, ConfigError>(keys.number(key, wanted, fits)?.unwrap_or(0.0))
    };
    Ok(Prices {
        puts_1000: price("price-put-1000")?,
        gets_1000: price("price-get-1000")?,
        download_gib: price("price-download-gib")?,
        month_gib: price("price-month-gib")?,
    })
}
