//! Time that a thread spends: on a processor, and on the wall.
//!
//! Figures about the machine, never about a result: no decision and no count reads them.

use rustix::time::{ClockId, clock_gettime};
use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// Time spent on some work.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Spent {
    /// Time passed, seconds.
    pub(crate) wall_s: f64,
    /// Time of the thread on a processor, seconds.
    pub(crate) processor_s: f64,
}

impl Spent {
    /// The part of each of `count` things that shared it.
    pub(crate) fn shared_by(self, count: usize) -> Spent {
        let count = count as f64;
        Spent { wall_s: self.wall_s / count, processor_s: self.processor_s / count }
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, more: Spent) {
        self.wall_s += more.wall_s;
        self.processor_s += more.processor_s;
    }
}

/// A measurement under way; to be read by the thread that began it.
pub(crate) struct Stopwatch {
    wall: Instant,
    processor: Duration,
}

impl Stopwatch {
    /// Begins to measure this thread.
    pub(crate) fn start() -> Stopwatch {
        Stopwatch { wall: Instant::now(), processor: used() }
    }

    /// Time spent since the start.
    pub(crate) fn spent(&self) -> Spent {
        Spent {
            wall_s: self.wall.elapsed().as_secs_f64(),
            processor_s: used().saturating_sub(self.processor).as_secs_f64(),
        }
    }
}

/// Time that this thread has spent on a processor.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
