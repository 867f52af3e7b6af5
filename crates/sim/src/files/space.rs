//! Free space of a file system: runs of bytes, the next one that is long enough from a goal on.
//!
//! 1. From the goal on, then from the start, the first run that holds all that is wanted, or
//!    [`PIECE`] of it, gives it.
//! 2. Where none is so long, the first run of any length gives what it has.
//!
//! That is next fit, simpler than ext4's buddies and btrfs's clusters, and alike in what counts
//! here: files lie near their goal in few pieces until space is short. State: 16 B a free run.

use std::collections::BTreeMap;
use std::ops::Range;

/// Longest piece that is looked for at once: ext4's longest extent, 128 MiB.
const PIECE: u64 = 128 << 20;

/// Free runs of bytes, in blocks of 4 KiB.
#[derive(Debug, Clone, Default)]
pub(super) struct Space {
    /// Length of each free run, by its start.
    runs: BTreeMap<u64, u64>,
    free: u64,
}

impl Space {
    /// Frees a range, which is not free.
    pub(super) fn give(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.free += range.end - range.start;
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&before, &length)) = self.runs.range(..start).next_back()
            && before + length == start
        {
            self.runs.remove(&before);
            start = before;
        }
        if let Some(length) = self.runs.remove(&end) {
            end += length;
        }
        self.runs.insert(start, end - start);
    }

    /// The free run that `at`, which is free, is in.
    pub(super) fn run_around(&self, at: u64) -> Range<u64> {
        let (&start, &length) = self.runs.range(..=at).next_back().expect("it is free");
        start..start + length
    }

    /// Takes `bytes` near `goal`, in as few pieces as it goes; `None`, and nothing, when there is
    /// less.
    pub(super) fn take(&mut self, goal: u64, bytes: u64) -> Option<Vec<Range<u64>>> {
        if bytes > self.free {
            return None;
        }
        let (mut taken, mut left, mut goal) = (Vec::new(), bytes, goal);
        while left > 0 {
            let wanted = left.min(PIECE);
            let start = self.find(goal, wanted).or_else(|| self.find(goal, 1));
            let start = start.expect("so much is free");
            let length = self.cut(start, wanted);
            taken.push(start..start + length);
            (left, goal) = (left - length, start + length);
        }
        Some(taken)
    }

    /// Beginning of a run of `length` and more, from the goal on.
    fn find(&self, goal: u64, length: u64) -> Option<u64> {
        let inside = self.runs.range(..goal).next_back().and_then(|(&start, &run)| {
            let end = start + run;
            (end > goal && end - goal >= length).then_some(goal)
        });
        let long = |(_, run): &(&u64, &u64)| **run >= length;
        let after = || self.runs.range(goal..).find(long).map(|(&start, _)| start);
        let before = || self.runs.range(..goal).find(long).map(|(&start, _)| start);
        inside.or_else(after).or_else(before)
    }

    /// Takes up to `length` at `start`, which is free; how much.
    fn cut(&mut self, start: u64, length: u64) -> u64 {
        let (&run, &run_length) = self.runs.range(..=start).next_back().expect("it is free");
        let end = run + run_length;
        let cut = length.min(end - start);
        self.runs.remove(&run);
        if start > run {
            self.runs.insert(run, start - run);
        }
        if start + cut < end {
            self.runs.insert(start + cut, end - start - cut);
        }
        self.free -= cut;
        cut
    }
}
