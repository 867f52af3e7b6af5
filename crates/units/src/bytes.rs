//! A number of bytes, printed in IEC units and parsed from them.

use crate::{ParseQuantityError, scale, split_number, text};
use std::{fmt, str::FromStr};

/// A size or a distance in bytes. Prints as IEC (`64 KiB`, `1.5 GiB`).
///
/// ```
/// use thermocline_units::Bytes;
/// let size: Bytes = "1.5GiB".parse().unwrap();
/// assert_eq!(size, Bytes::from_mib(1536));
/// assert_eq!(size.to_string(), "1.5 GiB");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u64); 6] = [
    ("EiB", 1 << 60),
    ("PiB", 1 << 50),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

impl Bytes {
    /// `kib` × 1024 bytes.
    pub const fn from_kib(kib: u64) -> Bytes {
        Bytes(kib << 10)
    }

    /// `mib` × 1024² bytes.
    pub const fn from_mib(mib: u64) -> Bytes {
        Bytes(mib << 20)
    }

    /// `gib` × 1024³ bytes.
    pub const fn from_gib(gib: u64) -> Bytes {
        Bytes(gib << 30)
    }

    /// Number of whole `unit`s that fit, rounded down.
    ///
    /// # Panics
    /// When `unit` is zero.
    pub const fn div_floor(self, unit: Bytes) -> u64 {
        self.0 / unit.0
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&text::bytes(self.0 as f64))
    }
}

impl FromStr for Bytes {
    type Err = ParseQuantityError;

    /// Reads `4096`, `64KiB`, `1.5 GiB`; `64K` and `1G` mean the IEC unit, as in `fio` and
    /// `qemu-img`. Decimal units (`MB`) are refused rather than guessed at.
    fn from_str(text: &str) -> Result<Bytes, ParseQuantityError> {
        let error = || ParseQuantityError {
            text: text.to_string(),
            what: "size",
            example: "64KiB or 4GiB",
        };
        let (number, unit) = split_number(text).ok_or_else(error)?;
        if unit.is_empty() || unit.eq_ignore_ascii_case("b") {
            return scale(number, 1).map(Bytes).ok_or_else(error);
        }
        UNITS
            .iter()
            .find(|(name, _)| {
                name.eq_ignore_ascii_case(unit) || name[..1].eq_ignore_ascii_case(unit)
            })
            .and_then(|(_, factor)| scale(number, *factor))
            .map(Bytes)
            .ok_or_else(error)
    }
}
