//! Shadows: what other choices would have saved, from a sample of what passes.
//!
//! 1. *Regions.* A flow is cut very coarsely (64 KiB), by content. Behind one cut in
//!    [`ONE_IN`], drawn by a hash of the bytes before it, a *region* of [`REGION_BYTES`] is
//!    collected: some 1/18 of what passes. Where a region begins depends on content only, so
//!    content that comes again is looked at again, wherever it stands. Runs of one byte, where
//!    every cut would be drawn or none, are not.
//! 2. A whole region is cut by each choice that is wanted. Of sizes below 1 KiB only chunks with a
//!    fitting fingerprint are looked at, so that small sizes cost no more memory than large ones.
//! 3. Each choice has a table of the chunks that it would have kept, each with the time of its last
//!    use on the choice's own clock: bytes that it would have put into the cache. What was used
//!    longer ago than the cache is large would have been overwritten.
//!
//! Not counted here: compression and references' own length (`classes.rs` does). What passes while
//! nothing is wanted is a hole in every table. A cache of less than some MiB is judged by what
//! repeats within a region alone.
//!
//! Source: sampling by content as in SHARDS (Waldspurger et al., FAST 2015) and in sampled indices
//! of deduplication; the regions are ours, because cut points of unlike sizes share nothing that
//! could be sampled. Memory: 8 B a sampled chunk; for a cache of 1 GiB 10 MiB together, and up to
//! [`OPEN_MAX`] regions. Duration: one coarse pass over all bytes, and twenty over 1/18 of them.

#[cfg(test)]
mod tests;

use crate::chunkings::chunking;
use crate::shared::Shared;
use thermocline_chunking::Chunker;
use thermocline_policy::tunnel::{Choice, Choices, ChunkSize};
use thermocline_units::Bytes;

/// Regions begin behind one coarse cut in so many.
const ONE_IN: u64 = 32;
/// Bytes of a region.
const REGION_BYTES: usize = 128 << 10;
/// Regions that are collected at the same time.
const OPEN_MAX: usize = 16;
/// Bytes before a cut by which it is drawn.
const TAIL_BYTES: usize = 64;
/// Chunks of smaller sizes are sampled down to as many as of this one.
const GRAIN_BYTES: u64 = 1024;
/// Bytes a tick of a table's clock.
const TICK_BYTES: u64 = 4096;
/// Sampled share of all bytes, for the size of tables: one byte in so many.
const SHARE: u64 = 16;
/// Chunks that fingerprints may lead to in one place.
const WAYS: usize = 4;
const BUCKETS_MIN: u64 = 64;
const BUCKETS_MAX: u64 = 32 * 1024;

/// Result of a region under one choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Finding {
    pub(crate) choice: Choice,
    /// Share of the bytes that would have been references, 0 to 1.
    pub(crate) found: f64,
    /// Chunks a byte.
    pub(crate) density: f64,
}

/// Chunks that a choice would have kept.
struct Table {
    /// A tag (upper half) and the tick of its last use plus 1 (lower half); 0 is empty.
    buckets: Vec<[u64; WAYS]>,
    /// Bytes that the choice would have put into the cache.
    clock: u64,
    /// Ticks after which a chunk would have been overwritten.
    lasts: u32,
}

impl Table {
    fn new(capacity: Bytes, size: ChunkSize) -> Table {
        let chunks = 2 * capacity.0 / SHARE / u64::from(size.bytes()).max(GRAIN_BYTES);
        let buckets = (chunks / WAYS as u64).next_power_of_two().clamp(BUCKETS_MIN, BUCKETS_MAX);
        let lasts = (capacity.0 / TICK_BYTES).min(u64::from(u32::MAX / 2)) as u32;
        Table { buckets: vec![[0; WAYS]; buckets as usize], clock: 0, lasts }
    }

    /// True if a chunk of this fingerprint is there; it was used now in any case.
    fn uses(&mut self, fingerprint: u64) -> bool {
        let now = (self.clock / TICK_BYTES) as u32;
        let at = (fingerprint >> 32) as usize % self.buckets.len();
        let bucket = &mut self.buckets[at];
        let tag = fingerprint << 32;
        let age = |entry: u64| match entry {
            0 => u32::MAX,
            entry => now.wrapping_add(1).wrapping_sub(entry as u32),
        };
        let same = bucket.iter().position(|&entry| entry != 0 && entry >> 32 == tag >> 32);
        let oldest = || (0..WAYS).max_by_key(|&way| age(bucket[way])).expect("there are ways");
        let way = same.unwrap_or_else(oldest);
        let is_there = same.is_some() && age(bucket[way]) <= self.lasts;
        bucket[way] = tag | u64::from(now.wrapping_add(1));
        is_there
    }
}

/// The tables of one end, for all its flows.
pub(crate) struct Shadows {
    capacity: Bytes,
    tables: [Option<Table>; Choice::COUNT],
    /// Regions that flows collect.
    open: usize,
    /// Bytes that passed since the last region was judged.
    passed: u64,
}

impl Shadows {
    /// Those of a cache of this capacity.
    pub(crate) fn new(capacity: Bytes) -> Shadows {
        Shadows { capacity, tables: [const { None }; Choice::COUNT], open: 0, passed: 0 }
    }

    /// A new connection: the flows of the last one are gone.
    pub(crate) fn begin(&mut self) {
        self.open = 0;
    }

    /// Bytes of the tables.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        let tables = self.tables.iter().flatten();
        tables.map(|table| table.buckets.len() * size_of::<[u64; WAYS]>()).sum()
    }
}

pub(crate) struct Region {
    /// Position in the flow.
    from: u64,
    bytes: Vec<u8>,
}

/// The state that shadows keep of one flow.
pub(crate) struct Scout {
    scope: u64,
    /// Bytes of the flow that passed.
    position: u64,
    /// Cuts coarsely; none while shadows rest.
    coarse: Option<Chunker>,
    /// The last bytes.
    tail: Vec<u8>,
    region: Option<Region>,
}

impl Scout {
    pub(crate) fn new(scope: u64) -> Scout {
        Scout { scope, position: 0, coarse: None, tail: Vec::new(), region: None }
    }

    /// Bytes pass while nothing is wanted.
    pub(crate) fn rest(&mut self, bytes: usize, shared: &mut Shared) {
        self.position += bytes as u64;
        if self.coarse.take().is_some() {
            self.tail = Vec::new();
            self.drop_region(shared);
        }
    }

    /// Bytes pass, and `wanted` is wanted: what the regions that end among them were.
    pub(crate) fn pass(
        &mut self,
        bytes: &[u8],
        wanted: Choices,
        shared: &mut Shared,
    ) -> Vec<Finding> {
        shared.shadows.passed += bytes.len() as u64;
        let coarse =
            self.coarse.get_or_insert_with(|| chunking(Choice::Content(ChunkSize::MAX)).chunker());
        let start = coarse.position();
        let mut cuts = Vec::new();
        coarse.push(bytes, &mut cuts);
        let mut findings = Vec::new();
        let mut at = 0;
        for cut in cuts.into_iter().map(|cut| (cut - start) as usize).chain([bytes.len()]) {
            self.advance(&bytes[at..cut], wanted, shared, &mut findings);
            at = cut;
            if cut < bytes.len() && self.is_drawn(shared) {
                shared.shadows.open += 1;
                self.region = Some(Region { from: self.position, bytes: Vec::new() });
            }
        }
        findings
    }

    /// The flow has ended: what its last region was, if one is open.
    pub(crate) fn end(&mut self, wanted: Choices, shared: &mut Shared) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(region) = self.drop_region(shared) {
            self.judge(&region, wanted, shared, &mut findings);
        }
        findings
    }

    /// Forgets a region that is under way.
    pub(crate) fn drop_region(&mut self, shared: &mut Shared) -> Option<Region> {
        let region = self.region.take()?;
        shared.shadows.open = shared.shadows.open.saturating_sub(1);
        Some(region)
    }

    fn is_drawn(&self, shared: &Shared) -> bool {
        let is_free = self.region.is_none() && shared.shadows.open < OPEN_MAX;
        let is_run = self.tail.iter().all(|byte| *byte == self.tail[0]);
        is_free && !is_run && shared.fingerprint(self.scope, &self.tail).is_multiple_of(ONE_IN)
    }

    /// Passes over bytes without a coarse cut.
    fn advance(
        &mut self,
        bytes: &[u8],
        wanted: Choices,
        shared: &mut Shared,
        findings: &mut Vec<Finding>,
    ) {
        self.position += bytes.len() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
        let Some(region) = &mut self.region else { return };
        let room = REGION_BYTES - region.bytes.len();
        region.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if region.bytes.len() == REGION_BYTES {
            let region = self.drop_region(shared).expect("it was there");
            self.judge(&region, wanted, shared, findings);
        }
    }

    fn judge(
        &self,
        region: &Region,
        wanted: Choices,
        shared: &mut Shared,
        findings: &mut Vec<Finding>,
    ) {
        let passed = std::mem::take(&mut shared.shadows.passed);
        for choice in wanted.iter() {
            let Some(size) = choice.size() else { continue };
            let slot = choice.index();
            let capacity = shared.shadows.capacity;
            let table = shared.shadows.tables[slot].take();
            let mut table = table.unwrap_or_else(|| Table::new(capacity, size));
            if let Some(finding) = self.cut(region, (choice, size), &mut table, shared) {
                table.clock += (passed as f64 * (1.0 - finding.found)) as u64;
                findings.push(finding);
            }
            shared.shadows.tables[slot] = Some(table);
        }
    }

    /// Cuts a region by one choice; `None` if no whole chunk lies in it.
    fn cut(
        &self,
        region: &Region,
        (choice, size): (Choice, ChunkSize),
        table: &mut Table,
        shared: &Shared,
    ) -> Option<Finding> {
        let (mut start, ends) = ends(region, choice, size);
        let one_in = (GRAIN_BYTES / u64::from(size.bytes())).max(1);
        let longest = shared.shadows.capacity.0 as usize / 8;
        let (mut chunks, mut bytes, mut looked, mut found) = (0_u64, 0, 0, 0);
        for end in ends {
            let chunk = &region.bytes[start..end];
            start = end;
            chunks += 1;
            bytes += chunk.len();
            let fingerprint = shared.fingerprint(self.scope, chunk);
            if (fingerprint >> 20).is_multiple_of(one_in) {
                looked += chunk.len();
                let is_kept = chunk.len() <= longest;
                found += if is_kept && table.uses(fingerprint) { chunk.len() } else { 0 };
            }
        }
        (looked > 0).then(|| Finding {
            choice,
            found: found as f64 / looked as f64,
            density: chunks as f64 / bytes as f64,
        })
    }
}

/// The start of a region's first chunk under a choice, and the ends of its whole chunks.
fn ends(region: &Region, choice: Choice, size: ChunkSize) -> (usize, Vec<usize>) {
    let length = region.bytes.len();
    match choice {
        Choice::Content(_) => {
            let mut cuts = Vec::new();
            chunking(choice).chunker().push(&region.bytes, &mut cuts);
            (0, cuts.into_iter().map(|cut| cut as usize).collect())
        }
        _ => {
            // Fixed chunks lie where they do in the flow.
            let size = size.bytes() as usize;
            let start = (size - (region.from % size as u64) as usize) % size;
            (start, (start + size..=length).step_by(size).collect())
        }
    }
}
