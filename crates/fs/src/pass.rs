//! One run over a file system: reading within a budget, speaking within the volume, counting both.
//!
//! Readers know offsets from the start of their file system; here they become offsets of the
//! volume, and whatever does not lie inside is torn instead of being said.

use crate::blocks::READ_MAX;
use crate::found::{Extent, File, FileId, FileKind, Found, State, Stretch, What};
use crate::memory::{Seen, Standing};
use crate::{Blocks, FsError, Kind, Limits, Summary};
use std::ops::Range;
use thermocline_units::Bytes;

/// Beyond twice the volume, so that tiny volumes have a budget at all.
const BUDGET_BASE: u64 = 16 << 20;

/// Bytes of the longest name that Linux takes, in any file system.
const NAME_MAX: usize = 255;

/// One run.
pub(crate) struct Pass<'a> {
    blocks: &'a mut dyn Blocks,
    sink: &'a mut dyn FnMut(Found<'_>),
    standing: &'a mut Standing,
    pub(crate) limits: Limits,
    pub(crate) summary: Summary,
    pub(crate) kind: Kind,
    /// Offset of the file system's beginning.
    at: u64,
    /// Bytes from there that belong to it.
    size: u64,
    /// Bytes that may still be read.
    left: u64,
    /// Number of the survey's run, from 1.
    pub(crate) run: u32,
    /// Extents told of the file at hand.
    extents: usize,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(
        blocks: &'a mut dyn Blocks,
        sink: &'a mut dyn FnMut(Found<'_>),
        standing: &'a mut Standing,
        (limits, summary, run): (Limits, Summary, u32),
    ) -> Pass<'a> {
        let (whole, at, kind) = (blocks.size().0, summary.at.0, summary.kind);
        let budget = whole.saturating_mul(2).saturating_add(BUDGET_BASE);
        let left = limits.read.map_or(budget, |bytes| bytes.0);
        let size = whole.saturating_sub(at);
        Pass { blocks, sink, standing, limits, summary, kind, at, size, left, run, extents: 0 }
    }

    /// Narrows the file system to its own size.
    ///
    /// # Errors
    /// When the volume is shorter than that.
    pub(crate) fn narrow(&mut self, size: u64) -> Result<(), FsError> {
        if size == 0 || size > self.size {
            let what = format!("it is {size} B long, but the volume has {} B for it", self.size);
            return Err(self.damaged(what));
        }
        self.size = size;
        self.summary.size = Bytes(size);
        Ok(())
    }

    /// Bytes of the file system, or, before [`Pass::narrow`], of the volume from its beginning.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn damaged(&self, what: impl Into<String>) -> FsError {
        FsError::Damaged { kind: self.kind, at: Bytes(self.at), what: what.into() }
    }

    pub(crate) fn unsupported(&self, what: impl Into<String>) -> FsError {
        FsError::Unsupported { kind: self.kind, at: Bytes(self.at), what: what.into() }
    }

    /// Fills `into` with `length` bytes from `offset`; `false`, and one torn, when they do not lie
    /// in the file system.
    ///
    /// # Errors
    /// When the medium fails, or the budget is used up.
    ///
    /// # Panics
    /// When more than [`READ_MAX`] is asked for: readers cut their reads.
    pub(crate) fn read(
        &mut self,
        offset: u64,
        length: u64,
        into: &mut Vec<u8>,
    ) -> Result<bool, FsError> {
        assert!(length <= READ_MAX, "a single read of {length} B");
        into.clear();
        if self.stretch(offset, length).is_none() {
            self.summary.torn += 1;
            return Ok(false);
        }
        let spent = self.left.checked_sub(length);
        self.left = spent.ok_or(FsError::TooMany {
            what: "bytes read in one survey",
            most: self.summary.read.0 + self.left,
        })?;
        into.resize(length as usize, 0);
        let at = Bytes(self.at + offset);
        self.blocks.read_at(at, into).map_err(|source| FsError::Read { at, source })?;
        self.summary.read.0 += length;
        self.summary.reads += 1;
        Ok(true)
    }

    fn stretch(&self, offset: u64, length: u64) -> Option<Stretch> {
        let end = offset.checked_add(length)?;
        (length > 0 && end <= self.size)
            .then_some(Stretch { offset: Bytes(self.at + offset), length: Bytes(length) })
    }

    /// Something contradicts itself and is skipped.
    pub(crate) fn torn(&mut self) {
        self.summary.torn += 1;
    }

    /// Begins everything anew.
    pub(crate) fn anew(&mut self) {
        (self.sink)(Found::Anew);
    }

    /// Metadata that no file owns.
    ///
    /// # Errors
    /// When there are more of them than allowed.
    pub(crate) fn metadata(&mut self, range: Range<u64>, what: What) -> Result<(), FsError> {
        let length = range.end.saturating_sub(range.start);
        let Some(stretch) = self.stretch(range.start, length) else {
            self.torn();
            return Ok(());
        };
        match self.standing.see(stretch, what, self.run) {
            Seen::Before => return Ok(()),
            Seen::Changed(stretch) => (self.sink)(Found::MetadataGone { stretch, what }),
            Seen::New => {}
        }
        if self.standing.len() > self.limits.ranges {
            let most = self.limits.ranges as u64;
            return Err(FsError::TooMany { what: "ranges of metadata", most });
        }
        (self.sink)(Found::Metadata { stretch, what, owner: None });
        Ok(())
    }

    /// Takes back what was not said again. Only after a run in which nothing was torn.
    pub(crate) fn sweep_metadata(&mut self) {
        for (stretch, what) in self.standing.sweep(self.run) {
            (self.sink)(Found::MetadataGone { stretch, what });
        }
    }

    /// Begins the statement of a file.
    pub(crate) fn file(&mut self, file: File) {
        self.extents = 0;
        match file.kind {
            FileKind::Regular => self.summary.files += 1,
            FileKind::Directory => self.summary.directories += 1,
            FileKind::Symlink => self.summary.symlinks += 1,
            FileKind::Other => self.summary.others += 1,
        }
        (self.sink)(Found::File(file));
    }

    /// Metadata of the file whose statement was begun.
    pub(crate) fn owned(&mut self, owner: FileId, range: Range<u64>, what: What) {
        let length = range.end.saturating_sub(range.start);
        match self.stretch(range.start, length) {
            Some(stretch) if self.one_more() => {
                (self.sink)(Found::Metadata { stretch, what, owner: Some(owner) });
            }
            Some(_) => {}
            None => self.torn(),
        }
    }

    /// An extent of the file whose statement was begun.
    pub(crate) fn extent(&mut self, file: FileId, at: u64, range: Range<u64>, state: State) {
        let length = range.end.saturating_sub(range.start);
        match self.stretch(range.start, length) {
            Some(stretch) if self.one_more() => {
                self.summary.extents += 1;
                (self.sink)(Found::Extent(Extent { file, at: Bytes(at), stretch, state }));
            }
            Some(_) => {}
            None => self.torn(),
        }
    }

    /// True if the file at hand may have another extent.
    fn one_more(&mut self) -> bool {
        self.extents += 1;
        let allowed = self.extents <= self.limits.extents_per_file;
        self.summary.cut += u64::from(!allowed);
        allowed
    }

    pub(crate) fn name(&mut self, file: FileId, directory: FileId, name: &[u8]) {
        let proper = (1..=NAME_MAX).contains(&name.len()) && name != b"." && name != b"..";
        if proper && !name.contains(&0) && !name.contains(&b'/') {
            (self.sink)(Found::Name { file, directory, name });
        }
    }

    pub(crate) fn gone(&mut self, file: FileId) {
        self.summary.gone += 1;
        (self.sink)(Found::Gone(file));
    }
}
