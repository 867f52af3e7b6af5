//! Characters of workloads in tables, beside what a source prints of its own.
//!
//! 1. A workload is the source's trace where it is given, otherwise a stand-in: another trace, or a
//!    made one (a twin, fitted to what the source prints of it) that is drawn with several seeds.
//! 2. Characters are counted by `trace stat` and `trace chunks`; nothing is counted here.
//! 3. Verdicts hold them against what is printed.
//!
//! A workload whose trace is not there is left out, and the outcome says so.

mod character;
mod config;
mod expect;
mod report;
#[cfg(test)]
mod tests;

pub use character::Character;
pub use config::Config;

use self::character::{Cutting, characters};
use self::config::{TableConfig, WorkloadConfig};
use super::{ExperimentError, Folders, Verdict, drawn, find, source};
use rayon::prelude::*;
use serde::Serialize;
use thermocline_sim::balance::Estimate;
use thermocline_sim::source::Source;

/// The figures of a workload.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// The workload.
    pub name: String,
    /// The source's figures, one a column, where it prints them.
    pub printed: Vec<Option<f64>>,
    /// Ours, one a column, in its heading's unit.
    pub values: Vec<Estimate>,
}

/// Workloads in rows, characters in columns.
#[derive(Debug, Clone, Serialize)]
pub struct Table {
    /// The source's table or figure.
    pub title: String,
    /// A word on reading it.
    pub note: String,
    /// The columns.
    pub characters: Vec<Character>,
    /// The rows.
    pub lines: Vec<Line>,
    /// A verdict for each expected feature.
    pub verdicts: Vec<Verdict>,
}

/// The outcome of an experiment.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Its title.
    pub title: String,
    /// The tables and figures it reproduces.
    pub source: String,
    /// All that a reader needs: what is measured, how to read it, what was left out.
    pub about: String,
    /// Its tables.
    pub tables: Vec<Table>,
}

/// A workload that is there.
struct Ready<'a> {
    workload: &'a WorkloadConfig,
    draws: Vec<Source>,
    /// Part of the source's requests.
    part: f64,
}

/// Runs the experiment. `note` is told what is going on, for people.
///
/// # Errors
/// When no workload is there, or one cannot be read or does not tell what is asked of it.
pub fn run(
    config: &Config,
    folders: &Folders,
    note: &mut dyn FnMut(&str),
) -> Result<Outcome, ExperimentError> {
    let mut about = config.about.trim().to_string();
    let mut ready = Vec::new();
    for workload in &config.workloads {
        match prepared(config, workload, folders)? {
            Some(one) => ready.push(one),
            None => {
                let (name, file) = (&workload.name, &workload.stand_in);
                about += &format!("\n\nNot counted: {name}; {file} is not there.");
            }
        }
    }
    if ready.is_empty() {
        let stand_ins: Vec<&str> = config.workloads.iter().map(|w| w.stand_in.as_str()).collect();
        let (published, stand_ins) = (config.title.clone(), stand_ins.join(", "));
        return Err(ExperimentError::NoTraces { published, stand_ins });
    }
    let mut tables = Vec::new();
    for table in &config.tables {
        note(&table.title);
        tables.push(counted_table(config, table, &ready)?);
    }
    let (title, source) = (config.title.clone(), config.source.clone());
    Ok(Outcome { title, source, about, tables })
}

fn prepared<'a>(
    config: &Config,
    workload: &'a WorkloadConfig,
    folders: &Folders,
) -> Result<Option<Ready<'a>>, ExperimentError> {
    let published = workload.published.as_ref().and_then(|name| find(name, &folders.published));
    if let Some(path) = published {
        return Ok(Some(Ready { workload, draws: vec![Source::File(path)], part: 1.0 }));
    }
    let Some(path) = find(&workload.stand_in, &folders.stand_ins) else { return Ok(None) };
    let source = source(&path)?;
    let seeds = if matches!(source, Source::Synth(_)) { config.seeds.as_slice() } else { &[] };
    let draws = drawn(std::slice::from_ref(&source), seeds).into_iter().flatten().collect();
    Ok(Some(Ready { workload, draws, part: workload.part }))
}

fn counted_table(
    config: &Config,
    described: &TableConfig,
    ready: &[Ready<'_>],
) -> Result<Table, ExperimentError> {
    let shown: Vec<&str> = config.shown(described).map(|one| one.name.as_str()).collect();
    let ready = ready.iter().filter(|ready| shown.contains(&ready.workload.name.as_str()));
    let lines: Result<Vec<Line>, _> = ready.map(|ready| ready.line(described)).collect();
    let mut table = Table {
        title: described.title.clone(),
        note: described.note.trim().to_string(),
        characters: described.characters.clone(),
        lines: lines?,
        verdicts: Vec::new(),
    };
    table.verdicts = described.expect.iter().flat_map(|expected| expected.judge(&table)).collect();
    Ok(table)
}

impl Ready<'_> {
    fn line(&self, table: &TableConfig) -> Result<Line, ExperimentError> {
        let WorkloadConfig { name, window, .. } = self.workload;
        let window = table.window.unwrap_or(*window);
        let cutting = Cutting { chunk: table.chunk, window, part: self.part };
        let one = |source: &Source| characters(source, cutting, &table.characters);
        let draws: Vec<Vec<Option<f64>>> =
            self.draws.par_iter().with_max_len(1).map(one).collect::<Result<_, _>>()?;
        let estimate = |(column, character): (usize, &Character)| {
            let values: Option<Vec<f64>> = draws.iter().map(|draw| draw[column]).collect();
            let values = values.ok_or_else(|| ExperimentError::Untold {
                workload: name.clone(),
                character: character.name(),
            })?;
            Ok(Estimate::of(&values))
        };
        let printed = table.printed.get(name);
        let printed_of = |character| printed.and_then(|row| row.get(character)).copied();
        Ok(Line {
            name: name.clone(),
            printed: table.characters.iter().map(printed_of).collect(),
            values: table
                .characters
                .iter()
                .enumerate()
                .map(estimate)
                .collect::<Result<_, ExperimentError>>()?,
        })
    }
}
