//! A filter in front of an automaton of literals: it says where in a packet a literal may end, so
//! that the automaton need not run over all bytes.
//!
//! It knows three sets of groups of four bytes, without regard to case. All may contain a group too
//! many, because groups are hashed, and never lack one.
//!
//! - *Ends* has the last four bytes of each literal.
//! - *Near ends* has these too, and the groups that end one, two and three bytes earlier, as far as
//!   the shortest literal has them. With all four, one test at every fourth position finds each
//!   literal; only where it says yes are the ends tested.
//! - *Inner* has every group of each literal. What the automaton knows at a position is the longest
//!   beginning of a literal that ends there, and such a beginning consists of groups of this set.
//!   So the nearest group before the position that is not in it bounds how far back the automaton
//!   has to begin.
//!
//! The same filter stands before an automaton of expressions if all their matches begin with
//! literals. Then bytes are skipped only where no match has begun.
//!
//! Literals of one to three bytes have no groups. They are found by their last two bytes, which are
//! tested at each position if there are such literals.
//!
//! Skipping by the last bytes of several literals is from Wu and Manber, "A fast algorithm for
//! multi-pattern searching" (1994); sets that fit the processor's cache in front of anything
//! else from Choi et al., "DFC" (2016), section 4.

use thermocline_units::mutants::mutant;

/// Bytes of a group.
pub(super) const GROUP: usize = 4;

/// Positions between two tests, at most.
const STRIDE_MAX: usize = 4;

/// The filter of a set of literals.
#[derive(Debug, Clone)]
pub(super) struct Filter {
    stride: usize,
    /// Bytes of the longest literal.
    longest: usize,
    near_ends: Groups,
    ends: Groups,
    inner: Groups,
    /// A bit for each pair of bytes with which a literal of up to three bytes may end.
    pairs: Option<Box<[u64; 1024]>>,
}

impl Filter {
    /// The filter of literals, which are not empty; their case does not matter.
    pub(super) fn new(literals: &[Vec<u8>]) -> Filter {
        let long = || literals.iter().filter(|literal| literal.len() >= GROUP);
        let shortest = long().map(Vec::len).min().unwrap_or(usize::MAX);
        let longest = literals.iter().map(Vec::len).max().unwrap_or(0);
        let stride = (shortest - GROUP + 1).min(STRIDE_MAX);
        let groups = long().map(|literal| literal.len() - GROUP + 1).sum();
        let mut near_ends = Groups::for_count(long().count() * stride);
        let mut ends = Groups::for_count(long().count());
        let mut inner = Groups::for_count(groups);
        for literal in long() {
            let groups = literal.windows(GROUP);
            groups.clone().for_each(|group| inner.add(group_of(group)));
            groups.clone().rev().take(1).for_each(|group| ends.add(group_of(group)));
            groups.rev().take(stride).for_each(|group| near_ends.add(group_of(group)));
        }
        let mut short = literals.iter().filter(|literal| literal.len() < GROUP).peekable();
        let pairs = short.peek().is_some().then(|| {
            let mut pairs = Box::new([0u64; 1024]);
            for literal in short {
                add_pairs(&mut pairs, literal);
            }
            pairs
        });
        Filter { stride, longest, near_ends, ends, inner, pairs }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        let pairs = self.pairs.as_ref().map_or(0, |pairs| size_of_val(&**pairs));
        let sets = [&self.near_ends, &self.ends, &self.inner];
        sets.iter().map(|set| set.bits.capacity() * 8).sum::<usize>() + pairs
    }

    /// The next position, `from` or a later one, at which a literal may end; `from` is [`GROUP`] or
    /// more. `budget` becomes less with each place that looked like an end at first. When it is
    /// used up, the next place that does counts as one.
    #[inline]
    pub(super) fn next(&self, bytes: &[u8], from: usize, budget: &mut usize) -> Option<usize> {
        match &self.pairs {
            None => self.next_group(bytes, from, budget),
            Some(pairs) => self.next_group_or_pair(pairs, bytes, from),
        }
    }

    fn next_group(&self, bytes: &[u8], from: usize, budget: &mut usize) -> Option<usize> {
        let mut end = from;
        while let Some(group) = group_before(bytes, end) {
            if self.near_ends.has(group) {
                let mut ends = end..end + self.stride;
                if let Some(end) = ends.find(|end| self.is_end(bytes, *end)) {
                    return Some(end);
                }
                let Some(rest) = budget.checked_sub(self.stride) else { return Some(end) };
                *budget = rest;
            }
            end += self.stride;
        }
        None
    }

    #[inline]
    fn is_end(&self, bytes: &[u8], end: usize) -> bool {
        group_before(bytes, end).is_some_and(|group| self.ends.has(group))
    }

    fn next_group_or_pair(&self, pairs: &[u64; 1024], bytes: &[u8], from: usize) -> Option<usize> {
        let mut test_group_at = from;
        let mut is_near = false;
        for end in from..=bytes.len() {
            let group = group_before(bytes, end)?;
            if end == test_group_at {
                is_near = self.near_ends.has(group);
                test_group_at += self.stride;
            }
            // The last two bytes of a group in memory are the upper half of its number.
            let pair = (group >> 16) as usize;
            let is_pair = pairs[pair / 64] >> (pair % 64) & 1 == 1;
            if is_pair || is_near && self.ends.has(group) {
                return Some(end);
            }
        }
        None
    }

    /// A place where the automaton may begin anew, so that it knows at `end` and behind all that it
    /// would know if it had run over all bytes; `known` if no later place will do.
    pub(super) fn start(&self, bytes: &[u8], end: usize, known: usize) -> usize {
        // What is under way at `end` began at most the longest literal's bytes before it.
        let known = known.max(end.saturating_sub(self.longest));
        let mut end = end;
        while end >= known + GROUP {
            match group_before(bytes, end) {
                Some(group) if self.inner.has(group) => end -= 1,
                _ => {
                    return end - GROUP
                        + 1
                        + usize::from(mutant("automaton_begins_a_byte_too_late"));
                }
            }
        }
        known
    }
}

/// Adds each pair of bytes with which a literal of one to three bytes may end, in either case.
fn add_pairs(pairs: &mut [u64; 1024], literal: &[u8]) {
    let cases = |byte: u8| [byte.to_ascii_lowercase(), byte.to_ascii_uppercase()];
    let mut reversed = literal.iter().rev();
    let Some(&last) = reversed.next() else { return };
    let before: Vec<u8> = match reversed.next() {
        Some(&byte) => cases(byte).to_vec(),
        None => (0..=255).collect(),
    };
    for last in cases(last) {
        for &before in &before {
            let pair = usize::from(u16::from_le_bytes([before, last]));
            pairs[pair / 64] |= 1 << (pair % 64);
        }
    }
}

/// The group that ends at a position, as a number; `None` behind the end of the bytes.
#[inline]
fn group_before(bytes: &[u8], end: usize) -> Option<u32> {
    let group = bytes.get(end.wrapping_sub(GROUP)..end)?;
    Some(u32::from_le_bytes(group.try_into().ok()?))
}

fn group_of(bytes: &[u8]) -> u32 {
    group_before(bytes, GROUP).unwrap_or_default()
}

/// A set of groups: a bit for each value of a hash.
#[derive(Debug, Clone)]
struct Groups {
    bits: Vec<u64>,
    shift: u32,
}

/// Bits for each group that is expected: one test in 32 says yes by chance at most, and more of
/// them only in a set of more than 131,072 groups, whose bits are bounded.
const BITS_BY_GROUP: usize = 32;

impl Groups {
    /// An empty set for so many groups: of 512 B to 512 KiB.
    fn for_count(count: usize) -> Groups {
        let bits = (count * BITS_BY_GROUP).next_power_of_two().clamp(1 << 12, 1 << 22);
        Groups { bits: vec![0; bits / 64], shift: 32 - bits.trailing_zeros() }
    }

    /// Number of a group's bit. Letters in upper case count as those in lower case; so do a few
    /// other bytes that differ in the same bit.
    #[inline]
    fn bit(&self, group: u32) -> usize {
        ((group | 0x2020_2020).wrapping_mul(0x9e37_79b1) >> self.shift) as usize
    }

    fn add(&mut self, group: u32) {
        let bit = self.bit(group);
        self.bits[bit / 64] |= 1 << (bit % 64);
    }

    #[inline]
    fn has(&self, group: u32) -> bool {
        let bit = self.bit(group);
        self.bits[bit / 64] >> (bit % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests;
