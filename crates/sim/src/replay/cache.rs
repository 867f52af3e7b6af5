//! Driving a per-access cache policy: batches of lines in, hits, evictions and device traffic out.
//!
//! Batches end where order matters to more than the policy: at a discard, at the end of an epoch,
//! at the end of the warm-up, and at every write when writes go around the cache.

use super::accounting::Accountant;
use super::books::Fate;
use super::counts::Counts;
use super::{Epochs, ReplayOptions, WarmUp};
use crate::workload::{Block, Head, Names, Unit};
use std::ops::Range;
use thermocline_policy::Footprint;
use thermocline_policy::cache::{CachePolicy, Outcome};
use thermocline_units::{LineId, Nanos};

/// Touches handed to a policy at once, unless one request has more.
const BATCH_TOUCHES: usize = 4096;

/// A cache policy in the middle of a replay.
pub struct CacheReplay {
    policy: Box<dyn CachePolicy>,
    accountant: Accountant,
    epochs: Epochs,
    warm_up: WarmUp,
    outcomes: Vec<Outcome>,
}

impl CacheReplay {
    /// Before the first request.
    pub fn new(policy: Box<dyn CachePolicy>, unit: Unit, options: &ReplayOptions) -> CacheReplay {
        CacheReplay {
            policy,
            accountant: Accountant::new(1, options.write_mode, unit),
            epochs: Epochs::new(options.epoch),
            warm_up: WarmUp::new(options.warmup),
            outcomes: vec![Outcome::HIT; BATCH_TOUCHES],
        }
    }

    /// Replays what comes next.
    pub fn feed(&mut self, names: &Names, block: &Block) {
        self.policy.reserve(names.distinct_lines());
        self.accountant.reserve(names.distinct_lines());
        let counted_from = self.warm_up.ends_in(&block.heads);
        let mut start = 0;
        while start < block.heads.len() {
            if Some(start) == counted_from {
                self.accountant.restart();
            }
            let head = &block.heads[start];
            while let Some(end) = self.epochs.passed(head.time) {
                self.policy.end_epoch(end);
            }
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

    /// The counts, and the policy's memory.
    pub fn finish(self) -> (Counts, Footprint) {
        let footprint = self.policy.footprint();
        let mut counts = self.accountant.close();
        (counts.remove(0), footprint)
    }

    /// A discard drops its lines; a write around the cache drops them and goes to disk.
    fn without_policy(&mut self, block: &Block, request: usize) {
        let touches = block.lines.of(request);
        for line in &block.lines.ids[touches.clone()] {
            self.policy.invalidate(*line);
            self.accountant.dropped(*line);
        }
        if !block.heads[request].discard {
            self.accountant.around(&block.heads[request], touches.len() as u64);
        }
    }

    fn access(&mut self, names: &Names, block: &Block, requests: Range<usize>) {
        let touches = block.lines.of(requests.start).start..block.lines.of(requests.end - 1).end;
        if self.outcomes.len() < touches.len() {
            self.outcomes.resize(touches.len(), Outcome::HIT);
        }
        let outcomes = &mut self.outcomes[..touches.len()];
        let lines = &block.lines.ids[touches.clone()];
        self.policy.access_batch(lines, &block.tags[touches.clone()], outcomes);
        for request in requests {
            let own = block.lines.of(request);
            let own = own.start - touches.start..own.end - touches.start;
            let (lines, outcomes) = (&lines[own.clone()], &outcomes[own]);
            account(&mut self.accountant, names, &block.heads[request], lines, outcomes);
        }
    }
}

#[inline]
fn account(
    accountant: &mut Accountant,
    names: &Names,
    head: &Head,
    lines: &[LineId],
    outcomes: &[Outcome],
) {
    let write = head.tag.is_write();
    let fate = |i: usize| {
        let outcome: Outcome = outcomes[i];
        Fate { write, hit: outcome.is_hit(), resident: outcome.is_resident() }
    };
    if lines.len() == 1 {
        accountant.single(head, fate(0));
    } else {
        accountant.runs(0..1, head, lines.len(), fate);
        let hit = outcomes.iter().all(|outcome| outcome.is_hit());
        accountant.request(head, lines.len(), usize::from(!hit));
    }
    for (line, outcome) in lines.iter().zip(outcomes) {
        if let Some(victim) = outcome.evicted() {
            accountant.evicted(0, victim);
        }
        if write {
            accountant.written(*line, outcome.is_resident());
        }
    }
    accountant.write_back(names);
}

/// Where batches end.
pub(super) struct Batch<'a> {
    pub(super) block: &'a Block,
    pub(super) counted_from: Option<usize>,
    pub(super) epoch_end: Nanos,
}

impl Batch<'_> {
    /// One past the last request that may share a batch with `start`.
    pub(super) fn end(&self, start: usize, goes_around: impl Fn(&Head) -> bool) -> usize {
        let Block { heads, lines, .. } = self.block;
        let limit = lines.of(start).start + BATCH_TOUCHES;
        let mut end = start + 1;
        while end < heads.len()
            && Some(end) != self.counted_from
            && lines.ends[end] as usize <= limit
            && heads[end].time < self.epoch_end
            && !heads[end].discard
            && !goes_around(&heads[end])
        {
            end += 1;
        }
        end
    }
}
