//! Surveys of the file systems on volumes: what they keep where becomes hints.
//!
//! A thread of its own reads each volume through the engine, in the background, as a client would;
//! while file systems are mounted and written to. What changed since the last round is said to the
//! engine: metadata, and of files size, name and directory (HintStor, Ge et al. 2022 §3.4, without
//! patching kernels). Its source is called `fs/VOLUME`, with `+OFFSET` for a file system in a
//! partition.
//!
//! A volume without a file system that is known, or that cannot be read, is looked at again in the
//! next round. What was said of a file system that is not there any more is withdrawn. Nothing
//! depends on it.

use crate::mailbox::Mailbox;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use thermocline_fs::{
    Blocks, Catalog, Entry, FileId, Found, Limits, ReadError, Stretch, Survey, systems,
};
use thermocline_policy::hints::Facts;
use thermocline_units::{Bytes, VolumeId};

/// Statements that the engine takes between two of its rounds.
const AT_ONCE: usize = 256;
/// Bytes of the longest path of a directory that is said; of one that is deeper, the beginning.
/// Linux takes no longer path, but directories can be deeper than that.
const PATH_MAX: usize = 4096;
/// Directories whose paths are held at once: 4 MiB at most, thrice that where they are not UTF-8.
const DIRECTORIES_MAX: usize = 1024;
/// The unit of requests.
const SECTOR: u64 = 512;
/// A read that takes longer has been lost with its engine.
const LOST: Duration = Duration::from_secs(60);

/// News of a survey about a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Surveyed {
    /// All that it said is void.
    Anew,
    /// Bytes of which everything said before is void.
    Void(Range<u64>),
    /// Facts about bytes.
    Here(Range<u64>, Facts),
}

/// The engine has stopped.
struct Stopped;

/// Surveys the volumes of an engine every so often, from a thread of its own that ends with it.
///
/// # Errors
/// When the system gives no thread.
pub fn begin(mailbox: Mailbox, every: Duration) -> std::io::Result<()> {
    let work = move || {
        let mut surveyor = Surveyor { mailbox, known: BTreeMap::new() };
        while surveyor.round().is_ok() {
            std::thread::sleep(every);
        }
    };
    std::thread::Builder::new().name("survey".to_string()).spawn(work).map(|_| ())
}

/// A volume, as a survey reads it.
struct Volume {
    mailbox: Mailbox,
    id: VolumeId,
    size: Bytes,
}

impl Blocks for Volume {
    fn size(&self) -> Bytes {
        self.size
    }

    fn read_at(&mut self, offset: Bytes, into: &mut [u8]) -> Result<(), ReadError> {
        let start = offset.0 / SECTOR * SECTOR;
        let end = (offset.0 + into.len() as u64).next_multiple_of(SECTOR).min(self.size.0);
        let (length, volume) = ((end - start) as u32, self.id);
        let (tell, told) = channel();
        self.mailbox.send(move |admin| {
            let read = Box::new(move |read| {
                let _ = tell.send(read); // Whoever asked may have given up.
            });
            admin.read_back(volume, Bytes(start), length, read);
        });
        let read = told.recv_timeout(LOST).map_err(|error| match error {
            RecvTimeoutError::Timeout => ReadError("the engine does not answer".to_string()),
            RecvTimeoutError::Disconnected => ReadError("the engine has stopped".to_string()),
        })?;
        let bytes = read.map_err(|error| ReadError(error.to_string()))?;
        let from = (offset.0 - start) as usize;
        into.copy_from_slice(&bytes[from..from + into.len()]);
        Ok(())
    }
}

/// A file system that was met.
struct Known {
    survey: Survey,
    catalog: Catalog,
}

struct Surveyor {
    mailbox: Mailbox,
    /// Known file systems, by volume and where on it they begin.
    known: BTreeMap<(VolumeId, Bytes), Known>,
}

impl Surveyor {
    fn round(&mut self) -> Result<(), Stopped> {
        let volumes = ask(&self.mailbox, |admin| admin.volume_sizes())?;
        self.known.retain(|(volume, _), _| volumes.iter().any(|(id, ..)| id == volume));
        for (id, name, size) in volumes {
            let mut volume = Volume { mailbox: self.mailbox.clone(), id, size };
            // What cannot be read now may be in the next round.
            let Ok(found) = systems(&mut volume) else { continue };
            let found: Vec<Bytes> = found.iter().map(|system| system.at).collect();
            for at in gone(self.known.keys(), id, &found) {
                self.known.remove(&(id, at));
                let mut teller = Teller::new(&self.mailbox, id, source(&name, at));
                teller.say(Surveyed::Anew)?;
                teller.send()?;
            }
            for at in found {
                self.survey(&mut volume, &name, at)?;
            }
        }
        Ok(())
    }

    /// Says the news of a file system.
    fn survey(&mut self, volume: &mut Volume, name: &str, at: Bytes) -> Result<(), Stopped> {
        let known = self.known.entry((volume.id, at)).or_insert_with(|| Known {
            survey: Survey::new(at, Limits::default()),
            catalog: Catalog::default(),
        });
        let mut change = Change::default();
        let catalog = &mut known.catalog;
        // A run that failed has said what it could, and the next one begins anew.
        let _ = known.survey.run(volume, &mut |found| {
            change.note(catalog, &found);
            catalog.apply(&found);
        });
        let mut teller = Teller::new(&self.mailbox, volume.id, source(name, at));
        change.say(catalog, &mut |said| teller.say(said))?;
        teller.send()
    }
}

/// Hands statements to the engine, some at once: never more of them are held.
struct Teller<'a> {
    mailbox: &'a Mailbox,
    volume: VolumeId,
    source: Arc<str>,
    part: Vec<Surveyed>,
}

impl Teller<'_> {
    fn new(mailbox: &Mailbox, volume: VolumeId, source: String) -> Teller<'_> {
        Teller { mailbox, volume, source: source.into(), part: Vec::new() }
    }

    fn say(&mut self, said: Surveyed) -> Result<(), Stopped> {
        self.part.push(said);
        if self.part.len() < AT_ONCE { Ok(()) } else { self.send() }
    }

    /// Hands over what is left.
    fn send(&mut self) -> Result<(), Stopped> {
        let part = std::mem::take(&mut self.part);
        if part.is_empty() {
            return Ok(());
        }
        let (volume, source) = (self.volume, self.source.clone());
        ask(self.mailbox, move |admin| admin.surveyed(volume, &source, &part))
    }
}

fn ask<T: Send + 'static>(
    mailbox: &Mailbox,
    order: impl FnOnce(&mut crate::event_loop::AdminApi<'_>) -> T + Send + 'static,
) -> Result<T, Stopped> {
    let (tell, told) = channel();
    mailbox.send(move |admin| {
        let _ = tell.send(order(admin)); // Whoever asked may have given up.
    });
    told.recv_timeout(LOST).map_err(|_| Stopped)
}

/// Source of what is said of a file system that begins there on a volume.
fn source(volume: &str, at: Bytes) -> String {
    let place = if at.0 == 0 { String::new() } else { format!("+{}", at.0) };
    format!("fs/{volume}{place}")
}

/// Beginnings of known file systems that were not found on a volume any more.
fn gone<'a>(
    known: impl Iterator<Item = &'a (VolumeId, Bytes)>,
    volume: VolumeId,
    found: &[Bytes],
) -> Vec<Bytes> {
    let of_volume = known.filter(|(of, _)| *of == volume).map(|(_, at)| *at);
    of_volume.filter(|at| !found.contains(at)).collect()
}

/// Ranges about which something else is said than before, at most: each file there is said again in
/// as many parts, and a user can make thousands of files that share a fragmented one's bytes.
const TOUCHED_MAX: usize = 64;

/// Changes by a run to what is said.
#[derive(Default)]
struct Change {
    anew: bool,
    void: Vec<Range<u64>>,
    files: BTreeSet<FileId>,
    metadata: Vec<Range<u64>>,
}

fn range(stretch: Stretch) -> Range<u64> {
    stretch.offset.0..stretch.end().0
}

impl Change {
    /// Takes note of a statement, before the catalog does.
    fn note(&mut self, catalog: &Catalog, found: &Found<'_>) {
        match *found {
            Found::Anew => *self = Change { anew: true, ..Change::default() },
            Found::File(file) => {
                self.leave(catalog, file.id);
                self.files.insert(file.id);
            }
            Found::Gone(file) => {
                self.leave(catalog, file);
                self.files.remove(&file);
            }
            // Another name may be another directory, which classes look at.
            Found::Name { file, .. } => _ = self.files.insert(file),
            Found::Metadata { stretch, owner: None, .. } => self.metadata.push(range(stretch)),
            Found::MetadataGone { stretch, .. } => self.void.push(range(stretch)),
            Found::Extent(_) | Found::Metadata { .. } => {}
        }
    }

    /// Takes back what was said of a file.
    fn leave(&mut self, catalog: &Catalog, file: FileId) {
        let entry = catalog.file(file).into_iter();
        self.void.extend(entry.flat_map(ranges).map(|(range, _)| range));
    }

    /// Says all of it to `tell`, in order, until that fails.
    ///
    /// One statement about a byte replaces another, but files share bytes (reflinks, snapshots).
    /// So whatever else lies where something was voided or is said anew is said again; and of
    /// several files in one place the smallest is said last, because it stands then.
    fn say<E>(
        mut self,
        catalog: &Catalog,
        tell: &mut dyn FnMut(Surveyed) -> Result<(), E>,
    ) -> Result<(), E> {
        let touched = self.touched(catalog);
        let again = catalog.standing().map(|(stretch, _)| range(stretch));
        self.metadata.extend(again.flat_map(|range| parts(&touched, range)));
        self.metadata.sort_by_key(|range| (range.start, range.end));
        self.metadata.dedup();
        if self.anew {
            tell(Surveyed::Anew)?;
        }
        self.void.into_iter().try_for_each(|range| tell(Surveyed::Void(range)))?;
        let metadata = || Facts { metadata: true, ..Facts::default() };
        let structures = self.metadata.into_iter();
        structures.map(|range| Surveyed::Here(range, metadata())).try_for_each(&mut *tell)?;

        let mut directories = Directories::default();
        for id in Self::order(&self.files, catalog, &touched) {
            let Some(entry) = catalog.file(id) else { continue };
            let (is_new, facts) = (self.files.contains(&id), directories.facts(catalog, entry));
            for (range, is_metadata) in ranges(entry) {
                let said = if is_new { vec![range] } else { parts(&touched, range) };
                for range in said {
                    let facts = if is_metadata { metadata() } else { facts.clone() };
                    tell(Surveyed::Here(range, facts))?;
                }
            }
        }
        Ok(())
    }

    /// The files to say, the smallest last: `changed` ones, and others with bytes in `touched`.
    fn order(changed: &BTreeSet<FileId>, catalog: &Catalog, touched: &[Range<u64>]) -> Vec<FileId> {
        let key = |entry: &Entry| (Reverse(entry.file.size), entry.file.id);
        let known = changed.iter().filter_map(|id| catalog.file(*id));
        let mut order: Vec<_> = known.map(key).collect();
        if !touched.is_empty() {
            let others = catalog.files().filter(|entry| !changed.contains(&entry.file.id));
            let is_touched =
                |entry: &&Entry| ranges(entry).any(|(range, _)| !parts(touched, range).is_empty());
            order.extend(others.filter(is_touched).map(key));
        }
        order.sort_unstable();
        order.into_iter().map(|(_, id)| id).collect()
    }

    /// The bytes about which something else is said than before, in order, none twice; none where
    /// everything is said anew.
    fn touched(&self, catalog: &Catalog) -> Vec<Range<u64>> {
        if self.anew {
            return Vec::new();
        }
        let changed = self.files.iter().filter_map(|id| catalog.file(*id)).flat_map(ranges);
        let mut all: Vec<_> = self.void.iter().cloned().chain(changed.map(|(r, _)| r)).collect();
        all.sort_by_key(|range| range.start);
        join(&mut all, 0);
        if all.len() > TOUCHED_MAX {
            // Nearest neighbours become one: what lies between them is said again, as it was.
            let mut gaps: Vec<u64> = all.windows(2).map(|two| two[1].start - two[0].end).collect();
            let (_, gap, _) = gaps.select_nth_unstable_by_key(TOUCHED_MAX - 1, |gap| Reverse(*gap));
            join(&mut all, *gap);
        }
        all
    }
}

/// Makes one of ranges in order that lie within `gap` of each other.
fn join(ranges: &mut Vec<Range<u64>>, gap: u64) {
    ranges.dedup_by(|next, before| {
        let joined = next.start <= before.end.saturating_add(gap);
        if joined {
            before.end = before.end.max(next.end);
        }
        joined
    });
}

/// The parts of a range that lie in `touched`, whose ranges are in order.
fn parts(touched: &[Range<u64>], range: Range<u64>) -> Vec<Range<u64>> {
    let from = touched.partition_point(|other| other.end <= range.start);
    let others = touched[from..].iter().take_while(|other| other.start < range.end);
    others.map(|other| other.start.max(range.start)..other.end.min(range.end)).collect()
}

/// Ranges of a file on the volume, and true for those that are metadata.
fn ranges(entry: &Entry) -> impl Iterator<Item = (Range<u64>, bool)> {
    let data = entry.extents.iter().map(|extent| (range(extent.stretch), false));
    data.chain(entry.metadata.iter().map(|&(stretch, _)| (range(stretch), true)))
}

/// Paths of directories that were asked for lately: files of one directory are mostly neighbours.
#[derive(Default)]
struct Directories(BTreeMap<FileId, String>);

impl Directories {
    fn facts(&mut self, catalog: &Catalog, entry: &Entry) -> Facts {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let directory = catalog.directory(entry.file.id).unwrap_or(entry.file.id);
        if self.0.len() >= DIRECTORIES_MAX {
            self.0.clear();
        }
        let path = || text(&catalog.path_within(directory, PATH_MAX));
        Facts {
            file_size: Some(entry.file.size),
            directory: Some(self.0.entry(directory).or_insert_with(path).clone()),
            file_name: catalog.name(entry.file.id).map(text),
            ..Facts::default()
        }
    }
}

#[cfg(test)]
mod tests;
