//! Migration between two tiers under service levels: LMsT against no migration (NMsT) and against
//! migration that holds requests up (SMsT), request by request in virtual time.
//!
//! 1. `workload` makes the requests of a slot; all contenders are given the same.
//! 2. At each slot's start a `contender` observes a slot and proposes moves; `disks` serves the
//!    slot's requests and copies what moves.
//! 3. `measures` tallies answers; loads are repeated over seeds, on all cores, and `expect` judges
//!    the figures beside the published ones.
//!
//! Source: Tai 2015 §4.1.3, Tables 5, 7 and 8, Figure 16. The decisions are those of the policies
//! in the registry; nothing here decides. Slots and units may be *squeezed*, both by the same
//! factor: loads and the share of a slot that a migration takes do not change, and time is saved.

mod config;
mod contender;
mod disks;
mod expect;
mod html;
mod markdown;
mod measures;
mod sheets;
#[cfg(test)]
mod tests;
mod workload;

pub use config::Config;
pub use expect::Expectation;
pub use measures::{Measures, Served};

use self::contender::{Contender, Plan, Site};
use self::workload::Workload;
use super::{ExperimentError, Verdict};
use rayon::prelude::*;
use serde::Serialize;

/// One contender at one load, a run a seed.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Runs(pub Vec<Measures>);

/// Mean and sample standard deviation over seeds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Standard deviation; 0 of one run.
    pub deviation: f64,
}

impl Runs {
    /// A figure over all seeds.
    pub fn spread(&self, of: impl Fn(&Measures) -> f64) -> Spread {
        let values: Vec<f64> = self.0.iter().map(of).collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Spread { mean, deviation: (squares / (count - 1.0).max(1.0)).sqrt() }
    }

    /// Its mean.
    pub fn mean(&self, of: impl Fn(&Measures) -> f64) -> f64 {
        self.spread(of).mean
    }
}

/// All contenders at one load.
#[derive(Debug, Clone, Serialize)]
pub struct Load {
    /// Active capacity.
    pub size: String,
    /// Share of bursty slots.
    pub burst: f64,
    /// Bursty slots of loose applications (Burst_TS), mean over seeds.
    pub bursty_slots: f64,
    /// No migration.
    pub nmst: Runs,
    /// LMsT.
    pub lmst: Runs,
    /// The same, whose copying holds requests to the moving unit up.
    pub smst: Runs,
}

/// LMsT with one setting changed.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// The setting's value.
    pub value: f64,
    /// Runs at this value.
    pub lmst: Runs,
}

/// Outcome of the experiment.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Description of the runs, and the published figures.
    #[serde(skip)]
    config: Config,
    /// Its title.
    pub title: String,
    /// The tables and figures it reproduces.
    pub source: String,
    /// Loads by size, then by share of bursts.
    pub loads: Vec<Load>,
    /// Figure 16 (a).
    pub alpha: Vec<Point>,
    /// Figure 16 (b), `e` in percent.
    pub e: Vec<Point>,
    /// Verdicts on the expected features.
    pub verdicts: Vec<Verdict>,
}

/// One load and seed, and who is run under it.
struct Task {
    size: usize,
    burst: usize,
    seed: u64,
    plans: Vec<Plan>,
}

/// Result of a task.
struct Done {
    bursty_slots: u64,
    /// Measures in the order of the plans.
    measures: Vec<Measures>,
}

/// Runs the experiment. `note` is told what is going on, for people.
///
/// # Errors
/// When a policy is unknown or no placement, or a setting of it is wrong.
pub fn run(config: &Config, note: &mut dyn FnMut(&str)) -> Result<Outcome, ExperimentError> {
    let (sizes, bursts) = (config.sizes.len(), config.bursts.len());
    note(&format!("{} loads, {} seeds", sizes * bursts, config.seeds.len()));
    let at: Vec<_> = (0..sizes * bursts).map(|at| (at / bursts, at % bursts)).collect();
    let loads = at.par_iter().map(|&(size, burst)| load(config, size, burst));
    let loads = loads.collect::<Result<_, _>>()?;
    note("sensitivities");
    let (size, burst) = config.sensitive_load().expect("it was checked when it was read");
    let point = |setting: String, value: f64| {
        let plan = lmst(config, &setting);
        let [lmst] = <[Runs; 1]>::try_from(repeat(config, size, burst, &[plan])?.1)
            .expect("each plan has its runs");
        Ok(Point { value, lmst })
    };
    let alpha = config.sensitivity.alpha.par_iter();
    let e = config.sensitivity.e.par_iter();
    let alpha: Result<Vec<_>, ExperimentError> =
        alpha.map(|value| point(format!("alpha={value}"), *value)).collect();
    let e: Result<Vec<_>, ExperimentError> =
        e.map(|value| point(format!("e={}", value / 100.0), *value)).collect();
    let mut outcome = Outcome {
        config: config.clone(),
        title: config.title.clone(),
        source: config.source.clone(),
        loads,
        alpha: alpha?,
        e: e?,
        verdicts: Vec::new(),
    };
    outcome.verdicts = config.expect.iter().map(|expected| expected.judge(&outcome)).collect();
    Ok(outcome)
}

/// The plan of LMsT with `setting`, if any.
fn lmst(config: &Config, setting: &str) -> Plan {
    let separator = if setting.is_empty() { "" } else { ":" };
    Plan { policy: format!("{}{separator}{setting}", config.lmst), outranks: false }
}

fn load(config: &Config, size: usize, burst: usize) -> Result<Load, ExperimentError> {
    let plan = lmst(config, "");
    let nmst = Plan { policy: config.nmst.clone(), outranks: false };
    let smst = Plan { outranks: true, ..plan.clone() };
    let (bursty_slots, runs) = repeat(config, size, burst, &[nmst, plan, smst])?;
    let [nmst, lmst, smst] = <[Runs; 3]>::try_from(runs).expect("each plan has its runs");
    Ok(Load {
        size: config.sizes[size].name.clone(),
        burst: config.bursts[burst],
        bursty_slots,
        nmst,
        lmst,
        smst,
    })
}

/// Runs the plans at one load over all seeds: bursty slots, and runs by plan.
fn repeat(
    config: &Config,
    size: usize,
    burst: usize,
    plans: &[Plan],
) -> Result<(f64, Vec<Runs>), ExperimentError> {
    let task = |&seed: &u64| Task { size, burst, seed, plans: plans.to_vec() };
    let done: Vec<Done> =
        config.seeds.par_iter().map(|seed| task(seed).run(config)).collect::<Result<_, _>>()?;
    let bursty_slots = done.iter().map(|done| done.bursty_slots as f64).sum::<f64>();
    let mut runs = vec![Runs::default(); plans.len()];
    for done in done {
        runs.iter_mut().zip(done.measures).for_each(|(runs, measures)| runs.0.push(measures));
    }
    Ok((bursty_slots / config.seeds.len() as f64, runs))
}

impl Task {
    fn run(&self, config: &Config) -> Result<Done, ExperimentError> {
        let site = Site::new(config, &config.sizes[self.size]);
        let mut contenders: Vec<Contender<'_>> =
            self.plans.iter().map(|plan| Contender::new(&site, plan)).collect::<Result<_, _>>()?;
        let share = config.bursts[self.burst];
        let mut workload =
            Workload::new(site.units(), &config.rates, config.burst, share, self.seed);
        let loose = site.classes.iter().position(|class| *class == config::Class::Loose);
        let first_loose =
            loose.expect("there are loose applications") * config.units_per_application as usize;
        let slot_ms = config.squeezed_slot().as_secs_f64() * 1e3;
        let (mut requests, mut last) = (Vec::new(), (Vec::new(), Vec::new()));
        let mut bursty_slots = 0;
        for slot in 0..config.slots {
            let (start, end) = (f64::from(slot) * slot_ms, f64::from(slot + 1) * slot_ms);
            requests.clear();
            workload.fill(start, end, &mut requests);
            let bursty: Vec<bool> = workload.bursty().collect();
            bursty_slots += bursty[first_loose..].iter().filter(|bursty| **bursty).count() as u64;
            for contender in &mut contenders {
                if slot > 0 {
                    contender.decide(&last.0, &last.1, start);
                }
                contender.serve(&requests, end);
            }
            std::mem::swap(&mut last.0, &mut requests);
            last.1 = bursty;
        }
        let length = f64::from(config.slots) * slot_ms;
        contenders.iter_mut().for_each(|contender| contender.serve(&[], f64::INFINITY));
        let measures = contenders.iter().map(|contender| contender.measures(length)).collect();
        Ok(Done { bursty_slots, measures })
    }
}
