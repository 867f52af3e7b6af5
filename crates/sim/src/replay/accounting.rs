//! From requests and the fates of their lines to entries in the books.
//!
//! What the devices are made to do (Table 10 (a) and (b) of Tai 2015): a read hit reads flash; a
//! read miss reads disk and, if admitted, writes flash; a write that is cached writes flash (and
//! disk, when writing through); one that is not writes disk; a dirty line evicted is read from
//! flash and written to disk. At real sizes, contiguous lines of a request with the same fate are
//! one I/O, so are neighbours among the dirty lines that one request evicts, and a write that
//! covers only part of an absent line first reads that line from disk.

use super::WriteMode;
use super::books::{Books, Fate, Requests, Runs};
use super::counts::Counts;
use super::dirt::Dirt;
use crate::workload::{Head, Names, Unit};
use std::ops::Range;
use thermocline_units::{Bytes, LineId, VolumeId};

/// Bytes that the source charges a cache I/O as; also a page of flash.
pub(crate) const SOURCE_IO_BYTES: Bytes = Bytes::from_kib(4);

/// The books of a cache replay, and what they need to be kept.
pub(super) struct Accountant {
    pub(super) books: Books,
    pub(super) dirt: Dirt,
    mode: WriteMode,
    pub(super) unit: Unit,
    /// Dirty lines the current request evicted, by size.
    write_backs: Vec<(usize, LineId)>,
}

impl Accountant {
    pub(super) fn new(sizes: usize, mode: WriteMode, unit: Unit) -> Accountant {
        Accountant {
            books: Books::new(sizes),
            dirt: Dirt::new(sizes),
            mode,
            unit,
            write_backs: Vec::new(),
        }
    }

    pub(super) fn reserve(&mut self, universe: u32) {
        self.dirt.reserve(universe);
    }

    /// The warm-up is over.
    pub(super) fn restart(&mut self) {
        self.books.restart();
    }

    pub(super) fn writes_go_around(&self) -> bool {
        self.mode == WriteMode::Around
    }

    pub(super) fn goes_around(&self, head: &Head) -> bool {
        self.writes_go_around() && head.tag.is_write()
    }

    pub(super) fn close(self) -> Vec<Counts> {
        let line = self.line_bytes();
        self.books.close(self.mode, line, line.div_ceil(SOURCE_IO_BYTES.0))
    }

    fn line_bytes(&self) -> u64 {
        match self.unit {
            Unit::Lines(bytes) => bytes.0,
            Unit::Objects => 1,
        }
    }

    /// A line was dropped by a discard or a write around the cache.
    #[inline]
    pub(super) fn dropped(&mut self, line: LineId) {
        self.dirt.set_all(line, false);
    }

    /// A write that went past the cache, to disk.
    pub(super) fn around(&mut self, head: &Head, lines: u64) {
        let sizes = self.books.sizes();
        let bytes = u64::from(head.length);
        let fate = Fate { write: true, hit: false, resident: false };
        let runs = Runs { ios: 1, lines, bytes, flash_bytes: 0 };
        self.books.runs(0..sizes, fate, runs);
        let volume = VolumeId(head.tag.volume());
        self.books.disk(0..sizes, true, volume, head.offset.0, bytes);
        self.books.requests(true, sizes, Requests { count: 1, lines, bytes });
        self.books.volume(volume.0, 1, sizes);
    }

    /// A request of `lines` lines, in the sizes of a range in which it fares alike: `fate` tells
    /// how line i fared. `whole_hit` when every line hit.
    #[inline]
    pub(super) fn runs(
        &mut self,
        sizes: Range<usize>,
        head: &Head,
        lines: usize,
        fate: impl Fn(usize) -> Fate,
    ) {
        let mut from = 0;
        while from < lines {
            let common = fate(from);
            let mut to = from + 1;
            while to < lines && fate(to) == common {
                to += 1;
            }
            self.one_run(sizes.clone(), head, lines, from..to, common);
            from = to;
        }
    }

    /// A request as a whole: it hits in the sizes from `hits_from` on.
    #[inline]
    pub(super) fn request(&mut self, head: &Head, lines: usize, hits_from: usize) {
        let tag = head.tag;
        let requests = Requests { count: 1, lines: lines as u64, bytes: head.length.into() };
        self.books.requests(tag.is_write(), hits_from, requests);
        self.books.volume(tag.volume(), 1, hits_from);
    }

    /// A request of one line in books of one size.
    #[inline]
    pub(super) fn single(&mut self, head: &Head, fate: Fate) {
        let span = self.span(head, 1, &(0..1));
        self.books.single(head.tag.volume(), fate, span.bytes, span.flash_bytes(fate));
        if !fate.hit || fate.write {
            self.disk(0..1, head, fate, &span);
        }
    }

    #[inline]
    fn one_run(
        &mut self,
        sizes: Range<usize>,
        head: &Head,
        lines: usize,
        run: Range<usize>,
        fate: Fate,
    ) {
        let span = self.span(head, lines, &run);
        let (lines, flash_bytes) = (run.len() as u64, span.flash_bytes(fate));
        let runs = Runs { ios: 1, lines, bytes: span.bytes, flash_bytes };
        self.books.runs(sizes.clone(), fate, runs);
        self.disk(sizes, head, fate, &span);
    }

    /// Counts the disk's work for a run.
    #[inline]
    fn disk(&mut self, sizes: Range<usize>, head: &Head, fate: Fate, span: &Span) {
        let volume = VolumeId(head.tag.volume());
        if !fate.hit && !fate.write {
            let whole = (span.whole_offset, span.whole_bytes);
            let (offset, bytes) = if fate.resident { whole } else { (span.offset, span.bytes) };
            self.books.disk(sizes.clone(), false, volume, offset, bytes);
        } else if !fate.hit && fate.resident {
            for (offset, bytes) in span.torn(self.line_bytes()) {
                self.books.disk(sizes.clone(), false, volume, offset, bytes);
            }
        }
        if fate.write && (!fate.resident || self.mode == WriteMode::Through) {
            self.books.disk(sizes, true, volume, span.offset, span.bytes);
        }
    }

    /// The part of a request that a run of its lines covers.
    #[inline]
    fn span(&self, head: &Head, lines: usize, run: &Range<usize>) -> Span {
        let (start, length) = (head.offset.0, u64::from(head.length));
        let Unit::Lines(Bytes(line)) = self.unit else {
            let (offset, bytes) = (start, length);
            return Span { offset, bytes, whole_offset: offset, whole_bytes: bytes };
        };
        let whole_offset = (start / line + run.start as u64) * line;
        let whole_bytes = run.len() as u64 * line;
        let offset = if run.start == 0 { start } else { whole_offset };
        let end = if run.end == lines { start + length } else { whole_offset + whole_bytes };
        Span { offset, bytes: end - offset, whole_offset, whole_bytes }
    }

    /// `line` left the cache of one size; call before [`Accountant::written`] of the same line.
    #[inline]
    pub(super) fn evicted(&mut self, size: usize, line: LineId) {
        self.books.evicted(size, 1);
        if self.dirt.clean(line, size) {
            self.write_backs.push((size, line));
        }
    }

    /// A write reached `line`, which is on flash afterwards or not.
    #[inline]
    pub(super) fn written(&mut self, line: LineId, resident: bool) {
        self.dirt.set_all(line, resident && self.mode == WriteMode::Back);
    }

    /// Writes back the dirty lines that one request evicted, neighbours together.
    #[inline]
    pub(super) fn write_back(&mut self, names: &Names) {
        if !self.write_backs.is_empty() {
            self.write_back_all(names);
        }
    }

    fn write_back_all(&mut self, names: &Names) {
        let bytes = self.line_bytes();
        let mut lines = std::mem::take(&mut self.write_backs);
        let address = |(size, line): &(usize, LineId)| (*size, names.line(*line));
        lines.sort_unstable_by_key(address);
        let neighbours = |a: &_, b: &_| {
            let (size, (volume, unit)) = address(a);
            address(b) == (size, (volume, unit + 1))
        };
        for run in lines.chunk_by(neighbours) {
            let (size, (volume, unit)) = address(&run[0]);
            self.books.write_back(size, volume, unit * bytes, run.len() as u64, bytes);
        }
        lines.clear();
        self.write_backs = lines;
    }
}

/// A run's part of a request, and the whole lines around it.
struct Span {
    offset: u64,
    bytes: u64,
    whole_offset: u64,
    whole_bytes: u64,
}

impl Span {
    /// Reads that a write needs before it, by offset and bytes: the first and the last line of the
    /// run, where it covers them in part. Neighbours are one read.
    #[inline]
    fn torn(&self, line: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let whole_end = self.whole_offset + self.whole_bytes;
        let first = (self.offset > self.whole_offset).then_some((self.whole_offset, line));
        let last = (self.offset + self.bytes < whole_end).then_some((whole_end - line, line));
        let both = first.is_some() && last.is_some() && self.whole_bytes <= 2 * line;
        let (first, last) =
            if both { (Some((self.whole_offset, self.whole_bytes)), None) } else { (first, last) };
        first.into_iter().chain(last)
    }

    /// Bytes that flash reads or writes for the run.
    #[inline]
    fn flash_bytes(&self, fate: Fate) -> u64 {
        match fate {
            Fate { resident: false, .. } => 0,
            Fate { hit: false, .. } => self.whole_bytes,
            Fate { write: true, .. } => pages(self.offset, self.bytes),
            Fate { write: false, .. } => self.bytes,
        }
    }
}

/// Bytes of the flash pages that a range overlaps.
fn pages(offset: u64, length: u64) -> u64 {
    let page = SOURCE_IO_BYTES.0;
    ((offset + length).div_ceil(page) - offset / page) * page
}
