//! Driving a per-access cache policy: batches of lines in, hits, evictions and device traffic out.

use super::ReplayOptions;
use super::accounting::Accountant;
use super::books::Fate;
use super::counts::Counts;
use super::feed::{BATCH_TOUCHES, Feeder, Replayed, touches_of};
use crate::workload::{Block, Head, Names, Unit};
use std::ops::Range;
use thermocline_policy::Footprint;
use thermocline_policy::cache::{CachePolicy, Outcome};
use thermocline_units::{LineId, Nanos};

/// A cache policy in the middle of a replay.
pub(crate) struct CacheReplay {
    cache: Cache,
    feeder: Feeder,
}

struct Cache {
    policy: Box<dyn CachePolicy>,
    outcomes: Vec<Outcome>,
}

impl CacheReplay {
    /// Before the first request.
    pub(crate) fn new(
        policy: Box<dyn CachePolicy>,
        unit: Unit,
        options: &ReplayOptions,
    ) -> CacheReplay {
        CacheReplay {
            cache: Cache { policy, outcomes: vec![Outcome::HIT; BATCH_TOUCHES] },
            feeder: Feeder::new(1, unit, options),
        }
    }

    /// Replays what comes next.
    pub(crate) fn feed(&mut self, names: &Names, block: &Block) {
        self.feeder.feed(&mut self.cache, names, block);
    }

    /// The reason why the policy's answers no longer count, if there is one.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.cache.policy.failure()
    }

    /// The counts, and the policy's memory.
    pub(crate) fn finish(self) -> (Counts, Footprint) {
        let footprint = self.cache.policy.footprint();
        let mut counts = self.feeder.accountant.close();
        (counts.remove(0), footprint)
    }
}

impl Replayed for Cache {
    fn reserve(&mut self, universe: u32) {
        self.policy.reserve(universe);
    }

    fn end_epoch(&mut self, now: Nanos) {
        self.policy.end_epoch(now);
    }

    fn invalidate(&mut self, line: LineId) {
        self.policy.invalidate(line);
    }

    fn access(
        &mut self,
        accountant: &mut Accountant,
        names: &Names,
        block: &Block,
        requests: Range<usize>,
    ) {
        let touches = touches_of(block, &requests);
        if self.outcomes.len() < touches.len() {
            self.outcomes.resize(touches.len(), Outcome::HIT);
        }
        let outcomes = &mut self.outcomes[..touches.len()];
        let lines = &block.lines.ids[touches.clone()];
        self.policy.access_batch(lines, &block.tags[touches.clone()], outcomes);
        if block.mix.is_reads_of_one_line() && accountant.has_nothing_dirty() {
            accountant.reads_of_one_line(&block.heads[requests], outcomes);
            return;
        }
        for request in requests {
            let own = block.lines.of(request);
            let own = own.start - touches.start..own.end - touches.start;
            let (lines, outcomes) = (&lines[own.clone()], &outcomes[own]);
            account(accountant, names, &block.heads[request], lines, outcomes);
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
