//! Simulations by seed: the loop over seeds, the report of what they met, and mutants.
//!
//! A simulation is a function of a seed that panics where something went wrong. [`Simulation::run`]
//! calls it for every seed that was asked for, and counts how many seeds met each situation
//! (`units::situations`); [`Met::report`] prints the counts, and fails when a situation was never
//! met. [`Simulation::catch`] plants each mutant (`units::mutants`) and expects a seed to notice.
//!
//! The environment says which seeds run: `THERMOCLINE_SEEDS` how many, `THERMOCLINE_FROM` the first
//! one. A seed that fails prints the line that runs it alone. `THERMOCLINE_MUTANT` chooses mutants
//! by a part of their names.
//!
//! Only tests depend on this crate, so it reads the environment and prints.

#![allow(clippy::print_stderr)] // A report for whoever runs the test.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thermocline_units::mutants::plant;
use thermocline_units::situations;

/// A number from the environment; `default` where the variable is not set.
///
/// # Panics
/// If the variable holds something else than a decimal number.
pub fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// A range of seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// The first one.
    pub from: u64,
    /// Number of them.
    pub count: u64,
}

impl Seeds {
    /// The seeds that the environment asks for: `default` of them from 0 on where it does not say.
    pub fn asked(default: u64) -> Seeds {
        Seeds {
            from: from_environment("THERMOCLINE_FROM", 0),
            count: from_environment("THERMOCLINE_SEEDS", default),
        }
    }
}

/// Expectations of the seeds of one simulation.
#[derive(Debug, Clone, Default)]
pub struct Simulation {
    /// Words behind `cargo test -p ` in the line that runs a seed alone.
    pub replay: String,
    /// Situations, each with the number of seeds from which on a run must meet it.
    pub situations: BTreeMap<String, u64>,
    /// A situation that no seed may meet.
    pub never: Option<&'static str>,
}

/// Situations of which a run over `seeds` or more seeds must meet each.
pub fn met_by(seeds: u64, names: &[&str]) -> BTreeMap<String, u64> {
    names.iter().map(|name| (name.to_string(), seeds)).collect()
}

impl Simulation {
    /// Runs every seed.
    ///
    /// # Panics
    /// If a seed fails: the message is the line that runs it alone. If a seed meets what none may.
    pub fn run<R>(&self, seeds: Seeds, run: impl Fn(u64) -> R) -> Met<'_> {
        let mut reached: BTreeMap<String, u64> =
            self.situations.keys().map(|name| (name.clone(), 0)).collect();
        for seed in seeds.from..seeds.from + seeds.count {
            let failed = catch_unwind(AssertUnwindSafe(|| run(seed))).is_err();
            let replay = &self.replay;
            assert!(!failed, "THERMOCLINE_FROM={seed} THERMOCLINE_SEEDS=1 cargo test -p {replay}");
            for name in situations::take() {
                assert_ne!(Some(name), self.never, "seed {seed}");
                *reached.entry(name.to_string()).or_default() += 1;
            }
        }
        Met { simulation: self, seeds, reached }
    }

    /// Plants each mutant in turn, a name with a remark, and looks for the first of `seeds` seeds
    /// that fails or meets what none may. Without debug assertions there are no mutants, and it
    /// does nothing.
    ///
    /// # Panics
    /// If a mutant is caught by no seed.
    pub fn catch<R>(
        &self,
        mutants: impl IntoIterator<Item = (&'static str, String)>,
        seeds: u64,
        run: impl Fn(u64) -> R,
    ) {
        if !cfg!(debug_assertions) {
            eprintln!("SKIPPED: mutants exist in builds with debug assertions only");
            return;
        }
        std::panic::set_hook(Box::new(|_| {}));
        let mut survivors = Vec::new();
        let only = std::env::var("THERMOCLINE_MUTANT").unwrap_or_default();
        for (name, remark) in mutants.into_iter().filter(|(name, _)| name.contains(&only)) {
            let planted = plant(name);
            let caught = (0..seeds).find(|&seed| {
                let failed = catch_unwind(AssertUnwindSafe(|| run(seed))).is_err();
                let met = situations::take();
                failed || self.never.is_some_and(|never| met.contains(never))
            });
            drop(planted);
            match caught {
                Some(seed) => eprintln!("{name}{remark}: caught by seed {seed}"),
                None => survivors.push(name),
            }
        }
        let _ = std::panic::take_hook();
        assert!(survivors.is_empty(), "no seed catches {survivors:?}");
    }
}

/// Mutants without remarks.
pub fn plain(names: &[&'static str]) -> impl Iterator<Item = (&'static str, String)> {
    names.iter().map(|name| (*name, String::new()))
}

/// Numbers of seeds that met each situation.
#[derive(Debug)]
#[must_use = "`report` fails when a situation was never met"]
pub struct Met<'a> {
    simulation: &'a Simulation,
    seeds: Seeds,
    reached: BTreeMap<String, u64>,
}

impl Met<'_> {
    /// Prints how many seeds met each situation.
    ///
    /// # Panics
    /// If so many seeds must have met a situation, and none did. Builds without debug assertions
    /// note no situations, and none must be met there.
    pub fn report(&self) {
        let count = self.seeds.count;
        for (name, seeds) in &self.reached {
            eprintln!("{seeds:>6} of {count} seeds: {name}");
        }
        let never = self.never();
        assert!(never.is_empty() || !cfg!(debug_assertions), "no seed met {never:?}");
    }

    fn never(&self) -> Vec<&str> {
        let must = self.simulation.situations.iter().filter(|(_, from)| self.seeds.count >= **from);
        must.map(|(name, _)| name.as_str()).filter(|name| self.reached[*name] == 0).collect()
    }
}

#[cfg(test)]
mod tests;
