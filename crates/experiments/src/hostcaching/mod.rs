//! Hosts and a server that share content, in virtual time: protocols and settings (rows) under
//! numbers of guests and loads (columns), repeated over seeds, on all cores.
//!
//! Each run is a scene of [`thermocline_sim::hostcache`]; `grid` judges. Sizes are those of the
//! source over a stated scale: image, caches and requests alike, so that shares and growth stay
//! what they are.
//!
//! Source: S9, SeaCache (Li et al. 2012).

mod config;
#[cfg(test)]
mod tests;

pub use config::Config;

use self::config::PanelConfig;
use super::ExperimentError;
use super::grid::{Measure, Measured, Outcome, Panel};
use thermocline_sim::hostcache::play;

/// Measures of these experiments.
const MEASURES: [Measure; 6] = [
    Measure::ServerBytes,
    Measure::OtherBytes,
    Measure::PeerBytes,
    Measure::Latency,
    Measure::DiskReads,
    Measure::Local,
];

/// Runs the experiment. `note` is told what is going on, for people.
///
/// # Errors
/// When a policy does not fit.
pub fn run(config: &Config, note: &mut dyn FnMut(&str)) -> Result<Outcome, ExperimentError> {
    Outcome::of((&config.title, &config.source, &config.about), &config.panels, |panel| {
        note(&panel.title);
        run_panel(config, panel)
    })
}

fn run_panel(config: &Config, panel: &PanelConfig) -> Result<Panel, ExperimentError> {
    panel.sheet().run(&config.seeds, |row, column, seed| {
        let outcome = play(&config.scene(&panel.rows[row], &panel.columns[column], seed))?;
        Ok(Measured::from([
            (Measure::ServerBytes, outcome.server_bytes as f64),
            (Measure::OtherBytes, outcome.other_bytes as f64),
            (Measure::PeerBytes, outcome.peer_bytes as f64),
            (Measure::Latency, outcome.latency_s),
            (Measure::DiskReads, outcome.disk_reads as f64),
            (Measure::Local, outcome.local),
        ]))
    })
}
