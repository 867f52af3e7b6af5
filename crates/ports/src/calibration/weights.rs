//! Costs of requests of each pattern on a device, relative to each other: the weights with which
//! ChewAnalyzer ranks chunks (Ge 2017 §3.3, eqs. 3.2 to 3.4).
//!
//! 1. A request's cost is the inverse of the rate that a closed loop of such requests of 4 KiB
//!    reaches, eight at a time.
//! 2. The unit is a read: the mean of sequential and random ones.
//! 3. Each level combines the dimensions of those before it: read or write; sequential or random;
//!    written over or not.
//!
//! Wear is not a matter of time: the source multiplies the weight of writes to flash by a factor of
//! its own (w0, eq. 3.2), which nobody can measure here.

use super::Measurements;
use super::plan::LoadName;

/// Costs of requests, in reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    /// Sequential reads.
    pub sequential_read: f64,
    /// Random reads.
    pub random_read: f64,
    /// Those of writes, where they were measured.
    pub writes: Option<WriteWeights>,
}

/// Costs of writes, in reads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WriteWeights {
    /// All writes: the mean of sequential and random ones.
    pub write: f64,
    /// Sequential writes.
    pub sequential: f64,
    /// Random writes.
    pub random: f64,
    /// Random writes to what was written a moment ago.
    pub overwrite: f64,
}

impl Weights {
    pub(super) fn of(measured: &Measurements) -> Weights {
        let cost = |name| measured.get(name).map(|load| 1.0 / load.figures.iops);
        let read = |name| cost(name).expect("reads are always measured");
        let (sequential, random) =
            (read(LoadName::SmallSequentialRead), read(LoadName::RandomRead(8)));
        let unit = (sequential + random) / 2.0;
        // Depth 8 lies between the measured depths 4 and 16; rates change little there.
        let random_write = cost(LoadName::RandomWrite(4))
            .zip(cost(LoadName::RandomWrite(16)))
            .map(|(four, sixteen)| (four * sixteen).sqrt());
        let writes = match (cost(LoadName::SmallSequentialWrite), random_write) {
            (Some(sequential), Some(random)) => Some(WriteWeights {
                write: (sequential + random) / 2.0 / unit,
                sequential: sequential / unit,
                random: random / unit,
                overwrite: cost(LoadName::Overwrite).unwrap_or(random) / unit,
            }),
            _ => None,
        };
        Weights { sequential_read: sequential / unit, random_read: random / unit, writes }
    }
}
