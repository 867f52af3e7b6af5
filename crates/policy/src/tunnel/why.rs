//! Reasons for a choice: plain data with numbers, which print as a sentence.
//!
//! RE ratios are shares of bytes saved, rates bytes a second.

use super::Choice;
use std::fmt;
use thermocline_units::Bytes;

/// The bound on goodput.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The link.
    Link,
    /// The processor.
    Processor,
}

/// The reason for a choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Why {
    /// Somebody set it.
    Set,
    /// Nothing is known of the class yet: it learns for so many bytes more.
    Learning {
        /// Bytes that are still to come.
        left: Bytes,
    },
    /// A rival is tried on the class's own bytes, instead of what was best.
    Trying {
        /// The choice that was in force, and will be unless the rival is better.
        instead_of: Choice,
        /// Bytes that it is still tried for.
        left: Bytes,
    },
    /// A choice so recent that the cache has few of its chunks yet.
    Relearning {
        /// The choice before.
        from: Choice,
        /// Bytes until it is judged.
        left: Bytes,
    },
    /// The choice with the highest goodput, or nearly so at less processor time.
    Best {
        /// Goodput expected of it, in bytes a second.
        goodput: f64,
        /// RE ratio expected of it.
        re: f64,
        /// Its bound.
        limit: Limit,
        /// The best of the others whose RE ratio is known.
        next: Choice,
        /// Goodput expected of that.
        next_goodput: f64,
    },
    /// Warm-up: half the size is tried next.
    WarmUp {
        /// RE ratio of the last period; `None` in the first.
        re: Option<f64>,
    },
    /// Throughput was below the expectation: larger chunks.
    TooSlow {
        /// Throughput of the last period, in bytes a second of processing.
        throughput: f64,
        /// Throughput that is expected.
        expected: f64,
    },
    /// The RE ratio was below the expectation: smaller chunks.
    TooLittle {
        /// RE ratio of the last period.
        re: f64,
        /// RE ratio that is expected.
        expected: f64,
    },
    /// The RE ratio was near zero: no chunking.
    NoGain {
        /// RE ratio of the last period.
        re: f64,
    },
    /// The last period was as expected.
    AsExpected {
        /// Its throughput, in bytes a second of processing; `None` when no time was spent.
        throughput: Option<f64>,
        /// Its RE ratio.
        re: f64,
    },
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Limit::Link => "link",
            Limit::Processor => "processor",
        })
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |re: f64| format!("{:.1} %", re * 100.0);
        let rate = |bytes_per_s: f64| format!("{}/s", Bytes(bytes_per_s as u64));
        match *self {
            Why::Set => f.pad("as configured"),
            Why::Learning { left } => write!(f, "nothing is known yet; learns for {left} more"),
            Why::Trying { instead_of, left } => {
                write!(f, "tried instead of {instead_of} for {left} more")
            }
            Why::Relearning { from, left } => {
                write!(f, "chosen after {from}; judged when {left} more have passed")
            }
            Why::Best { goodput, re, limit, next, next_goodput } => write!(
                f,
                "best goodput: {}, bound by the {limit}, saves {}; next is {next} with {}",
                rate(goodput),
                percent(re),
                rate(next_goodput)
            ),
            Why::WarmUp { re: None } => f.pad("warm-up begins"),
            Why::WarmUp { re: Some(re) } => {
                write!(f, "warm-up: saved {} at twice this size", percent(re))
            }
            Why::TooSlow { throughput, expected } => {
                write!(f, "larger: {} of {} expected", rate(throughput), rate(expected))
            }
            Why::TooLittle { re, expected } => {
                write!(f, "smaller: saved {} of {} expected", percent(re), percent(expected))
            }
            Why::NoGain { re } => write!(f, "off: saved {}", percent(re)),
            Why::AsExpected { throughput: None, re } => {
                write!(f, "as expected: saved {}", percent(re))
            }
            Why::AsExpected { throughput: Some(throughput), re } => {
                write!(f, "as expected: {}, saved {}", rate(throughput), percent(re))
            }
        }
    }
}
