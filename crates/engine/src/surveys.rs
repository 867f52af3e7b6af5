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
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use thermocline_fs::{
    Blocks, Catalog, Entry, FileId, Found, Limits, ReadError, Stretch, Survey, systems,
};
use thermocline_policy::hints::Facts;
use thermocline_units::{Bytes, VolumeId};

/// Statements that the engine takes between two of its rounds.
const AT_ONCE: usize = 256;
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
        let volumes = self.ask(|admin| admin.volume_sizes())?;
        self.known.retain(|(volume, _), _| volumes.iter().any(|(id, ..)| id == volume));
        for (id, name, size) in volumes {
            let mut volume = Volume { mailbox: self.mailbox.clone(), id, size };
            // What cannot be read now may be in the next round.
            let Ok(found) = systems(&mut volume) else { continue };
            let found: Vec<Bytes> = found.iter().map(|system| system.at).collect();
            for at in gone(self.known.keys(), id, &found) {
                self.known.remove(&(id, at));
                self.tell(id, source(&name, at), vec![Surveyed::Anew])?;
            }
            for at in found {
                let said = self.survey(&mut volume, at);
                self.tell(id, source(&name, at), said)?;
            }
        }
        Ok(())
    }

    /// News of a file system.
    fn survey(&mut self, volume: &mut Volume, at: Bytes) -> Vec<Surveyed> {
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
        change.said(catalog)
    }

    fn tell(&self, id: VolumeId, source: String, said: Vec<Surveyed>) -> Result<(), Stopped> {
        let source = std::sync::Arc::<str>::from(source);
        for part in said.chunks(AT_ONCE) {
            let (part, source) = (part.to_vec(), source.clone());
            self.ask(move |admin| admin.surveyed(id, &source, &part))?;
        }
        Ok(())
    }

    fn ask<T: Send + 'static>(
        &self,
        order: impl FnOnce(&mut crate::event_loop::AdminApi<'_>) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (tell, told) = channel();
        self.mailbox.send(move |admin| {
            let _ = tell.send(order(admin)); // Whoever asked may have given up.
        });
        told.recv_timeout(LOST).map_err(|_| Stopped)
    }
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

    /// All of it, in the order in which it is to be said.
    fn said(self, catalog: &Catalog) -> Vec<Surveyed> {
        let metadata = || Facts { metadata: true, ..Facts::default() };
        let mut said = Vec::new();
        said.extend(self.anew.then_some(Surveyed::Anew));
        said.extend(self.void.into_iter().map(Surveyed::Void));
        said.extend(self.metadata.into_iter().map(|range| Surveyed::Here(range, metadata())));
        for entry in self.files.into_iter().filter_map(|id| catalog.file(id)) {
            let facts = facts(catalog, entry);
            said.extend(ranges(entry).map(|(range, is_metadata)| {
                let facts = if is_metadata { metadata() } else { facts.clone() };
                Surveyed::Here(range, facts)
            }));
        }
        said
    }
}

/// Ranges of a file on the volume, and true for those that are metadata.
fn ranges(entry: &Entry) -> impl Iterator<Item = (Range<u64>, bool)> {
    let data = entry.extents.iter().map(|extent| (range(extent.stretch), false));
    data.chain(entry.metadata.iter().map(|&(stretch, _)| (range(stretch), true)))
}

fn facts(catalog: &Catalog, entry: &Entry) -> Facts {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let path = text(&catalog.path(entry.file.id));
    let directory = path.rsplit_once('/').map(|(directory, _)| match directory {
        "" => "/".to_string(),
        directory => directory.to_string(),
    });
    Facts {
        file_size: Some(entry.file.size),
        directory,
        file_name: catalog.name(entry.file.id).map(text),
        ..Facts::default()
    }
}

#[cfg(test)]
mod tests;
