//! A point or a span in virtual time, in nanoseconds.

use crate::{ParseQuantityError, scale, split_number, text};
use std::{fmt, str::FromStr};

/// Nanoseconds since a trace's time zero, or a span of them. Prints with SI units (`5 min`, `1.2
/// ms`).
///
/// ```
/// use thermocline_units::Nanos;
/// let epoch: Nanos = "5m".parse().unwrap();
/// assert_eq!(epoch, Nanos::from_secs(300));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("µs", 1_000),
    ("ns", 1),
];

impl Nanos {
    /// `seconds` × 10⁹ ns.
    pub const fn from_secs(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    /// `micros` × 10³ ns.
    pub const fn from_micros(micros: u64) -> Nanos {
        Nanos(micros * 1_000)
    }

    /// The time in seconds, as a fraction.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// `self − earlier`, or zero when `earlier` is later.
    pub const fn saturating_sub(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&text::seconds(self.as_secs_f64()))
    }
}

impl FromStr for Nanos {
    type Err = ParseQuantityError;

    /// Reads `5m`, `250ms`, `1.5h`; a bare number is refused, because its unit would be a guess.
    fn from_str(text: &str) -> Result<Nanos, ParseQuantityError> {
        let error = || ParseQuantityError {
            text: text.to_string(),
            what: "duration",
            example: "5m, 250ms or 1h",
        };
        let (number, unit) = split_number(text).ok_or_else(error)?;
        let unit = match unit {
            "m" => "min",
            "us" => "µs",
            other => other,
        };
        UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .and_then(|(_, factor)| scale(number, *factor))
            .map(Nanos)
            .ok_or_else(error)
    }
}
