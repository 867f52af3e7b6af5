//! A cache size as a user writes it: bytes, a share of the working set, or a number of lines.

use std::fmt;
use std::str::FromStr;
use thermocline_units::Bytes;

/// Size of a cache.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CacheSize {
    /// A number of bytes.
    Bytes(Bytes),
    /// This share of the workload's distinct lines, above 0.
    Share(f64),
    /// A number of lines (or objects).
    Lines(u32),
}

/// A size that could not be read or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Not a size.
    #[error("`{text}` is not a cache size; write 4GiB, 10% (of the working set) or 1000lines")]
    Form {
        /// The text as written.
        text: String,
    },
    /// Smaller than one line.
    #[error("a cache of {size} holds not one line of {line}; choose a larger size")]
    TooSmall {
        /// The size.
        size: String,
        /// Bytes a line.
        line: Bytes,
    },
    /// More lines than ids.
    #[error("a cache of {size} holds more lines of {line} than can be numbered; use larger lines")]
    TooLarge {
        /// The size.
        size: String,
        /// Bytes a line.
        line: Bytes,
    },
}

impl CacheSize {
    /// The capacity in lines of `line` bytes, for a working set of `distinct` lines.
    ///
    /// # Errors
    /// When it comes to less than one line or to more than can be numbered.
    pub fn lines(self, line: Bytes, distinct: f64) -> Result<u32, SizeError> {
        let lines = match self {
            CacheSize::Bytes(bytes) => bytes.0 as f64 / line.0 as f64,
            CacheSize::Share(share) => distinct * share,
            CacheSize::Lines(lines) => f64::from(lines),
        };
        if lines < 1.0 {
            return Err(SizeError::TooSmall { size: self.to_string(), line });
        }
        if lines >= f64::from(u32::MAX / 4) {
            return Err(SizeError::TooLarge { size: self.to_string(), line });
        }
        Ok(lines as u32)
    }
}

impl fmt::Display for CacheSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CacheSize::Bytes(bytes) => bytes.fmt(f),
            CacheSize::Share(share) => f.pad(&format!("{}%", share * 100.0)),
            CacheSize::Lines(lines) => f.pad(&format!("{lines} lines")),
        }
    }
}

impl FromStr for CacheSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<CacheSize, SizeError> {
        let error = || SizeError::Form { text: text.to_string() };
        let text = text.trim();
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| error())?;
            let good = percent.is_finite() && percent > 0.0;
            return if good { Ok(CacheSize::Share(percent / 100.0)) } else { Err(error()) };
        }
        for suffix in ["lines", "line", "objects", "obj"] {
            if let Some(count) = text.strip_suffix(suffix) {
                let count = count.trim().parse().ok().filter(|count| *count > 0);
                return count.map(CacheSize::Lines).ok_or_else(error);
            }
        }
        match text.parse() {
            Ok(Bytes(0)) | Err(_) => Err(error()),
            Ok(bytes) => Ok(CacheSize::Bytes(bytes)),
        }
    }
}
