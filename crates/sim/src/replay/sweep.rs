//! Driving LRU at many sizes in one pass.
//!
//! Every size is accounted for exactly as a replay of its own would be (a test compares them), but
//! sizes that fare alike share their entries: the distinct numbers of sizes that a request's lines
//! miss in split the sizes into a few ranges.

use super::ReplayOptions;
use super::accounting::Accountant;
use super::books::Fate;
use super::counts::Counts;
use super::feed::{Feeder, Replayed, touches_of};
use crate::workload::{Block, Head, Names, Unit};
use std::ops::Range;
use thermocline_policy::Footprint;
use thermocline_policy::cache::LruSweep;
use thermocline_policy::registry::SettingsError;
use thermocline_units::{LineId, Nanos};

/// LRU at several sizes in the middle of a replay.
pub(crate) struct SweepReplay {
    sizes: Sizes,
    feeder: Feeder,
}

struct Sizes {
    sweep: LruSweep,
    missed: Vec<u8>,
    /// Evictions of the current batch: touch, size, line.
    evicted: Vec<(u32, u8, LineId)>,
    /// The distinct values of `missed` in the current request, ascending.
    splits: Vec<u8>,
}

impl SweepReplay {
    /// Sizes in one sweep at most.
    pub(crate) const SIZES_MAX: usize = LruSweep::SIZES_MAX;

    /// Before the first request; `capacities` in lines, strictly ascending.
    ///
    /// # Errors
    /// When the largest capacity is more than a policy can number.
    pub(crate) fn new(
        capacities: &[u32],
        unit: Unit,
        options: &ReplayOptions,
    ) -> Result<SweepReplay, SettingsError> {
        let sweep = LruSweep::new(capacities)?;
        let (missed, evicted, splits) = (Vec::new(), Vec::new(), Vec::new());
        Ok(SweepReplay {
            sizes: Sizes { sweep, missed, evicted, splits },
            feeder: Feeder::new(capacities.len(), unit, options),
        })
    }

    /// Replays what comes next.
    pub(crate) fn feed(&mut self, names: &Names, block: &Block) {
        self.feeder.feed(&mut self.sizes, names, block);
    }

    /// The counts, one a size, and the memory of all sizes together.
    pub(crate) fn finish(self) -> (Vec<Counts>, Footprint) {
        let footprint = self.sizes.sweep.footprint();
        (self.feeder.accountant.close(), footprint)
    }
}

impl Replayed for Sizes {
    fn reserve(&mut self, universe: u32) {
        self.sweep.reserve(universe);
    }

    fn end_epoch(&mut self, _now: Nanos) {}

    fn invalidate(&mut self, line: LineId) {
        self.sweep.invalidate(line);
    }

    fn access(
        &mut self,
        accountant: &mut Accountant,
        names: &Names,
        block: &Block,
        requests: Range<usize>,
    ) {
        let touches = touches_of(block, &requests);
        let lines = &block.lines.ids[touches.clone()];
        self.missed.clear();
        self.missed.resize(lines.len(), 0);
        if block.mix.is_reads_of_one_line() && accountant.has_nothing_dirty() {
            let mut evicted = [0; LruSweep::SIZES_MAX];
            self.sweep.access_batch(lines, &mut self.missed, |_, size, _| evicted[size] += 1);
            accountant.reads_in_sizes(&block.heads[requests], &self.missed, &evicted);
            return;
        }
        self.evicted.clear();
        let evicted = &mut self.evicted;
        self.sweep.access_batch(lines, &mut self.missed, |touch, size, line| {
            evicted.push((touch as u32, size as u8, line));
        });
        let mut next_eviction = 0;
        for request in requests {
            let own = block.lines.of(request);
            let own = own.start - touches.start..own.end - touches.start;
            self.account(accountant, &block.heads[request], own.clone());
            for touch in own {
                while let Some((at, size, line)) = self.evicted.get(next_eviction) {
                    if *at as usize != touch {
                        break;
                    }
                    accountant.evicted((*size).into(), *line);
                    next_eviction += 1;
                }
                if block.heads[request].tag.is_write() {
                    accountant.written(lines[touch], true);
                }
            }
            accountant.write_back(names);
        }
    }
}

impl Sizes {
    /// Makes the entries of one request, range of sizes by range of sizes.
    fn account(&mut self, accountant: &mut Accountant, head: &Head, touches: Range<usize>) {
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
            accountant.runs(from..to, head, missed.len(), fate);
            from = to;
        }
        let worst = self.splits.last().copied().unwrap_or(0);
        accountant.request(head, missed.len(), worst.into());
    }
}
