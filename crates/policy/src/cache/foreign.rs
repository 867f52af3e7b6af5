//! Cache policies from outside: a shared library's, or a program's that calls us.
//!
//! 1. A [`ForeignPolicy`] makes a [`ForeignCache`] for each cache of a run.
//! 2. [`Checked`] stands between: it knows which lines are resident, and checks each answer
//!    against that before anyone counts it. A hit must be of a resident line, a victim must be
//!    resident, a line that is admitted without one must find room.
//! 3. After the first answer that cannot be true, or an error of the policy's own, the policy is
//!    not asked again, and [`CachePolicy::failure`] says why; whoever runs it ends the run.
//!
//! State: one bit a distinct line, besides the policy's own. Does not load anything.

use super::{CachePolicy, Outcome, Tag};
use crate::Footprint;
use crate::registry::{Build, Entry, Geometry};
use std::hint::select_unpredictable;
use thermocline_units::{LineId, Nanos};

/// Stands in a policy's text for the policies of the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "plug-in",
    summary: "a policy of the user's own",
    source: "the user",
    settings: &[],
    build: Build::Cache(|_, _| unreachable!("a plug-in is built by its own description")),
};

/// A policy that comes from outside, with its settings.
pub trait ForeignPolicy: Send + Sync {
    /// Returns an empty cache.
    ///
    /// # Errors
    /// When the policy cannot be made, in its own words.
    fn create(&self, geometry: &Geometry) -> Result<Box<dyn ForeignCache>, String>;
}

/// A cache of such a policy. The caller uses it from one thread at a time.
pub trait ForeignCache: Send {
    /// Lines below `universe` may be named from now on. Never shrinks.
    ///
    /// # Errors
    /// A failure of the policy's own.
    fn reserve(&mut self, universe: u32) -> Result<(), String>;

    /// Accesses the lines in order and writes what each did; as many tags and outcomes as lines.
    ///
    /// # Errors
    /// A failure of the policy's own.
    fn access_batch(
        &mut self,
        lines: &[LineId],
        tags: &[Tag],
        out: &mut [Outcome],
    ) -> Result<(), String>;

    /// Drops `line`, which is resident.
    ///
    /// # Errors
    /// A failure of the policy's own.
    fn invalidate(&mut self, line: LineId) -> Result<(), String>;

    /// An epoch ended.
    ///
    /// # Errors
    /// A failure of the policy's own.
    fn end_epoch(&mut self, now: Nanos) -> Result<(), String>;

    /// Memory in use now, by its own account.
    fn footprint(&self) -> Footprint;
}

/// A foreign cache whose answers are checked.
pub(crate) struct Checked {
    cache: Box<dyn ForeignCache>,
    /// A bit a line: resident or not.
    resident: Vec<u64>,
    count: u32,
    capacity: u32,
    universe: u32,
    failure: Option<String>,
}

impl Checked {
    pub(crate) fn new(cache: Box<dyn ForeignCache>, capacity: u32) -> Checked {
        let (resident, failure) = (Vec::new(), None);
        Checked { cache, resident, count: 0, capacity, universe: 0, failure }
    }

    #[inline]
    fn holds(&self, line: LineId) -> bool {
        let word = self.resident.get(line.index() / 64).copied().unwrap_or(0);
        word >> (line.index() % 64) & 1 == 1
    }

    #[inline]
    fn set(&mut self, line: LineId, resident: bool) {
        let (word, bit) = (&mut self.resident[line.index() / 64], 1 << (line.index() % 64));
        *word = if resident { *word | bit } else { *word & !bit };
    }

    /// Takes note of the answers, in order; how many there are before one that cannot be true.
    ///
    /// A full cache answers with hits and evictions, in no order that the processor could foresee:
    /// the two share one path without a jump. A hit is taken as an eviction of the line itself,
    /// which changes nothing.
    fn take_all(&mut self, lines: &[LineId], tags: &[Tag], out: &[Outcome]) -> usize {
        for (index, ((line, tag), outcome)) in lines.iter().zip(tags).zip(out).enumerate() {
            let is_hit = outcome.is_hit();
            let is_true = if is_hit | outcome.evicted().is_some() {
                let leaves = select_unpredictable(is_hit, *line, LineId(outcome.code()));
                let is_true = self.holds(leaves) & (is_hit | !self.holds(*line));
                if is_true {
                    let moves = u64::from(!is_hit);
                    self.resident[leaves.index() / 64] &= !(moves << (leaves.index() % 64));
                    self.resident[line.index() / 64] |= moves << (line.index() % 64);
                }
                is_true
            } else {
                self.take(*line, *tag, *outcome).is_some()
            };
            if !is_true {
                return index;
            }
        }
        lines.len()
    }

    /// Takes note of an answer that is no hit and evicts nothing; `None` when it cannot be true.
    #[inline]
    fn take(&mut self, line: LineId, tag: Tag, outcome: Outcome) -> Option<()> {
        let held = self.holds(line);
        if outcome == Outcome::ADMITTED {
            if held || self.count == self.capacity {
                return None;
            }
            self.set(line, true);
            self.count += 1;
        } else if outcome == Outcome::BYPASSED {
            if held {
                // A write past the cache may drop the line; a read of it is a hit.
                if !tag.is_write() {
                    return None;
                }
                self.set(line, false);
                self.count -= 1;
            }
        } else {
            return None;
        }
        Some(())
    }

    /// The fault in an answer that cannot be true.
    fn nonsense(&self, line: LineId, outcome: Outcome) -> String {
        let held = self.holds(line);
        let kept = if held { "resident" } else { "not resident" };
        let answer = match outcome.evicted() {
            _ if outcome.is_hit() => "a hit".to_string(),
            Some(victim) if !self.holds(victim) => {
                format!("the eviction of line {}, which is not resident", victim.0)
            }
            Some(victim) => format!("the eviction of line {}", victim.0),
            None if outcome == Outcome::ADMITTED && !held => {
                format!("admitted without an eviction, though all {} lines are taken", self.count)
            }
            None if outcome == Outcome::ADMITTED => "admitted".to_string(),
            None if outcome == Outcome::BYPASSED => "bypassed".to_string(),
            None => format!("{:#x}, which means nothing", outcome.code()),
        };
        format!("its answer cannot be true: line {} is {kept}, and it answered: {answer}", line.0)
    }

    /// Asks the policy, unless it failed before; keeps its failure.
    fn ask(&mut self, ask: impl FnOnce(&mut dyn ForeignCache) -> Result<(), String>) {
        if self.failure.is_none() {
            self.failure = ask(&mut *self.cache).err();
        }
    }
}

impl CachePolicy for Checked {
    fn reserve(&mut self, universe: u32) {
        if universe > self.universe {
            self.universe = universe;
            self.resident.resize(universe.div_ceil(64) as usize, 0);
            self.ask(|cache| cache.reserve(universe));
        }
    }

    fn access_batch(&mut self, lines: &[LineId], tags: &[Tag], out: &mut [Outcome]) {
        assert!(
            lines.len() == tags.len() && lines.len() == out.len(),
            "one tag and outcome a line"
        );
        // What it leaves out is no answer, and is found to be none.
        out.fill(Outcome::NOTHING);
        self.ask(|cache| cache.access_batch(lines, tags, out));
        let mut taken = 0;
        if self.failure.is_none() {
            taken = self.take_all(lines, tags, out);
            if taken < lines.len() {
                self.failure = Some(self.nonsense(lines[taken], out[taken]));
            }
        }
        out[taken..].fill(Outcome::BYPASSED);
    }

    fn access(&mut self, line: LineId, tag: Tag) -> Outcome {
        let mut out = [Outcome::NOTHING];
        self.access_batch(&[line], &[tag], &mut out);
        out[0]
    }

    fn contains(&self, line: LineId) -> bool {
        self.holds(line)
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        let held = self.holds(line);
        if held {
            self.ask(|cache| cache.invalidate(line));
            self.set(line, false);
            self.count -= 1;
        }
        held
    }

    fn resident(&self) -> u32 {
        self.count
    }

    fn footprint(&self) -> Footprint {
        self.cache.footprint()
    }

    fn end_epoch(&mut self, now: Nanos) {
        self.ask(|cache| cache.end_epoch(now));
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

#[cfg(test)]
mod tests;
