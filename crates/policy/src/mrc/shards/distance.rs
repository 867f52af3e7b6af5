//! Exact LRU stack distances of a set of lines that may also leave.
//!
//! 1. Each line has the time of its last access; a Fenwick tree counts the lines by time.
//! 2. An access's distance is the number of lines with a later time: those touched since.
//! 3. When times run out, lines are renumbered in order, and the tree rebuilt at twice their
//!    number.
//!
//! Beside `mrc::StackDistances`, which is exact for dense line numbers that never leave, this one
//! takes any key and lets lines go, as a bounded sample must.
//!
//! Source: Olken 1981, with a Fenwick tree (Bennett & Kruskal 1975) in place of a balanced one.
//! State: 24 B of map and 4 to 16 B of tree a line. O(log lines) amortised an access.

use std::collections::BTreeMap;

/// Times in the smallest tree.
const TIMES_MIN: usize = 64;

/// The stack.
#[derive(Debug, Default)]
pub(crate) struct StackDistance {
    /// Time of each line's last access, from 1.
    last: BTreeMap<u64, u32>,
    /// Fenwick tree over times, 1-based; entry 0 is unused.
    tree: Vec<u32>,
    now: u32,
}

impl StackDistance {
    /// Brings `key` to the front; how many other lines were there since its last access, if any.
    pub(crate) fn access(&mut self, key: u64) -> Option<u64> {
        if self.now as usize + 1 >= self.tree.len() {
            self.renumber();
        }
        self.now += 1;
        let before = self.last.insert(key, self.now);
        let distance = before.map(|time| {
            self.add(time, -1);
            // The line itself is out of the tree now: `last` counts it, later times do not.
            self.last.len() as u64 - 1 - self.count_until(time)
        });
        self.add(self.now, 1);
        distance
    }

    /// Takes `key` out.
    pub(crate) fn remove(&mut self, key: u64) {
        if let Some(time) = self.last.remove(&key) {
            self.add(time, -1);
        }
    }

    fn add(&mut self, time: u32, change: i32) {
        let mut at = time as usize;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add_signed(change);
            at += at & at.wrapping_neg();
        }
    }

    /// Lines last accessed at `time` or before.
    fn count_until(&self, time: u32) -> u64 {
        let (mut at, mut count) = (time as usize, 0);
        while at > 0 {
            count += u64::from(self.tree[at]);
            at &= at - 1;
        }
        count
    }

    /// Gives the lines the times 1, 2, …, oldest first.
    fn renumber(&mut self) {
        let mut times: Vec<&mut u32> = self.last.values_mut().collect();
        times.sort_unstable();
        self.now = times.len() as u32;
        (1..).zip(times).for_each(|(new, time)| *time = new);
        let len = (2 * self.last.len() + 1).max(TIMES_MIN);
        // A Fenwick entry covers its lowest set bit's worth of times; times up to `now` hold one
        // line.
        let cover = |at: usize| {
            let first = at - (at & at.wrapping_neg());
            (self.last.len().min(at) - self.last.len().min(first)) as u32
        };
        self.tree = (0..len).map(cover).collect();
    }

    pub(crate) fn bytes(&self) -> u64 {
        /// Key, time and their part of a tree's node.
        const ENTRY_BYTES: u64 = 24;
        self.last.len() as u64 * ENTRY_BYTES + self.tree.capacity() as u64 * 4
    }
}
