//! Placements beside each other on modelled pools: rows of placements under columns of loads.
//!
//! 1. A load is a trace, a made workload, or requests offered at a multiple of what the fastest
//!    pool can serve. Made and offered ones are another with each seed; a trace is the same one,
//!    and seeds are of the devices only.
//! 2. Every row of a seed runs over the same load on pools of its own, on all cores.
//! 3. `grid` makes tables of it and judges, seed by seed.
//!
//! A panel whose traces are not there is not run, and the outcome says so.

mod config;
#[cfg(test)]
mod tests;

pub use config::Config;

use self::config::{ColumnConfig, LoadConfig, Offered, PanelConfig, RowConfig};
use super::config::ConfigError;
use super::grid::{Measure, Measured, Outcome, Panel};
use super::{ExperimentError, Folders, find, source};
use rayon::prelude::*;
use std::fmt::Display;
use std::path::PathBuf;
use thermocline_policy::registry::PolicySpec;
use thermocline_sim::machine::{
    Arrivals, Load, MachineOptions, PoolPlan, PoolSize, Run, parse_pools, run,
};
use thermocline_sim::source::{Source, open_all};
use thermocline_sim::synth::{from_toml, from_words};
use thermocline_trace::ReadOptions;
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::{Copying, traits_of};

/// Measures of these experiments.
const MEASURES: [Measure; 7] = [
    Measure::Latency,
    Measure::P99,
    Measure::Moved,
    Measure::OnFastest,
    Measure::WritesOnFastest,
    Measure::WritesOnSecond,
    Measure::Programmed,
];

/// Runs the experiment. `note` is told what is going on, for people.
///
/// # Errors
/// When pools or a load cannot be read, or a machine cannot be run.
pub fn experiment(
    config: &Config,
    folders: &Folders,
    note: &mut dyn FnMut(&str),
) -> Result<Outcome, ExperimentError> {
    let mut about = config.about.trim().to_string();
    let mut panels = Vec::new();
    for panel in &config.panels {
        let missing: Vec<&str> = panel.columns.iter().filter_map(|c| lacks(c, folders)).collect();
        if missing.is_empty() {
            note(&panel.title);
            panels.push(run_panel(panel, folders, note)?);
        } else {
            about += &format!("\n\nNot run: {}; {} is not there.", panel.title, missing.join(", "));
        }
    }
    if panels.is_empty() {
        let stand_ins = "the traces that its panels name".to_string();
        return Err(ExperimentError::NoTraces { published: config.title.clone(), stand_ins });
    }
    let (title, source) = (config.title.clone(), config.source.clone());
    Ok(Outcome { title, source, about, panels })
}

/// Folders that may hold traces, pools and descriptions.
fn places(folders: &Folders) -> Vec<PathBuf> {
    folders.published.iter().chain(&folders.stand_ins).cloned().collect()
}

/// The trace of a column that is in no folder.
fn lacks<'a>(column: &'a ColumnConfig, folders: &Folders) -> Option<&'a str> {
    match &column.load {
        LoadConfig::Trace(name) | LoadConfig::Twin(name)
            if find(name, &places(folders)).is_none() =>
        {
            Some(name)
        }
        _ => None,
    }
}

fn run_panel(
    panel: &PanelConfig,
    folders: &Folders,
    note: &mut dyn FnMut(&str),
) -> Result<Panel, ExperimentError> {
    let pools = pools(panel, folders)?;
    let mut runs = vec![vec![Vec::new(); panel.columns.len()]; panel.rows.len()];
    for (at, column) in panel.columns.iter().enumerate() {
        note(&format!("  {}", column.name));
        let mut kept: Option<Load> = None;
        for &seed in &panel.seeds {
            let load = match kept.take() {
                Some(load) if matches!(column.load, LoadConfig::Trace(_)) => load,
                _ => load(column, &pools[0], seed, folders)?,
            };
            let pools = sized(panel, &pools, &load);
            let of_row = |row: &RowConfig| one(panel, column, row, (&load, &pools, seed));
            let done: Vec<Measured> =
                panel.rows.par_iter().with_max_len(1).map(of_row).collect::<Result<_, _>>()?;
            for (row, measured) in runs.iter_mut().zip(done) {
                row[at].push(measured);
            }
            kept = Some(load);
        }
    }
    Ok(panel.sheet().filled(runs))
}

fn one(
    panel: &PanelConfig,
    column: &ColumnConfig,
    row: &RowConfig,
    (load, pools, seed): (&Load, &[PoolPlan], u64),
) -> Result<Measured, ExperimentError> {
    let spec = PolicySpec::parse(&row.policy)?;
    let speed = column.speed.unwrap_or(1.0);
    let epoch = row.epoch.or(column.epoch).unwrap_or(panel.epoch);
    let copying = Copying::pieces_alone();
    let options = MachineOptions {
        chunk: column.chunk.unwrap_or(panel.chunk),
        epoch: Nanos((epoch.0 as f64 / speed) as u64),
        arrivals: Arrivals::Open { speed },
        copying: if panel.throttled {
            copying
        } else {
            Copying { rate_per_second: None, ..copying }
        },
        seed,
        ..MachineOptions::default()
    };
    let mut runs = run(load, pools, &[spec], &options, &|_| ())?;
    let run = runs.remove(0);
    run.served_all()?;
    Ok(measured(&run))
}

fn measured(run: &Run) -> Measured {
    let programmed: u64 = run.pools.iter().map(|pool| pool.flash_programmed_bytes).sum();
    let written: u64 = run.pools.iter().map(|pool| pool.writes.count).sum();
    let writes_on = |pool: usize| {
        let served = run.pools.get(pool).map_or(0, |pool| pool.writes.count);
        served as f64 / written.max(1) as f64
    };
    Measured::from([
        (Measure::Latency, run.all.mean_s),
        (Measure::P99, run.all.p99_s),
        (Measure::Moved, run.migrated_bytes as f64),
        (Measure::OnFastest, run.fast_share),
        (Measure::WritesOnFastest, writes_on(0)),
        (Measure::WritesOnSecond, writes_on(1)),
        (Measure::Programmed, programmed as f64),
    ])
}

fn pools(panel: &PanelConfig, folders: &Folders) -> Result<Vec<PoolPlan>, ExperimentError> {
    let name = panel.pools.as_str();
    let path = find(name, &folders.stand_ins)
        .ok_or_else(|| wrong(name, "it does not stand beside the experiment"))?;
    let text = std::fs::read_to_string(&path).map_err(|error| wrong(name, error))?;
    parse_pools(&text, &path).map_err(|error| wrong(name, error))
}

/// The pools, of which all but the slowest have the same bytes whatever the chunk where the panel
/// says at which chunk shares are taken.
fn sized(panel: &PanelConfig, pools: &[PoolPlan], load: &Load) -> Vec<PoolPlan> {
    let mut pools = pools.to_vec();
    if let Some(chunk) = panel.shares_at {
        let touched = load.touched(chunk).len() as u64;
        let faster = pools.len() - 1;
        for pool in &mut pools[..faster] {
            pool.size = PoolSize::Bytes(Bytes(pool.size.chunks(chunk, touched) * chunk.0));
        }
    }
    pools
}

fn load(
    column: &ColumnConfig,
    fastest: &PoolPlan,
    seed: u64,
    folders: &Folders,
) -> Result<Load, ExperimentError> {
    let name = column.name.as_str();
    let source = match &column.load {
        LoadConfig::Trace(trace) => {
            Source::File(find(trace, &places(folders)).expect("it was looked for before"))
        }
        LoadConfig::Twin(description) => {
            let path = find(description, &places(folders)).expect("it was looked for before");
            match source(&path)? {
                Source::Synth(mut spec) => {
                    spec.seed = seed;
                    Source::Synth(spec)
                }
                _ => return Err(wrong(name, "`twin` names a description, `twin.toml`")),
            }
        }
        LoadConfig::Made(words) => {
            let spec = from_words(&format!("{words},seed={seed}"));
            Source::Synth(Box::new(spec.map_err(|error| wrong(name, error))?))
        }
        LoadConfig::Offered(offered) => {
            let spec = from_toml(&offered.to_toml(fastest, seed));
            Source::Synth(Box::new(spec.map_err(|error| wrong(name, error))?))
        }
    };
    let mut reader = open_all(std::slice::from_ref(&source), &ReadOptions::default())?;
    Load::read(&mut *reader, &|_| ()).map_err(|error| wrong(name, error))
}

fn wrong(origin: &str, problem: impl Display) -> ExperimentError {
    let (origin, problem) = (origin.to_string(), problem.to_string());
    ExperimentError::Config(ConfigError { origin, problem })
}

impl Offered {
    /// Description of the load as a made workload.
    fn to_toml(&self, fastest: &PoolPlan, seed: u64) -> String {
        let rate = self.times * self.capacity(fastest);
        let requests = self
            .requests
            .unwrap_or_else(|| (rate * self.lasting.unwrap_or_default().as_secs_f64()) as u64);
        format!(
            "seed = {seed}\nrequests = {requests}\n[[vm]]\nname = \"a\"\n\
             arrivals = {{ rate_per_s = {rate:.0} }}\n[[vm.part]]\nreads = {}\nsize = \"4KiB\"\n\
             length = \"{}\"\nzipf = {{ alpha = {}, block = \"{}\" }}\n",
            self.reads, self.over, self.zipf, self.block
        )
    }

    /// Requests a second that a pool's device can serve of this mixture.
    fn capacity(&self, pool: &PoolPlan) -> f64 {
        let [reads, writes, ..] = traits_of(&pool.profile).services;
        let (of_reads, of_writes) = (reads.per_second as f64, writes.per_second as f64);
        1.0 / (self.reads / of_reads + (1.0 - self.reads) / of_writes)
    }
}
