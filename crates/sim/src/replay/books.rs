//! The books of a replay: what every request did, for one cache size or for many at once.
//!
//! Sizes that see the same happen to a request form a range (LRU: all sizes below some size miss,
//! all others hit), so entries are made for ranges: added where the range starts, taken back where
//! it ends, and summed up once at the end. Only the disk's head has to be followed size by size,
//! and only for sizes that go to disk.

use super::WriteMode;
use super::counts::{Counts, Disk, SourceIos, Traffic, VolumeCounts};
use super::reads::Reads;
use std::ops::Range;
use thermocline_units::VolumeId;

/// Fate of consecutive lines of a request: who asked, and where they were and are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) write: bool,
    pub(super) hit: bool,
    /// On flash afterwards; implied by a hit.
    pub(super) resident: bool,
}

impl Fate {
    const COUNT: usize = 8;

    fn index(self) -> usize {
        usize::from(self.write) << 2 | usize::from(self.hit) << 1 | usize::from(self.resident)
    }
}

/// Runs of lines of one fate, each an I/O.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs {
    pub(super) ios: u64,
    pub(super) lines: u64,
    /// Bytes the request asked for.
    pub(super) bytes: u64,
    /// Bytes that flash reads or writes for it.
    pub(super) flash_bytes: u64,
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Requests {
    pub(super) count: u64,
    pub(super) lines: u64,
    /// Bytes asked for.
    pub(super) bytes: u64,
}

/// Sums of runs: I/Os, lines, bytes, flash bytes.
type RunSums = [u64; 4];
/// Sums of requests: requests, lines, bytes.
type RequestSums = [u64; 3];
/// Sums of requests of one line: requests, bytes, flash bytes.
type SingleSums = [u64; 3];
/// Sums of write-backs: I/Os, lines.
type WriteBackSums = [u64; 2];

/// Entries of one size, as differences to the size before it.
#[derive(Debug, Clone, Default)]
struct Page {
    runs: [RunSums; Fate::COUNT],
    /// Sums by write, then by hit.
    requests: [RequestSums; 4],
}

/// Counts that only some sizes have, one by one.
#[derive(Debug, Clone, Default)]
struct Own {
    disk: Disk,
    evicted: u64,
    write_backs: WriteBackSums,
}

/// The books of all sizes.
#[derive(Debug)]
pub(super) struct Books {
    /// One a size; what would be taken back past the last need not be.
    pages: Vec<Page>,
    own: Vec<Own>,
    /// Requests of one line, each a run of its own; only kept for books of one size.
    singles: [SingleSums; Fate::COUNT],
    /// Requests, and hits as differences by size, volume after volume.
    volume_requests: Vec<u64>,
    volume_hits: Vec<u64>,
}

fn add<const N: usize>(sums: &mut [u64; N], entry: [u64; N]) {
    for (sum, part) in sums.iter_mut().zip(entry) {
        *sum = sum.wrapping_add(part);
    }
}

fn take_back<const N: usize>(sums: &mut [u64; N], entry: [u64; N]) {
    for (sum, part) in sums.iter_mut().zip(entry) {
        *sum = sum.wrapping_sub(part);
    }
}

impl Books {
    /// Empty books for `sizes` ≥ 1 sizes.
    pub(super) fn new(sizes: usize) -> Books {
        Books {
            pages: vec![Page::default(); sizes],
            own: vec![Own::default(); sizes],
            singles: [[0; 3]; Fate::COUNT],
            volume_requests: Vec::new(),
            volume_hits: Vec::new(),
        }
    }

    /// Number of sizes.
    pub(super) fn sizes(&self) -> usize {
        self.own.len()
    }

    /// Forgets everything but where the disks' heads are: the warm-up is over.
    pub(super) fn restart(&mut self) {
        let fresh = Books::new(self.sizes());
        let worn = std::mem::replace(self, fresh);
        for (own, worn) in self.own.iter_mut().zip(worn.own) {
            own.disk.head = worn.disk.head;
        }
    }

    /// Runs of lines in `sizes`.
    #[inline]
    pub(super) fn runs(&mut self, sizes: Range<usize>, fate: Fate, runs: Runs) {
        let entry = [runs.ios, runs.lines, runs.bytes, runs.flash_bytes];
        add(&mut self.pages[sizes.start].runs[fate.index()], entry);
        if let Some(after) = self.pages.get_mut(sizes.end) {
            take_back(&mut after.runs[fate.index()], entry);
        }
    }

    /// Requests, which hit in the sizes from `hits_from` on and miss in the smaller ones; without
    /// their volumes.
    #[inline]
    pub(super) fn requests(&mut self, write: bool, hits_from: usize, requests: Requests) {
        let entry = [requests.count, requests.lines, requests.bytes];
        let kind = usize::from(write) * 2;
        if hits_from > 0 {
            add(&mut self.pages[0].requests[kind], entry);
        }
        if let Some(hits) = self.pages.get_mut(hits_from) {
            add(&mut hits.requests[kind + 1], entry);
            if hits_from > 0 {
                take_back(&mut hits.requests[kind], entry);
            }
        }
    }

    /// A request of one line, in books of one size: both a run and a request.
    #[inline]
    pub(super) fn single(&mut self, volume: u32, fate: Fate, bytes: u64, flash_bytes: u64) {
        debug_assert_eq!(self.sizes(), 1, "ranges of sizes go through `run` and `request`");
        self.singles(fate, Reads { count: 1, bytes }, flash_bytes);
        self.volume(volume, 1, usize::from(!fate.hit));
    }

    /// Requests of one line and one fate, without their volumes.
    #[inline]
    pub(super) fn singles(&mut self, fate: Fate, reads: Reads, flash_bytes: u64) {
        add(&mut self.singles[fate.index()], [reads.count, reads.bytes, flash_bytes]);
    }

    /// Requests of a volume, which hit in the sizes from `hits_from` on.
    #[inline]
    pub(super) fn volume(&mut self, volume: u32, requests: u64, hits_from: usize) {
        let (volume, columns) = (volume as usize, self.sizes() + 1);
        if volume >= self.volume_requests.len() {
            self.volume_requests.resize(volume + 1, 0);
            self.volume_hits.resize((volume + 1) * columns, 0);
        }
        self.volume_requests[volume] += requests;
        self.volume_hits[volume * columns + hits_from] += requests;
    }

    /// Makes runs and requests of the requests of one line.
    fn fold_singles(&mut self) {
        for (index, [requests, bytes, flash_bytes]) in self.singles.into_iter().enumerate() {
            add(&mut self.pages[0].runs[index], [requests, requests, bytes, flash_bytes]);
            // Fates count write, hit, resident; requests only write and hit.
            add(&mut self.pages[0].requests[index >> 1], [requests, requests, bytes]);
        }
    }

    /// One disk I/O in each of `sizes`.
    #[inline]
    pub(super) fn disk(
        &mut self,
        sizes: Range<usize>,
        write: bool,
        volume: VolumeId,
        offset: u64,
        bytes: u64,
    ) {
        for own in &mut self.own[sizes] {
            own.disk.access(write, volume, offset, bytes);
        }
    }

    /// The disk of one size.
    pub(super) fn disk_of(&mut self, size: usize) -> &mut Disk {
        &mut self.own[size].disk
    }

    /// Lines left the cache of one size.
    #[inline]
    pub(super) fn evicted(&mut self, size: usize, lines: u64) {
        self.own[size].evicted += lines;
    }

    /// Neighbouring dirty lines are written back in one size: `lines` of `line_bytes`.
    pub(super) fn write_back(
        &mut self,
        size: usize,
        volume: VolumeId,
        offset: u64,
        lines: u64,
        line_bytes: u64,
    ) {
        let own = &mut self.own[size];
        add(&mut own.write_backs, [1, lines]);
        own.disk.access(true, volume, offset, lines * line_bytes);
    }

    /// Sums the books up: one `Counts` a size. The source charges `charged` I/Os a line.
    pub(super) fn close(mut self, mode: WriteMode, line_bytes: u64, charged: u64) -> Vec<Counts> {
        self.fold_singles();
        let mut page = Page::default();
        let mut all = Vec::with_capacity(self.own.len());
        for (size, own) in self.own.iter().enumerate() {
            let next = &self.pages[size];
            page.runs.iter_mut().zip(next.runs).for_each(|(sums, more)| add(sums, more));
            page.requests.iter_mut().zip(next.requests).for_each(|(sums, more)| add(sums, more));
            let mut counts = counts_of(&page, own, mode, line_bytes, charged);
            counts.volumes = self.volumes(size);
            all.push(counts);
        }
        all
    }

    fn volumes(&self, size: usize) -> Vec<VolumeCounts> {
        let hits = self.volume_hits.chunks(self.sizes() + 1);
        let volume = |(requests, hits): (&u64, &[u64])| VolumeCounts {
            requests: *requests,
            request_hits: hits[..=size].iter().sum(),
        };
        self.volume_requests.iter().zip(hits).map(volume).collect()
    }
}

fn counts_of(page: &Page, own: &Own, mode: WriteMode, line_bytes: u64, charged: u64) -> Counts {
    let runs = |write, hit, resident| page.runs[Fate { write, hit, resident }.index()];
    let lines = |sums: RunSums| sums[1] * charged;
    let traffic =
        |sums: RunSums| Traffic { random: sums[0], random_bytes: sums[3], ..Traffic::default() };
    let (read_hit, read_admit) = (runs(false, true, true), runs(false, false, true));
    let (write_hit, write_admit) = (runs(true, true, true), runs(true, false, true));
    let (read_pass, write_pass) = (runs(false, false, false), runs(true, false, false));
    let [back_ios, back_lines] = own.write_backs;
    let cached_writes = lines(write_hit) + lines(write_admit);
    let through = if mode == WriteMode::Through { cached_writes } else { 0 };
    let mut flash_reads = traffic(read_hit);
    flash_reads.random += back_ios;
    flash_reads.random_bytes += back_lines * line_bytes;
    let mut flash_writes = traffic(read_admit);
    for sums in [write_hit, write_admit] {
        flash_writes.random += sums[0];
        flash_writes.random_bytes += sums[3];
    }
    let mut counts = Counts {
        admitted: read_admit[1] + write_admit[1],
        evicted: own.evicted,
        written_back: back_lines,
        moved: read_admit[3] + back_lines * line_bytes,
        source: SourceIos {
            flash_reads: lines(read_hit) + back_lines * charged,
            flash_writes: lines(read_admit) + cached_writes,
            disk_reads: lines(read_admit) + lines(read_pass),
            disk_writes: lines(write_pass) + through + back_lines * charged,
        },
        flash_reads,
        flash_writes,
        disk: own.disk,
        ..Counts::default()
    };
    for (write, side) in [(false, &mut counts.reads), (true, &mut counts.writes)] {
        let (missed, hit) =
            (page.requests[usize::from(write) * 2], page.requests[usize::from(write) * 2 + 1]);
        let hits = page.runs[Fate { write, hit: true, resident: true }.index()];
        side.requests = missed[0] + hit[0];
        side.request_hits = hit[0];
        side.lines = missed[1] + hit[1];
        side.line_hits = hits[1];
        side.bytes = missed[2] + hit[2];
        side.byte_hits = hits[2];
    }
    counts
}
