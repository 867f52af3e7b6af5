//! Scores of hints at an epoch's end: of sources by class, and of pins.
//!
//! `accounts` knows by chunk how much less, or longer, users waited. The score of a source's class
//! is the mean over the bytes of which its hints decide, quiet ones counted as neutral. It moves by
//! [`NEWEST`] in epochs that say something of the class, and stays in others.

use super::accounts::{NEUTRAL, PinScore, Waits};
use super::director::taking;
use super::store::{Hints, Living, Sum, TRUST};
use crate::placement::{PoolChange, VolumeView};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};

/// Weight of the newest epoch in a score.
const NEWEST: f64 = 0.3;
/// Accesses to a volume group's hinted and other chunks below which an epoch says nothing.
const ACCESSES_MIN: u64 = 64;

/// Accuracy of a source about a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    /// 0 wrong, 1 right.
    pub value: f64,
    /// Epochs that said something.
    pub epochs: u32,
    /// Chunks of the class, and accesses to them, in the last epoch with requests.
    pub chunks: u64,
    /// See `chunks`.
    pub accesses: u64,
    /// Bytes that the class decides of, and those of which accesses say something.
    pub bytes: u64,
    /// See `bytes`.
    pub proved: u64,
    /// Time saved and lost since the start.
    pub waits: Waits,
}

pub(super) const UNKNOWN: Score = Score {
    value: NEUTRAL,
    epochs: 0,
    chunks: 0,
    accesses: 0,
    bytes: 0,
    proved: 0,
    waits: Waits { saved: 0.0, lost: 0.0 },
};

impl Hints {
    /// Reasons of hints for a chunk's place, a line each; nothing where nobody said anything.
    pub fn explain(&self, now: Nanos, chunk: ChunkId, chunk_size: Bytes) -> Vec<String> {
        let mut lines = Vec::new();
        let told = |(waits, value): (Waits, f64)| {
            let (saved, lost) = (waits.saved * 1e3, waits.lost * 1e3);
            format!("lately it saved {saved:.1} ms of waiting and lost {lost:.1} ms: {value:.2}")
        };
        if let Some(hint) = self.decides(now, chunk, chunk_size, |_, _| true) {
            let source = &self.sources[usize::from(hint.source)];
            let score = source.scores[usize::from(hint.class)].value;
            let class = &self.classes().get(hint.class).name;
            lines.push(format!(
                "hint of {}: class {class}; the score of such hints is {score:.2}, from 0 (wrong) to 1 \
                 (right)",
                source.name
            ));
            let account = self.accounts.of(chunk, (hint.source, hint.class));
            lines.push(
                account.map_or(
                    "this chunk is used too little to judge the hint by it".to_string(),
                    told,
                ),
            );
            if !self.trusts(chunk, hint.source, hint.class) {
                lines.push(format!("below {TRUST}, so the hint is not followed here"));
            }
        }
        if let Some(account) = self.accounts.of_pin(chunk) {
            lines.push(format!("it is pinned, which keeps it from moving; {}", told(account)));
        }
        lines
    }

    /// Pools are at other places, and so is what is known by a pool's place.
    pub fn pools_changed(&mut self, change: PoolChange) {
        change.shift(&mut self.pins, PinScore::default());
        self.accounts.pools_changed(change);
    }

    /// Lets go of pins that cost more than they save, and of those beyond the budget.
    pub(super) fn hold_pins(&mut self, view: &dyn VolumeView, living: &mut [Living]) {
        self.pins.resize_with(usize::from(view.pool_count()), PinScore::default);
        for (pool, score) in (0..).map(PoolId).zip(&mut self.pins) {
            let most = (view.capacity_chunks(pool) as f64 * self.pin_share) as u64;
            *score = PinScore { waits: score.waits, budget: most, ..PinScore::default() };
        }
        for one in living.iter().filter(|one| one.pinned) {
            let score = &mut self.pins[usize::from(one.home.0)];
            score.by_name += 1;
            score.budget = score.budget.saturating_sub(1);
        }
        let followed = |one: &Living| one.hint.is_some_and(|(_, hint)| hint.pinned);
        let mut pinned: Vec<&mut Living> =
            living.iter_mut().filter(|one| followed(one) && !one.pinned).collect();
        // The most accessed first.
        pinned.sort_by_key(|one| std::cmp::Reverse(one.accesses.all()));
        for one in pinned {
            let score = &mut self.pins[usize::from(one.home.0)];
            let count = match self.accounts.trusts_pin(one.chunk) {
                false => &mut score.wrong,
                true if score.held < score.budget => {
                    score.held += 1;
                    continue;
                }
                true => &mut score.beyond,
            };
            *count += 1;
            if let Some((_, hint)) = &mut one.hint {
                hint.pinned = false;
            }
        }
    }

    /// Scores the epoch that ends, by what users waited.
    pub(super) fn score(&mut self, view: &dyn VolumeView, living: &[Living], sums: &[Sum]) {
        let accessed: u64 = living.iter().map(|one| one.accesses.all()).sum();
        if accessed < ACCESSES_MIN {
            return;
        }
        let mut accounts = std::mem::take(&mut self.accounts);
        let mut pins = std::mem::take(&mut self.pins);
        let (sources, classes) = (self.sources.len(), self.classes().len());
        let pools = taking(view);
        let wanted = |one: &Living| self.wanted(&one.said?.hint, &pools);
        let findings = accounts.settle(view, living, (sources, classes), &wanted, &mut pins);
        (self.accounts, self.pins) = (accounts, pins);
        for (place, (sum, finding)) in sums.iter().zip(findings).enumerate() {
            if sum.chunks == 0 {
                continue;
            }
            let score = &mut self.sources[place / classes].scores[place % classes];
            (score.chunks, score.accesses) = (sum.chunks, sum.accesses);
            (score.bytes, score.proved) = (finding.bytes, finding.proved);
            score.waits.join(finding.waits);
            if finding.proved > 0 {
                let mean = finding.weighed / finding.bytes as f64;
                score.value += (mean - score.value) * NEWEST;
                score.epochs = score.epochs.saturating_add(1);
            }
        }
    }
}
