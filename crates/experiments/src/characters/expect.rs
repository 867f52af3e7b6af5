//! Expectations of characters: what a source prints of its traces, as checks with a verdict. They
//! judge; they never tune.
//!
//! A made workload is drawn several times, and the whole 95 % interval has to keep to what is
//! expected; a trace is one draw, and is judged as it is.

use super::character::Character;
use super::config::TableConfig;
use super::{Line, Table};
use crate::Verdict;
use serde::Deserialize;
use thermocline_sim::balance::Estimate;

/// One expected feature of a table. No workloads are all.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Expectation {
    /// A character is the printed one.
    AsPrinted {
        character: Character,
        /// All that have a printed one when none is named.
        #[serde(default)]
        workloads: Vec<String>,
        /// The distance that is allowed, in the column's unit.
        within: f64,
    },
    /// A character is this or more.
    AtLeast {
        character: Character,
        #[serde(default)]
        workloads: Vec<String>,
        value: f64,
    },
    /// A character is this or less.
    AtMost {
        character: Character,
        #[serde(default)]
        workloads: Vec<String>,
        value: f64,
    },
    /// One workload has more of a character than another.
    More { character: Character, workload: String, than: String },
}

impl Expectation {
    pub(super) fn character(&self) -> Character {
        match self {
            Expectation::AsPrinted { character, .. }
            | Expectation::AtLeast { character, .. }
            | Expectation::AtMost { character, .. }
            | Expectation::More { character, .. } => *character,
        }
    }

    /// Workloads that it names.
    pub(super) fn workloads(&self) -> Vec<&String> {
        match self {
            Expectation::AsPrinted { workloads, .. }
            | Expectation::AtLeast { workloads, .. }
            | Expectation::AtMost { workloads, .. } => workloads.iter().collect(),
            Expectation::More { workload, than, .. } => vec![workload, than],
        }
    }

    /// That what is expected as printed is printed.
    pub(super) fn check(&self, table: &TableConfig) -> Result<(), String> {
        let Expectation::AsPrinted { character, workloads, .. } = self else { return Ok(()) };
        let prints =
            |name: &String| table.printed.get(name).is_some_and(|p| p.contains_key(character));
        match workloads.iter().find(|name| !prints(name)) {
            Some(name) => Err(format!("`{name}` has no printed `{}`", character.name())),
            None if !table.printed.keys().any(prints) => {
                Err(format!("no `{}` is printed", character.name()))
            }
            None => Ok(()),
        }
    }

    /// A verdict for each workload meant that was counted.
    pub(super) fn judge(&self, table: &Table) -> Vec<Verdict> {
        let column = table.characters.iter().position(|&one| one == self.character());
        let column = column.expect("it was checked");
        let name = self.character().name();
        let of = |line: &Line, holds: &dyn Fn(f64, f64) -> bool, what: String| {
            let (low, high) = ends(&line.values[column]);
            let ours = figure(&line.values[column]);
            Verdict {
                claim: format!("{name} of {} {what}: {ours}", line.name),
                holds: holds(low, high),
            }
        };
        let lines = table.lines.iter().filter(|line| {
            let names = self.workloads();
            names.is_empty() || names.contains(&&line.name)
        });
        match self {
            Expectation::AsPrinted { within, .. } => lines
                .filter_map(|line| {
                    let printed = line.printed[column]?;
                    let near =
                        move |low, high| printed - low <= *within && high - printed <= *within;
                    Some(of(line, &near, format!("is the printed {printed} within {within}")))
                })
                .collect(),
            Expectation::AtLeast { value, .. } => lines
                .map(|line| of(line, &|low, _| low >= *value, format!("is {value} or more")))
                .collect(),
            Expectation::AtMost { value, .. } => lines
                .map(|line| of(line, &|_, high| high <= *value, format!("is {value} or less")))
                .collect(),
            Expectation::More { workload, than, .. } => {
                let find = |name: &String| table.lines.iter().find(|line| line.name == *name);
                let (Some(more), Some(less)) = (find(workload), find(than)) else {
                    return Vec::new();
                };
                let other = less.values[column];
                let above = move |low: f64, _| low > ends(&other).1;
                vec![of(more, &above, format!("is more than {than}'s {}", figure(&other)))]
            }
        }
    }
}

/// The ends of an interval; of a single draw twice what it came to.
fn ends(estimate: &Estimate) -> (f64, f64) {
    let half = estimate.ci95.max(0.0);
    (estimate.mean - half, estimate.mean + half)
}

/// A figure with its interval, where there is one.
pub(super) fn figure(estimate: &Estimate) -> String {
    let Estimate { mean, ci95 } = estimate;
    let decimals = if *mean >= 100.0 { 0 } else { 2 };
    if ci95.is_finite() {
        format!("{mean:.decimals$} ±{ci95:.decimals$}")
    } else {
        format!("{mean:.decimals$}")
    }
}
