//! What the source reports, and what we found, as checks with a verdict. They judge; they never
//! tune.

use super::config::PanelConfig;
use super::{Measure, Panel, Table};
use crate::experiment::Verdict;
use serde::Deserialize;

/// One expected feature of a panel. Rows and columns are named; no columns are all.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Expectation {
    /// A row is better than another: lower, or higher where more is better.
    Beats {
        /// Of which table.
        measure: Measure,
        /// Who.
        row: String,
        /// Whom.
        than: String,
        /// Where.
        #[serde(default)]
        columns: Vec<String>,
        /// By so many percent at least.
        #[serde(default)]
        percent: f64,
    },
}

impl Expectation {
    /// That it names rows, columns and a measure that are there.
    pub(super) fn check(&self, panel: &PanelConfig) -> Result<(), String> {
        let Expectation::Beats { measure, row, than, columns, .. } = self;
        let no_row = [row, than].into_iter().find(|name| {
            let names = |known: &super::config::RowConfig| known.name == **name;
            !panel.rows.iter().any(names)
        });
        let no_column =
            columns.iter().find(|name| !panel.columns.iter().any(|known| known.name == **name));
        if let Some(name) = no_row.or(no_column) {
            return Err(format!(
                "panel `{}`: a feature is expected of `{name}`, which is no row and no column",
                panel.title
            ));
        }
        if !panel.measures.contains(measure) {
            return Err(format!(
                "panel `{}`: a feature of {} is expected, which is not measured",
                panel.title,
                measure.name()
            ));
        }
        Ok(())
    }

    pub(super) fn judge(&self, panel: &Panel) -> Verdict {
        let Expectation::Beats { measure, row, than, columns, percent } = self;
        let table = panel.tables.iter().find(|table| table.measure == *measure);
        let table = table.expect("it was checked");
        let chosen = (0..panel.columns.len())
            .filter(|&at| columns.is_empty() || columns.contains(&panel.columns[at]));
        let gains: Vec<f64> = chosen.map(|at| gain(table, row, than, at)).collect();
        let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
        let most = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let at =
            if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
        let by = if *percent > 0.0 { format!(" by {percent} %") } else { String::new() };
        let word = if measure.more_is_better() { "more" } else { "less" };
        let claim = format!(
            "{row} has {word} {} than {than}{by}{at}: {least:.1} to {most:.1} % {word}",
            measure.name()
        );
        Verdict { claim, holds: least > *percent }
    }
}

/// How much better a row is than another, percent of the other.
fn gain(table: &Table, row: &str, than: &str, column: usize) -> f64 {
    let mean = |name: &str| {
        let line = table.lines.iter().find(|line| line.name == name).expect("it was checked");
        line.values[column].mean
    };
    let change = (mean(row) / mean(than) - 1.0) * 100.0;
    if table.measure.more_is_better() { change } else { -change }
}
