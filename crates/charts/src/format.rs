//! Numbers in words people read: the one place where results become text.
//!
//! Sizes in IEC units, times in SI units (minutes, hours and days above a minute), counts with a
//! comma between thousands, shares in percent. Three significant digits unless a count is exact.
//! Machines get raw numbers (JSON, CSV); nothing here is meant to be parsed again.

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

/// A count with a comma between thousands: `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size in IEC units with three significant digits: `64 KiB`, `1.5 GiB`.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut scaled = value;
    let mut unit = 0;
    while scaled >= 1023.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{} {}", significant(scaled, if scaled >= 1000.0 { 4 } else { 3 }), UNITS[unit])
}

/// A span of time: `250 ns`, `1.5 ms`, `5 min`, `2.5 h`, `7 d`.
pub fn seconds(value: f64) -> String {
    const UNITS: [(&str, f64); 7] = [
        ("d", 86_400.0),
        ("h", 3_600.0),
        ("min", 60.0),
        ("s", 1.0),
        ("ms", 1e-3),
        ("µs", 1e-6),
        ("ns", 1e-9),
    ];
    if value == 0.0 {
        return "0 s".to_string();
    }
    // Half a unit of the last printed digit below the limit already rounds up to it.
    let (name, factor) =
        UNITS.into_iter().find(|(_, factor)| value >= factor * 0.9995).unwrap_or(UNITS[6]);
    format!("{} {name}", significant(value / factor, 3))
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
        p if (0.1..100.0).contains(&p) => trimmed(percent, 1),
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

/// `value` with `digits` significant digits at most, without trailing zeroes.
fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (digits as i32 - 1 - magnitude).clamp(0, 12) as usize;
    trimmed(value, decimals)
}

fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests;
