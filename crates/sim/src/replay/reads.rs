//! Entries for many reads of one line each, at once and without a branch.
//!
//! What `accounting.rs` decides request by request needs no decision here: nothing is written and
//! nothing is dirty, so a read either hits, is admitted, or passes. Whether it hit is as good as
//! random to the processor, so sums are masked instead of branched around: about 3 ns a read
//! instead of 13. A test compares the entries with those made one by one.

use super::accounting::Accountant;
use super::books::{Books, Fate, Requests, Runs};
use crate::workload::{Head, Unit};
use std::hint::select_unpredictable;
use thermocline_policy::cache::Outcome;
use thermocline_units::Bytes;

/// Reads of one fate.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reads {
    pub(super) count: u64,
    /// Bytes asked for.
    pub(super) bytes: u64,
}

impl Reads {
    #[inline(always)]
    fn add_if(&mut self, fits: bool, bytes: u64) {
        self.count += u64::from(fits);
        self.bytes += bytes & mask(fits);
    }
}

/// All ones or none.
#[inline(always)]
fn mask(fits: bool) -> u64 {
    u64::from(fits).wrapping_neg()
}

impl Accountant {
    /// True if no line can be dirty.
    pub(super) fn has_nothing_dirty(&self) -> bool {
        self.dirt.never()
    }

    /// Reads of one line each, in books of one size with nothing dirty.
    pub(super) fn reads_of_one_line(&mut self, heads: &[Head], outcomes: &[Outcome]) {
        match self.unit {
            // An object has no size but what is asked for.
            Unit::Objects => enter(&mut self.books, heads, outcomes, |asked| asked),
            Unit::Lines(Bytes(line)) => {
                enter(&mut self.books, heads, outcomes, |(offset, _)| (offset / line * line, line));
            }
        }
    }

    /// The same in books of many sizes: request i misses in the `missed[i]` smallest and is
    /// admitted there; `evicted` lines left each size.
    pub(super) fn reads_in_sizes(&mut self, heads: &[Head], missed: &[u8], evicted: &[u64]) {
        match self.unit {
            Unit::Objects => enter_sizes(&mut self.books, heads, missed, |asked| asked),
            Unit::Lines(Bytes(line)) => {
                let whole = |(offset, _)| (offset / line * line, line);
                enter_sizes(&mut self.books, heads, missed, whole);
            }
        }
        for (size, lines) in evicted[..self.books.sizes()].iter().enumerate() {
            self.books.evicted(size, *lines);
        }
    }
}

/// Enters as [`enter`] does, for many sizes; everything but sequential reads is summed up by how
/// many sizes missed.
#[inline(always)]
fn enter_sizes(
    books: &mut Books,
    heads: &[Head],
    missed: &[u8],
    whole: impl Fn((u64, u64)) -> (u64, u64),
) {
    let sizes = books.sizes();
    let mut asked_for = vec![Reads::default(); sizes + 1];
    let mut filled_bytes = vec![0; sizes + 1];
    let mut sequential = vec![Reads::default(); sizes];
    let mut places: Vec<(u32, u64)> = (0..sizes).map(|size| books.disk_of(size).place()).collect();
    for (head, &missed) in heads.iter().zip(missed) {
        let asked = (head.offset.0, u64::from(head.length));
        let (missed, volume) = (usize::from(missed), head.tag.volume());
        let (offset, bytes) = whole(asked);
        asked_for[missed].add_if(true, asked.1);
        filled_bytes[missed] += bytes;
        for (place, sequential) in places[..missed].iter_mut().zip(&mut sequential) {
            sequential.add_if(*place == (volume, offset), bytes);
            *place = (volume, offset + bytes);
        }
        books.volume(volume, 1, missed);
    }
    let fate = |hit| Fate { write: false, hit, resident: true };
    for (missed, (reads, filled)) in asked_for.iter().zip(&filled_bytes).enumerate() {
        let Reads { count, bytes } = *reads;
        let runs = Runs { ios: count, lines: count, bytes, flash_bytes: *filled };
        books.runs(0..missed, fate(false), runs);
        if missed < sizes {
            books.runs(missed..sizes, fate(true), Runs { flash_bytes: bytes, ..runs });
        }
        books.requests(false, missed, Requests { count, lines: count, bytes });
    }
    let mut from_disk = Reads::default();
    for size in (0..sizes).rev() {
        from_disk.count += asked_for[size + 1].count;
        from_disk.bytes += filled_bytes[size + 1];
        books.disk_of(size).read_many(from_disk, sequential[size], places[size]);
    }
}

/// Numbers of outcomes by kind. Loops of their own, because compilers make vectors of them.
struct Kinds {
    hits: u64,
    passed: u64,
    evicted: u64,
}

impl Kinds {
    #[inline(always)]
    fn of(outcomes: &[Outcome]) -> Kinds {
        // At most a block's touches: sums fit 32 bits, and four of them a vector.
        let count = |is: fn(&Outcome) -> bool| {
            u64::from(outcomes.iter().map(|outcome| u32::from(is(outcome))).sum::<u32>())
        };
        Kinds {
            hits: count(|outcome| *outcome == Outcome::HIT),
            passed: count(|outcome| *outcome == Outcome::BYPASSED),
            evicted: count(|outcome| outcome.evicted().is_some()),
        }
    }
}

/// Sums over reads, of what cannot be told from their number.
#[derive(Default)]
struct Sums {
    asked_bytes: u64,
    hit_bytes: u64,
    passed_bytes: u64,
    filled_bytes: u64,
    sequential: Reads,
}

/// Sums up reads; those that pass the cache are looked for only where `PASSING`. The disk's head is
/// moved from `place`.
#[inline(always)]
fn sum<const PASSING: bool>(
    heads: &[Head],
    outcomes: &[Outcome],
    whole: impl Fn((u64, u64)) -> (u64, u64),
    place: &mut (u32, u64),
) -> Sums {
    let mut sums = Sums::default();
    let mut at = *place;
    for (head, outcome) in heads.iter().zip(outcomes) {
        let asked = (head.offset.0, u64::from(head.length));
        let (volume, hit) = (head.tag.volume(), outcome.is_hit());
        let resident = !PASSING || outcome.is_resident();
        let from = if resident { whole(asked) } else { asked };
        sums.asked_bytes += asked.1;
        sums.hit_bytes += asked.1 & mask(hit);
        sums.passed_bytes += asked.1 & mask(!resident);
        sums.filled_bytes += from.1 & mask(resident & !hit);
        sums.sequential.add_if(!hit & (at == (volume, from.0)), from.1);
        let next = (volume, from.0 + from.1);
        at = (select_unpredictable(hit, at.0, next.0), select_unpredictable(hit, at.1, next.1));
    }
    *place = at;
    sums
}

/// `whole` makes of a range asked for (offset, bytes) the range that is read to admit it.
#[inline(always)]
fn enter(
    books: &mut Books,
    heads: &[Head],
    outcomes: &[Outcome],
    whole: impl Fn((u64, u64)) -> (u64, u64),
) {
    let kinds = Kinds::of(outcomes);
    let first = heads[0].tag.volume();
    let others = heads.iter().fold(0, |others, head| others | head.tag.volume() ^ first);
    let mut place = books.disk_of(0).place();
    let sums = if kinds.passed == 0 {
        sum::<false>(heads, outcomes, whole, &mut place)
    } else {
        sum::<true>(heads, outcomes, whole, &mut place)
    };
    let Sums { asked_bytes, hit_bytes, passed_bytes, filled_bytes, sequential } = sums;
    let hits = Reads { count: kinds.hits, bytes: hit_bytes };
    let passed = Reads { count: kinds.passed, bytes: passed_bytes };
    let admitted = Reads {
        count: heads.len() as u64 - hits.count - passed.count,
        bytes: asked_bytes - hits.bytes - passed.bytes,
    };
    let from_disk =
        Reads { count: admitted.count + passed.count, bytes: filled_bytes + passed.bytes };
    books.disk_of(0).read_many(from_disk, sequential, place);
    let fate = |hit, resident| Fate { write: false, hit, resident };
    books.singles(fate(true, true), hits, hits.bytes);
    books.singles(fate(false, true), admitted, filled_bytes);
    books.singles(fate(false, false), passed, 0);
    books.evicted(0, kinds.evicted);
    if others == 0 {
        books.volume(first, hits.count, 0);
        books.volume(first, heads.len() as u64 - hits.count, 1);
    } else {
        for (head, outcome) in heads.iter().zip(outcomes) {
            books.volume(head.tag.volume(), 1, usize::from(!outcome.is_hit()));
        }
    }
}

#[cfg(test)]
mod tests;
