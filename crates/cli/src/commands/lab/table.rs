//! The results of `lab cache` for people and for machines.

use crate::error::CliError;
use crate::table;
use comfy_table::Table;
use std::fmt::Write;
use thermocline_sim::lab::{Curves, Failed, Point, Report, Row};
use thermocline_units::Bytes;
use thermocline_units::text::{count, counted, seconds};

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
    ("I/O cost\nTai 2015", |row| seconds(row.cost_source_s)),
    ("I/O cost\nreal sizes", |row| seconds(row.cost_real_s)),
    ("disk head\nbusy", |row| seconds(row.disk_head_s)),
    ("flash\nwrites", |row| of_row(row, row.flash_written_bytes)),
    ("moved", |row| of_row(row, row.moved_bytes)),
    ("written\nback", |row| count(row.written_back)),
    ("policy\nmemory", |row| Bytes(row.memory_resident_bytes + row.memory_index_bytes).to_string()),
];

/// Columns that a narrow terminal does without, the first of them first.
const SPARE: [usize; 9] = [6, 12, 11, 10, 8, 2, 3, 5, 4];

fn percent(ratio: f64) -> String {
    format!("{:.2}", ratio * 100.0)
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
pub(crate) fn curves_json(curves: &Curves) -> Result<String, CliError> {
    let text = serde_json::to_string_pretty(curves).map_err(CliError::failed)?;
    Ok(text + "\n")
}

/// Miss-ratio curves as one table: a row a size, a column a policy, errors behind the ratios.
pub(crate) fn curves_text(curves: &Curves, objects: bool) -> String {
    let names = curves.curves.iter().map(|curve| curve.policy.clone());
    let mut table = table::plain(std::iter::once("cache size".to_string()).chain(names));
    let points = curves.curves.first().map_or(&[][..], |curve| &curve.points);
    for (i, point) in points.iter().enumerate() {
        let cells = curves.curves.iter().map(|curve| with_error(&curve.points[i]));
        table.add_row(std::iter::once(amount(point.bytes, objects)).chain(cells));
    }
    table::align_numbers(&mut table);
    let mut text = format!("Miss ratio by line, % ({})\n", curves.made_from());
    for repair in &curves.repairs {
        text.push_str(&format!("note: {repair}\n"));
    }
    text.push_str(&format!("{table}\n"));
    if curves.rate < 1.0 {
        text.push_str("± is where the true ratio lies in 95 of 100 samples.\n");
    }
    text
}

fn with_error(point: &Point) -> String {
    let ratio = percent(point.miss_ratio);
    if point.error == 0.0 { ratio } else { format!("{ratio} ±{}", percent(point.error)) }
}

/// Bytes, or a number of objects.
fn amount(bytes: u64, objects: bool) -> String {
    if objects { format!("{} objects", count(bytes)) } else { Bytes(bytes).to_string() }
}

/// An amount of a row, which counts objects of unit size where it caches objects.
fn of_row(row: &Row, bytes: u64) -> String {
    amount(bytes, row.unit_bytes == 1)
}

fn write_tables(report: &Report, out: &mut impl Write) -> std::fmt::Result {
    writeln!(
        out,
        "{}, {} touched, working set {}, {}; writes go {}",
        counted(report.requests, "request"),
        counted(report.lines, "line"),
        amount(report.working_set_bytes, report.counts_objects()),
        counted(report.volumes, "volume"),
        report.write_mode,
    )?;
    for repair in report.repairs.iter().chain(&report.notes) {
        writeln!(out, "note: {repair}")?;
    }
    for size in report.sizes() {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.size == size).collect();
        writeln!(out, "\n{}", heading(report, size, rows[0]))?;
        writeln!(out, "{}", table::fitted(&table(&rows), &SPARE))?;
        writeln!(out, "{}", verdict(&rows))?;
    }
    for failed in &report.failures {
        writeln!(out, "\nno result: {}", failure(failed))?;
    }
    Ok(())
}

/// A policy at a size that has no row, in words.
pub(crate) fn failure(failed: &Failed) -> String {
    format!("policy `{}` at {}: {}", failed.policy, failed.size, failed.error)
}

fn heading(report: &Report, size: &str, row: &Row) -> String {
    let share = row.capacity_bytes as f64 / report.working_set_bytes as f64 * 100.0;
    let capacity = of_row(row, row.capacity_bytes);
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

/// Verdict: who served best, and at what cost; the clairvoyant bound does not compete.
fn verdict(rows: &[&Row]) -> String {
    let real = || rows.iter().filter(|row| !row.clairvoyant);
    let best = real().map(|row| row.request_hit_ratio).max_by(f64::total_cmp);
    let cheapest = real().map(|row| row.cost_real_s).min_by(f64::total_cmp);
    let (Some(best), Some(cheapest)) = (best, cheapest) else { return String::new() };
    let of = |found: fn(&Row) -> f64, value: f64| {
        let equal = real().filter(|row| found(row) == value).map(|row| row.policy.as_str());
        equal.collect::<Vec<_>>().join(", ")
    };
    format!(
        "Most requests from flash: {} ({} %). Least I/O time at real sizes: {} ({}).",
        of(|row| row.request_hit_ratio, best),
        percent(best),
        of(|row| row.cost_real_s, cheapest),
        seconds(cheapest),
    )
}
