//! The results of `lab cache` for people and for machines.

use crate::error::CliError;
use crate::table;
use comfy_table::Table;
use std::fmt::Write;
use thermocline_sim::lab::{Curve, CurveMethod, Report, Row};
use thermocline_units::{Bytes, Nanos};

/// Columns: heading, and how a row fills it.
type Column = (&'static str, fn(&Row) -> String);

const COLUMNS: [Column; 13] = [
    ("policy", |row| {
        if row.clairvoyant { format!("{} (bound)", row.policy) } else { row.policy.clone() }
    }),
    ("hit %\nrequests", |row| percent(row.request_hit_ratio)),
    ("hit %\nlines", |row| percent(row.line_hit_ratio)),
    ("hit %\nbytes", |row| percent(row.byte_hit_ratio)),
    ("hit %\nreads", |row| percent(row.reads.request_hit_ratio())),
    ("hit %\nwrites", |row| percent(row.writes.request_hit_ratio())),
    ("I/O cost\nas in 001", |row| seconds(row.cost_source_s)),
    ("I/O cost\nreal sizes", |row| seconds(row.cost_real_s)),
    ("disk head\nbusy", |row| seconds(row.disk_head_s)),
    ("flash\nwrites", |row| Bytes(row.flash_written_bytes).to_string()),
    ("moved", |row| Bytes(row.moved_bytes).to_string()),
    ("written\nback", |row| row.written_back.to_string()),
    ("policy\nmemory", |row| Bytes(row.memory_resident_bytes + row.memory_index_bytes).to_string()),
];

fn percent(ratio: f64) -> String {
    format!("{:.2}", ratio * 100.0)
}

fn seconds(seconds: f64) -> String {
    Nanos((seconds * 1e9) as u64).to_string()
}

/// The report as JSON.
pub(crate) fn json(report: &Report) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(report).map_err(CliError::failed)?;
    Ok(text + "\n")
}

/// The report as one table a size.
pub(crate) fn text(report: &Report) -> String {
    let mut out = String::new();
    write_tables(report, &mut out).expect("a String takes every text");
    out
}

/// Miss-ratio curves as JSON.
pub(crate) fn curves_json(curves: &[Curve], method: CurveMethod) -> Result<String, CliError> {
    let value = serde_json::json!({ "method": method.to_string(), "curves": curves });
    let text = serde_json::to_string_pretty(&value).map_err(CliError::failed)?;
    Ok(text + "\n")
}

/// Miss-ratio curves as one table: a row a size, a column a policy.
pub(crate) fn curves_text(curves: &[Curve], method: CurveMethod) -> String {
    let Some(first) = curves.first() else { return String::new() };
    let names = curves.iter().map(|curve| curve.policy.clone());
    let mut table = table::plain(std::iter::once("cache size".to_string()).chain(names));
    for (i, point) in first.points.iter().enumerate() {
        let ratio = |curve: &Curve| curve.points.get(i).map_or(0.0, |point| point.miss_ratio);
        let cells = curves.iter().map(|curve| percent(ratio(curve)));
        table.add_row(std::iter::once(Bytes(point.bytes).to_string()).chain(cells));
    }
    table::align_numbers(&mut table);
    format!("Miss ratio by line, % ({method})\n{table}\n")
}

fn write_tables(report: &Report, out: &mut impl Write) -> std::fmt::Result {
    writeln!(
        out,
        "{} requests, {} lines touched, working set {}, {} volume(s); writes go {}",
        report.requests,
        report.lines,
        Bytes(report.working_set_bytes),
        report.volumes,
        report.write_mode,
    )?;
    for repair in &report.repairs {
        writeln!(out, "note: {repair}")?;
    }
    for size in report.sizes() {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.size == size).collect();
        writeln!(out, "\n{}", heading(report, size, rows[0]))?;
        writeln!(out, "{}", table(&rows))?;
        writeln!(out, "{}", verdict(&rows))?;
    }
    Ok(())
}

fn heading(report: &Report, size: &str, row: &Row) -> String {
    let share = row.capacity_bytes as f64 / report.working_set_bytes as f64 * 100.0;
    let capacity = Bytes(row.capacity_bytes);
    if size.ends_with('%') {
        format!("Flash of {size} of the working set ({capacity})")
    } else {
        format!("Flash of {size} ({share:.1} % of the working set)")
    }
}

fn table(rows: &[&Row]) -> Table {
    let mut table = table::plain(COLUMNS.map(|(heading, _)| heading));
    for row in rows {
        table.add_row(COLUMNS.map(|(_, cell)| cell(row)));
    }
    table::align_numbers(&mut table);
    table
}

/// Who served best, and at what cost; the clairvoyant bound does not compete.
fn verdict(rows: &[&Row]) -> String {
    let real = || rows.iter().filter(|row| !row.clairvoyant);
    let best = real().max_by(|a, b| a.request_hit_ratio.total_cmp(&b.request_hit_ratio));
    let cheapest = real().min_by(|a, b| a.cost_real_s.total_cmp(&b.cost_real_s));
    match (best, cheapest) {
        (Some(best), Some(cheapest)) => format!(
            "Most requests from flash: {} ({} %). Least I/O time at real sizes: {} ({}).",
            best.policy,
            percent(best.request_hit_ratio),
            cheapest.policy,
            seconds(cheapest.cost_real_s),
        ),
        _ => String::new(),
    }
}
