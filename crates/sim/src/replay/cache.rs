//! Driving a per-access cache policy: batches of lines in, hits, evictions and device traffic out.
//!
//! Batches end where order matters to more than the policy: at a discard, at the end of an epoch, at
//! the end of the warm-up, and at every write when writes go around the cache.
//!
//! What the devices are made to do (Table 10 (a) and (b) of 001): a read hit reads flash; a read miss
//! reads disk and, if admitted, writes flash; a write that is cached writes flash (and disk, when
//! writing through); one that is not writes disk; a dirty line evicted is read from flash and written
//! to disk. At real sizes, contiguous lines of a request with the same fate are one operation, so are
//! neighbours among the dirty lines that one request evicts, and a write that covers only part of an
//! absent line first reads that line from disk.

use super::counts::{Counts, Side};
use super::{Epochs, ReplayOptions, WriteMode};
use crate::workload::{Head, Unit, Workload};
use std::ops::Range;
use thermocline_policy::cache::{CachePolicy, Outcome, Tag};
use thermocline_units::{Bytes, LineId, Nanos, VolumeId};

/// Touches handed to the policy at once, unless one request has more.
const BATCH_TOUCHES: usize = 4096;
/// What the source charges a cache operation as.
pub(crate) const SOURCE_OPERATION: Bytes = Bytes::from_kib(4);

/// Replays `workload` through `policy`. `progress` is told how many touches were done since the last
/// call.
pub fn replay_cache(
    workload: &Workload,
    policy: &mut dyn CachePolicy,
    options: &ReplayOptions,
    progress: &dyn Fn(u64),
) -> Counts {
    policy.reserve(workload.lines.distinct);
    let first_counted = options.warmup.first_counted(&workload.heads);
    let mut driver = Driver {
        workload,
        mode: options.write_mode,
        dirty: vec![0; (workload.lines.distinct as usize).div_ceil(64)],
        counts: Counts::new(workload.volumes.len()),
        write_backs: Vec::new(),
    };
    let mut outcomes = vec![Outcome::HIT; BATCH_TOUCHES];
    let mut epochs = Epochs::new(options.epoch);
    let mut start = 0;
    while start < workload.heads.len() {
        if start == first_counted {
            driver.counts.restart();
        }
        while let Some(end) = epochs.passed(workload.heads[start].time) {
            policy.end_epoch(end);
        }
        let head = &workload.heads[start];
        if head.discard || driver.goes_around(head) {
            driver.without_policy(start, policy);
            start += 1;
            continue;
        }
        let end = driver.batch_end(start, first_counted, epochs.next_end());
        let touches = touches_of(workload, start..end);
        if outcomes.len() < touches.len() {
            outcomes.resize(touches.len(), Outcome::HIT);
        }
        let outcomes = &mut outcomes[..touches.len()];
        policy.access_batch(
            &workload.lines.ids[touches.clone()],
            &workload.tags[touches.clone()],
            outcomes,
        );
        progress(touches.len() as u64);
        driver.account(start..end, outcomes);
        start = end;
    }
    driver.counts
}

/// Bytes of the 4 KiB flash pages that a range overlaps.
fn pages(offset: u64, length: u64) -> u64 {
    let page = SOURCE_OPERATION.0;
    ((offset + length).div_ceil(page) - offset / page) * page
}

/// The touches of a run of requests.
fn touches_of(workload: &Workload, requests: Range<usize>) -> Range<usize> {
    workload.lines.of(requests.start).start..workload.lines.ends[requests.end - 1] as usize
}

struct Driver<'a> {
    workload: &'a Workload,
    mode: WriteMode,
    /// One bit a line.
    dirty: Vec<u64>,
    counts: Counts,
    /// Dirty lines the current request evicted.
    write_backs: Vec<LineId>,
}

/// Consecutive lines of a request with the same fate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fate {
    hit: bool,
    resident: bool,
}

impl Fate {
    #[inline]
    fn of(outcome: Outcome) -> Fate {
        Fate { hit: outcome.is_hit(), resident: outcome.is_resident() }
    }
}

impl Driver<'_> {
    fn goes_around(&self, head: &Head) -> bool {
        self.mode == WriteMode::Around && head.tag.is_write()
    }

    /// One past the last request that may share a batch with `start`.
    fn batch_end(&self, start: usize, first_counted: usize, epoch_end: Nanos) -> usize {
        let heads = &self.workload.heads;
        let limit = self.workload.lines.of(start).start + BATCH_TOUCHES;
        let mut end = start + 1;
        while end < heads.len()
            && end != first_counted
            && self.workload.lines.ends[end] as usize <= limit
            && heads[end].time < epoch_end
            && !heads[end].discard
            && !self.goes_around(&heads[end])
        {
            end += 1;
        }
        end
    }

    /// A discard drops its lines; a write around the cache drops them and goes to disk.
    fn without_policy(&mut self, request: usize, policy: &mut dyn CachePolicy) {
        let head = &self.workload.heads[request];
        for at in self.workload.lines.of(request) {
            let line = self.workload.lines.ids[at];
            policy.invalidate(line);
            self.set_dirty(line, false);
        }
        if !head.discard {
            let lines = self.workload.lines.of(request).len() as u64;
            let side = &mut self.counts.writes;
            side.requests += 1;
            side.lines += lines;
            side.bytes += u64::from(head.length);
            self.counts.volumes[head.tag.volume() as usize].requests += 1;
            self.counts.source.disk_writes += lines * self.source_operations();
            let volume = VolumeId(head.tag.volume());
            self.counts.disk(true, volume, head.offset.0, head.length.into());
        }
    }

    fn account(&mut self, requests: Range<usize>, outcomes: &[Outcome]) {
        let base = self.workload.lines.of(requests.start).start;
        for request in requests {
            let touches = self.workload.lines.of(request);
            let outcomes = &outcomes[touches.start - base..touches.end - base];
            self.account_request(request, outcomes);
        }
    }

    fn account_request(&mut self, request: usize, outcomes: &[Outcome]) {
        let head = self.workload.heads[request];
        let mut hits = 0;
        let mut byte_hits = 0;
        let mut from = 0;
        while from < outcomes.len() {
            let fate = Fate::of(outcomes[from]);
            let mut to = from + 1;
            while to < outcomes.len() && Fate::of(outcomes[to]) == fate {
                to += 1;
            }
            let bytes = self.run(&head, outcomes.len(), from..to, fate);
            if fate.hit {
                hits += (to - from) as u64;
                byte_hits += bytes;
            }
            from = to;
        }
        self.count_request(&head, outcomes.len() as u64, hits, byte_hits);
        let first = self.workload.lines.of(request).start;
        self.track_dirt(head.tag, first, outcomes);
    }

    fn count_request(&mut self, head: &Head, lines: u64, hits: u64, byte_hits: u64) {
        let hit = u64::from(hits == lines);
        let side: &mut Side =
            if head.tag.is_write() { &mut self.counts.writes } else { &mut self.counts.reads };
        side.requests += 1;
        side.request_hits += hit;
        side.lines += lines;
        side.line_hits += hits;
        side.bytes += u64::from(head.length);
        side.byte_hits += byte_hits;
        let volume = &mut self.counts.volumes[head.tag.volume() as usize];
        volume.requests += 1;
        volume.request_hits += hit;
    }

    /// Device operations of one run of lines; how many of the request's bytes it covers.
    fn run(&mut self, head: &Head, lines: usize, run: Range<usize>, fate: Fate) -> u64 {
        let (offset, length, whole) = self.span(head, lines, &run);
        let volume = VolumeId(head.tag.volume());
        let charged = run.len() as u64 * self.source_operations();
        let counts = &mut self.counts;
        match (head.tag.is_write(), fate) {
            (false, Fate { hit: true, .. }) => {
                counts.source.flash_reads += charged;
                counts.flash(false, length);
            }
            (false, Fate { resident, .. }) => {
                counts.source.disk_reads += charged;
                let (offset, length) = if resident { whole } else { (offset, length) };
                counts.disk(false, volume, offset, length);
                if resident {
                    counts.source.flash_writes += charged;
                    counts.flash(true, length);
                    counts.moved += length;
                }
            }
            (true, Fate { resident: true, hit }) => {
                counts.source.flash_writes += charged;
                if !hit && whole.1 > length {
                    counts.disk(false, volume, whole.0, whole.1);
                }
                counts.flash(true, if hit { pages(offset, length) } else { whole.1 });
                if self.mode == WriteMode::Through {
                    counts.source.disk_writes += charged;
                    counts.disk(true, volume, offset, length);
                }
            }
            (true, Fate { resident: false, .. }) => {
                counts.source.disk_writes += charged;
                counts.disk(true, volume, offset, length);
            }
        }
        if fate.resident && !fate.hit {
            counts.admitted += run.len() as u64;
        }
        length
    }

    /// The part of the request that a run of its lines covers (offset, length), and the whole lines
    /// (offset, length).
    fn span(&self, head: &Head, lines: usize, run: &Range<usize>) -> (u64, u64, (u64, u64)) {
        let (start, length) = (head.offset.0, u64::from(head.length));
        let line = match self.workload.unit {
            Unit::Objects => return (start, length, (start, length)),
            Unit::Lines(bytes) => bytes.0,
        };
        let first = start / line * line;
        let whole = (first + run.start as u64 * line, run.len() as u64 * line);
        let from = if run.start == 0 { start } else { whole.0 };
        let to = if run.end == lines { start + length } else { whole.0 + whole.1 };
        (from, to - from, whole)
    }

    /// Marks what a write made dirty, and writes back what was evicted dirty.
    fn track_dirt(&mut self, tag: Tag, first: usize, outcomes: &[Outcome]) {
        for (i, outcome) in outcomes.iter().enumerate() {
            if let Some(victim) = outcome.evicted() {
                self.counts.evicted += 1;
                if self.is_dirty(victim) {
                    self.set_dirty(victim, false);
                    self.write_backs.push(victim);
                }
            }
            if tag.is_write() && self.mode == WriteMode::Back {
                let dirty = outcome.is_resident();
                self.set_dirty(self.workload.lines.ids[first + i], dirty);
            }
        }
        if !self.write_backs.is_empty() {
            self.write_back();
        }
    }

    /// Writes back the dirty lines that one request evicted, neighbours together.
    fn write_back(&mut self) {
        let bytes = self.workload.line_bytes().0;
        let charged = self.source_operations();
        let address = |line: &LineId| self.workload.lines.address(*line);
        self.write_backs.sort_unstable_by_key(address);
        let runs = self.write_backs.chunk_by(|a, b| {
            let ((volume, unit), next) = (address(a), address(b));
            next == (volume, unit + 1)
        });
        let counts = &mut self.counts;
        for run in runs {
            let (volume, unit) = address(&run[0]);
            let lines = run.len() as u64;
            counts.written_back += lines;
            counts.source.flash_reads += lines * charged;
            counts.source.disk_writes += lines * charged;
            counts.flash(false, lines * bytes);
            counts.disk(true, volume, unit * bytes, lines * bytes);
            counts.moved += lines * bytes;
        }
        self.write_backs.clear();
    }

    /// Operations the source charges for one line.
    fn source_operations(&self) -> u64 {
        self.workload.line_bytes().0.div_ceil(SOURCE_OPERATION.0)
    }

    #[inline]
    fn is_dirty(&self, line: LineId) -> bool {
        self.dirty[line.index() / 64] >> (line.index() % 64) & 1 == 1
    }

    #[inline]
    fn set_dirty(&mut self, line: LineId, dirty: bool) {
        let bit = 1 << (line.index() % 64);
        let word = &mut self.dirty[line.index() / 64];
        *word = if dirty { *word | bit } else { *word & !bit };
    }
}
