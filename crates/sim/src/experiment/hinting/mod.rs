//! Hints at the source's full size, in virtual time: files of a modelled file system on a volume
//! machine, programs that work on them, with more and more said about them.
//!
//! An experiment is a list of panels; a panel is a grid of what is hinted (rows) under volumes,
//! file systems and programs (columns), repeated over seeds, on all cores. Each run is a `scene`;
//! `expect` judges. Nothing here decides: hints, classes, director and baseline are those of the
//! engine.
//!
//! Source: S1, HintStor (003 §4.1 to 4.4).

mod config;
mod expect;
mod html;
mod markdown;
mod scene;
#[cfg(test)]
mod tests;

pub use config::Config;
pub use expect::Expectation;

use self::config::PanelConfig;
use super::{ExperimentError, Verdict};
use crate::balance::Estimate;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// What came of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Mean latency of the requests of programs in front and of the file system, seconds.
    pub latency_s: f64,
    /// Of the programs in front alone.
    pub front_s: f64,
    /// How long it took, seconds.
    pub elapsed_s: f64,
    /// What the programs in front read and wrote, bytes a second.
    pub bytes_per_s: f64,
    /// What was copied between pools.
    pub moved_bytes: f64,
    /// What was read from the slowest pool, for requests and for copies.
    pub slowest_read_bytes: f64,
    /// Requests of programs in front and of the file system.
    pub requests: f64,
    /// Chunks that hints had redirected, since the files were made.
    pub redirected: f64,
}

/// Which figure of a run a table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// [`Measured::latency_s`].
    Latency,
    /// [`Measured::front_s`].
    FrontLatency,
    /// [`Measured::bytes_per_s`].
    Throughput,
    /// [`Measured::elapsed_s`].
    Elapsed,
    /// [`Measured::moved_bytes`].
    Moved,
    /// [`Measured::slowest_read_bytes`].
    SlowestRead,
}

impl Measure {
    fn of(self, measured: &Measured) -> f64 {
        match self {
            Measure::Latency => measured.latency_s,
            Measure::FrontLatency => measured.front_s,
            Measure::Throughput => measured.bytes_per_s,
            Measure::Elapsed => measured.elapsed_s,
            Measure::Moved => measured.moved_bytes,
            Measure::SlowestRead => measured.slowest_read_bytes,
        }
    }
}

/// What was hinted, and what came of it.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// What was hinted.
    pub name: String,
    /// The source's figures as shares of the first row's, one a column, where it has them.
    pub published: Vec<Option<f64>>,
    /// Ours, one a column.
    pub values: Vec<Estimate>,
}

/// One measure.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// Which.
    pub measure: Measure,
    /// The rows.
    pub lines: Vec<Line>,
}

/// A figure.
#[derive(Debug, Clone, Serialize)]
pub struct Panel {
    /// Which.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// Repeats.
    pub seeds: usize,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// A table a measure.
    pub tables: Vec<Table>,
    /// Every run: by row, column and seed.
    pub runs: Vec<Vec<Vec<Measured>>>,
    /// Whether the expected features appeared.
    pub verdicts: Vec<Verdict>,
}

/// What the experiment came to.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Its title.
    pub title: String,
    /// The figures it reproduces.
    pub source: String,
    /// What is measured, and how to read it.
    pub about: String,
    /// The figures.
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
/// When a volume cannot hold the files, or the machine fails.
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
        panels,
    })
}

fn run_panel(config: &Config, panel: &PanelConfig) -> Result<Panel, ExperimentError> {
    let (rows, columns) = (panel.rows.len(), panel.columns.len());
    let seeds = config.seeds.len();
    let jobs: Vec<usize> = (0..rows * columns * seeds).collect();
    let done: Vec<Measured> = jobs
        .into_par_iter()
        .with_max_len(1)
        .map(|job| {
            let (row, column) = (job / seeds / columns, job / seeds % columns);
            let (row, column) = (&panel.rows[row], &panel.columns[column]);
            let scene = config.scene(panel, column, row, config.seeds[job % seeds]);
            scene.expect("the description was checked").run()
        })
        .collect::<Result<_, _>>()?;
    let of_row = |row: &[Measured]| row.chunks(seeds).map(<[Measured]>::to_vec).collect();
    let runs: Vec<Vec<Vec<Measured>>> = done.chunks(seeds * columns).map(of_row).collect();
    let mut made = Panel {
        title: panel.title.clone(),
        note: panel.note.trim().to_string(),
        seeds,
        columns: panel.columns.iter().map(|column| column.name.clone()).collect(),
        tables: panel.measures.iter().map(|&measure| table(panel, measure, &runs)).collect(),
        runs,
        verdicts: Vec::new(),
    };
    made.verdicts = panel.expect.iter().map(|expectation| expectation.judge(&made)).collect();
    Ok(made)
}

fn table(panel: &PanelConfig, measure: Measure, runs: &[Vec<Vec<Measured>>]) -> Table {
    let line = |(row, runs): (&config::RowConfig, &Vec<Vec<Measured>>)| {
        let figure = |at: usize| {
            let figures = row.published.get(&measure)?;
            figures.get(at).copied().filter(|&figure| figure > 0.0)
        };
        let values = runs.iter().map(|seeds| {
            let values: Vec<f64> = seeds.iter().map(|run| measure.of(run)).collect();
            Estimate::of(&values)
        });
        Line {
            name: row.name.clone(),
            published: (0..panel.columns.len()).map(figure).collect(),
            values: values.collect(),
        }
    };
    Table { measure, lines: panel.rows.iter().zip(runs).map(line).collect() }
}
