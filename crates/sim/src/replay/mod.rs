//! Replaying a workload through one policy at one size, and counting what it did.
//!
//! The drivers own everything a policy does not know: requests and their lines, what is dirty, what
//! a hit or a miss makes the devices do. Counts are facts (I/Os and bytes by device);
//! [`cost`] turns them into time.

mod accounting;
mod books;
mod cache;
pub mod cost;
mod counts;
mod dirt;
mod feed;
mod flash;
mod reads;
mod sweep;
#[cfg(test)]
mod tests;

pub(crate) use accounting::SOURCE_IO_BYTES as CACHE_IO_BYTES;
pub(crate) use cache::CacheReplay;
pub use counts::{Counts, Disk, Side, SourceIos, Traffic, VolumeCounts};
pub(crate) use flash::FlashReplay;
pub(crate) use flash::IO_BYTES as FLASH_IO_BYTES;
pub(crate) use sweep::SweepReplay;

use crate::workload::Head;
use thermocline_policy::placement::EPOCH;
use thermocline_units::Nanos;

/// Treatment of writes by a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteMode {
    /// Writes go to flash; a dirty line is written to disk when it is evicted.
    #[default]
    Back,
    /// Writes go to flash and to disk; nothing is ever dirty.
    Through,
    /// Writes go to disk only; a cached copy is dropped.
    Around,
}

impl std::fmt::Display for WriteMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WriteMode::Back => "back",
            WriteMode::Through => "through",
            WriteMode::Around => "around",
        })
    }
}

impl std::str::FromStr for WriteMode {
    type Err = String;

    fn from_str(text: &str) -> Result<WriteMode, String> {
        match text {
            "back" => Ok(WriteMode::Back),
            "through" => Ok(WriteMode::Through),
            "around" => Ok(WriteMode::Around),
            _ => Err(format!("`{text}` is not a write mode; use back, through or around")),
        }
    }
}

/// From where on a replay counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Warmup {
    /// The first part of the requests, 0 to 1, is not counted.
    Fraction(f64),
    /// The first so many requests are not counted.
    Requests(u64),
    /// Requests before this time are not counted.
    Time(Nanos),
}

impl Warmup {
    /// The same as a count of requests, when it is a share of `total`.
    pub fn of(self, total: u64) -> Warmup {
        match self {
            Warmup::Fraction(part) => Warmup::Requests((total as f64 * part) as u64),
            other => other,
        }
    }
}

impl std::fmt::Display for Warmup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Warmup::Fraction(part) => write!(f, "{}% of the requests", part * 100.0),
            Warmup::Requests(count) => write!(f, "{count} requests"),
            Warmup::Time(time) => time.fmt(f),
        }
    }
}

/// Looks for the end of the warm-up as blocks pass.
#[derive(Debug)]
pub(crate) struct WarmUp {
    warmup: Warmup,
    /// Requests that passed.
    seen: u64,
    over: bool,
}

impl WarmUp {
    pub(crate) fn new(warmup: Warmup) -> WarmUp {
        assert!(
            !matches!(warmup, Warmup::Fraction(part) if part > 0.0),
            "a share of a known total"
        );
        WarmUp { warmup, seen: 0, over: false }
    }

    /// Index among `heads`, which come next, of the first request that counts; `None` when that
    /// lies in another block.
    pub(crate) fn ends_in(&mut self, heads: &[Head]) -> Option<usize> {
        if self.over {
            return None;
        }
        let at = match self.warmup {
            Warmup::Fraction(_) => 0,
            Warmup::Requests(count) => (count - self.seen).min(heads.len() as u64) as usize,
            Warmup::Time(time) => heads.partition_point(|head| head.time < time),
        };
        self.seen += heads.len() as u64;
        self.over = at < heads.len();
        self.over.then_some(at)
    }
}

impl std::str::FromStr for Warmup {
    type Err = String;

    /// Reads `10%`, `1h` or a number of requests.
    fn from_str(text: &str) -> Result<Warmup, String> {
        let error = || format!("`{text}` is not a warm-up; write 10%, 1h or a number of requests");
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| error())?;
            return if (0.0..100.0).contains(&percent) {
                Ok(Warmup::Fraction(percent / 100.0))
            } else {
                Err(error())
            };
        }
        if let Ok(count) = text.parse() {
            return Ok(Warmup::Requests(count));
        }
        text.parse().map(Warmup::Time).map_err(|_| error())
    }
}

/// Options of a replay.
#[derive(Debug, Clone, Copy)]
pub struct ReplayOptions {
    /// Treatment of writes by the cache. Placements are always write-back.
    pub write_mode: WriteMode,
    /// Part of the trace that is left out of the counts.
    pub warmup: Warmup,
    /// Time between calls of `end_epoch` and `propose`.
    pub epoch: Nanos,
}

impl Default for ReplayOptions {
    fn default() -> ReplayOptions {
        ReplayOptions { write_mode: WriteMode::Back, warmup: Warmup::Fraction(0.0), epoch: EPOCH }
    }
}

/// The ends of epochs, as virtual time passes.
pub(crate) struct Epochs {
    length: Nanos,
    next: Nanos,
}

impl Epochs {
    pub(crate) fn new(length: Nanos) -> Epochs {
        assert!(length.0 > 0, "an epoch lasts some time");
        Epochs { length, next: length }
    }

    pub(crate) fn length(&self) -> Nanos {
        self.length
    }

    /// End of the current epoch.
    pub(crate) fn next_end(&self) -> Nanos {
        self.next
    }

    /// Epoch ends at or before `now` that were not yet reported, one a call.
    #[inline]
    pub(crate) fn passed(&mut self, now: Nanos) -> Option<Nanos> {
        if now < self.next {
            return None;
        }
        let end = self.next;
        self.next = Nanos(self.next.0.saturating_add(self.length.0));
        Some(end)
    }
}
