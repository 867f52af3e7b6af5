//! Exact LRU stack distances (Mattson, Gecsei, Slutz & Traiger 1970), and the miss-ratio curve of
//! all sizes that follows from their histogram.
//!
//! The distance of an access is the weight of the distinct lines accessed since the last access to
//! its line, that line included. An LRU cache of capacity c hits exactly when the distance is at
//! most c.
//! 1. Last accesses are numbered in order; a bit says that a number is still some line's last
//!    access.
//! 2. The distance is the number of bits set from the line's number on (Bennett & Kruskal 1975): a
//!    Fenwick tree over blocks of 512 numbers, and population counts within the block. The block
//!    that is being filled enters the tree when it is full.
//! 3. When numbers run out, the lines are renumbered without gaps, in a space of twice as many
//!    numbers as there are lines or more. That is O(1) an access, amortised.
//!
//! Every line weighs the same here: a distance counts lines, and bytes are lines times their size.
//!
//! State: at most 4 numbers a distinct line, 4 B and 1 bit each, and 4 B a distinct line for the
//! index: at most 20.6 B a distinct line. O(log distinct lines) an access. The histogram takes 8 B
//! for each distance that occurs and each below it.

use thermocline_units::{LineId, prefetch};

/// Words of 64 numbers in a block.
const BLOCK_WORDS: usize = 8;
/// Numbers in a block.
const BLOCK: usize = BLOCK_WORDS * 64;
/// Numbers to begin with; a power of two of blocks.
const NUMBERS_MIN: usize = if cfg!(test) { 2 * BLOCK } else { 128 * BLOCK };
/// Accesses between the request for a line's index word and its use.
const AHEAD: usize = 24;

/// Computes the stack distance of one access after another.
#[derive(Debug)]
pub struct StackDistances {
    /// One more than the number of each line's last access; 0 for a line not seen.
    index: Vec<u32>,
    /// The line that each number was given to.
    lines: Vec<u32>,
    /// Bits of numbers, set for the last one of a line.
    last: Vec<u64>,
    /// Fenwick tree over the bits set in each block before that of `next`, from 1.
    tree: Vec<u32>,
    /// The next number.
    next: usize,
    distinct: u32,
}

impl Default for StackDistances {
    fn default() -> StackDistances {
        StackDistances::new()
    }
}

impl StackDistances {
    /// Before the first access.
    pub fn new() -> StackDistances {
        let mut new = StackDistances {
            index: Vec::new(),
            lines: Vec::new(),
            last: Vec::new(),
            tree: Vec::new(),
            next: 0,
            distinct: 0,
        };
        new.size_for(NUMBERS_MIN);
        new
    }

    /// Lines below `universe` may be named from now on. Never shrinks.
    pub fn reserve(&mut self, universe: u32) {
        if self.index.len() < universe as usize {
            self.index.resize(universe as usize, 0);
        }
    }

    /// Accesses `line`: its stack distance in lines, ≥ 1, or `None` for the first access to it.
    ///
    /// # Panics
    /// When the line was not reserved.
    #[inline]
    pub fn access(&mut self, line: LineId) -> Option<u32> {
        if self.next == self.lines.len() {
            self.renumber();
        }
        let before = self.index[line.index()];
        let distance = (before != 0).then(|| self.remove(before as usize - 1));
        self.lines[self.next] = line.0;
        self.last[self.next / 64] |= 1 << (self.next % 64);
        self.next += 1;
        if self.next.is_multiple_of(BLOCK) {
            self.enter_block(self.next / BLOCK - 1);
        }
        self.index[line.index()] = self.next as u32;
        self.distinct += u32::from(distance.is_none());
        distance
    }

    /// Accesses the lines in order and counts their distances.
    pub fn access_batch(&mut self, lines: &[LineId], histogram: &mut StackHistogram) {
        for (i, line) in lines.iter().enumerate() {
            if let Some(coming) = lines.get(i + AHEAD) {
                prefetch(&self.index, coming.index());
            }
            let distance = self.access(*line);
            histogram.count(distance);
        }
    }

    /// Bytes in use now.
    pub fn bytes(&self) -> u64 {
        let words = self.index.len() + self.lines.len() + self.tree.len();
        words as u64 * 4 + self.last.len() as u64 * 8
    }

    /// Takes the bit of `number` away; how many were set from it on.
    #[inline]
    fn remove(&mut self, number: usize) -> u32 {
        let word = number / 64;
        let block_end = (word / BLOCK_WORDS + 1) * BLOCK_WORDS;
        let mut from = (self.last[word] >> (number % 64)).count_ones();
        for bits in &self.last[word + 1..block_end] {
            from += bits.count_ones();
        }
        self.last[word] &= !(1 << (number % 64));
        let block = number / BLOCK;
        if block == self.next / BLOCK {
            return from;
        }
        let distance = from + self.distinct - self.up_to_block(block);
        self.add(block, u32::MAX);
        distance
    }

    /// Adds a block that has just been filled to the tree.
    #[cold]
    fn enter_block(&mut self, block: usize) {
        let words = &self.last[block * BLOCK_WORDS..(block + 1) * BLOCK_WORDS];
        let set = words.iter().map(|bits| bits.count_ones()).sum();
        self.add(block, set);
    }

    /// Bits set in blocks 0 … `block`.
    #[inline]
    fn up_to_block(&self, block: usize) -> u32 {
        let mut at = block + 1;
        let mut sum = 0u32;
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at &= at - 1;
        }
        sum
    }

    /// Adds `change`, modulo 2³², to `block`.
    #[inline]
    fn add(&mut self, block: usize, change: u32) {
        let mut at = block + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(change);
            at += at & at.wrapping_neg();
        }
    }

    /// Numbers all lines from 0, in order, in at least twice as many numbers.
    #[cold]
    fn renumber(&mut self) {
        let mut kept = 0;
        for number in 0..self.next {
            if self.last[number / 64] >> (number % 64) & 1 == 1 {
                if let Some(coming) = self.lines.get(number + AHEAD) {
                    prefetch(&self.index, *coming as usize);
                }
                let line = self.lines[number];
                self.lines[kept] = line;
                kept += 1;
                self.index[line as usize] = kept as u32;
            }
        }
        assert!(kept == self.distinct as usize, "every line has one last access");
        self.next = kept;
        self.size_for((2 * kept).next_power_of_two().max(self.lines.len()));
    }

    /// Makes room for `numbers`, and sets the bits of those below `next`.
    fn size_for(&mut self, numbers: usize) {
        assert!(numbers <= 1 << 32, "line numbers have 32 bits, and so do their accesses");
        self.lines.resize(numbers, 0);
        self.last.clear();
        self.last.resize(numbers / 64, 0);
        self.tree.clear();
        self.tree.resize(numbers / BLOCK + 1, 0);
        for (word, bits) in self.last.iter_mut().enumerate() {
            let set = self.next.saturating_sub(word * 64).min(64);
            *bits = if set == 64 { !0 } else { (1 << set) - 1 };
        }
        for block in 0..numbers / BLOCK {
            let at = block + 1;
            let filled = self.next >= at * BLOCK;
            self.tree[at] += if filled { BLOCK as u32 } else { 0 };
            let parent = at + (at & at.wrapping_neg());
            if parent < self.tree.len() {
                self.tree[parent] += self.tree[at];
            }
        }
    }
}

/// Counts of each stack distance: the miss-ratio curve of LRU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackHistogram {
    /// Index d − 1: accesses of distance d.
    hits: Vec<u64>,
    /// First accesses.
    cold: u64,
}

impl StackHistogram {
    /// Counts one access of distance `distance`, ≥ 1, or a first one.
    #[inline]
    pub fn count(&mut self, distance: Option<u32>) {
        let Some(distance) = distance else {
            self.cold += 1;
            return;
        };
        let at = distance as usize - 1;
        if at >= self.hits.len() {
            self.hits.resize((at + 1).next_power_of_two(), 0);
        }
        self.hits[at] += 1;
    }

    /// Accesses counted.
    pub fn accesses(&self) -> u64 {
        self.cold + self.hits.iter().sum::<u64>()
    }

    /// First accesses: misses of every size.
    pub fn cold(&self) -> u64 {
        self.cold
    }

    /// Misses of LRU caches of `capacities` lines, in any order. O(distances + capacities · log).
    pub fn misses(&self, capacities: &[u32]) -> Vec<u64> {
        let mut order: Vec<usize> = (0..capacities.len()).collect();
        order.sort_unstable_by_key(|k| capacities[*k]);
        let mut misses = vec![0; capacities.len()];
        let (mut left, mut from) = (self.accesses(), 0);
        for k in order {
            let to = (capacities[k] as usize).min(self.hits.len());
            left -= self.hits[from..to].iter().sum::<u64>();
            from = to;
            misses[k] = left;
        }
        misses
    }
}

#[cfg(test)]
mod tests;
