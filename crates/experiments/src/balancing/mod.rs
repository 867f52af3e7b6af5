//! Balancers with stale load information: the source's tables and figures with its numbers beside
//! ours, and today's rivals in tables of the same kind.
//!
//! An experiment is a list of panels; a panel is a grid of policies (rows) under loads (columns),
//! each cell a mean wait. All policies of a column are run over the same requests, and both bounds
//! with them: see [`thermocline_sim::balance`], which does the work. `expect` judges.

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
use serde::{Deserialize, Serialize};
use thermocline_policy::registry::PolicySpec;
use thermocline_sim::balance::{self, BalanceError, Estimate, Row};

/// Measure that a panel compares.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Time from arrival to the start of service.
    #[default]
    Wait,
    /// Time from arrival to departure.
    Response,
}

impl Measure {
    fn name(self) -> &'static str {
        match self {
            Measure::Wait => "mean wait",
            Measure::Response => "mean response",
        }
    }
}

/// A policy in a panel.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// Its name in the source, or ours.
    pub name: String,
    /// The policy as on the command line; empty for the central queue.
    pub policy: String,
    /// The source's figures, one a column, where it has them.
    pub published: Vec<Option<f64>>,
    /// Mean waits in seconds, one a column.
    pub wait_s: Vec<Estimate>,
    /// Mean responses in seconds, one a column.
    pub response_s: Vec<Estimate>,
    /// Their 99th percentiles.
    pub response_p99_s: Vec<Estimate>,
    /// Means of what the panel compares, one a seed, for each column.
    pub by_seed_s: Vec<Vec<f64>>,
    /// Probes a request, one a column.
    pub probes: Vec<f64>,
    /// Share of arrivals at which the rule was right about the burst, one a column.
    pub bursts_known: Vec<Option<f64>>,
}

/// A table or figure.
#[derive(Debug, Clone, Serialize)]
pub struct Panel {
    /// Its title.
    pub title: String,
    /// A word on reading it.
    pub note: String,
    /// Size of the experiment: repeats and requests.
    pub size: String,
    /// Measure that is compared.
    pub measure: Measure,
    /// The row beside which the others are set.
    pub beside: Option<String>,
    /// True if it is told how often rules were right about bursts.
    pub bursts_known: bool,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The bounds, then the policies.
    pub lines: Vec<Line>,
    /// Verdicts on the expected features.
    pub verdicts: Vec<Verdict>,
}

/// Outcome of the experiment.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Its title.
    pub title: String,
    /// The tables and figures it reproduces.
    pub source: String,
    /// Text about what is measured, and how to read it.
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
    let mut lines = bounds(panel.measure, &columns);
    lines.extend(panel.rows.iter().map(|row| {
        let published = (0..columns.len()).map(|at| row.published.get(at).copied().flatten());
        let mut line = line(&row.name, &row.policy, panel.measure, &columns);
        line.published = published.collect();
        line
    }));
    let jobs = panel.jobs.unwrap_or(config.jobs);
    let mut panel_done = Panel {
        title: panel.title.clone(),
        note: panel.note.clone(),
        size: format!("{} seeds of {jobs} requests", seeds.len()),
        measure: panel.measure,
        beside: panel.beside.clone(),
        bursts_known: panel.bursts_known,
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

fn bounds(measure: Measure, columns: &[Vec<Row>]) -> Vec<Line> {
    BOUNDS.into_iter().map(|(name, label)| line(name, label, measure, columns)).collect()
}

fn line(name: &str, label: &str, measure: Measure, columns: &[Vec<Row>]) -> Line {
    let found = |rows: &Vec<Row>| {
        let row = rows.iter().find(|row| row.policy == label);
        row.expect("each policy of a panel was run in each column").clone()
    };
    let rows: Vec<Row> = columns.iter().map(found).collect();
    let by_seed = |row: &Row| match measure {
        Measure::Wait => row.wait_by_seed_s.clone(),
        Measure::Response => row.response_by_seed_s.clone(),
    };
    Line {
        name: name.to_string(),
        policy: label.to_string(),
        published: vec![None; columns.len()],
        wait_s: rows.iter().map(|row| row.wait_s).collect(),
        response_s: rows.iter().map(|row| row.response_s).collect(),
        response_p99_s: rows.iter().map(|row| row.response_p99_s).collect(),
        by_seed_s: rows.iter().map(by_seed).collect(),
        probes: rows.iter().map(|row| row.probes).collect(),
        bursts_known: rows.iter().map(|row| row.bursts_known).collect(),
    }
}

impl Panel {
    /// Means of what is compared, one a column.
    fn means<'a>(&self, line: &'a Line) -> &'a [Estimate] {
        match self.measure {
            Measure::Wait => &line.wait_s,
            Measure::Response => &line.response_s,
        }
    }

    /// One line's means over another's in a column, seed by seed.
    fn ratio(line: &Line, over: &Line, column: usize) -> Estimate {
        let both = line.by_seed_s[column].iter().zip(&over.by_seed_s[column]);
        Estimate::of(&both.map(|(own, other)| own / other).collect::<Vec<f64>>())
    }

    fn line(&self, name: &str) -> &Line {
        let found = self.lines.iter().find(|line| line.name == name);
        found.expect("it was checked when the description was read")
    }
}
