//! Expectations of an experiment with balancers: what the source reports, and what we found, as
//! checks with a verdict. They judge; they never tune.
//!
//! All rows of a seed see the same requests, so rows are compared seed by seed, and a feature of
//! two rows holds when the whole 95 % interval of their ratio does.

use super::config::{PanelConfig, PolicyRow};
use super::{Line, Panel};
use crate::Verdict;
use serde::Deserialize;
use thermocline_sim::balance::Estimate;

/// One expected feature of a panel. Rows and columns are named; no columns are all.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Expectation {
    /// Mean waits are the published ones.
    AsPublished {
        /// Rows of it.
        rows: Vec<String>,
        /// Columns of it.
        #[serde(default)]
        columns: Vec<String>,
        /// Greatest distance, percent.
        within_percent: f64,
    },
    /// One waits less than another.
    Beats {
        /// The row.
        row: String,
        /// Row it is compared with.
        than: String,
        /// Columns of it.
        #[serde(default)]
        columns: Vec<String>,
        /// The factor, at least.
        #[serde(default = "one")]
        times: f64,
    },
    /// Rows wait about as long as each other.
    Level {
        /// Rows of it.
        rows: Vec<String>,
        /// Columns of it.
        #[serde(default)]
        columns: Vec<String>,
        /// Greatest excess of the longest over the shortest, percent.
        within_percent: f64,
    },
    /// No policy waits much less; bounds do not count.
    NearBest {
        /// The row.
        row: String,
        /// Columns of it.
        #[serde(default)]
        columns: Vec<String>,
        /// Greatest excess over the best, percent.
        within_percent: f64,
    },
    /// A rule is right about bursts at so many arrivals.
    Knows {
        /// The row.
        row: String,
        /// Columns of it.
        #[serde(default)]
        columns: Vec<String>,
        /// Percent of the arrivals at least.
        percent: f64,
    },
    /// One takes at most so many times what another takes, seed by seed, with 95 % confidence.
    AtMost {
        /// The row.
        row: String,
        /// Row it is compared with.
        than: String,
        /// Columns of it.
        #[serde(default)]
        columns: Vec<String>,
        /// The most that the interval may reach.
        times: f64,
    },
    /// The same beside whoever has the least mean in a column; bounds do not count.
    AtMostBest {
        /// The row.
        row: String,
        /// Columns of it.
        #[serde(default)]
        columns: Vec<String>,
        /// The most that the interval may reach.
        times: f64,
    },
}

fn one() -> f64 {
    1.0
}

impl Expectation {
    /// That it names rows and columns that are there.
    pub(super) fn check(&self, panel: &PanelConfig) -> Result<(), String> {
        let (rows, columns): (Vec<&String>, _) = match self {
            Expectation::AsPublished { rows, columns, .. }
            | Expectation::Level { rows, columns, .. } => (rows.iter().collect(), columns),
            Expectation::Beats { row, than, columns, .. }
            | Expectation::AtMost { row, than, columns, .. } => (vec![row, than], columns),
            Expectation::NearBest { row, columns, .. }
            | Expectation::Knows { row, columns, .. }
            | Expectation::AtMostBest { row, columns, .. } => (vec![row], columns),
        };
        let row = rows.into_iter().find(|name| !panel.rows.iter().any(|row| row.name == **name));
        let no_column = |name: &&String| !panel.columns.iter().any(|column| column.name == **name);
        match (row, columns.iter().find(no_column)) {
            (Some(name), _) | (None, Some(name)) => Err(format!(
                "panel `{}`: a feature is expected of `{name}`, which is no row and no column",
                panel.title
            )),
            (None, None) => self
                .problem(panel)
                .map_or(Ok(()), |problem| Err(format!("panel `{}`: {problem}", panel.title))),
        }
    }

    /// Reason for which there would be nothing to judge, so that it would always hold.
    fn problem(&self, panel: &PanelConfig) -> Option<String> {
        match self {
            Expectation::AsPublished { rows, columns, .. } => {
                let missing = |name: &&String| !panel.prints(name, columns);
                match rows.as_slice() {
                    [] => Some("`as-published` names no row".to_string()),
                    rows => rows.iter().find(missing).map(|row| {
                        format!("`{row}` is expected as published, and no such figure is there")
                    }),
                }
            }
            Expectation::Level { rows, .. } => (rows.len() < 2).then(|| {
                "`level` compares rows with each other, and names fewer than two".to_string()
            }),
            Expectation::Beats { row, than, .. } | Expectation::AtMost { row, than, .. } => {
                (row == than).then(|| format!("`{row}` is compared with itself"))
            }
            Expectation::NearBest { row, .. } | Expectation::AtMostBest { row, .. } => {
                let is_rival =
                    |other: &PolicyRow| other.name != *row && !is_bound(&other.name, &other.policy);
                let alone = !panel.rows.iter().any(is_rival);
                alone.then(|| format!("`{row}` has nobody beside it but bounds"))
            }
            Expectation::Knows { .. } => None,
        }
    }

    pub(super) fn judge(&self, panel: &Panel) -> Verdict {
        match self {
            Expectation::AsPublished { rows, columns, within_percent } => {
                as_published(panel, rows, columns, *within_percent)
            }
            Expectation::Beats { row, than, columns, times } => {
                beats(panel, (row, than), columns, *times)
            }
            Expectation::Level { rows, columns, within_percent } => {
                level(panel, rows, columns, *within_percent)
            }
            Expectation::NearBest { row, columns, within_percent } => {
                near_best(panel, row, columns, *within_percent)
            }
            Expectation::Knows { row, columns, percent } => {
                let line = panel.line(row);
                let known = |at: usize| line.bursts_known[at].unwrap_or(0.0) * 100.0;
                let known: Vec<f64> = chosen(panel, columns).map(known).collect();
                let figures: Vec<String> =
                    known.iter().map(|share| format!("{share:.1}")).collect();
                Verdict {
                    claim: format!(
                        "{row} is right about bursts at {percent} % of the arrivals or more{}: {} %",
                        at(columns),
                        figures.join(", ")
                    ),
                    holds: known.iter().all(|share| share >= percent),
                }
            }
            Expectation::AtMost { row, than, columns, times } => {
                let than = panel.line(than);
                at_most(panel, row, columns, *times, &than.name, |_| than)
            }
            Expectation::AtMostBest { row, columns, times } => {
                let best = |column| best(panel, column);
                at_most(panel, row, columns, *times, "the best policy", best)
            }
        }
    }
}

fn as_published(panel: &Panel, rows: &[String], columns: &[String], within: f64) -> Verdict {
    let off = rows.iter().map(|row| panel.line(row)).flat_map(|line| {
        chosen(panel, columns).filter_map(|at| {
            let (ours, published) = (panel.means(line)[at], line.published[at]?);
            let percent = 100.0 / published;
            Some((ours.mean * percent - 100.0, ours.ci95.max(0.0) * percent))
        })
    });
    let off: Vec<(f64, f64)> = off.collect();
    let (low, high) = ends(&off.iter().map(|(mean, _)| *mean).collect::<Vec<_>>());
    let intervals = off.iter().flat_map(|(mean, half)| [mean - half, mean + half]);
    let (lowest, highest) = ends(&intervals.collect::<Vec<_>>());
    Verdict {
        claim: format!(
            "{} as published within {within} %{}: {low:+.1} to {high:+.1} %, with intervals \
             {lowest:+.1} to {highest:+.1} %",
            rows.join(", "),
            at(columns)
        ),
        holds: lowest >= -within && highest <= within,
    }
}

fn beats(panel: &Panel, (row, than): (&str, &str), columns: &[String], times: f64) -> Verdict {
    let (own, other) = (panel.line(row), panel.line(than));
    let ratios: Vec<Estimate> =
        chosen(panel, columns).map(|at| Panel::ratio(other, own, at)).collect();
    let by = if times == 1.0 { String::new() } else { format!("{times} times ") };
    let figures: Vec<String> = ratios.iter().map(with_interval).collect();
    Verdict {
        claim: format!(
            "{row} waits {by}less than {than}{}: {} times",
            at(columns),
            figures.join(", ")
        ),
        holds: ratios.iter().all(|ratio| ratio.mean - ratio.ci95.max(0.0) > times),
    }
}

fn level(panel: &Panel, rows: &[String], columns: &[String], within: f64) -> Verdict {
    let mut worst = Estimate { mean: 1.0, ci95: 0.0 };
    for at in chosen(panel, columns) {
        let mean = |line: &&Line| panel.means(line)[at].mean;
        let lines = || rows.iter().map(|row| panel.line(row));
        let least = lines().min_by(|a, b| mean(a).total_cmp(&mean(b)));
        let least = least.expect("a feature names rows");
        for line in lines() {
            let ratio = Panel::ratio(line, least, at);
            if upper(&ratio) > upper(&worst) {
                worst = ratio;
            }
        }
    }
    Verdict {
        claim: format!(
            "{} lie within {within} % of each other{}: {} %",
            rows.join(", "),
            at(columns),
            percent_above(&worst)
        ),
        holds: (upper(&worst) - 1.0) * 100.0 <= within,
    }
}

fn near_best(panel: &Panel, row: &str, columns: &[String], within: f64) -> Verdict {
    let own = panel.line(row);
    let mut worst = (Estimate { mean: 1.0, ci95: 0.0 }, "");
    for at in chosen(panel, columns) {
        let best = best(panel, at);
        let ratio = Panel::ratio(own, best, at);
        if upper(&ratio) > upper(&worst.0) {
            worst = (ratio, &best.name);
        }
    }
    let behind = if worst.1.is_empty() { String::new() } else { format!(", behind {}", worst.1) };
    Verdict {
        claim: format!(
            "{row} is within {within} % of the best policy{}: {} % off at most{behind}",
            at(columns),
            percent_above(&worst.0)
        ),
        holds: (upper(&worst.0) - 1.0) * 100.0 <= within,
    }
}

/// The upper end of an interval; of a single run what it came to.
fn upper(ratio: &Estimate) -> f64 {
    ratio.mean + ratio.ci95.max(0.0)
}

/// A ratio with its interval, where there is one.
fn with_interval(ratio: &Estimate) -> String {
    let mean = thermocline_charts::format::plain(ratio.mean);
    if ratio.ci95.is_finite() {
        format!("{mean} ±{}", thermocline_charts::format::plain(ratio.ci95))
    } else {
        mean
    }
}

/// Excess of a ratio over 1, per cent.
fn percent_above(ratio: &Estimate) -> String {
    let above = format!("{:.1}", (ratio.mean - 1.0) * 100.0);
    if ratio.ci95.is_finite() { format!("{above} ±{:.1}", ratio.ci95 * 100.0) } else { above }
}

/// The line with the least mean in a column, bounds aside.
fn best(panel: &Panel, column: usize) -> &Line {
    let rivals = panel.lines.iter().filter(|line| !is_bound(&line.name, &line.policy));
    let mean = |line: &Line| panel.means(line)[column].mean;
    rivals.min_by(|a, b| mean(a).total_cmp(&mean(b))).expect("a panel has rows")
}

fn at_most<'a>(
    panel: &'a Panel,
    row: &str,
    columns: &[String],
    times: f64,
    than: &str,
    rival: impl Fn(usize) -> &'a Line,
) -> Verdict {
    let own = panel.line(row);
    let ratio = |at: usize| (Panel::ratio(own, rival(at), at), at);
    let end = |ratio: &Estimate| ratio.mean + ratio.ci95.max(0.0);
    let by_end = |a: &(Estimate, usize), b: &(Estimate, usize)| end(&a.0).total_cmp(&end(&b.0));
    let (worst, column) =
        chosen(panel, columns).map(ratio).max_by(by_end).expect("a panel has columns");
    Verdict {
        claim: format!(
            "{row} takes at most {times} times what {than} takes{}: {:.2} ±{:.2} times {} in {}",
            at(columns),
            worst.mean,
            worst.ci95,
            rival(column).name,
            panel.columns[column]
        ),
        holds: end(&worst) <= times,
    }
}

/// True if it knows what nobody can know.
fn is_bound(name: &str, policy: &str) -> bool {
    name.ends_with("(bound)") || policy.starts_with("ara-opt")
}

/// Indices of the named columns, of all when none is named.
fn chosen<'a>(panel: &'a Panel, names: &'a [String]) -> impl Iterator<Item = usize> + 'a {
    let wanted = |name: &String| names.is_empty() || names.contains(name);
    panel.columns.iter().enumerate().filter(move |(_, name)| wanted(name)).map(|(at, _)| at)
}

fn at(columns: &[String]) -> String {
    if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) }
}

fn ends(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    (low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}
