//! Profile of a modelled device: plain data, read from a profile file.
//!
//! The files in `profiles/` are built in; docs/formats/device-profile.md explains every field. A
//! profile says nothing about contents and nothing about a seed.

use super::keys::{Keys, ProfileError};
use super::spread::Spread;
use crate::SECTOR;
use std::ops::RangeInclusive;
use thermocline_units::{Bytes, Nanos, nearest};

/// A device to model.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Description in one line.
    pub about: String,
    /// Usable bytes; whoever builds a pool may change it, best with [`Profile::with_size`].
    pub size: Bytes,
    /// True if a discarded range reads as zeroes.
    pub discard_zeroes: bool,
    /// Endurance: times its size that may be written to it a day, for as long as its maker answers
    /// for it; `None`: not known, or no limit.
    pub writes_a_day: Option<f64>,
    /// The medium, which says how requests are served.
    pub medium: Medium,
}

/// The families of media.
#[derive(Debug, Clone, PartialEq)]
pub enum Medium {
    /// Equal servers behind a shared bandwidth: storage-class memory.
    Parallel(Parallel),
    /// Dies behind a flash translation layer.
    Flash(Flash),
    /// A head over a spinning disk.
    Disk(Disk),
    /// Objects behind a link.
    Object(Object),
}

/// The part that all requests of one direction share: commands and bytes go through one after the
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// Bytes per second.
    pub bytes_per_s: u64,
    /// Time a request takes in addition, whatever its size.
    pub command: Nanos,
}

/// Storage-class memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Parallel {
    /// Requests served at a time.
    pub servers: u32,
    /// The lane of reads.
    pub read: Lane,
    /// The lane of writes.
    pub write: Lane,
    /// Time a server takes for a read, mean.
    pub read_service: Nanos,
    /// Time a server takes for a write, mean.
    pub write_service: Nanos,
    /// Bytes per second between one server and the lane; `None`: no limit beside the lane's.
    pub server_bytes_per_s: Option<u64>,
    /// Distribution of service times around their mean.
    pub spread: Spread,
}

/// Flash memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Flash {
    /// The lane of reads.
    pub read: Lane,
    /// The lane of writes.
    pub write: Lane,
    /// Delay of every read beside lane and die.
    pub read_overhead: Nanos,
    /// Delay of a write until it is acknowledged from the buffer.
    pub write_overhead: Nanos,
    /// Distribution of delays and page reads around their mean.
    pub spread: Spread,
    /// Bytes of the write buffer.
    pub buffer: Bytes,
    /// True if buffered writes survive a power failure, so that a flush has nothing to do.
    pub power_loss_protection: bool,
    /// Dies that work at a time.
    pub dies: u32,
    /// Planes of a die, which read and program together.
    pub planes: u32,
    /// Bytes per second between a die and the controller.
    pub die_bytes_per_s: u64,
    /// Time to read a page into the die's register (tR).
    pub sense: Nanos,
    /// Time to program a page on all planes (tPROG).
    pub program: Nanos,
    /// Time to erase a block (tERASE).
    pub erase: Nanos,
    /// Longest that a read waits for a program or an erase, which is then suspended.
    pub suspend: Nanos,
    /// Bytes that the translation layer maps at a time.
    pub page: Bytes,
    /// Mapped pages that are programmed together on one die.
    pub program_pages: u32,
    /// Mapped pages in an erase block of all planes.
    pub block_pages: u32,
    /// Physical over logical space, minus one.
    pub over_provisioning: f64,
    /// True if every page has been written once, in order, before time zero.
    pub preconditioned: bool,
}

/// A disk.
#[derive(Debug, Clone, PartialEq)]
pub struct Disk {
    /// Revolutions per minute.
    pub rpm: u32,
    /// Shortest seek.
    pub seek_min: Nanos,
    /// Time that the square root of the distance, as a share of the stroke, adds to it.
    pub seek_stroke: Nanos,
    /// Bytes per second at the outer edge, where addresses begin.
    pub outer_bytes_per_s: u64,
    /// Bytes per second at the inner edge.
    pub inner_bytes_per_s: u64,
    /// Time from a command to the first movement.
    pub overhead: Nanos,
    /// Requests among which the disk chooses the next.
    pub queue_depth: u32,
    /// Age at which a request goes first, whatever its place.
    pub age_max: Nanos,
    /// Bytes read ahead of a sequential stream.
    pub read_ahead: Bytes,
    /// Shingled tracks, where it has them.
    pub shingles: Option<Shingles>,
}

/// Shingled recording behind a persistent cache on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shingles {
    /// Bytes that must be written as a whole.
    pub band: Bytes,
    /// Bytes of the persistent cache.
    pub cache: Bytes,
    /// Idle time after which cleaning begins by itself.
    pub idle_after: Nanos,
}

/// An object store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Median time to the first byte.
    pub first_byte_median: Nanos,
    /// 99th percentile of the time to the first byte.
    pub first_byte_p99: Nanos,
    /// Bytes per second of one stream.
    pub stream_bytes_per_s: u64,
    /// The link, from the store.
    pub read: Lane,
    /// The link, to the store.
    pub write: Lane,
}

/// Drive writes a day.
const WRITES_A_DAY: RangeInclusive<f64> = 0.001..=1000.0;

/// Sizes of devices.
const SIZES: RangeInclusive<u64> = 1 << 20..=1 << 50;

/// Reads the table of one family.
type ReadMedium = fn(&mut Keys) -> Result<Medium, ProfileError>;

macro_rules! built_in {
    ($($name:literal),+) => {
        &[$(($name, include_str!(concat!("../../profiles/", $name, ".toml")))),+]
    };
}

/// The profiles that come with the program, fastest first.
const BUILT_IN: &[(&str, &str)] = built_in!(
    "scm",
    "nvme",
    "nvme-pcie3",
    "ssd-sata",
    "hdd-15k",
    "hdd-7200",
    "smr-7200",
    "s3",
    "s3-1gbps",
    "s3-200mbps"
);

impl Profile {
    /// Names of the built-in profiles, fastest first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The built-in profile called `name`.
    ///
    /// # Errors
    /// When there is none; the message names the nearest one.
    pub fn built_in(name: &str) -> Result<Profile, ProfileError> {
        match BUILT_IN.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => Profile::parse(text, name),
            None => Err(ProfileError::unknown(name, nearest(name, Profile::names()))),
        }
    }

    /// Reads a profile; `origin` is what messages call it, a file's name for example.
    ///
    /// # Errors
    /// When the text is no TOML, a key is unknown or missing, or a value is out of its range; the
    /// message names the line.
    pub fn parse(text: &str, origin: &str) -> Result<Profile, ProfileError> {
        let mut keys = Keys::parse(text, origin)?;
        let about = keys.text("about")?;
        let size = keys.bytes("size", SIZES)?;
        let discard_zeroes = keys.flag("discard-zeroes")?;
        let writes_a_day = keys.number_if_any("writes-a-day", WRITES_A_DAY)?;
        let media: [(&str, ReadMedium); 4] = [
            ("parallel", |keys| parallel(keys).map(Medium::Parallel)),
            ("flash", |keys| flash(keys).map(Medium::Flash)),
            ("disk", |keys| disk(keys).map(Medium::Disk)),
            ("object", |keys| object(keys).map(Medium::Object)),
        ];
        let mut found = None;
        for (name, read) in media {
            if let Some(mut table) = keys.table_if_any(name)? {
                let medium = read(&mut table)?;
                table.finish()?;
                if found.replace(medium).is_some() {
                    return Err(table.problem("a device has one medium; keep one table of them"));
                }
            }
        }
        keys.finish()?;
        let Some(medium) = found else {
            let wanted = "add a table [parallel], [flash], [disk] or [object]";
            return Err(keys.problem(wanted));
        };
        let profile = Profile { about, size, discard_zeroes, writes_a_day, medium };
        profile.check_size().map_err(|problem| keys.problem(problem))?;
        Ok(profile)
    }

    /// True if such a device lies across a network ([`Geometry::far`](crate::Geometry::far)).
    pub fn is_far(&self) -> bool {
        matches!(self.medium, Medium::Object(_))
    }

    /// The same device with another size.
    ///
    /// # Errors
    /// When the size is not made of whole sectors, not from 1 MiB to 1 PiB, or too large for the
    /// medium: flash has at most 2³² physical pages.
    pub fn with_size(&self, size: Bytes) -> Result<Profile, ProfileError> {
        let profile = Profile { size, ..self.clone() };
        match profile.check_size() {
            Ok(()) => Ok(profile),
            Err(problem) => Err(ProfileError { origin: self.about.clone(), problem }),
        }
    }

    /// The fault in the size, if any.
    pub(super) fn check_size(&self) -> Result<(), String> {
        let size = self.size;
        if !SIZES.contains(&size.0) || !size.0.is_multiple_of(u64::from(SECTOR)) {
            let (low, high) = (Bytes(*SIZES.start()), Bytes(*SIZES.end()));
            return Err(format!("a size of {size} is not whole sectors from {low} to {high}"));
        }
        match &self.medium {
            Medium::Flash(flash) if flash.physical_pages_max(size) >= u64::from(u32::MAX) => {
                let page = flash.page;
                Err(format!("{size} are too many pages of {page}; take larger ones (`page`)"))
            }
            _ => Ok(()),
        }
    }
}

impl Flash {
    /// No device of this profile and `size` has more pages, spare ones included.
    fn physical_pages_max(&self, size: Bytes) -> u64 {
        let in_order = size.0.div_ceil(self.page.0) + u64::from(self.dies * self.program_pages);
        let spare = u64::from(self.dies) * u64::from(self.block_pages) * 8;
        (in_order as f64 * (1.0 + self.over_provisioning)) as u64 + spare
    }
}

fn lane(keys: &mut Keys, name: &str) -> Result<Lane, ProfileError> {
    let mut table = keys.table(name)?;
    let lane = Lane { bytes_per_s: table.rate("mb-per-s")?, command: table.time("command")? };
    table.finish()?;
    Ok(lane)
}

fn parallel(keys: &mut Keys) -> Result<Parallel, ProfileError> {
    Ok(Parallel {
        servers: keys.count("servers", 1..=1024)?,
        read: lane(keys, "read")?,
        write: lane(keys, "write")?,
        read_service: keys.time("read-service")?,
        write_service: keys.time("write-service")?,
        server_bytes_per_s: keys.rate_if_any("server-mb-per-s")?,
        spread: keys.spread("spread")?,
    })
}

fn flash(keys: &mut Keys) -> Result<Flash, ProfileError> {
    let flash = Flash {
        read: lane(keys, "read")?,
        write: lane(keys, "write")?,
        read_overhead: keys.time("read-overhead")?,
        write_overhead: keys.time("write-overhead")?,
        spread: keys.spread("spread")?,
        buffer: keys.bytes("buffer", 1 << 16..=1 << 34)?,
        power_loss_protection: keys.flag("power-loss-protection")?,
        dies: keys.count("dies", 1..=4096)?,
        planes: keys.count("planes", 1..=16)?,
        die_bytes_per_s: keys.rate("die-mb-per-s")?,
        sense: keys.time("sense")?,
        program: keys.time("program")?,
        erase: keys.time("erase")?,
        suspend: keys.time("suspend")?,
        page: keys.bytes("page", 1 << 12..=1 << 20)?,
        program_pages: keys.count("program-pages", 1..=256)?,
        block_pages: keys.count("block-pages", 8..=1 << 16)?,
        over_provisioning: keys.number("over-provisioning", 0.02..=10.0)?,
        preconditioned: keys.flag("preconditioned")?,
    };
    let batch = u64::from(flash.program_pages) * flash.page.0;
    if !flash.page.0.is_power_of_two() {
        return Err(keys.problem("`page` must be a power of two"));
    }
    if !flash.block_pages.is_multiple_of(flash.program_pages) {
        return Err(keys.problem("`block-pages` must be a multiple of `program-pages`"));
    }
    if flash.buffer.0 < 2 * batch * u64::from(flash.dies) {
        let wanted = "`buffer` must hold two programs (`program-pages` × `page`) of every die";
        return Err(keys.problem(wanted));
    }
    Ok(flash)
}

fn disk(keys: &mut Keys) -> Result<Disk, ProfileError> {
    let shingles = match keys.table_if_any("shingles")? {
        None => None,
        Some(mut table) => {
            let shingles = Shingles {
                band: table.bytes("band", 1 << 20..=1 << 32)?,
                cache: table.bytes("cache", 1 << 20..=1 << 40)?,
                idle_after: table.time("idle-after")?,
            };
            table.finish()?;
            Some(shingles)
        }
    };
    Ok(Disk {
        rpm: keys.count("rpm", 1000..=30_000)?,
        seek_min: keys.time("seek-min")?,
        seek_stroke: keys.time("seek-stroke")?,
        outer_bytes_per_s: keys.rate("outer-mb-per-s")?,
        inner_bytes_per_s: keys.rate("inner-mb-per-s")?,
        overhead: keys.time("overhead")?,
        queue_depth: keys.count("queue-depth", 1..=256)?,
        age_max: keys.time("age-max")?,
        read_ahead: keys.bytes("read-ahead", 0..=1 << 30)?,
        shingles,
    })
}

fn object(keys: &mut Keys) -> Result<Object, ProfileError> {
    let object = Object {
        first_byte_median: keys.time("first-byte-median")?,
        first_byte_p99: keys.time("first-byte-p99")?,
        stream_bytes_per_s: keys.rate("stream-mb-per-s")?,
        read: lane(keys, "read")?,
        write: lane(keys, "write")?,
    };
    if object.first_byte_median.0 == 0 || object.first_byte_p99 < object.first_byte_median {
        let wanted = "`first-byte-median` must be above zero and not above `first-byte-p99`";
        return Err(keys.problem(wanted));
    }
    Ok(object)
}
