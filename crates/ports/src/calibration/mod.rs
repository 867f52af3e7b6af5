//! From measurements of a device to a profile that the models run.
//!
//! 1. Loads are run on the device as a black box: random and sequential, small and large blocks,
//!    several queue depths (`plan`); writes only where that is allowed. All of them are run
//!    [`PASSES`] times, one pass after the other; of each load the run with the median rate counts.
//! 2. What the latencies look like says which family of models it is: one head, whose latency is
//!    milliseconds and hardly falls with queueing, or servers behind a lane.
//! 3. The family's parameters are computed from the figures, then fitted (`disk`, `parallel`).
//! 4. The same loads are run on the fitted model. Both figures are given: the error is part of the
//!    result.
//! 5. The relative weights of access patterns follow from the same figures (`weights`).
//!
//! A black box does not show its translation layer, its cleaning or its write cache's size: such
//! devices come out as servers behind a lane, which is what the measured state of them was.

mod disk;
mod parallel;
mod plan;
mod weights;

pub use plan::LoadName;
pub use weights::Weights;

use crate::model::{Lane, Medium, ModelDevice, Parallel, Profile, Spread};
use crate::pattern::{self, Outcome, Pattern};
use plan::Step;
use thermocline_units::{Bytes, Nanos};

/// Times that every load is run: a device that others use, too, is not the same at all times.
pub const PASSES: usize = 3;
/// Requests of a load in the model: as many as were measured, but no more than this.
const MODEL_REQUESTS_MAX: u64 = 10_000;
/// Requests of a load in a trial of a fit.
const FIT_REQUESTS: u64 = 600;
/// Random reads of one device that take longer than this, and do not go faster in parallel, wait
/// for a head.
const HEAD_LATENCY: Nanos = Nanos::from_micros(2_000);
/// Greatest speed-up of 32 requests at a time over one, on a device with a head.
const HEAD_SPEED_UP_MAX: f64 = 6.0;

/// A device that loads are run on.
pub trait Subject {
    /// Failures of the device.
    type Error;

    /// Bytes that may be accessed from offset 0.
    fn size(&self) -> Bytes;

    /// True if a discarded range reads as zeroes.
    fn discard_zeroes(&self) -> bool;

    /// Runs a load whose range begins at `from`, for as long as it takes to say something.
    ///
    /// # Errors
    /// When the device fails.
    fn run(&mut self, pattern: &Pattern, from: Bytes) -> Result<Outcome, Self::Error>;
}

/// Permission to change the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading only; writes are assumed to be like reads.
    ReadOnly,
    /// Reading and writing: what is on it is lost.
    Destructive,
}

/// A load with what came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The load.
    pub name: LoadName,
    /// The load.
    pub pattern: Pattern,
    /// Figures of the device, in the median run.
    pub measured: Figures,
    /// The lowest and the highest rate of all runs, in requests a second.
    pub iops_range: (f64, f64),
    /// Figures of the fitted model.
    pub modelled: Figures,
    /// True if the profile was fitted to this load; else it is one that the fit has not seen.
    pub fitted: bool,
}

/// Figures of a load.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures {
    /// Requests a second.
    pub iops: f64,
    /// 10⁶ bytes a second.
    pub mb_per_s: f64,
    /// Mean latency.
    pub mean: Nanos,
    /// 99th percentile of the latency.
    pub p99: Nanos,
}

/// A calibrated device.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    /// The profile.
    pub profile: Profile,
    /// Every load, measured and modelled.
    pub rows: Vec<Row>,
    /// Costs of requests of a pattern, relative to each other.
    pub weights: Weights,
    /// Properties that were not measured, and what is assumed instead.
    pub assumed: Vec<String>,
}

impl Row {
    /// Speed of the model over that of the device, less 1: 0.1 is a tenth faster.
    pub fn error(&self) -> f64 {
        self.modelled.iops / self.measured.iops - 1.0
    }
}

impl Calibration {
    /// The mean and the largest error of the loads that the profile was fitted to, without signs.
    pub fn errors(&self) -> (f64, f64) {
        self.errors_of(|row| row.fitted)
    }

    /// The same of the other loads.
    pub fn errors_elsewhere(&self) -> (f64, f64) {
        self.errors_of(|row| !row.fitted)
    }

    fn errors_of(&self, among: impl Fn(&Row) -> bool) -> (f64, f64) {
        let errors = || self.rows.iter().filter(|row| among(row)).map(|row| row.error().abs());
        (errors().sum::<f64>() / errors().count().max(1) as f64, errors().fold(0.0, f64::max))
    }
}

impl Figures {
    fn of(outcome: &Outcome) -> Figures {
        let mut all: Vec<Nanos> = outcome.reads.iter().chain(&outcome.writes).copied().collect();
        all.sort_unstable();
        Figures {
            iops: outcome.iops(),
            mb_per_s: outcome.mb_per_s(),
            mean: outcome.mean(),
            p99: Outcome::quantile(&all, 0.99),
        }
    }
}

/// A load that was run.
struct Measured {
    step: Step,
    /// The median run.
    outcome: Outcome,
    figures: Figures,
    iops_range: (f64, f64),
}

impl Measured {
    /// # Panics
    /// When there was no run, or one without a request.
    fn of(step: Step, mut runs: Vec<Outcome>) -> Measured {
        let counts = |run: &Outcome| run.reads.len() + run.writes.len();
        assert!(runs.iter().all(|run| counts(run) > 0), "a run has requests");
        runs.sort_by(|a, b| a.iops().total_cmp(&b.iops()));
        let iops_range = (runs[0].iops(), runs[runs.len() - 1].iops());
        let outcome = runs.swap_remove(runs.len() / 2);
        Measured { step, figures: Figures::of(&outcome), outcome, iops_range }
    }
}

/// Everything that was measured, by the name of its load.
struct Measurements(Vec<Measured>);

impl Measurements {
    fn get(&self, name: LoadName) -> Option<&Measured> {
        self.0.iter().find(|measured| measured.step.name == name)
    }

    fn figures(&self, name: LoadName) -> Figures {
        self.get(name).expect("reads are always measured").figures
    }
}

/// Measures `subject` and fits a profile to it; `about` is what the profile calls itself.
/// `progress` is told of every load before it is run, with its number and their count.
///
/// # Errors
/// When the device fails, or is too small to be measured.
///
/// # Panics
/// When the subject answers a load without a single request: loads take as long as they must.
pub fn calibrate<S: Subject>(
    subject: &mut S,
    access: Access,
    about: &str,
    mut progress: impl FnMut(LoadName, usize, usize),
) -> Result<Calibration, S::Error> {
    let size = subject.size();
    let steps = plan::steps(size, access);
    let mut runs: Vec<Vec<Outcome>> = steps.iter().map(|_| Vec::new()).collect();
    let count = PASSES * steps.len();
    for pass in 0..PASSES {
        for (index, step) in steps.iter().enumerate() {
            progress(step.name, pass * steps.len() + index + 1, count);
            runs[index].push(subject.run(&step.pattern, step.from)?);
        }
    }
    let measured = steps.into_iter().zip(runs).map(|(step, runs)| Measured::of(step, runs));
    let measured = Measurements(measured.collect());
    let mut assumed = Vec::new();
    let medium = if has_a_head(&measured) {
        disk::fit(&measured, size, &mut assumed)
    } else {
        parallel::fit(&measured, access, size, &mut assumed)
    };
    if access == Access::ReadOnly {
        assumed.push("writes were not measured: they are assumed to be as fast as reads".into());
    }
    let discard_zeroes = subject.discard_zeroes();
    let about = about.to_string();
    let profile = Profile { about, discard_zeroes, ..profile_of(size, medium) };
    let rows = measured.0.iter().map(|measured| Row {
        name: measured.step.name,
        pattern: measured.step.pattern,
        measured: measured.figures,
        iops_range: measured.iops_range,
        modelled: modelled(&profile, measured),
        fitted: is_fitted(&profile.medium, measured.step.name),
    });
    let rows = rows.collect();
    Ok(Calibration { weights: Weights::of(&measured), rows, profile, assumed })
}

/// True if a fit of this medium looks at a load.
fn is_fitted(medium: &Medium, name: LoadName) -> bool {
    use LoadName::*;
    match name {
        RandomRead(_) | LargeRead(_) | SequentialRead(_) => true,
        NarrowRead(_) | InnerRead => matches!(medium, Medium::Disk(_)),
        RandomWrite(_) | LargeWrite(_) | SequentialWrite(_) => {
            matches!(medium, Medium::Parallel(_))
        }
        SmallSequentialRead | SmallSequentialWrite | Overwrite | Mixed => false,
    }
}

fn has_a_head(measured: &Measurements) -> bool {
    let (one, many) =
        (measured.figures(LoadName::RandomRead(1)), measured.figures(LoadName::RandomRead(32)));
    one.mean > HEAD_LATENCY && many.iops < HEAD_SPEED_UP_MAX * one.iops
}

/// Figures of a model of `profile` under a load.
fn modelled(profile: &Profile, measured: &Measured) -> Figures {
    let mut device = ModelDevice::new(profile, 1);
    let Measured { step, outcome, .. } = measured;
    let count = (outcome.reads.len() + outcome.writes.len()) as u64;
    let count = count.min(MODEL_REQUESTS_MAX);
    let outcome = pattern::run_at(&mut device, &step.pattern, step.from, count, 2);
    Figures::of(&outcome)
}

/// Distance of a model from the measurements: the sum of squared logarithms of modelled over
/// measured rates.
fn misfit(profile: &Profile, measured: &Measurements, loads: &[LoadName]) -> f64 {
    let off = loads.iter().filter_map(|&name| measured.get(name)).map(|load| {
        let mut device = ModelDevice::new(profile, 1);
        let (pattern, from) = (&load.step.pattern, load.step.from);
        let count = (load.outcome.reads.len() + load.outcome.writes.len()) as u64;
        let outcome = pattern::run_at(&mut device, pattern, from, count.min(FIT_REQUESTS), 1);
        (outcome.iops() / load.figures.iops).ln().powi(2)
    });
    off.sum()
}

/// A device of this size and medium, of which nothing else is known.
fn profile_of(size: Bytes, medium: Medium) -> Profile {
    Profile { about: String::new(), size, discard_zeroes: false, writes_a_day: None, medium }
}

/// A medium to begin with.
fn servers_behind_a_lane(lane: Lane, service: Nanos, spread: Spread) -> Medium {
    Medium::Parallel(Parallel {
        servers: 1,
        read: lane,
        write: lane,
        read_service: service,
        write_service: service,
        server_bytes_per_s: None,
        spread,
    })
}

#[cfg(test)]
mod tests;
