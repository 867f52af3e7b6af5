//! Files on a volume, as far as its requests go: where a file system would put them, what it writes
//! beside their data, and what programs ask for.
//!
//! - [`Tree`]: files and their places, laid out as ext4 or btrfs would;
//! - [`set`]: many files of given sizes;
//! - [`programs`]: what works on them, as tasks of a [`crate::machine::Session`].
//!
//! Not a file system: names, contents and reading back are left out, and so is the page cache of
//! data; metadata is always cached, so that it is written but never read. Invariant: no byte of the
//! volume belongs to two files, or to a file and the file system (tested).

mod btrfs;
mod ext4;
mod layout;
pub mod programs;
pub mod set;
mod space;
#[cfg(test)]
mod tests;

use self::layout::{Layout, blocks_of};
use crate::machine::Step;
use std::collections::BTreeMap;
use std::ops::Range;
use thermocline_policy::hints::{Facts, Usage};
use thermocline_units::{Bytes, Nanos};

/// File system whose ways are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// ext4 as mke2fs makes it.
    Ext4,
    /// btrfs as mkfs.btrfs makes it on one device.
    Btrfs,
}

/// Hints to the volume about files and metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Telling {
    /// Ranges of the file system's own structures (level 1: Ge et al. 2022 §4.1).
    pub metadata: bool,
    /// Size of the file (level 2).
    pub sizes: bool,
    /// Use of the file's stream (Ge et al. 2022 §4.2).
    pub streams: bool,
}

/// Names a file; not used again before it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(u32);

/// A file.
#[derive(Debug)]
struct File {
    directory: u32,
    inode: u64,
    size: u64,
    usage: Usage,
    /// Start and length on the volume, by offset in the file.
    extents: BTreeMap<u64, (u64, u64)>,
}

/// Files of a file system, and their places. Sizes and offsets are whole blocks of 4 KiB.
pub struct Tree {
    layout: Box<dyn Layout>,
    telling: Telling,
    files: Vec<Option<File>>,
    free: Vec<u32>,
    inodes: u64,
}

impl Tree {
    /// An empty file system over `volume` bytes with so many directories, 2 GiB at least.
    pub fn new(format: Format, volume: Bytes, directories: u32, telling: Telling) -> Tree {
        let layout: Box<dyn Layout> = match format {
            Format::Ext4 => Box::new(ext4::Ext4::new(volume.0, directories)),
            Format::Btrfs => Box::new(btrfs::Btrfs::new(volume.0)),
        };
        Tree { layout, telling, files: Vec::new(), free: Vec::new(), inodes: 0 }
    }

    /// Says where metadata is, if that is told.
    pub fn introduce(&self, out: &mut Vec<Step>) {
        if self.telling.metadata {
            let facts = Facts { metadata: true, ..Facts::default() };
            let say = |range: Range<u64>| Step::Say((range.start, range.end), facts.clone().into());
            out.extend(self.layout.metadata().into_iter().map(say));
        }
    }

    /// Ranges of the file system's own structures.
    pub fn metadata(&self) -> Vec<Range<u64>> {
        self.layout.metadata()
    }

    /// A new file, said to the volume where that is told; nothing is written. `None` when there is
    /// no room.
    pub fn create(
        &mut self,
        directory: u32,
        size: u64,
        usage: Usage,
        out: &mut Vec<Step>,
    ) -> Option<FileId> {
        let inode = self.inodes;
        let file = File { directory, inode, size: 0, usage, extents: BTreeMap::new() };
        let id = self.free.pop().unwrap_or_else(|| {
            self.files.push(None);
            self.files.len() as u32 - 1
        });
        self.files[id as usize] = Some(file);
        let id = FileId(id);
        if !self.grow(id, blocks_of(size), out) {
            self.free.push(id.0);
            self.files[id.0 as usize] = None;
            return None;
        }
        self.inodes += 1;
        self.layout.change_directory(directory, inode);
        Some(id)
    }

    /// Makes a file longer; whether there was room. Nothing is written.
    pub fn grow(&mut self, id: FileId, bytes: u64, out: &mut Vec<Step>) -> bool {
        let directory = self.file(id).directory;
        let Some(extents) = self.layout.place(directory, bytes) else { return false };
        let mut at = self.file(id).size;
        for extent in &extents {
            let length = extent.end - extent.start;
            self.file_mut(id).extents.insert(at, (extent.start, length));
            at += length;
        }
        self.file_mut(id).size = at;
        let (directory, inode) = (self.file(id).directory, self.file(id).inode);
        self.layout.change_file(directory, inode);
        self.say(id, &extents, out);
        true
    }

    /// Takes a file away, and what was said of it back.
    pub fn delete(&mut self, id: FileId, out: &mut Vec<Step>) {
        let file = self.files[id.0 as usize].take().expect("the file is there");
        self.free.push(id.0);
        for (_, (start, length)) in file.extents {
            self.give_up(start..start + length, out);
        }
        self.layout.change_directory(file.directory, file.inode);
    }

    /// A file's size in bytes.
    pub fn size(&self, id: FileId) -> u64 {
        self.file(id).size
    }

    /// Its places, by ascending offset in the file.
    pub fn places(&self, id: FileId) -> impl Iterator<Item = Range<u64>> + '_ {
        self.file(id).extents.values().map(|&(start, length)| start..start + length)
    }

    /// Appends requests of at most `request` bytes that read part of a file.
    pub fn read(&self, id: FileId, part: Range<u64>, request: u32, out: &mut Vec<Step>) {
        self.requests(id, part, request, |at, length| out.push(Step::Read(at, length)));
    }

    /// Appends requests that write part of a file, which is there already and new (just placed), or
    /// is written again.
    pub fn write(
        &mut self,
        id: FileId,
        part: Range<u64>,
        again: bool,
        request: u32,
        out: &mut Vec<Step>,
    ) {
        if again && !self.layout.rewrites_in_place() {
            self.move_away(id, part.clone(), out);
        }
        self.requests(id, part, request, |at, length| out.push(Step::Write(at, length)));
    }

    /// Appends the file system's writes at its next commit, which is due [`Self::commits_every`]
    /// after the last.
    pub fn commit(&mut self, out: &mut Vec<Step>) {
        self.layout.commit(out);
    }

    /// Time between its commits.
    pub(crate) fn commits_every(&self) -> Nanos {
        self.layout.interval()
    }

    fn file(&self, id: FileId) -> &File {
        self.files[id.0 as usize].as_ref().expect("the file is there")
    }

    fn file_mut(&mut self, id: FileId) -> &mut File {
        self.files[id.0 as usize].as_mut().expect("the file is there")
    }

    fn say(&self, id: FileId, extents: &[Range<u64>], out: &mut Vec<Step>) {
        let (file, telling) = (self.file(id), self.telling);
        let known = file.usage != Usage::Unknown && telling.streams;
        if !telling.sizes && !known {
            return;
        }
        let facts = Facts {
            file_size: telling.sizes.then_some(Bytes(file.size)),
            stream: if known { file.usage as u16 } else { 0 },
            usage: if known { file.usage } else { Usage::Unknown },
            ..Facts::default()
        };
        let say = |range: &Range<u64>| Step::Say((range.start, range.end), facts.clone().into());
        out.extend(extents.iter().map(say));
    }

    fn requests(&self, id: FileId, part: Range<u64>, request: u32, mut ask: impl FnMut(u64, u32)) {
        let extents = &self.file(id).extents;
        let mut at = part.start;
        while at < part.end {
            let (&offset, &(start, length)) =
                extents.range(..=at).next_back().expect("the part lies in the file");
            let end = part.end.min(offset + length);
            while at < end {
                let next = end.min(at + u64::from(request));
                ask(start + at - offset, (next - at) as u32);
                at = next;
            }
        }
    }

    /// A place is nobody's any more, and what was said of it does not hold.
    fn give_up(&mut self, place: Range<u64>, out: &mut Vec<Step>) {
        if self.telling.sizes || self.telling.streams {
            out.push(Step::Unsay((place.start, place.end)));
        }
        self.layout.release(place);
    }

    /// Gives part of a file new places, where nothing is written in place.
    fn move_away(&mut self, id: FileId, part: Range<u64>, out: &mut Vec<Step>) {
        let (directory, inode) = (self.file(id).directory, self.file(id).inode);
        let Some(places) = self.layout.place(directory, part.end - part.start) else { return };
        self.layout.change_file(directory, inode);
        for boundary in [part.start, part.end] {
            self.split(id, boundary);
        }
        let extents = &mut self.file_mut(id).extents;
        let mut old = extents.split_off(&part.start);
        extents.extend(old.split_off(&part.end));
        let mut at = part.start;
        for place in &places {
            extents.insert(at, (place.start, place.end - place.start));
            at += place.end - place.start;
        }
        for (start, length) in old.into_values() {
            self.give_up(start..start + length, out);
        }
        self.say(id, &places, out);
    }

    /// Sees to it that an extent begins at an offset of a file.
    fn split(&mut self, id: FileId, at: u64) {
        let extents = &mut self.file_mut(id).extents;
        let Some((&offset, &(start, length))) = extents.range(..at).next_back() else { return };
        if offset + length > at {
            extents.insert(offset, (start, at - offset));
            extents.insert(at, (start + at - offset, offset + length - at));
        }
    }
}
