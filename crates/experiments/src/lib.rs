//! One published figure or table, reproduced: what to run, what shape to expect, what came out.
//!
//! An experiment is a folder with `experiment.toml`. It names the source's own traces first; when
//! the user has them they are used, otherwise the stand-ins it names, and every result says which.

pub mod balancing;
pub mod characters;
mod config;
mod expect;
pub mod grid;
pub mod hinting;
pub mod hostcaching;
mod html;
mod markdown;
pub mod migration;
pub mod placing;
pub mod recorded;
#[cfg(test)]
mod tests;
pub mod tunnels;
mod verdicts;

pub use config::{Config, ConfigError, Set};
pub use expect::{Expectation, Published, PublishedMeasure, Verdict};

use serde::Serialize;
use std::path::{Path, PathBuf};
use thermocline_policy::registry::{PolicySpec, SpecError};
use thermocline_sim::balance::{BalanceError, Estimate};
use thermocline_sim::chunks::ChunkError;
use thermocline_sim::lab::{self, CacheSize, LabError, LabOptions, Row};
use thermocline_sim::machine::MachineError;
use thermocline_sim::replay::ReplayOptions;
use thermocline_sim::replay::cost::Profile;
use thermocline_sim::source::{Source, open_all};
use thermocline_sim::workload::{Cut, Unit, Workload, WorkloadError};
use thermocline_trace::stat::StatError;
use thermocline_trace::{ReadOptions, TraceError};

/// An experiment that could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// Its description is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Neither the source's traces nor the stand-ins are there.
    #[error(
        "no trace found for this experiment. Looked for {published} in the folders given, and for \
         {stand_ins}. Give a folder with `--traces DIR`, or set THERMOCLINE_SHARED"
    )]
    NoTraces {
        /// The published names.
        published: String,
        /// The stand-ins.
        stand_ins: String,
    },
    /// A trace could not be opened.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A trace could not be replayed.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A policy is unknown.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A machine cannot be run.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Hosts or a server cannot be run.
    #[error(transparent)]
    HostCache(#[from] thermocline_hostcache::SettingsError),
    /// Balancers cannot be run.
    #[error(transparent)]
    Balance(#[from] BalanceError),
    /// A policy or a size cannot be run.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A trace cannot be characterised.
    #[error(transparent)]
    Stat(#[from] StatError),
    /// The chunks of a trace cannot be counted.
    #[error(transparent)]
    Chunks(#[from] ChunkError),
    /// A trace does not tell what a table asks of it.
    #[error(
        "workload `{workload}` does not tell `{character}`: it has no times, or nothing of the \
         kind; leave it out of the table"
    )]
    Untold {
        /// Its name.
        workload: String,
        /// The character's name.
        character: &'static str,
    },
}

/// An experiment of one of the kinds there are; `kind` in its description says which.
#[derive(Debug, Clone)]
pub enum Experiment {
    /// Traces into policies at several sizes of flash; the kind when none is named.
    Flash(Box<Config>),
    /// Migration between tiers under service levels.
    Migration(Box<migration::Config>),
    /// Balancers with stale load information.
    Balance(Box<balancing::Config>),
    /// Hints of files.
    Hints(Box<hinting::Config>),
    /// Placements on modelled pools.
    Placements(Box<placing::Config>),
    /// Savings of a tunnel.
    Tunnels(Box<tunnels::Config>),
    /// Hosts and a server that share content.
    HostCache(Box<hostcaching::Config>),
    /// Measurements on a real machine, which are judged.
    Recorded(Box<recorded::Config>),
    /// Characters of traces.
    Characters(Box<characters::Config>),
}

/// Outcome of an experiment of some kind.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Results {
    /// Traces into policies.
    Flash(Outcome),
    /// Migration between tiers.
    Migration(Box<migration::Outcome>),
    /// Balancers with stale load information.
    Balance(Box<balancing::Outcome>),
    /// Hints of files, placements, or tunnels.
    Grid(Box<grid::Outcome>),
    /// Recorded measurements.
    Recorded(Box<recorded::Outcome>),
    /// Characters of traces.
    Characters(Box<characters::Outcome>),
}

impl Experiment {
    /// Reads a description from TOML.
    ///
    /// # Errors
    /// When a key is unknown or missing, or a value not a quantity.
    pub fn parse(text: &str, origin: &str) -> Result<Experiment, ConfigError> {
        #[derive(serde::Deserialize)]
        struct Kind {
            kind: Option<toml::Value>,
        }
        let kind = toml::from_str(text).ok().and_then(|Kind { kind }| kind);
        match kind.as_ref().map(|kind| kind.as_str()) {
            Some(Some("balance")) => balancing::Config::parse(text, origin)
                .map(|config| Experiment::Balance(Box::new(config))),
            Some(Some("hints")) => hinting::Config::parse(text, origin)
                .map(|config| Experiment::Hints(Box::new(config))),
            Some(Some("placements")) => placing::Config::parse(text, origin)
                .map(|config| Experiment::Placements(Box::new(config))),
            Some(Some("tunnel")) => tunnels::Config::parse(text, origin)
                .map(|config| Experiment::Tunnels(Box::new(config))),
            Some(Some("host-cache")) => hostcaching::Config::parse(text, origin)
                .map(|config| Experiment::HostCache(Box::new(config))),
            Some(Some("recorded")) => recorded::Config::parse(text, origin)
                .map(|config| Experiment::Recorded(Box::new(config))),
            Some(Some("survey")) => characters::Config::parse(text, origin)
                .map(|config| Experiment::Characters(Box::new(config))),
            Some(_) => migration::Config::parse(text, origin)
                .map(|config| Experiment::Migration(Box::new(config))),
            None => Config::parse(text, origin).map(|config| Experiment::Flash(Box::new(config))),
        }
    }

    /// Runs it. `note` is told what is going on, for people.
    ///
    /// # Errors
    /// When its description is wrong, or no trace for it is there or readable.
    pub fn run(
        &self,
        folders: &Folders,
        note: &mut dyn FnMut(&str),
    ) -> Result<Results, ExperimentError> {
        match self {
            Experiment::Flash(config) => run(config, folders, note).map(Results::Flash),
            Experiment::Migration(config) => {
                migration::run(config, note).map(|outcome| Results::Migration(Box::new(outcome)))
            }
            Experiment::Balance(config) => {
                balancing::run(config, note).map(|outcome| Results::Balance(Box::new(outcome)))
            }
            Experiment::Hints(config) => {
                hinting::run(config, note).map(|outcome| Results::Grid(Box::new(outcome)))
            }
            Experiment::Placements(config) => placing::experiment(config, folders, note)
                .map(|outcome| Results::Grid(Box::new(outcome))),
            Experiment::Tunnels(config) => {
                tunnels::run(config, folders, note).map(|outcome| Results::Grid(Box::new(outcome)))
            }
            Experiment::HostCache(config) => {
                hostcaching::run(config, note).map(|outcome| Results::Grid(Box::new(outcome)))
            }
            Experiment::Recorded(config) => Ok(Results::Recorded(Box::new(config.outcome()))),
            Experiment::Characters(config) => characters::run(config, folders, note)
                .map(|outcome| Results::Characters(Box::new(outcome))),
        }
    }
}

impl Results {
    /// The whole of it as Markdown.
    pub fn to_markdown(&self) -> String {
        match self {
            Results::Flash(outcome) => outcome.to_markdown(),
            Results::Migration(outcome) => outcome.to_markdown(),
            Results::Balance(outcome) => outcome.to_markdown(),
            Results::Grid(outcome) => outcome.to_markdown(),
            Results::Recorded(outcome) => outcome.to_markdown(),
            Results::Characters(outcome) => outcome.to_markdown(),
        }
    }

    /// The whole of it as one self-contained HTML page; `command` made it.
    pub fn to_html(&self, version: &str, command: &str) -> String {
        match self {
            Results::Flash(outcome) => outcome.to_html(version, command),
            Results::Migration(outcome) => outcome.to_html(version, command),
            Results::Balance(outcome) => outcome.to_html(version, command),
            Results::Grid(outcome) => outcome.to_html(version, command),
            Results::Recorded(outcome) => outcome.to_html(version, command),
            Results::Characters(outcome) => outcome.to_html(version, command),
        }
    }

    /// True if every expected feature appeared.
    pub fn all_hold(&self) -> bool {
        match self {
            Results::Flash(outcome) => outcome.all_hold(),
            Results::Migration(outcome) => outcome.verdicts.iter().all(|verdict| verdict.holds),
            Results::Balance(outcome) => outcome.verdicts().all(|verdict| verdict.holds),
            Results::Grid(outcome) => outcome.verdicts().all(|verdict| verdict.holds),
            Results::Recorded(outcome) => outcome.verdicts.iter().all(|verdict| verdict.holds),
            Results::Characters(outcome) => outcome.verdicts().all(|verdict| verdict.holds),
        }
    }
}

/// One workload's results.
#[derive(Debug, Serialize)]
pub struct Panel {
    /// The workload's name in the figure.
    pub workload: String,
    /// The files it came from.
    pub traces: Vec<String>,
    /// Reads and writes.
    pub requests: u64,
    /// Working set, bytes.
    pub working_set_bytes: u64,
    /// Epoch, as text.
    pub epoch: String,
    /// One a policy and size, of the first draw.
    pub rows: Vec<Row>,
    /// Draws of a made workload, by seed; 1 of a trace.
    pub draws: usize,
    /// Ours for each figure that the source prints, percent, at the largest size.
    pub figures: Vec<Option<Estimate>>,
    /// Verdicts on the expected shape.
    pub verdicts: Vec<Verdict>,
}

/// Outcome of an experiment.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Its title.
    pub title: String,
    /// The figure or table it reproduces.
    pub source: String,
    /// True if the source's own traces were used.
    pub published_traces: bool,
    /// Figures that the source prints.
    pub figures: Vec<Published>,
    /// One a workload.
    pub panels: Vec<Panel>,
}

/// Folders in which traces are looked for.
#[derive(Debug, Clone, Default)]
pub struct Folders {
    /// Folders that may hold the published traces under their published names.
    pub published: Vec<PathBuf>,
    /// Folders with the stand-ins; descriptions of made ones lie beside the experiment.
    pub stand_ins: Vec<PathBuf>,
}

/// Runs the experiment. `note` is told what is going on, for people.
///
/// # Errors
/// When its description is wrong, or no trace for it is there or readable.
pub fn run(
    config: &Config,
    folders: &Folders,
    note: &mut dyn FnMut(&str),
) -> Result<Outcome, ExperimentError> {
    let specs: Vec<PolicySpec> =
        config.policies.iter().map(|p| PolicySpec::parse(p)).collect::<Result<_, _>>()?;
    let published = found(&config.published, &folders.published);
    let used_published = !published.is_empty();
    let sets =
        if used_published { published } else { found(&config.stand_ins, &folders.stand_ins) };
    if sets.is_empty() {
        return Err(ExperimentError::NoTraces {
            published: names(&config.published),
            stand_ins: names(&config.stand_ins),
        });
    }
    let mut panels = Vec::new();
    for (set, paths) in sets {
        note(&format!("{}: {} trace(s)", set.name, paths.len()));
        panels.push(panel(config, set, &paths, &specs)?);
    }
    Ok(Outcome {
        title: config.title.clone(),
        source: config.source.clone(),
        published_traces: used_published,
        figures: config.figures.clone(),
        panels,
    })
}

fn names(sets: &[Set]) -> String {
    let mut all: Vec<&str> = sets.iter().flat_map(|s| &s.traces).map(String::as_str).collect();
    all.sort_unstable();
    all.dedup();
    all.join(", ")
}

/// The sets whose every trace is in one of the folders, with the paths.
fn found<'a>(sets: &'a [Set], folders: &[PathBuf]) -> Vec<(&'a Set, Vec<PathBuf>)> {
    let look = |set: &'a Set| {
        let paths: Option<Vec<_>> = set.traces.iter().map(|name| find(name, folders)).collect();
        paths.map(|paths| (set, paths))
    };
    sets.iter().filter_map(look).collect()
}

/// The file called `name`, with any of the usual endings.
fn find(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let endings = ["", ".csv", ".csv.gz", ".csv.zst", ".parquet"];
    let candidates =
        folders.iter().flat_map(|f| endings.iter().map(move |e| f.join(format!("{name}{e}"))));
    candidates.into_iter().find(|path| Path::is_file(path))
}

/// A trace, or a workload made from the description in a `.toml` beside the experiment.
fn source(path: &Path) -> Result<Source, ExperimentError> {
    if path.extension().is_none_or(|ending| ending != "toml") {
        return Ok(Source::File(path.to_path_buf()));
    }
    let wrong = |problem: String| {
        ExperimentError::Config(ConfigError { origin: path.display().to_string(), problem })
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let spec =
        thermocline_sim::synth::from_toml(&text).map_err(|error| wrong(error.to_string()))?;
    Ok(Source::Synth(Box::new(spec)))
}

fn panel(
    config: &Config,
    set: &Set,
    paths: &[PathBuf],
    specs: &[PolicySpec],
) -> Result<Panel, ExperimentError> {
    let sources: Vec<Source> = paths.iter().map(|path| source(path)).collect::<Result<_, _>>()?;
    let epoch = set.epoch.unwrap_or(config.epoch);
    let options = LabOptions {
        replay: ReplayOptions { epoch, ..ReplayOptions::default() },
        profile: Profile::source(),
        seed: 1,
    };
    let sizes: &[CacheSize] = set.sizes.as_deref().unwrap_or(&config.sizes);
    let mut draws: Vec<Vec<Row>> = Vec::new();
    let mut first = None;
    for sources in drawn(&sources, &set.seeds) {
        let mut reader = open_all(&sources, &ReadOptions::default())?;
        let cut = Cut { unit: Unit::Lines(config.line), chunk: Some(config.chunk) };
        let workload = Workload::read(&mut *reader, cut, &|_| ())?;
        draws.push(lab::run(&workload, specs, sizes, &options, &|_| ())?);
        first.get_or_insert((workload.requests(), workload.working_set().0));
    }
    let (requests, working_set_bytes) = first.expect("a set is drawn once at least");
    Ok(Panel {
        workload: set.name.clone(),
        traces: paths.iter().map(|path| path.display().to_string()).collect(),
        requests,
        working_set_bytes,
        epoch: epoch.to_string(),
        figures: config.figures.iter().map(|figure| figure.ours(&draws)).collect(),
        verdicts: config.expect.iter().flat_map(|e| e.judge(&set.name, &draws)).collect(),
        draws: draws.len(),
        rows: draws.swap_remove(0),
    })
}

/// The sources of each draw: made ones with each seed, everything as it is where there is none.
fn drawn(sources: &[Source], seeds: &[u64]) -> Vec<Vec<Source>> {
    let with = |seed: u64| {
        let seeded = |source: &Source| match source {
            Source::Synth(spec) => {
                let mut spec = spec.clone();
                spec.seed = seed;
                Source::Synth(spec)
            }
            other => other.clone(),
        };
        sources.iter().map(seeded).collect()
    };
    if seeds.is_empty() { vec![sources.to_vec()] } else { seeds.iter().map(|&s| with(s)).collect() }
}
