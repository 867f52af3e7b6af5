//! The report as CSV: a line a policy.

use super::report::{BalanceReport, Row};
use super::spread::Estimate;
use crate::table::Table;
use std::fmt::Write;

/// A column: its name, and its value.
type Column = (&'static str, fn(&Row) -> Estimate);

/// Columns with a mean and a confidence interval.
const ESTIMATES: [Column; 7] = [
    ("wait_s", |row| row.wait_s),
    ("wait_p50_s", |row| row.wait_p50_s),
    ("wait_p99_s", |row| row.wait_p99_s),
    ("response_s", |row| row.response_s),
    ("response_p50_s", |row| row.response_p50_s),
    ("response_p99_s", |row| row.response_p99_s),
    ("times_bound", |row| row.times_bound),
];

impl BalanceReport {
    /// The rows as CSV, with a heading. What is not known is empty.
    pub fn to_csv(&self) -> String {
        let mut out = String::new();
        self.write_csv(&mut out).expect("a String takes every text");
        out
    }

    fn write_csv(&self, out: &mut String) -> std::fmt::Result {
        write!(out, "policy,bound")?;
        for (name, _) in ESTIMATES {
            write!(out, ",{name},{name}_ci95")?;
        }
        writeln!(out, ",busy_min,busy_max,bursts_known,candidates,probes")?;
        for row in &self.rows {
            write!(out, "\"{}\",{}", row.policy.replace('"', "\"\""), row.bound)?;
            for (_, of) in ESTIMATES {
                let Estimate { mean, ci95 } = of(row);
                write!(out, ",{},{}", number(Some(mean)), number(Some(ci95)))?;
            }
            let (least, most) = row.busy_range();
            let tail =
                [Some(least), Some(most), row.bursts_known, row.candidates, Some(row.probes)];
            tail.iter().try_for_each(|value| write!(out, ",{}", number(*value)))?;
            writeln!(out)?;
        }
        Ok(())
    }
}

impl BalanceReport {
    /// The rows as columns, by the names of the CSV: a row a policy.
    pub fn to_table(&self) -> Table {
        let mut table = Table::default();
        table.text("policy", &self.rows, |row| row.policy.clone());
        table.flag("bound", &self.rows, |row| row.bound);
        for (name, of) in ESTIMATES {
            table.number(name, &self.rows, |row| Some(of(row).mean));
            table.number(&format!("{name}_ci95"), &self.rows, |row| Some(of(row).ci95));
        }
        table.number("busy_min", &self.rows, |row| Some(row.busy_range().0));
        table.number("busy_max", &self.rows, |row| Some(row.busy_range().1));
        table.number("bursts_known", &self.rows, |row| row.bursts_known);
        table.number("candidates", &self.rows, |row| row.candidates);
        table.number("probes", &self.rows, |row| Some(row.probes));
        table
    }
}

fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map_or(String::new(), |value| value.to_string())
}
