//! Numbers in words that people read: the one place where counts, sizes and times become text.
//!
//! Sizes in IEC units, times in SI units (minutes, hours and days above a minute), counts with a
//! comma between thousands. Three significant digits unless a count is exact. Machines get raw
//! numbers (JSON, CSV).

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

/// A count with its noun, which takes an s unless there is one: `1 hint`, `1,234 hints`, `0 hints`.
pub fn counted(value: u64, noun: &str) -> String {
    let ending = if value == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(value))
}

/// A size in IEC units with three significant digits: `64 KiB`, `1.5 GiB`. `value` is in bytes, 0
/// or more.
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

/// A span of time: `250 ns`, `1.5 ms`, `5 min`, `2.5 h`, `7 d`, `−3 s`. `value` is in seconds.
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
    if value < 0.0 {
        return format!("−{}", seconds(-value));
    }
    // Half a unit of the last printed digit below the limit already rounds up to it.
    let (name, factor) =
        UNITS.into_iter().find(|(_, factor)| value >= factor * 0.9995).unwrap_or(UNITS[6]);
    format!("{} {name}", significant(value / factor, 3))
}

/// `value` with `digits` significant digits at most, without trailing zeroes.
pub fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (digits as i32 - 1 - magnitude).clamp(0, 12) as usize;
    decimals_at_most(value, decimals)
}

/// `value` with `decimals` digits behind the point at most, without trailing zeroes.
pub fn decimals_at_most(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests;
