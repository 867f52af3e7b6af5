//! The log of what devices were asked, in the order in which they did it, and what they hold when
//! power fails at some point of it.
//!
//! 1. An entry is 24 bytes, little-endian: kind, device, 6 bytes of nothing, first sector, number
//!    of sectors; behind a write are its contents. A mark has its number instead of a sector.
//! 2. A write with FUA is durable when it is logged. A plain one is from the next flush of its
//!    device on; until then any of its sectors may be lost, whatever became of others. Those that
//!    are not lost appear in the order of the log.
//! 3. What is discarded may stay as it was, and may read as zeroes.
//!
//! The kernel's `dm-log-writes` was tried first and cannot be used: it logs a write with FUA at
//! once and an older plain one only with the next flush, so that their order is lost where they
//! overlap; and it does not tell which of several pools was flushed.

use crate::torture::ledger::Dice;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a sector.
pub(super) const SECTOR: u64 = 512;
/// Bytes of an entry without its contents.
const HEAD: u64 = 24;
/// The kernel asks for no more in one request; a larger entry is not one.
const LARGEST: u64 = 1 << 26;

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Write,
    /// Durable when it ends.
    WriteForced,
    Discard,
    Flush,
    /// A mark of the verifier; its number stands for the sector.
    Mark,
}

const KINDS: [Kind; 5] = [Kind::Write, Kind::WriteForced, Kind::Discard, Kind::Flush, Kind::Mark];

/// Action of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) device: u8,
    pub(super) sector: u64,
    pub(super) sectors: u64,
}

impl Entry {
    fn head(&self) -> [u8; HEAD as usize] {
        let mut head = [0; HEAD as usize];
        head[0] = KINDS.iter().position(|kind| *kind == self.kind).unwrap_or(KINDS.len()) as u8;
        head[1] = self.device;
        head[8..16].copy_from_slice(&self.sector.to_le_bytes());
        head[16..].copy_from_slice(&self.sectors.to_le_bytes());
        head
    }

    fn parse(head: &[u8; HEAD as usize]) -> Option<Entry> {
        let kind = *KINDS.get(usize::from(head[0]))?;
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight"));
        let entry = Entry { kind, device: head[1], sector: word(8), sectors: word(16) };
        (entry.sectors <= LARGEST).then_some(entry)
    }

    fn has_contents(&self) -> bool {
        matches!(self.kind, Kind::Write | Kind::WriteForced)
    }
}

/// A log that is being written.
pub(super) struct Writer(BufWriter<File>);

impl Writer {
    pub(super) fn create(path: &Path) -> std::io::Result<Writer> {
        Ok(Writer(BufWriter::with_capacity(1 << 20, File::create(path)?)))
    }

    pub(super) fn push(&mut self, entry: &Entry, contents: &[u8]) -> std::io::Result<()> {
        self.0.write_all(&entry.head())?;
        self.0.write_all(contents)
    }

    pub(super) fn end(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// A log that is open: entries, and where in the file the contents of each are.
pub(super) struct Log {
    file: File,
    pub(super) entries: Vec<(Entry, u64)>,
}

impl Log {
    /// # Errors
    ///
    /// What is there is no log, or a damaged one.
    pub(super) fn open(path: &Path) -> Result<Log, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let file = File::open(path).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        let (mut entries, mut at) = (Vec::new(), 0);
        while at < size {
            let mut head = [0; HEAD as usize];
            file.read_exact_at(&mut head, at).map_err(failed)?;
            let entry = Entry::parse(&head);
            let entry = entry.ok_or_else(|| format!("the log at {at}: no entry"))?;
            entries.push((entry, at + HEAD));
            at += HEAD + if entry.has_contents() { entry.sectors * SECTOR } else { 0 };
        }
        Ok(Log { file, entries })
    }

    fn contents(&self, (entry, at): &(Entry, u64)) -> Result<Vec<u8>, String> {
        let mut contents = vec![0; (entry.sectors * SECTOR) as usize];
        if entry.has_contents() {
            self.file.read_exact_at(&mut contents, *at).map_err(|e| format!("the log: {e}"))?;
        }
        Ok(contents)
    }
}

/// Fate of writes that were not flushed when power fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rest {
    Lost,
    Kept,
    /// Each write is lost or kept, by this seed.
    ByWrites(u64),
    /// Each of their sectors is.
    BySectors(u64),
}

/// A moment at which power fails: behind so many entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub(super) entries: usize,
    pub(super) rest: Rest,
}

/// One device: what is durable, and the entries since its last flush.
struct Device {
    durable: Vec<u8>,
    since: Vec<usize>,
}

/// Devices of a log as time goes on.
pub(super) struct Devices<'a> {
    log: &'a Log,
    devices: Vec<Device>,
    done: usize,
    /// One of so many plain writes is forgotten, although it was flushed; 0: none.
    forgets: u64,
}

impl<'a> Devices<'a> {
    /// Devices of so many bytes each.
    pub(super) fn new(log: &'a Log, bytes: &[u64], forgets: u64) -> Devices<'a> {
        let device = |bytes: &u64| Device { durable: vec![0; *bytes as usize], since: Vec::new() };
        Devices { log, devices: bytes.iter().map(device).collect(), done: 0, forgets }
    }

    /// Contents when power fails at this point, which is not before the last one.
    pub(super) fn at(&mut self, point: Point) -> Result<Vec<Vec<u8>>, String> {
        while self.done < point.entries {
            self.advance()?;
        }
        let mut dice = match point.rest {
            Rest::ByWrites(seed) | Rest::BySectors(seed) => Dice::new(seed),
            Rest::Lost | Rest::Kept => Dice::new(0),
        };
        let mut images = Vec::new();
        for device in &self.devices {
            let mut image = device.durable.clone();
            for &index in &device.since {
                let whole = dice.below(2) == 0;
                self.apply(index, &mut image, || match point.rest {
                    Rest::Lost => false,
                    Rest::Kept => true,
                    Rest::ByWrites(_) => whole,
                    Rest::BySectors(_) => dice.below(2) == 0,
                })?;
            }
            images.push(image);
        }
        Ok(images)
    }

    fn advance(&mut self) -> Result<(), String> {
        let (entry, _) = self.log.entries[self.done];
        let device = usize::from(entry.device);
        if device >= self.devices.len() {
            return Err(format!("entry {}: there is no device {device}", self.done));
        }
        match entry.kind {
            Kind::Mark => {}
            Kind::Write | Kind::WriteForced | Kind::Discard => {
                self.devices[device].since.push(self.done);
            }
            Kind::Flush => {
                let since = std::mem::take(&mut self.devices[device].since);
                let mut image = std::mem::take(&mut self.devices[device].durable);
                for index in since {
                    let dice = &mut Dice::new(index as u64);
                    let lies = self.forgets != 0 && dice.below(self.forgets) == 0;
                    self.apply(index, &mut image, || !lies)?;
                }
                self.devices[device].durable = image;
            }
        }
        self.done += 1;
        Ok(())
    }

    /// Does an entry to an image of its device: what is forced, always, of the rest the sectors
    /// that are kept.
    fn apply(
        &self,
        index: usize,
        image: &mut [u8],
        mut keeps: impl FnMut() -> bool,
    ) -> Result<(), String> {
        let (entry, at) = self.log.entries[index];
        let contents = self.log.contents(&(entry, at))?;
        let start = (entry.sector * SECTOR) as usize;
        let place = image.get_mut(start..start + contents.len());
        let place = place.ok_or_else(|| format!("entry {index}: no such sectors"))?;
        let forced = entry.kind == Kind::WriteForced;
        let pieces = place.chunks_exact_mut(SECTOR as usize);
        for (place, contents) in pieces.zip(contents.chunks_exact(SECTOR as usize)) {
            if forced || keeps() {
                place.copy_from_slice(contents);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
