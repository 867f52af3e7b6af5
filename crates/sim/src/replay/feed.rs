//! Feeding blocks to a cache: what comes in a batch, and what interrupts one.
//!
//! Batches end where order matters to more than the policy: at a discard, at the end of an epoch,
//! at the end of the warm-up, and at every write when writes go around the cache.

use super::accounting::Accountant;
use super::{Epochs, ReplayOptions, WarmUp};
use crate::workload::{Block, Head, Names, Unit};
use std::ops::Range;
use thermocline_units::{LineId, Nanos};

/// Touches handed over at once, unless one request has more.
pub(super) const BATCH_TOUCHES: usize = 4096;

/// Target of a replay: one cache, or many sizes of one.
pub(super) trait Replayed {
    /// Lines below `universe` may be named from now on.
    fn reserve(&mut self, universe: u32);

    /// An epoch ended.
    fn end_epoch(&mut self, now: Nanos);

    /// Drops a line that is discarded or written around.
    fn invalidate(&mut self, line: LineId);

    /// Accesses the lines of these requests of the block, and makes the entries.
    fn access(
        &mut self,
        accountant: &mut Accountant,
        names: &Names,
        block: &Block,
        requests: Range<usize>,
    );
}

/// Feeds blocks, and keeps the books.
pub(super) struct Feeder {
    pub(super) accountant: Accountant,
    epochs: Epochs,
    warm_up: WarmUp,
}

impl Feeder {
    pub(super) fn new(sizes: usize, unit: Unit, options: &ReplayOptions) -> Feeder {
        Feeder {
            accountant: Accountant::new(sizes, options.write_mode, unit),
            epochs: Epochs::new(options.epoch),
            warm_up: WarmUp::new(options.warmup),
        }
    }

    pub(super) fn feed(&mut self, replayed: &mut impl Replayed, names: &Names, block: &Block) {
        replayed.reserve(names.distinct_lines());
        self.accountant.reserve(names.distinct_lines());
        let counted_from = self.warm_up.ends_in(&block.heads);
        let mut start = 0;
        while start < block.heads.len() {
            if Some(start) == counted_from {
                self.accountant.restart();
            }
            let head = &block.heads[start];
            while let Some(end) = self.epochs.passed(head.time) {
                replayed.end_epoch(end);
            }
            if head.discard || self.accountant.goes_around(head) {
                self.past(replayed, block, start);
                start += 1;
                continue;
            }
            let end = self.batch_end(block, start, counted_from);
            replayed.access(&mut self.accountant, names, block, start..end);
            start = end;
        }
    }

    /// A discard drops its lines; a write around the cache drops them and goes to disk.
    fn past(&mut self, replayed: &mut impl Replayed, block: &Block, request: usize) {
        let touches = block.lines.of(request);
        for line in &block.lines.ids[touches.clone()] {
            replayed.invalidate(*line);
            self.accountant.dropped(*line);
        }
        if !block.heads[request].discard {
            self.accountant.around(&block.heads[request], touches.len() as u64);
        }
    }

    /// One past the last request that may share a batch with `start`.
    fn batch_end(&self, block: &Block, start: usize, counted_from: Option<usize>) -> usize {
        let Block { heads, lines, mix, .. } = block;
        let after = &heads[start + 1..];
        let epoch_end = self.epochs.next_end();
        let joining = if mix.discards || mix.writes && self.accountant.writes_go_around() {
            let joins = |head: &Head| {
                head.time < epoch_end && !head.discard && !self.accountant.goes_around(head)
            };
            after.iter().position(|head| !joins(head)).unwrap_or(after.len())
        } else {
            after.partition_point(|head| head.time < epoch_end)
        };
        let limit = lines.of(start).start + BATCH_TOUCHES;
        let fitting =
            lines.ends[start + 1..][..joining].partition_point(|end| *end as usize <= limit);
        let end = start + 1 + fitting;
        counted_from.filter(|from| (start + 1..end).contains(from)).unwrap_or(end)
    }
}

/// The touches of a run of requests.
pub(super) fn touches_of(block: &Block, requests: &Range<usize>) -> Range<usize> {
    block.lines.of(requests.start).start..block.lines.of(requests.end - 1).end
}
