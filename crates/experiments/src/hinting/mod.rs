//! Hints at the source's full size, in virtual time: files of a modelled file system on a volume
//! machine, programs that work on them, with more and more said about them.
//!
//! An experiment is a list of panels; a panel is a grid of what is hinted (rows) under volumes,
//! file systems and programs (columns), repeated over seeds, on all cores. Each run is a `scene`;
//! `grid` judges. Nothing here decides: hints, classes, director and baseline are those of the
//! engine.
//!
//! Source: HintStor (Ge et al. 2022 §4.1 to 4.4).

mod config;
mod scene;
#[cfg(test)]
mod tests;

pub use config::Config;

use self::config::PanelConfig;
use super::ExperimentError;
use super::grid::{Measure, Outcome, Panel};

/// Measures of these experiments.
const MEASURES: [Measure; 8] = [
    Measure::Latency,
    Measure::FrontLatency,
    Measure::Throughput,
    Measure::Elapsed,
    Measure::Moved,
    Measure::MovedBefore,
    Measure::MovedInAll,
    Measure::SlowestRead,
];

/// Runs the experiment. `note` is told what is going on, for people.
///
/// # Errors
/// When a volume cannot hold the files, or the machine fails.
pub fn run(config: &Config, note: &mut dyn FnMut(&str)) -> Result<Outcome, ExperimentError> {
    Outcome::of((&config.title, &config.source, &config.about), &config.panels, |panel| {
        note(&panel.title);
        run_panel(config, panel)
    })
}

fn run_panel(config: &Config, panel: &PanelConfig) -> Result<Panel, ExperimentError> {
    panel.sheet().run(&config.seeds, |row, column, seed| {
        let scene = config.scene(panel, &panel.columns[column], &panel.rows[row], seed);
        Ok(scene.expect("the description was checked").run()?)
    })
}
