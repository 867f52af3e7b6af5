//! Expectations of a grid of runs: what a source reports, as checks with a verdict. They judge;
//! they never tune.
//!
//! Rows of a seed share their load, so ratios are taken seed by seed, and a feature holds when the
//! whole 95 % interval of the mean ratio does. A single run has no interval: it is judged as it is,
//! and the claim says so.

use super::{Measure, Panel, Sheet};
use crate::Verdict;
use serde::Deserialize;
use thermocline_sim::balance::Estimate;

/// One expected feature of a panel. Rows and columns are named; no columns are all.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Expectation {
    /// A row is better than another: lower, or higher where more is better.
    Beats {
        /// The table's measure.
        measure: Measure,
        /// The row.
        row: String,
        /// Row it is compared with.
        than: String,
        /// Columns of it.
        #[serde(default)]
        columns: Vec<String>,
        /// Percent by which, at least.
        #[serde(default)]
        percent: f64,
    },
    /// A row is a smaller share of another in one column than in another column.
    SmallerShare {
        /// The table's measure.
        measure: Measure,
        /// The row.
        row: String,
        /// Row that it is a share of.
        of: String,
        /// Column in which it is smaller.
        column: String,
        /// Column in which it is larger.
        than_column: String,
    },
    /// Differences that rows and columns make to a measure among themselves are less than that
    /// which they all make beside another row: the worst of them over the best is below the least
    /// of what is gained.
    MattersLess {
        /// The table's measure.
        measure: Measure,
        /// Rows of it.
        rows: Vec<String>,
        /// Beside whom.
        than: String,
    },
    /// A row's measure in one column is so many times that in another.
    Grows {
        /// The table's measure.
        measure: Measure,
        /// The row.
        row: String,
        /// From where.
        from: String,
        /// Place where it ends.
        to: String,
        /// Factor.
        times: f64,
        /// Greatest distance from that.
        within: f64,
    },
    /// A row's measure lies between two figures in the unit of its table.
    Between {
        /// That of a table.
        measure: Measure,
        /// A row's name.
        row: String,
        /// Columns; all when none is named.
        #[serde(default)]
        columns: Vec<String>,
        /// At least.
        least: f64,
        /// At most.
        most: f64,
    },
    /// A row's share of the first row is the source's.
    AsPublished {
        /// The table's measure.
        measure: Measure,
        /// The row.
        row: String,
        /// Columns of it.
        #[serde(default)]
        columns: Vec<String>,
        /// Greatest distance, percentage points.
        within_points: f64,
    },
}

impl Expectation {
    /// That it names rows, columns and a measure that are there.
    pub(super) fn check(&self, sheet: &Sheet) -> Result<(), String> {
        let (measure, rows, columns): (_, Vec<&String>, Vec<&String>) = match self {
            Expectation::Beats { measure, row, than, columns, .. } => {
                (measure, vec![row, than], columns.iter().collect())
            }
            Expectation::SmallerShare { measure, row, of, column, than_column } => {
                (measure, vec![row, of], vec![column, than_column])
            }
            Expectation::MattersLess { measure, rows, than } => {
                (measure, rows.iter().chain([than]).collect(), Vec::new())
            }
            Expectation::Grows { measure, row, from, to, .. } => {
                (measure, vec![row], vec![from, to])
            }
            Expectation::AsPublished { measure, row, columns, .. }
            | Expectation::Between { measure, row, columns, .. } => {
                (measure, vec![row], columns.iter().collect())
            }
        };
        let no_row = rows.into_iter().find(|name| !sheet.rows.iter().any(|row| row.name == **name));
        let no_column = columns.into_iter().find(|name| !sheet.columns.contains(name));
        if let Some(name) = no_row.or(no_column) {
            return Err(format!(
                "panel `{}`: a feature is expected of `{name}`, which is no row and no column",
                sheet.title
            ));
        }
        if !sheet.measures.contains(measure) {
            return Err(format!(
                "panel `{}`: a feature of {} is expected, which is not measured",
                sheet.title,
                measure.name()
            ));
        }
        self.check_published(sheet)
    }

    /// That the source has figures where it is to be compared with: a verdict about none would
    /// always hold.
    fn check_published(&self, sheet: &Sheet) -> Result<(), String> {
        let Expectation::AsPublished { measure, row, columns, .. } = self else { return Ok(()) };
        let of_row = sheet.rows.iter().find(|known| known.name == *row);
        let figures = of_row.and_then(|row| row.published.get(measure));
        let prints = |column: &String| {
            let at = sheet.columns.iter().position(|known| known == column);
            at.and_then(|at| figures?.get(at)).is_some_and(|figure| *figure > 0.0)
        };
        let missing = match columns.as_slice() {
            [] if sheet.columns.iter().any(prints) => None,
            [] => Some("any column"),
            named => named.iter().find(|column| !prints(column)).map(String::as_str),
        };
        match missing {
            Some(column) => Err(format!(
                "panel `{}`: {} of `{row}` is expected as published, and no figure is published \
                 for it in {column}",
                sheet.title,
                measure.name()
            )),
            None => Ok(()),
        }
    }

    pub(super) fn judge(&self, panel: &Panel) -> Verdict {
        match self {
            Expectation::Beats { measure, row, than, columns, percent } => {
                beats(panel, *measure, (row, than), columns, *percent)
            }
            Expectation::SmallerShare { measure, row, of, column, than_column } => {
                smaller_share(panel, *measure, (row, of), (column, than_column))
            }
            Expectation::MattersLess { measure, rows, than } => {
                matters_less(panel, *measure, rows, than)
            }
            Expectation::Grows { measure, row, from, to, times, within } => {
                grows(panel, *measure, row, (from, to), (*times, *within))
            }
            Expectation::Between { measure, row, columns, least, most } => {
                between(panel, *measure, row, columns, (*least, *most))
            }
            Expectation::AsPublished { measure, row, columns, within_points } => {
                as_published(panel, *measure, row, columns, *within_points)
            }
        }
    }
}

fn beats(
    panel: &Panel,
    measure: Measure,
    (row, than): (&str, &str),
    columns: &[String],
    percent: f64,
) -> Verdict {
    // How much better, percent of the other: of the mean ratio, with its own interval.
    let gain = |column: usize| {
        let ratio = panel.ratio(row, than, column, measure);
        let gain = (ratio.mean - 1.0) * 100.0;
        let gain = if measure.more_is_better() { gain } else { -gain };
        Estimate { mean: gain, ci95: ratio.ci95 * 100.0 }
    };
    let gains: Vec<Estimate> = chosen(panel, columns).map(gain).collect();
    let at = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
    let by = if percent > 0.0 { format!(" by {percent} %") } else { String::new() };
    let word = if measure.more_is_better() { "more" } else { "less" };
    let figures: Vec<String> = gains.iter().map(|gain| with_interval(gain, 1)).collect();
    Verdict {
        claim: format!(
            "{row} has {word} {} than {than}{by}{at}: {} % {word}",
            measure.name(),
            figures.join(", ")
        ),
        holds: gains.iter().all(|gain| low(gain) > percent),
    }
}

fn smaller_share(
    panel: &Panel,
    measure: Measure,
    (row, of): (&str, &str),
    (column, than_column): (&str, &str),
) -> Verdict {
    let share = |name: &str| {
        let at = panel.columns.iter().position(|known| known == name).expect("it was checked");
        panel.ratio(row, of, at, measure)
    };
    let (own, other) = (share(column), share(than_column));
    let percent = |share: &Estimate| {
        with_interval(&Estimate { mean: share.mean * 100.0, ci95: share.ci95 * 100.0 }, 1)
    };
    Verdict {
        claim: format!(
            "{} of {row} is a smaller share of {of}'s at {column} than at {than_column}: {} % and \
             {} %",
            measure.name(),
            percent(&own),
            percent(&other)
        ),
        holds: own.mean + own.ci95.max(0.0) < low(&other),
    }
}

fn matters_less(panel: &Panel, measure: Measure, rows: &[String], than: &str) -> Verdict {
    // By row and column, a value a seed.
    let values = |row: &str| -> Vec<Vec<f64>> {
        (0..panel.columns.len()).map(|column| panel.seeds_of(row, column, measure)).collect()
    };
    let own: Vec<Vec<f64>> = rows.iter().flat_map(|row| values(row)).collect();
    let beside = values(than);
    let seeds = own.iter().chain(&beside).map(Vec::len).min().unwrap_or(0);
    let ends = |values: &[Vec<f64>], seed: usize| {
        let of_seed = || values.iter().map(|seeds| seeds[seed]);
        (of_seed().fold(f64::INFINITY, f64::min), of_seed().fold(f64::NEG_INFINITY, f64::max))
    };
    let by_seed = |of: &dyn Fn(f64, f64, f64) -> f64| {
        let of_seed = |seed| {
            let ((best, worst), (other, _)) = (ends(&own, seed), ends(&beside, seed));
            of(best, worst, other)
        };
        Estimate::of(&(0..seeds).map(of_seed).collect::<Vec<_>>())
    };
    let among = by_seed(&|best, worst, _| worst / best);
    let gained = by_seed(&|_, worst, other| other / worst);
    let more = by_seed(&|best, worst, other| (other / worst) / (worst / best));
    Verdict {
        claim: format!(
            "{} differs less among {} at all columns than beside {than}: {} times from best to \
             worst, {} times from the worst of them to {than}, {} times as much",
            measure.name(),
            rows.join(", "),
            with_interval(&among, 2),
            with_interval(&gained, 2),
            with_interval(&more, 2),
        ),
        holds: low(&more) > 1.0,
    }
}

fn grows(
    panel: &Panel,
    measure: Measure,
    row: &str,
    (from, to): (&str, &str),
    (times, within): (f64, f64),
) -> Verdict {
    let of = |name: &str| {
        let at = panel.columns.iter().position(|known| known == name).expect("it was checked");
        panel.seeds_of(row, at, measure)
    };
    let ratios: Vec<f64> = of(to).iter().zip(of(from)).map(|(to, from)| to / from).collect();
    let own = Estimate::of(&ratios);
    Verdict {
        claim: format!(
            "{} of {row} grow {times} times (within {within}) from {from} to {to}: {} times",
            measure.name(),
            with_interval(&own, 2)
        ),
        holds: (own.mean - times).abs() + own.ci95.max(0.0) <= within,
    }
}

fn between(
    panel: &Panel,
    measure: Measure,
    row: &str,
    columns: &[String],
    (least, most): (f64, f64),
) -> Verdict {
    let own = |at: usize| {
        let seeds = panel.seeds_of(row, at, measure);
        Estimate::of(&seeds.iter().map(|&value| measure.scaled(value)).collect::<Vec<_>>())
    };
    let own: Vec<Estimate> = chosen(panel, columns).map(own).collect();
    let figures: Vec<String> = own.iter().map(|own| with_interval(own, 1)).collect();
    let at = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
    Verdict {
        claim: format!(
            "{} of {row} lies between {least} and {most}{at}: {}",
            measure.heading(),
            figures.join(", ")
        ),
        holds: own.iter().all(|own| low(own) >= least && own.mean + own.ci95.max(0.0) <= most),
    }
}

fn as_published(
    panel: &Panel,
    measure: Measure,
    row: &str,
    columns: &[String],
    within: f64,
) -> Verdict {
    let table = panel.tables.iter().find(|table| table.measure == measure);
    let lines = &table.expect("it was checked").lines;
    let line = lines.iter().find(|line| line.name == row).expect("it was checked");
    let off: Vec<(Estimate, f64)> = chosen(panel, columns)
        .filter_map(|at| {
            let share = panel.ratio(row, &lines[0].name, at, measure);
            let own = Estimate { mean: share.mean * 100.0, ci95: share.ci95 * 100.0 };
            Some((own, line.published[at]? * 100.0))
        })
        .collect();
    let figures: Vec<String> = off
        .iter()
        .map(|(own, published)| format!("{} % ({published:.1} %)", with_interval(own, 1)))
        .collect();
    let at = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
    Verdict {
        claim: format!(
            "{} of {row} is the published share of {}'s within {within} points{at}: {}",
            measure.name(),
            lines[0].name,
            figures.join(", ")
        ),
        holds: off
            .iter()
            .all(|(own, published)| (own.mean - published).abs() + own.ci95.max(0.0) <= within),
    }
}

/// The lower end of an interval; of a single run what it came to.
fn low(estimate: &Estimate) -> f64 {
    estimate.mean - estimate.ci95.max(0.0)
}

/// A figure with its interval, where there is one.
fn with_interval(estimate: &Estimate, decimals: usize) -> String {
    let Estimate { mean, ci95 } = estimate;
    if ci95.is_finite() {
        format!("{mean:.decimals$} ±{ci95:.decimals$}")
    } else {
        format!("{mean:.decimals$} (one run)")
    }
}

/// Indices of the named columns, of all when none is named.
fn chosen<'a>(panel: &'a Panel, names: &'a [String]) -> impl Iterator<Item = usize> + 'a {
    (0..panel.columns.len())
        .filter(move |&at| names.is_empty() || names.contains(&panel.columns[at]))
}
