//! Entries for many reads of one line each, at once and without a branch.
//!
//! What `accounting.rs` decides request by request needs no decision here: nothing is written and
//! nothing is dirty, so a read either hits, is admitted, or passes. Whether it hit is as good as
//! random to the processor, so sums are masked instead of branched around: about 3 ns a read
//! instead of 13. A test compares the entries with those made one by one.

use super::accounting::Accountant;
use super::books::{Books, Fate, Requests, Runs};
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

/// As [`enter`], for many sizes; everything but sequential reads is summed up by how many sizes
/// missed.
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
        let runs = Runs { operations: count, lines: count, bytes, flash_bytes: *filled };
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
    let mut place = books.disk_of(0).place();
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
    books.disk_of(0).read_many(from_disk, sequential, place);
    let fate = |hit, resident| Fate { write: false, hit, resident };
    books.singles(fate(true, true), hits, hits.bytes);
    books.singles(fate(false, true), admitted, filled_bytes);
    books.singles(fate(false, false), passed, 0);
    books.evicted(0, evicted);
    if one_volume {
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
