//! Count of events up to a moment in the near past, exact while they are few.
//!
//! 1. Each event counts, and each `stride`th leaves a mark: its time and the count after it. The
//!    stride is 1 at first.
//! 2. Asking for a moment drops the marks up to it: later questions are about later moments. When
//!    none is left, the stride is 1 again.
//! 3. A mark too many: every second one goes, and the stride doubles. An answer is then late by
//!    less than a stride, a 32nd of the events between the last question and now.
//!
//! State: 24 B, and 16 B a mark. O(1) an event and a question, amortised.

use std::collections::VecDeque;
use thermocline_units::Nanos;

/// Marks that are kept.
const MARKS_MAX: usize = 64;

/// Counts events, and remembers when.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    total: u64,
    /// The count at the moment last asked for.
    settled: u64,
    stride: u64,
    marks: VecDeque<(Nanos, u64)>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { total: 0, settled: 0, stride: 1, marks: VecDeque::new() }
    }
}

impl Tally {
    /// One event. Times do not run backwards.
    pub(super) fn add(&mut self, now: Nanos) {
        self.total += 1;
        if self.marks.is_empty() {
            self.stride = 1;
        } else if let Some(last) = self.marks.back_mut()
            && (last.0 == now || self.total - last.1 < self.stride)
        {
            last.1 = if last.0 == now { self.total } else { last.1 };
            return;
        }
        if self.marks.len() == MARKS_MAX {
            let mut at = 0;
            self.marks.retain(|_| {
                at += 1;
                at % 2 == 0
            });
            self.stride *= 2;
        }
        self.marks.push_back((now, self.total));
    }

    /// All events.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Events up to and at `moment`, which is not before the last one asked for.
    pub(super) fn at(&mut self, moment: Nanos) -> u64 {
        while let Some(&(time, count)) = self.marks.front()
            && time <= moment
        {
            self.settled = count;
            self.marks.pop_front();
        }
        self.settled
    }
}

#[cfg(test)]
mod tests;
