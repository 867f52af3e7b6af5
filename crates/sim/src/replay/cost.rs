//! The I/O cost model of Tai 2015 §4.2.3.1 (eq. 21, Tables 10 and 11), from a device profile that
//! is data.
//!
//! Printed twice. *As the source charges it*: caches in 4 KiB I/Os, flash managers in 128 KiB
//! I/Os, all random, each alone. *At real sizes*: every I/O at the size the device
//! would see, contiguous lines of a request as one, sequential where the disk's head already is,
//! for caches and flash managers alike; part of the source's advantage is the difference of the
//! two.

use super::counts::{Counts, Traffic};
use serde::Deserialize;
use thermocline_units::{Bytes, Nanos};

/// Mean latencies of a device at two sizes, in µs.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latencies {
    /// 4 KiB sequential.
    pub sequential_4k: f64,
    /// 128 KiB sequential.
    pub sequential_128k: f64,
    /// 4 KiB random.
    pub random_4k: f64,
    /// 128 KiB random.
    pub random_128k: f64,
}

/// A flash device and the disk behind it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name of what was measured, and where the numbers come from.
    pub name: String,
    /// Flash reads, µs.
    pub flash_read: Latencies,
    /// Flash writes, µs.
    pub flash_write: Latencies,
    /// Disk reads, µs.
    pub disk_read: Latencies,
    /// Disk writes, µs.
    pub disk_write: Latencies,
    /// Positioning time of the disk-head metric, ms an I/O.
    pub head_positioning_ms: f64,
    /// Transfer rate of the disk-head metric, MB/s.
    pub head_transfer_mb_per_s: f64,
}

const KIB_4: f64 = 4096.0;
const KIB_128: f64 = 131_072.0;

/// The source's own devices: its Table 11.
pub(crate) const SOURCE_PROFILE: &str = include_str!("s3500-wd20eurs.toml");

/// A profile that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct ProfileError {
    /// The file's name.
    pub origin: String,
    /// The fault, with its line.
    pub problem: String,
}

/// Time in the two accountings, and the wear and head metrics.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Cost as the source charges it.
    pub source: Nanos,
    /// At real sizes.
    pub real: Nanos,
    /// Disk-head time: positioning for each seek plus transfer (Baleen, FAST'24).
    pub disk_head: Nanos,
    /// Bytes written to flash: its wear.
    pub flash_written: Bytes,
}

impl Profile {
    /// Reads a profile from TOML.
    ///
    /// # Errors
    /// When the text is not a profile, a key is unknown or missing, or a number is not positive.
    pub fn parse(text: &str, origin: &str) -> Result<Profile, ProfileError> {
        let error = |problem: String| ProfileError { origin: origin.to_string(), problem };
        let profile: Profile = toml::from_str(text).map_err(|e| error(e.to_string()))?;
        let latencies =
            [profile.flash_read, profile.flash_write, profile.disk_read, profile.disk_write];
        let numbers = latencies
            .iter()
            .flat_map(|l| [l.sequential_4k, l.sequential_128k, l.random_4k, l.random_128k])
            .chain([profile.head_positioning_ms, profile.head_transfer_mb_per_s]);
        for number in numbers {
            if !(number.is_finite() && number > 0.0) {
                return Err(error(format!("{number} is not a positive number")));
            }
        }
        Ok(profile)
    }

    /// The source's devices.
    pub fn source() -> Profile {
        Profile::parse(SOURCE_PROFILE, "built in").expect("the built-in profile is read by a test")
    }

    /// The cost of what was counted. `io_bytes` is the size the source charges: 4 KiB for caches,
    /// 128 KiB for flash managers.
    pub fn cost(&self, counts: &Counts, io_bytes: Bytes) -> Cost {
        let at = |l: &Latencies| line(l.random_4k, l.random_128k, 1, io_bytes.0);
        let n = &counts.source;
        let source = n.flash_reads as f64 * at(&self.flash_read)
            + n.flash_writes as f64 * at(&self.flash_write)
            + n.disk_reads as f64 * at(&self.disk_read)
            + n.disk_writes as f64 * at(&self.disk_write);
        let real = time(&self.flash_read, &counts.flash_reads)
            + time(&self.flash_write, &counts.flash_writes)
            + time(&self.disk_read, &counts.disk.reads)
            + time(&self.disk_write, &counts.disk.writes);
        Cost {
            source: micros(source),
            real: micros(real),
            disk_head: self.disk_head(counts),
            flash_written: counts.flash_writes.bytes(),
        }
    }

    fn disk_head(&self, counts: &Counts) -> Nanos {
        let seeks = counts.disk.reads.random + counts.disk.writes.random;
        let bytes = counts.disk.reads.bytes().0 + counts.disk.writes.bytes().0;
        let transfer_us = bytes as f64 / self.head_transfer_mb_per_s;
        micros(seeks as f64 * self.head_positioning_ms * 1e3 + transfer_us)
    }
}

/// µs for `ios` of `bytes` in all: a line through the two measured sizes. I/Os below
/// 4 KiB are charged as 4 KiB.
fn line(at_4k: f64, at_128k: f64, ios: u64, bytes: u64) -> f64 {
    let slope = (at_128k - at_4k) / (KIB_128 - KIB_4);
    let ios = ios as f64;
    ios * at_4k + (bytes as f64 - ios * KIB_4).max(0.0) * slope
}

fn time(latencies: &Latencies, traffic: &Traffic) -> f64 {
    let l = latencies;
    line(l.random_4k, l.random_128k, traffic.random, traffic.random_bytes)
        + line(l.sequential_4k, l.sequential_128k, traffic.sequential, traffic.sequential_bytes)
}

fn micros(us: f64) -> Nanos {
    Nanos((us * 1e3) as u64)
}
