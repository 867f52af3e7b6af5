//! Numbers of results in words that people read, by the kind of quantity.
//!
//! Sizes in IEC units, times in SI units (minutes, hours and days above a minute), counts with a
//! comma between thousands, shares in percent. Three significant digits unless a count is exact.
//! Machines get raw numbers (JSON, CSV); nothing here is meant to be parsed again.

pub use thermocline_units::text::{bytes, count, seconds};
use thermocline_units::text::{decimals_at_most, significant};

/// Kinds of quantities, which say how a number is printed and where an axis puts its ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Things counted: `1,234,567`.
    Count,
    /// Bytes: `1.5 GiB`.
    Bytes,
    /// Seconds: `1.5 ms`, `5 min`.
    Seconds,
    /// A fraction of one, printed in percent: `12.3 %`.
    Share,
    /// A bare number without a unit, such as a ratio or an index: `3.14`.
    Plain,
}

impl Quantity {
    /// The number in full, for tables and tooltips.
    ///
    /// ```
    /// use thermocline_charts::format::Quantity;
    /// assert_eq!(Quantity::Bytes.show(1.5 * 1024.0), "1.5 KiB");
    /// assert_eq!(Quantity::Share.show(0.1234), "12.3 %");
    /// ```
    pub fn show(self, value: f64) -> String {
        match self {
            _ if !value.is_finite() => "–".to_string(),
            Quantity::Count if value.abs() >= 1000.0 => signed(value, |v| count(v.round() as u64)),
            Quantity::Count | Quantity::Plain => plain(value),
            Quantity::Bytes => signed(value, bytes),
            Quantity::Seconds => signed(value, seconds),
            Quantity::Share => share(value),
        }
    }

    /// The number as short as an axis needs it: counts in thousands (`20 k`), the rest as `show`.
    pub fn tick(self, value: f64) -> String {
        match self {
            Quantity::Count | Quantity::Plain => signed(value, thousands),
            _ if value == 0.0 => "0".to_string(),
            Quantity::Share => format!("{} %", significant(value * 100.0, 4)),
            _ => self.show(value),
        }
    }
}

/// A fraction of one in percent: `12.3 %`. Only nothing prints as 0 %, only everything as 100 %.
pub fn share(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_string();
    }
    let percent = value * 100.0;
    let text = match percent.abs() {
        p if p > 99.95 && p < 100.0 => "> 99.9".to_string(),
        p if p > 0.0 && p < 0.001 => "< 0.001".to_string(),
        p if (0.1..100.0).contains(&p) => decimals_at_most(percent, 1),
        _ => significant(percent, 2),
    };
    format!("{text} %")
}

/// A bare number with three significant digits, thousands separated: `3.14`, `12,345`.
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_string();
    }
    match value.abs() {
        v if v >= 1e15 => format!("{value:.2e}"),
        v if v >= 1000.0 => signed(value, |v| count(v.round() as u64)),
        v if v > 0.0 && v < 1e-4 => format!("{value:.2e}"),
        _ => significant(value, 3),
    }
}

/// `1200` as `1.2 k`, `3e6` as `3 M`: for axes.
fn thousands(value: f64) -> String {
    const UNITS: [(&str, f64); 4] = [(" T", 1e12), (" G", 1e9), (" M", 1e6), (" k", 1e3)];
    match UNITS.into_iter().find(|(_, factor)| value >= *factor) {
        Some((name, factor)) => format!("{}{name}", significant(value / factor, 4)),
        None => significant(value, 4),
    }
}

fn signed(value: f64, show: impl Fn(f64) -> String) -> String {
    if value < 0.0 { format!("−{}", show(-value)) } else { show(value) }
}

#[cfg(test)]
mod tests;
