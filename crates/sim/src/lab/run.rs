//! One job a policy and size, spread over the cores; results in the order asked for.

use super::results::Row;
use super::size::{CacheSize, SizeError};
use crate::replay::cost::Profile;
use crate::replay::{Counts, ReplayOptions, WriteMode, replay_cache, replay_flash};
use crate::workload::Workload;
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Instant;
use thermocline_policy::Footprint;
use thermocline_policy::registry::{Built, Geometry, PolicySpec, SettingsError};
use thermocline_units::{Bytes, LineId};

/// What all jobs share.
#[derive(Debug, Clone)]
pub struct LabOptions {
    /// How each replay runs.
    pub replay: ReplayOptions,
    /// What operations cost.
    pub profile: Profile,
    /// Seed of everything random.
    pub seed: u64,
}

/// A laboratory run that could not start.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A size does not fit.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// A setting is wrong.
    #[error("policy `{policy}`: {source}")]
    Settings {
        /// The policy.
        policy: String,
        /// What is wrong.
        source: SettingsError,
    },
    /// Sampling left nothing.
    #[error("no line falls into a sample of {rate}; use a higher rate, such as shards:{}", rate * 10.0)]
    EmptySample {
        /// The rate.
        rate: f64,
    },
    /// Flash managers need bytes.
    #[error("policy `{policy}` moves chunks: it needs lines with a size, not `--objects`")]
    NeedsBytes {
        /// The policy.
        policy: String,
    },
}

/// Runs every policy at every size. `progress` is told touches done, from any thread.
///
/// # Errors
/// When a policy cannot be built or a size not used; found before anything runs.
pub fn run(
    workload: &Workload,
    specs: &[PolicySpec],
    sizes: &[CacheSize],
    options: &LabOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Row>, LabError> {
    let bench = Bench { workload, options, future: future_if_needed(workload, specs, options) };
    let mut jobs = Vec::new();
    for spec in specs {
        for size in sizes {
            jobs.push(bench.job(spec, *size)?);
        }
    }
    let run_one = |job: &Job| bench.run(job, progress);
    jobs.par_iter().with_max_len(1).map(run_one).collect()
}

/// Bounds the threads of every later run in this process.
///
/// # Errors
/// When `threads` is 0, or a run has already begun.
pub fn use_threads(threads: usize) -> Result<(), String> {
    if threads == 0 {
        return Err("0 threads can do nothing; leave it out to use every core".to_string());
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
    pool.build_global().map_err(|error| error.to_string())
}

/// What every job reads.
struct Bench<'a> {
    workload: &'a Workload,
    options: &'a LabOptions,
    future: Option<Arc<[u32]>>,
}

/// One policy at one size.
struct Job<'a> {
    spec: &'a PolicySpec,
    size: CacheSize,
    /// Capacity in lines, or in chunks for placements.
    capacity: u32,
    unit: Bytes,
}

impl Bench<'_> {
    fn job<'a>(&self, spec: &'a PolicySpec, size: CacheSize) -> Result<Job<'a>, LabError> {
        let workload = self.workload;
        let line = workload.line_bytes();
        let whole = size.lines(line, workload.distinct())?;
        let lines = ((f64::from(whole) * workload.sampling.rate) as u32).max(1);
        let (capacity, unit) = if spec.is_placement() {
            let needs_bytes = || LabError::NeedsBytes { policy: spec.label.clone() };
            let chunk = workload.chunks.as_ref().ok_or_else(needs_bytes)?.unit_bytes;
            let bytes = CacheSize::Bytes(Bytes(u64::from(lines) * line.0));
            (bytes.lines(chunk, 0.0)?, chunk)
        } else {
            (lines, line)
        };
        let job = Job { spec, size, capacity, unit };
        self.try_build(&job)?;
        Ok(job)
    }

    /// Finds wrong settings before anything runs, by building at the smallest size.
    fn try_build(&self, job: &Job<'_>) -> Result<(), LabError> {
        let geometry = Geometry { lines: job.capacity.min(64), ..self.geometry(job) };
        let built = job.spec.build(&geometry, Some(&[].into()));
        built.map(drop).map_err(|source| settings_error(job, source))
    }

    fn geometry(&self, job: &Job<'_>) -> Geometry {
        Geometry {
            lines: job.capacity,
            line_bytes: job.unit,
            volumes: self.workload.volumes.len().max(1) as u32,
            seed: self.options.seed,
        }
    }

    fn run(&self, job: &Job<'_>, progress: &(dyn Fn(u64) + Sync)) -> Result<Row, LabError> {
        let started = Instant::now();
        let replay = &self.options.replay;
        let built = job.spec.build(&self.geometry(job), self.future.as_ref());
        let (counts, footprint) = match built.map_err(|source| settings_error(job, source))? {
            Built::Placement(mut placement) => {
                let capacity = job.capacity.into();
                let counts =
                    replay_flash(self.workload, &mut *placement, capacity, replay, &progress);
                (counts, placement.footprint())
            }
            Built::Cache(mut policy) => {
                let counts = replay_cache(self.workload, &mut *policy, replay, &progress);
                (counts, policy.footprint())
            }
        };
        let row = self.row(job, counts, footprint);
        Ok(Row { replay_s: started.elapsed().as_secs_f64(), ..row })
    }

    fn row(&self, job: &Job<'_>, counts: Counts, footprint: Footprint) -> Row {
        let placement = job.spec.is_placement();
        let operation =
            if placement { crate::replay::FLASH_OPERATION } else { crate::replay::CACHE_OPERATION };
        let cost = self.options.profile.cost(&counts, operation);
        Row::new(
            self.workload,
            job.spec,
            job.size,
            (job.capacity, job.unit),
            counts,
            cost,
            footprint,
        )
    }
}

fn settings_error(job: &Job<'_>, source: SettingsError) -> LabError {
    LabError::Settings { policy: job.spec.label.clone(), source }
}

/// For every access the policies will see, the position of the next one to the same line.
fn future_if_needed(
    workload: &Workload,
    specs: &[PolicySpec],
    options: &LabOptions,
) -> Option<Arc<[u32]>> {
    if !specs.iter().any(PolicySpec::is_clairvoyant) {
        return None;
    }
    let around = options.replay.write_mode == WriteMode::Around;
    let mut accesses: Vec<LineId> = Vec::with_capacity(workload.lines.ids.len());
    for (i, head) in workload.heads.iter().enumerate() {
        if !(head.discard || around && head.tag.is_write()) {
            accesses.extend(&workload.lines.ids[workload.lines.of(i)]);
        }
    }
    let mut next_of = vec![u32::MAX; workload.lines.distinct as usize];
    let mut future = vec![u32::MAX; accesses.len()];
    for (at, line) in accesses.iter().enumerate().rev() {
        future[at] = std::mem::replace(&mut next_of[line.index()], at as u32);
    }
    Some(future.into())
}
