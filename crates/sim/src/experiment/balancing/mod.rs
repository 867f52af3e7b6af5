//! Balancers with old knowledge: the source's tables and figures with its numbers beside ours, and
//! today's rivals in tables of the same kind.
//!
//! An experiment is a list of panels; a panel is a grid of policies (rows) under loads (columns),
//! each cell a mean wait. All policies of a column are run over the same requests, and both bounds
//! with them: see [`crate::balance`], which does the work. `expect` judges.

mod config;
mod expect;
mod html;
mod markdown;
#[cfg(test)]
mod tests;

pub use config::Config;
pub use expect::Expectation;

use self::config::PanelConfig;
use super::{ExperimentError, Verdict};
use crate::balance::{self, BalanceError, Estimate, Row};
use serde::Serialize;
use thermocline_policy::registry::PolicySpec;

/// A policy in a panel.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// Its name in the source, or ours.
    pub name: String,
    /// As on the command line; empty for the central queue.
    pub policy: String,
    /// The source's figures, one a column, where it has them.
    pub published: Vec<Option<f64>>,
    /// Mean waits in seconds, one a column.
    pub wait_s: Vec<Estimate>,
    /// Share of arrivals at which the rule was right about the burst, one a column.
    pub bursts_known: Vec<Option<f64>>,
}

/// A table or figure.
#[derive(Debug, Clone, Serialize)]
pub struct Panel {
    /// Which.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// What is drawn up: repeats and requests.
    pub size: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The bounds, then the policies.
    pub lines: Vec<Line>,
    /// Whether the expected features appeared.
    pub verdicts: Vec<Verdict>,
}

/// What the experiment came to.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Its title.
    pub title: String,
    /// The tables and figures it reproduces.
    pub source: String,
    /// What is measured, and how to read it.
    pub about: String,
    /// The arrival processes, in words.
    pub processes: Vec<String>,
    /// The tables and figures.
    pub panels: Vec<Panel>,
}

impl Outcome {
    /// Verdicts of all panels.
    pub fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        self.panels.iter().flat_map(|panel| &panel.verdicts)
    }
}

/// Runs the experiment. `note` is told what is going on, for people.
///
/// # Errors
/// When a policy is unknown or no balancer, or a load is impossible.
pub fn run(config: &Config, note: &mut dyn FnMut(&str)) -> Result<Outcome, ExperimentError> {
    let mut panels = Vec::new();
    for panel in &config.panels {
        note(&panel.title);
        panels.push(run_panel(config, panel)?);
    }
    Ok(Outcome {
        title: config.title.clone(),
        source: config.source.clone(),
        about: config.about.clone(),
        processes: config.processes(),
        panels,
    })
}

fn run_panel(config: &Config, panel: &PanelConfig) -> Result<Panel, ExperimentError> {
    let mut specs: Vec<PolicySpec> = Vec::new();
    for row in &panel.rows {
        let spec = PolicySpec::parse(&row.policy)?;
        if !specs.iter().any(|known| known.written == spec.written) {
            specs.push(spec);
        }
    }
    let seeds = panel.seeds.as_ref().unwrap_or(&config.seeds);
    let mut columns: Vec<Vec<Row>> = Vec::new();
    for column in &panel.columns {
        let scenario = config.scenario(panel, column).map_err(BalanceError::Scenario)?;
        columns.push(balance::run(&scenario, &specs, seeds, &|_| ())?);
    }
    let mut lines = bounds(&columns);
    lines.extend(panel.rows.iter().map(|row| {
        let published = (0..columns.len()).map(|at| row.published.get(at).copied().flatten());
        line(&row.name, &row.policy, published.collect(), &columns)
    }));
    let jobs = panel.jobs.unwrap_or(config.jobs);
    let mut panel_done = Panel {
        title: panel.title.clone(),
        note: panel.note.clone(),
        size: format!("{} seeds of {jobs} requests", seeds.len()),
        columns: panel.columns.iter().map(|column| column.name.clone()).collect(),
        lines,
        verdicts: Vec::new(),
    };
    panel_done.verdicts =
        panel.expect.iter().map(|expectation| expectation.judge(&panel_done)).collect();
    Ok(panel_done)
}

/// Labels under which [`balance::run`] lists its bounds.
const BOUNDS: [(&str, &str); 2] =
    [("central queue (bound)", "central queue"), ("JSQ (bound)", "jsq")];

fn bounds(columns: &[Vec<Row>]) -> Vec<Line> {
    let of = |(name, label): (&str, &str)| line(name, label, vec![None; columns.len()], columns);
    BOUNDS.into_iter().map(of).collect()
}

fn line(name: &str, label: &str, published: Vec<Option<f64>>, columns: &[Vec<Row>]) -> Line {
    let found = |rows: &Vec<Row>| {
        let row = rows.iter().find(|row| row.policy == label);
        row.expect("each policy of a panel was run in each column").clone()
    };
    let rows: Vec<Row> = columns.iter().map(found).collect();
    Line {
        name: name.to_string(),
        policy: label.to_string(),
        published,
        wait_s: rows.iter().map(|row| row.wait_s).collect(),
        bursts_known: rows.iter().map(|row| row.bursts_known).collect(),
    }
}
