//! The rank of a pool that nobody gave one: by what reads of 4 KiB take, measured when it joins.
//!
//! 1. Random reads past the page cache, one after the other, of the media below the new pool and
//!    below those that are there; each medium is known by its median. The medium below a file is
//!    the block device that its file system is on. Where that cannot be read (a file system in
//!    memory, one of several devices, an engine that is not root) the file is: blocks that it has,
//!    since holes are answered by the file system; for a file without any, one beside it without a
//!    name gets some.
//! 2. The new pool goes before the first one from which on every pool takes at least [`SLOWER`]
//!    times as long. Two devices of one kind differ by less; the one that was there first stays
//!    before the other.
//! 3. A pool whose speed is not known is taken for as fast as the new one. Then nothing that
//!    stands before it is passed over.
//!
//! A pool that clients keep busy is measured with what they make it wait. An SSD answers reads of
//! what was never written faster than others, so a new one may come before its like. A medium
//! behind a cache is as fast as the cache.

use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thermocline_units::{Nanos, Rng};

/// A pool that takes so many times as long is slower.
const SLOWER: u64 = 2;
/// Bytes of a read.
const BLOCK: u64 = 4096;
/// Reads of a device, and the time after which no further one begins.
const READS: usize = 64;
const LONGEST: Duration = Duration::from_secs(1);

/// Ways to a pool's speed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Speed {
    /// Known: what a random read takes.
    Known(Nanos),
    /// A speed to be measured on this device.
    Measured(PathBuf),
    /// Not to be had.
    Unknown,
}

/// The pool that a new one shall come right before, and in words why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rank {
    pub(super) before: Option<String>,
    pub(super) why: String,
}

/// Finds the rank of a pool on `device`, which is blank, among `pools`, fastest first. `None`: its
/// speed cannot be measured.
pub(super) fn rank(device: &Path, pools: &[(String, Speed)]) -> Option<Rank> {
    let mut media = Media::default();
    let own = media.time(device, of_blank)?;
    let known: Vec<(&str, Option<Nanos>)> = pools
        .iter()
        .map(|(name, speed)| {
            let time = match speed {
                Speed::Known(time) => Some(*time),
                Speed::Measured(path) => media.time(path, of_data),
                Speed::Unknown => None,
            };
            (name.as_str(), time)
        })
        .collect();
    let before = place(own, &known).map(str::to_string);
    let told = |time: Option<Nanos>| time.map_or("unknown".to_string(), |time| time.to_string());
    let others: Vec<String> =
        known.iter().map(|(name, time)| format!("{name} {}", told(*time))).collect();
    let why = format!("a random read takes {own} there; {}", others.join(", "));
    Some(Rank { before, why })
}

/// The first pool from which on all are slower.
fn place<'a>(own: Nanos, pools: &[(&'a str, Option<Nanos>)]) -> Option<&'a str> {
    let slower = |time: &Option<Nanos>| time.is_some_and(|time| time.0 / SLOWER >= own.0);
    let slow_end = pools.iter().rev().take_while(|(_, time)| slower(time)).count();
    pools.get(pools.len() - slow_end).map(|(name, _)| *name)
}

/// Media that were measured: pools on one medium are equally fast.
#[derive(Default)]
struct Media(BTreeMap<PathBuf, Option<Nanos>>);

impl Media {
    /// Latency of the medium below a pool; where that cannot be read, what `otherwise` finds.
    fn time(
        &mut self,
        pool: &Path,
        otherwise: fn(&Path) -> io::Result<Option<Nanos>>,
    ) -> Option<Nanos> {
        let Some(medium) = medium_below(pool) else { return otherwise(pool).ok().flatten() };
        let measured = self.0.entry(medium).or_insert_with_key(|medium| of_data(medium).ok()?);
        measured.or_else(|| otherwise(pool).ok().flatten())
    }
}

/// The block device that a file's file system is on, or that the path is itself.
fn medium_below(path: &Path) -> Option<PathBuf> {
    let found = std::fs::metadata(path).ok()?;
    let device = if found.file_type().is_block_device() { found.rdev() } else { found.dev() };
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    // A file system without a device of its own has a number of this kind.
    (major != 0).then(|| PathBuf::from(format!("/dev/block/{major}:{minor}")))
}

/// The median of random reads where a file or device has data; `None`: it has none.
fn of_data(path: &Path) -> io::Result<Option<Nanos>> {
    reads(&past_the_page_cache(path)?)
}

/// The same of a file without data: of one beside it that is as long and has no name, and gets
/// some. Nothing is ever written to the pool itself: a device that hangs may be in service when the
/// write returns.
fn of_blank(path: &Path) -> io::Result<Option<Nanos>> {
    let file = past_the_page_cache(path)?;
    if let Some(time) = reads(&file)? {
        return Ok(Some(time));
    }
    let beside = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlags::TMPFILE.bits() as i32).mode(0o600);
    let writer = options.open(beside.unwrap_or(Path::new(".")))?;
    let length = file.metadata()?.len();
    writer.set_len(length)?;
    let blocks = length / BLOCK;
    let mut rng = Rng::seeded(blocks);
    let mut bytes = vec![0; BLOCK as usize];
    for _ in 0..READS {
        bytes.fill_with(|| rng.next_u64() as u8);
        writer.write_all_at(&bytes, rng.below(blocks.max(1)) * BLOCK)?;
    }
    writer.sync_all()?;
    reads(&past_the_page_cache(Path::new(&format!("/proc/self/fd/{}", writer.as_raw_fd())))?)
}

fn past_the_page_cache(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    match options.clone().custom_flags(OFlags::DIRECT.bits() as i32).open(path) {
        // File systems in memory have nothing to go past.
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            options.open(path)
        }
        opened => opened,
    }
}

fn reads(file: &File) -> io::Result<Option<Nanos>> {
    let size = seek(file, SeekFrom::End(0))?;
    let mut rng = Rng::seeded(size);
    let mut buffer = vec![0; 2 * BLOCK as usize];
    let aligned = buffer.as_ptr().align_offset(BLOCK as usize);
    let (mut times, started) = (Vec::new(), Instant::now());
    while times.len() < READS && started.elapsed() < LONGEST {
        let Some(at) = block_with_data(file, size, &mut rng)? else { return Ok(None) };
        let began = Instant::now();
        file.read_exact_at(&mut buffer[aligned..aligned + BLOCK as usize], at)?;
        times.push(Nanos(began.elapsed().as_nanos() as u64));
    }
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied())
}

/// A block that the file system has room for, at or behind a random place, or else from the start.
fn block_with_data(file: &File, size: u64, rng: &mut Rng) -> io::Result<Option<u64>> {
    let whole = size / BLOCK;
    if whole == 0 {
        return Ok(None);
    }
    for from in [rng.below(whole) * BLOCK, 0] {
        let start = match seek(file, SeekFrom::Data(from)) {
            Ok(start) => start.next_multiple_of(BLOCK),
            Err(Errno::NXIO) => continue, // no data behind it
            Err(Errno::INVAL) => return Ok(Some(from)), // a device: all is data
            Err(error) => return Err(error.into()),
        };
        let end = seek(file, SeekFrom::Hole(start)).unwrap_or(size).min(size);
        if let Some(blocks @ 1..) = end.checked_sub(start).map(|length| length / BLOCK) {
            return Ok(Some(start + rng.below(blocks) * BLOCK));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
