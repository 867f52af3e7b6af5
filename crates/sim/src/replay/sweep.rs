//! Driving LRU at many sizes in one pass.
//!
//! Every size is accounted for exactly as a replay of its own would be (a test compares them), but
//! sizes that fare alike share their entries: the distinct numbers of sizes that a request's lines
//! miss in split the sizes into a few ranges.

use super::accounting::Accountant;
use super::books::Fate;
use super::cache::Batch;
use super::counts::Counts;
use super::{Epochs, ReplayOptions, WarmUp};
use crate::workload::{Block, Head, Names, Unit};
use std::ops::Range;
use thermocline_policy::Footprint;
use thermocline_policy::cache::LruSweep;
use thermocline_policy::registry::SettingsError;
use thermocline_units::LineId;

/// LRU at several sizes in the middle of a replay.
pub struct SweepReplay {
    sweep: LruSweep,
    accountant: Accountant,
    epochs: Epochs,
    warm_up: WarmUp,
    missed: Vec<u8>,
    /// Evictions of the current batch: touch, size, line.
    evicted: Vec<(u32, u8, LineId)>,
    /// The distinct values of `missed` in the current request, ascending.
    splits: Vec<u8>,
}

impl SweepReplay {
    /// Sizes in one sweep at most.
    pub const SIZES_MAX: usize = LruSweep::SIZES_MAX;

    /// Before the first request; `capacities` in lines, strictly ascending.
    ///
    /// # Errors
    /// When the largest capacity is more than a policy can number.
    pub fn new(
        capacities: &[u32],
        unit: Unit,
        options: &ReplayOptions,
    ) -> Result<SweepReplay, SettingsError> {
        Ok(SweepReplay {
            sweep: LruSweep::new(capacities)?,
            accountant: Accountant::new(capacities.len(), options.write_mode, unit),
            epochs: Epochs::new(options.epoch),
            warm_up: WarmUp::new(options.warmup),
            missed: Vec::new(),
            evicted: Vec::new(),
            splits: Vec::new(),
        })
    }

    /// Replays what comes next.
    pub fn feed(&mut self, names: &Names, block: &Block) {
        self.sweep.reserve(names.distinct_lines());
        self.accountant.reserve(names.distinct_lines());
        let counted_from = self.warm_up.ends_in(&block.heads);
        let mut start = 0;
        while start < block.heads.len() {
            if Some(start) == counted_from {
                self.accountant.restart();
            }
            let head = &block.heads[start];
            while self.epochs.passed(head.time).is_some() {}
            if head.discard || self.accountant.goes_around(head) {
                self.without_policy(block, start);
                start += 1;
                continue;
            }
            let batch = Batch { block, counted_from, epoch_end: self.epochs.next_end() };
            let end = batch.end(start, |head| self.accountant.goes_around(head));
            self.access(names, block, start..end);
            start = end;
        }
    }

    /// The counts, one a size, and the memory of all sizes together.
    pub fn finish(self) -> (Vec<Counts>, Footprint) {
        let footprint = self.sweep.footprint();
        (self.accountant.close(), footprint)
    }

    fn without_policy(&mut self, block: &Block, request: usize) {
        let touches = block.lines.of(request);
        for line in &block.lines.ids[touches.clone()] {
            self.sweep.invalidate(*line);
            self.accountant.dropped(*line);
        }
        if !block.heads[request].discard {
            self.accountant.around(&block.heads[request], touches.len() as u64);
        }
    }

    fn access(&mut self, names: &Names, block: &Block, requests: Range<usize>) {
        let touches = block.lines.of(requests.start).start..block.lines.of(requests.end - 1).end;
        let lines = &block.lines.ids[touches.clone()];
        self.missed.clear();
        self.missed.resize(lines.len(), 0);
        self.evicted.clear();
        let evicted = &mut self.evicted;
        self.sweep.access_batch(lines, &mut self.missed, |touch, size, line| {
            evicted.push((touch as u32, size as u8, line));
        });
        let mut next_eviction = 0;
        for request in requests {
            let own = block.lines.of(request);
            let own = own.start - touches.start..own.end - touches.start;
            self.account(&block.heads[request], own.clone());
            for touch in own {
                while let Some((at, size, line)) = self.evicted.get(next_eviction) {
                    if *at as usize != touch {
                        break;
                    }
                    self.accountant.evicted((*size).into(), *line);
                    next_eviction += 1;
                }
                if block.heads[request].tag.is_write() {
                    self.accountant.written(lines[touch], true);
                }
            }
            self.accountant.write_back(names);
        }
    }

    /// Makes the entries of one request, range of sizes by range of sizes.
    fn account(&mut self, head: &Head, touches: Range<usize>) {
        let missed = &self.missed[touches];
        self.splits.clear();
        self.splits.extend_from_slice(missed);
        if missed.len() > 1 {
            self.splits.sort_unstable();
            self.splits.dedup();
        }
        let sizes = self.sweep.capacities().len();
        let write = head.tag.is_write();
        let mut from = 0;
        for to in self.splits.iter().map(|split| usize::from(*split)).chain([sizes]) {
            if from == to {
                continue;
            }
            let fate =
                |i: usize| Fate { write, hit: usize::from(missed[i]) <= from, resident: true };
            self.accountant.runs(from..to, head, missed.len(), fate);
            from = to;
        }
        let worst = self.splits.last().copied().unwrap_or(0);
        self.accountant.request(head, missed.len(), worst.into());
    }
}
