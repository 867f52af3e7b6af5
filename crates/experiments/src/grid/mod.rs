//! Results of experiments of several kinds: panels of tables, rows of what was tried under columns
//! of loads, repeated over seeds.
//!
//! Rows and measures are those of a description; `expect` judges the runs seed by seed, so that
//! what all rows of a seed share (load, devices) does not count as uncertainty. Nothing here runs
//! anything.

mod expect;
mod html;
mod markdown;
#[cfg(test)]
mod tests;

pub use expect::Expectation;

use super::Verdict;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thermocline_sim::balance::Estimate;

/// Figures of a run, by measure, in seconds, bytes, and shares of 1.
pub type Measured = BTreeMap<Measure, f64>;

/// Figure of a run that a table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Mean latency: of reads and writes of a trace; of programs in front and the file system.
    Latency,
    /// Its 99th percentile.
    P99,
    /// Mean latency of the programs in front alone.
    FrontLatency,
    /// Bytes a second that the programs in front read and wrote.
    Throughput,
    /// Time of the run.
    Elapsed,
    /// Bytes copied between pools while the load ran.
    Moved,
    /// Bytes copied between pools before the load began.
    MovedBefore,
    /// Both.
    MovedInAll,
    /// Bytes read from the slowest pool, for requests and for copies.
    SlowestRead,
    /// Share of the requests that the fastest pool served alone.
    OnFastest,
    /// Share of the writes that the fastest pool served.
    WritesOnFastest,
    /// Share of the writes that the pool behind it served.
    WritesOnSecond,
    /// Bytes programmed on the flash of all pools.
    Programmed,
    /// Bytes that a tunnel sent, literals as they are.
    Sent,
    /// Bytes that a tunnel sent, literals compressed.
    SentPacked,
    /// Bytes of all messages between hosts and their server.
    ServerBytes,
    /// Those of them that are not bytes of blocks.
    OtherBytes,
    /// Bytes of all messages between hosts.
    PeerBytes,
    /// Blocks that the server read from its devices.
    DiskReads,
    /// Share of the blocks read that were at the host.
    Local,
}

/// A row and its figures.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// Name of the row.
    pub name: String,
    /// The source's figures as shares of the first row's, one a column, where it has them.
    pub published: Vec<Option<f64>>,
    /// Ours, one a column.
    pub values: Vec<Estimate>,
}

/// One measure.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// Measure of the table.
    pub measure: Measure,
    /// The rows.
    pub lines: Vec<Line>,
}

/// A figure.
#[derive(Debug, Clone, Serialize)]
pub struct Panel {
    /// Its title.
    pub title: String,
    /// A word on reading it.
    pub note: String,
    /// Repeats.
    pub seeds: usize,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// A table a measure.
    pub tables: Vec<Table>,
    /// Every run: by row, column and seed.
    pub runs: Vec<Vec<Vec<Measured>>>,
    /// Verdicts on the expected features.
    pub verdicts: Vec<Verdict>,
}

/// Outcome of an experiment.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Its title.
    pub title: String,
    /// The figures it reproduces.
    pub source: String,
    /// Text about what is measured, and how to read it.
    pub about: String,
    /// The figures.
    pub panels: Vec<Panel>,
}

impl Outcome {
    /// Runs the panels one after the other, under a title, a source and a text.
    pub(super) fn of<P, E>(
        (title, source, about): (&str, &str, &str),
        panels: &[P],
        run: impl FnMut(&P) -> Result<Panel, E>,
    ) -> Result<Outcome, E> {
        Ok(Outcome {
            title: title.to_string(),
            source: source.to_string(),
            about: about.to_string(),
            panels: panels.iter().map(run).collect::<Result<_, E>>()?,
        })
    }

    /// Verdicts of all panels.
    pub fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        self.panels.iter().flat_map(|panel| &panel.verdicts)
    }
}

/// A row of a panel's description.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) name: String,
    /// The source's figures by measure, one a column, as a share of the first row's; 0 where it has
    /// none.
    pub(super) published: BTreeMap<Measure, Vec<f64>>,
}

/// A panel as it was described, before anything ran.
#[derive(Debug, Clone)]
pub(super) struct Sheet {
    pub(super) title: String,
    pub(super) note: String,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
    pub(super) measures: Vec<Measure>,
    pub(super) expect: Vec<Expectation>,
}

impl Row {
    pub(super) fn of(name: &str, published: &BTreeMap<Measure, Vec<f64>>) -> Row {
        Row { name: name.to_string(), published: published.clone() }
    }
}

impl Sheet {
    /// A panel with this title and note.
    pub(super) fn of(
        (title, note): (&str, &str),
        rows: impl Iterator<Item = Row>,
        columns: impl Iterator<Item = String>,
        measures: &[Measure],
        expect: &[Expectation],
    ) -> Sheet {
        Sheet {
            title: title.to_string(),
            note: note.to_string(),
            columns: columns.collect(),
            rows: rows.collect(),
            measures: measures.to_vec(),
            expect: expect.to_vec(),
        }
    }

    /// Runs every row under every column with every seed, on all cores: `one` is told their places
    /// and the seed.
    pub(super) fn run<E: Send>(
        &self,
        seeds: &[u64],
        one: impl Fn(usize, usize, u64) -> Result<Measured, E> + Sync + Send,
    ) -> Result<Panel, E> {
        let (columns, repeats) = (self.columns.len(), seeds.len());
        let done = on_all_cores(self.rows.len() * columns * repeats, |job| {
            one(job / repeats / columns, job / repeats % columns, seeds[job % repeats])
        })?;
        let of_row = |row: &[Measured]| row.chunks(repeats).map(<[Measured]>::to_vec).collect();
        Ok(self.filled(done.chunks(repeats * columns).map(of_row).collect()))
    }

    /// The same where a run has all columns: `one` is told the row's place and the seed, and
    /// answers what came of each column.
    pub(super) fn run_rows<E: Send>(
        &self,
        seeds: &[u64],
        one: impl Fn(usize, u64) -> Result<Vec<Measured>, E> + Sync + Send,
    ) -> Result<Panel, E> {
        let repeats = seeds.len();
        let done = on_all_cores(self.rows.len() * repeats, |job| {
            one(job / repeats, seeds[job % repeats])
        })?;
        let of_row = |row: &[Vec<Measured>]| {
            let of_column = |at: usize| row.iter().map(|seed| seed[at].clone()).collect();
            (0..self.columns.len()).map(of_column).collect()
        };
        Ok(self.filled(done.chunks(repeats).map(of_row).collect()))
    }

    /// That figures and features fit to rows, columns and measures, of which only `known` are
    /// measured.
    pub(super) fn check(&self, known: &[Measure]) -> Result<(), String> {
        let columns = self.columns.len();
        if let Some(measure) = self.measures.iter().find(|measure| !known.contains(measure)) {
            return Err(format!(
                "panel `{}`: experiments of this kind do not measure {}",
                self.title,
                measure.name()
            ));
        }
        for row in &self.rows {
            if let Some((measure, figures)) =
                row.published.iter().find(|(_, figures)| figures.len() != columns)
            {
                return Err(format!(
                    "panel `{}`, row `{}`: `published` has {} figures of {}; one a column, \
                     {columns}, 0 where there is none",
                    self.title,
                    row.name,
                    figures.len(),
                    measure.name()
                ));
            }
        }
        self.expect.iter().try_for_each(|expectation| expectation.check(self))
    }

    /// The panel of all runs, by row, column and seed, with its verdicts.
    pub(super) fn filled(&self, runs: Vec<Vec<Vec<Measured>>>) -> Panel {
        let mut panel = Panel {
            title: self.title.clone(),
            note: self.note.trim().to_string(),
            seeds: runs.first().and_then(|row| row.first()).map_or(0, Vec::len),
            columns: self.columns.clone(),
            tables: self.measures.iter().map(|&measure| self.table(measure, &runs)).collect(),
            runs,
            verdicts: Vec::new(),
        };
        panel.verdicts = self.expect.iter().map(|expectation| expectation.judge(&panel)).collect();
        panel
    }

    fn table(&self, measure: Measure, runs: &[Vec<Vec<Measured>>]) -> Table {
        let line = |(row, runs): (&Row, &Vec<Vec<Measured>>)| {
            let figure = |at: usize| {
                let figures = row.published.get(&measure)?;
                figures.get(at).copied().filter(|&figure| figure > 0.0)
            };
            let values = runs.iter().map(|seeds| {
                let values: Vec<f64> = seeds.iter().map(|run| run[&measure]).collect();
                Estimate::of(&values)
            });
            Line {
                name: row.name.clone(),
                published: (0..self.columns.len()).map(figure).collect(),
                values: values.collect(),
            }
        };
        Table { measure, lines: self.rows.iter().zip(runs).map(line).collect() }
    }
}

impl Panel {
    /// A measure of every seed of a row in a column.
    fn seeds_of(&self, row: &str, column: usize, measure: Measure) -> Vec<f64> {
        let lines = &self.tables.first().expect("a panel has tables").lines;
        let row = lines.iter().position(|line| line.name == row).expect("it was checked");
        self.runs[row][column].iter().map(|run| run[&measure]).collect()
    }

    /// One row over another, seed by seed.
    fn ratio(&self, row: &str, over: &str, column: usize, measure: Measure) -> Estimate {
        let (own, other) =
            (self.seeds_of(row, column, measure), self.seeds_of(over, column, measure));
        Estimate::of(&own.iter().zip(&other).map(|(own, other)| own / other).collect::<Vec<_>>())
    }
}

/// Does so many jobs, each by its number.
fn on_all_cores<T: Send, E: Send>(
    jobs: usize,
    one: impl Fn(usize) -> Result<T, E> + Sync + Send,
) -> Result<Vec<T>, E> {
    let jobs: Vec<usize> = (0..jobs).collect();
    jobs.into_par_iter().with_max_len(1).map(one).collect()
}
