//! The results of `lab balance` for people: what was run, a table of policies, a verdict.

use crate::table;
use std::fmt::Write;
use thermocline_charts::format::{plain, seconds, share};
use thermocline_sim::balance::{BalanceReport, Estimate, Row};

/// A column: heading, and how a row fills it.
type Column = (&'static str, fn(&Row) -> String);

const COLUMNS: [Column; 12] = [
    (
        "policy",
        |row| {
            if row.bound { format!("{} (bound)", row.policy) } else { row.policy.clone() }
        },
    ),
    ("mean\nwait", |row| seconds(row.wait_s.mean)),
    ("± 95 %", |row| uncertainty(&row.wait_s)),
    ("times the\nbound", |row| plain(row.times_bound.mean)),
    ("p50\nwait", |row| seconds(row.wait_p50_s.mean)),
    ("p99\nwait", |row| seconds(row.wait_p99_s.mean)),
    ("mean\nresponse", |row| seconds(row.response_s.mean)),
    ("p50\nresponse", |row| seconds(row.response_p50_s.mean)),
    ("p99\nresponse", |row| seconds(row.response_p99_s.mean)),
    ("sites busy", |row| {
        let (least, most) = row.busy_range();
        format!("{} … {}", share(least), share(most))
    }),
    ("bursts\nknown", |row| row.bursts_known.map_or("–".to_string(), share)),
    ("candi-\ndates", |row| row.candidates.map_or("–".to_string(), plain)),
];

fn uncertainty(estimate: &Estimate) -> String {
    let part = estimate.ci95 / estimate.mean;
    if part.is_finite() { share(part) } else { "–".to_string() }
}

/// The report as text.
pub(crate) fn text(report: &BalanceReport) -> String {
    let mut out = String::new();
    write(report, &mut out).expect("a String takes every text");
    out
}

fn write(report: &BalanceReport, out: &mut impl Write) -> std::fmt::Result {
    for line in &report.about {
        writeln!(out, "{line}")?;
    }
    let mut table = table::plain(COLUMNS.iter().map(|(heading, _)| *heading));
    for row in &report.rows {
        table.add_row(COLUMNS.iter().map(|(_, fill)| fill(row)));
    }
    table::align_numbers(&mut table);
    writeln!(out, "\n{table}")?;
    let real = report.rows.iter().filter(|row| !row.bound);
    let best = real.min_by(|a, b| a.wait_s.mean.total_cmp(&b.wait_s.mean));
    if let Some(best) = best {
        let wait = seconds(best.wait_s.mean);
        writeln!(out, "Least mean wait: {} ({wait}).", best.policy)?;
    }
    Ok(())
}
