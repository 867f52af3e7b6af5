//! Entries for many reads of one line each, at once and without a branch.
//!
//! What `accounting.rs` decides request by request needs no decision here: nothing is written and
//! nothing is dirty, so a read either hits, is admitted, or passes. Whether it hit is as good as
//! random to the processor, so sums are masked instead of branched around: about 3 ns a read
//! instead of 13. A test compares the entries with those made one by one.

use super::accounting::Accountant;
use super::books::{Books, Fate};
use crate::workload::{Head, Unit};
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
    /// Whether no line can be dirty.
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
}

/// `whole` makes of a range asked for (offset, bytes) the range that is read to admit it.
#[inline(always)]
fn enter(
    books: &mut Books,
    heads: &[Head],
    outcomes: &[Outcome],
    whole: impl Fn((u64, u64)) -> (u64, u64),
) {
    let (mut hits, mut passed) = (Reads::default(), Reads::default());
    let (mut all_bytes, mut filled_bytes, mut evicted) = (0, 0, 0);
    let mut sequential = Reads::default();
    let first = heads[0].tag.volume();
    let mut one_volume = true;
    let mut place = books.only_disk().place();
    for (head, outcome) in heads.iter().zip(outcomes) {
        let asked = (head.offset.0, u64::from(head.length));
        let volume = head.tag.volume();
        let (hit, resident) = (outcome.is_hit(), outcome.is_resident());
        let from = if resident { whole(asked) } else { asked };
        all_bytes += asked.1;
        hits.add_if(hit, asked.1);
        passed.add_if(!resident, asked.1);
        filled_bytes += from.1 & mask(resident & !hit);
        evicted += u64::from(outcome.evicted().is_some());
        sequential.add_if(!hit & (place == (volume, from.0)), from.1);
        place = if hit { place } else { (volume, from.0 + from.1) };
        one_volume &= volume == first;
    }
    let admitted = Reads {
        count: heads.len() as u64 - hits.count - passed.count,
        bytes: all_bytes - hits.bytes - passed.bytes,
    };
    let from_disk =
        Reads { count: admitted.count + passed.count, bytes: filled_bytes + passed.bytes };
    books.only_disk().read_many(from_disk, sequential, place);
    let fate = |hit, resident| Fate { write: false, hit, resident };
    books.singles(fate(true, true), hits, hits.bytes);
    books.singles(fate(false, true), admitted, filled_bytes);
    books.singles(fate(false, false), passed, 0);
    books.evicted(0, evicted);
    if one_volume {
        books.volume(first, heads.len() as u64, hits.count);
    } else {
        for (head, outcome) in heads.iter().zip(outcomes) {
            books.volume(head.tag.volume(), 1, u64::from(outcome.is_hit()));
        }
    }
}
