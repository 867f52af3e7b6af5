//! A picture of one file system, kept from what a survey says.
//!
//! 1. Every statement is applied as `found.rs` rules: a file told again replaces itself.
//! 2. Asked for a range of the volume, it names the files and the metadata in it; of several files,
//!    who wants one class for a chunk takes the smallest (Ge et al. 2022 §3.4).
//!
//! State: a file about 150 B with one extent, 48 B each further extent, and its name; a metadata
//! range about 60 B. Whoever has too many files for that listens to the survey itself.

use crate::found::{Extent, File, FileId, Found, Stretch, What};
use std::collections::{BTreeMap, BTreeSet};
use thermocline_units::Bytes;

/// Most directories above a file that a path is made of; a loop ends there.
const DEPTH_MAX: usize = 4096;

/// Facts about one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The file.
    pub file: File,
    /// Places of its contents, in the order they were told: mostly that of the file.
    pub extents: Vec<Extent>,
    /// Its own metadata: directory blocks, extent maps, attributes.
    pub metadata: Vec<(Stretch, What)>,
}

/// The files and the metadata of one file system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalog {
    files: BTreeMap<FileId, Entry>,
    names: BTreeMap<FileId, (FileId, Box<[u8]>)>,
    standing: BTreeSet<(Stretch, What)>,
}

impl Catalog {
    /// Takes a statement in.
    pub fn apply(&mut self, found: &Found<'_>) {
        match *found {
            Found::Anew => *self = Catalog::default(),
            Found::File(file) => {
                let entry = Entry { file, extents: Vec::new(), metadata: Vec::new() };
                self.files.insert(file.id, entry);
            }
            Found::Extent(extent) => {
                if let Some(entry) = self.files.get_mut(&extent.file) {
                    entry.extents.push(extent);
                }
            }
            Found::Metadata { stretch, what, owner: Some(owner) } => {
                if let Some(entry) = self.files.get_mut(&owner) {
                    entry.metadata.push((stretch, what));
                }
            }
            Found::Metadata { stretch, what, owner: None } => {
                self.standing.insert((stretch, what));
            }
            Found::MetadataGone { stretch, what } => {
                self.standing.remove(&(stretch, what));
            }
            Found::Name { file, directory, name } => {
                self.names.insert(file, (directory, name.into()));
            }
            Found::Gone(file) => {
                self.files.remove(&file);
                self.names.remove(&file);
            }
        }
    }

    /// Every file with its entry, by its id.
    pub fn files(&self) -> impl Iterator<Item = &Entry> {
        self.files.values()
    }

    /// One file.
    pub fn file(&self, id: FileId) -> Option<&Entry> {
        self.files.get(&id)
    }

    /// Name of a file in its directory; `None` for the root and where the name is not known.
    pub fn name(&self, id: FileId) -> Option<&[u8]> {
        self.names.get(&id).map(|(_, name)| &**name)
    }

    /// The directory that a file's name is in; `None` as for the name.
    pub fn directory(&self, id: FileId) -> Option<FileId> {
        self.names.get(&id).map(|(directory, _)| *directory)
    }

    /// The path of a file from the root of the file system, `/` first, as far up as names are
    /// known.
    pub fn path(&self, id: FileId) -> Vec<u8> {
        self.path_within(id, usize::MAX)
    }

    /// The same of a directory, of at most `most` bytes, at least one: where its path is longer,
    /// that of the deepest directory above it whose path is not. Paths may be as long as a mebibyte
    /// (4096 names), while Linux takes none of more than 4 KiB.
    pub fn path_within(&self, id: FileId, most: usize) -> Vec<u8> {
        let (mut names, mut at) = (Vec::new(), id);
        while let Some((directory, name)) = self.names.get(&at).filter(|_| names.len() < DEPTH_MAX)
        {
            names.push(name);
            at = *directory;
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            if path.len() + 1 + name.len() > most {
                break;
            }
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() { b"/".to_vec() } else { path }
    }

    /// All metadata, first what no file owns, then that of files.
    pub fn metadata(&self) -> impl Iterator<Item = (Stretch, What)> {
        let owned = self.files.values().flat_map(|entry| entry.metadata.iter().copied());
        self.standing().chain(owned)
    }

    /// The metadata that no file owns, by its place.
    pub fn standing(&self) -> impl Iterator<Item = (Stretch, What)> {
        self.standing.iter().copied()
    }

    /// Bytes of metadata of each kind, those of 0 B left out. Ranges that overlap count twice.
    pub fn metadata_bytes(&self) -> BTreeMap<What, Bytes> {
        let mut bytes = BTreeMap::new();
        for (stretch, what) in self.metadata() {
            bytes.entry(what).or_insert(Bytes(0)).0 += stretch.length.0;
        }
        bytes
    }

    /// For every chunk of the volume that holds anything, by its number: whether metadata is in it,
    /// and the size of the smallest file of which an extent is in it. Cost: one step for each chunk
    /// that an extent touches.
    ///
    /// # Panics
    /// When `chunk` is zero.
    pub fn chunks(&self, chunk: Bytes) -> BTreeMap<u64, ChunkContents> {
        assert!(chunk.0 > 0, "a chunk holds at least one byte");
        let mut chunks: BTreeMap<u64, ChunkContents> = BTreeMap::new();
        let numbers =
            |stretch: Stretch| stretch.offset.0 / chunk.0..=(stretch.end().0 - 1) / chunk.0;
        for (stretch, _) in self.metadata() {
            for number in numbers(stretch) {
                chunks.entry(number).or_default().metadata = true;
            }
        }
        for entry in self.files.values() {
            for number in entry.extents.iter().flat_map(|extent| numbers(extent.stretch)) {
                let smallest = &mut chunks.entry(number).or_default().smallest;
                let size = entry.file.size;
                *smallest = Some(smallest.map_or(size, |before| before.min(size)));
            }
        }
        chunks
    }
}

/// Contents of a chunk of the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChunkContents {
    /// True if any of it is metadata.
    pub metadata: bool,
    /// The size of the smallest file with an extent in it.
    pub smallest: Option<Bytes>,
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
