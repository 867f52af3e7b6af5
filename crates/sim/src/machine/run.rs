//! Several policies over one load, each on a machine of its own, on all cores.

use super::drive::{Drive, prepare};
use super::future::FutureAccesses;
use super::load::Load;
use super::pools::PoolPlan;
use super::results::{Run, Scene};
use super::stage::Stage;
use super::start::Start;
use crate::processor::Stopwatch;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use thermocline_policy::placement::Placement;
use thermocline_policy::registry::{Build, PolicySpec, SpecError};
use thermocline_policy::tactics::{Kind, TacticError, VolumeTactics};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};
use thermocline_volume::settings::{CHUNK_MAX, CHUNK_MIN, POOLS_MAX};
use thermocline_volume::{AdminError, Copying, CreateError, Group, Observer, Settings};

/// Slowest and fastest arrivals.
const SPEED_MIN: f64 = 1e-6;
const SPEED_MAX: f64 = 1e6;
/// Years that slowed arrivals may take, at most: clocks count nanoseconds in 64 bits.
const SLOWED_YEARS_MAX: f64 = 10.0;
const YEAR: Nanos = Nanos::from_secs(365 * 86_400);

/// Arrivals of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Arrivals as in the trace, so many times as fast.
    Open {
        /// 2: in half the time. From a millionth to a million.
        speed: f64,
    },
    /// A fixed number always under way, in the order of the trace.
    Closed {
        /// Number of requests, at least 1.
        outstanding: u32,
    },
}

/// Options of a machine and its load.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineOptions {
    /// The unit of placement; a power of two from 64 KiB to 1 GiB.
    pub chunk: Bytes,
    /// Time between two decisions of the placement; above 0.
    pub epoch: Nanos,
    /// True if a placement that says how often it wants to be asked has its way.
    pub own_epochs: bool,
    /// Arrivals of requests.
    pub arrivals: Arrivals,
    /// True if every chunk that the trace touches is written before time zero.
    pub populate: bool,
    /// Places of chunks before time zero, in place of that; `None`: nobody knows them.
    pub start: Option<Arc<Start>>,
    /// Tactics of the volume, and their shadows.
    pub tactics: VolumeTactics,
    /// The throttle of operations.
    pub copying: Copying,
    /// Per cent of the fastest pool that are lent to lines of 4 KiB where the placement says
    /// nothing of it; 0 to 100.
    pub lent_percent: u8,
    /// Seed of everything random in the devices.
    pub seed: u64,
}

impl Default for MachineOptions {
    fn default() -> MachineOptions {
        let settings = Settings::default();
        MachineOptions {
            chunk: settings.chunk_size,
            epoch: settings.epoch,
            own_epochs: false,
            arrivals: Arrivals::Open { speed: 1.0 },
            populate: true,
            start: None,
            tactics: settings.tactics,
            copying: settings.copying,
            lent_percent: settings.lent_percent,
            seed: 1,
        }
    }
}

impl MachineOptions {
    pub(super) fn settings(&self) -> Settings {
        Settings {
            chunk_size: self.chunk,
            epoch: self.epoch,
            tactics: self.tactics.clone(),
            copying: self.copying,
            lent_percent: self.lent_percent,
            // The laboratory's devices have no contents.
            checksums: false,
            added_checksums: false,
            ..Settings::default()
        }
    }

    /// These options with each combination of the tactics, one of each kind: a suffix for names of
    /// runs, which names the tactics of kinds with more than one, and the options.
    ///
    /// # Errors
    /// When one is no tactic of a volume or is given twice, or a setting is wrong.
    pub fn variants(
        &self,
        tactics: &[PolicySpec],
    ) -> Result<Vec<(String, MachineOptions)>, TacticError> {
        let mut kinds: BTreeMap<Kind, Vec<&PolicySpec>> = BTreeMap::new();
        for spec in tactics {
            VolumeTactics::default().choose(spec)?;
            let kind = spec.entry.tactic_kind().expect("it was chosen");
            let rivals = kinds.entry(kind).or_default();
            if rivals.iter().any(|rival| rival.label == spec.label) {
                return Err(TacticError::Repeated(spec.label.clone()));
            }
            rivals.push(spec);
        }
        let mut variants = vec![(String::new(), self.clone())];
        for rivals in kinds.values() {
            let mut with_rivals = Vec::new();
            for (suffix, options) in &variants {
                for spec in rivals {
                    let mut options = options.clone();
                    options.tactics.choose(spec)?;
                    let named =
                        if rivals.len() > 1 { format!(", {}", spec.label) } else { String::new() };
                    with_rivals.push((format!("{suffix}{named}"), options));
                }
            }
            variants = with_rivals;
        }
        Ok(variants)
    }

    /// Options with the epoch that a placement wants, where it may say so.
    fn asked_by(&self, placement: &dyn Placement) -> MachineOptions {
        let own = placement.epoch().filter(|_| self.own_epochs);
        MachineOptions { epoch: own.unwrap_or(self.epoch), ..self.clone() }
    }

    /// Checks that arrivals which are slowed down take a time that can be counted.
    ///
    /// # Errors
    /// When they take more; the message says which speed would do.
    fn check_span(&self, load: &Load) -> Result<(), MachineError> {
        let Arrivals::Open { speed } = self.arrivals else { return Ok(()) };
        let years = load.span().0 as f64 / YEAR.0 as f64;
        if speed >= 1.0 || years / speed <= SLOWED_YEARS_MAX {
            return Ok(());
        }
        let (took, least) = (years / speed, (years / SLOWED_YEARS_MAX * 1e6).ceil() / 1e6);
        Err(MachineError::Options(format!(
            "at a speed of {speed:?} the requests come in {took:.0} years; use {least} or more, \
             with which they come in {SLOWED_YEARS_MAX}"
        )))
    }

    /// # Errors
    /// When a value is out of its range; the message says which it may have.
    pub(super) fn check(&self) -> Result<(), MachineError> {
        let wrong = |problem: String| Err(MachineError::Options(problem));
        let chunk = self.chunk;
        if !chunk.0.is_power_of_two() || !(CHUNK_MIN..=CHUNK_MAX).contains(&chunk) {
            let range = format!("a power of two from {CHUNK_MIN} to {CHUNK_MAX}");
            return wrong(format!("a chunk of {chunk}; use {range}"));
        }
        if self.epoch.0 == 0 {
            return wrong("an epoch of 0 s; an epoch lasts some time, 5m for example".to_string());
        }
        if let Some(problem) = self.copying.problem() {
            return wrong(problem);
        }
        match self.arrivals {
            Arrivals::Open { speed } if !(SPEED_MIN..=SPEED_MAX).contains(&speed) => {
                wrong(format!("a speed of {speed:?}; it lies between {SPEED_MIN} and {SPEED_MAX}"))
            }
            Arrivals::Closed { outstanding: 0 } => {
                wrong("0 requests under way can do nothing; use at least 1".to_string())
            }
            _ => Ok(()),
        }
    }
}

/// A run that could not be done.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// An option is out of its range.
    #[error("{0}")]
    Options(String),
    /// The machine refuses its pools.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// A device of a pool, or of its cache, cannot be modelled.
    #[error("pool `{0}`: {1}")]
    Device(String, String),
    /// A pool cannot have such a cache.
    #[error("the cache of pool `{0}`: {1}")]
    Cache(String, String),
    /// The machine refuses a volume.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// A policy is no placement, has too few pools, or a setting of it is wrong.
    #[error(transparent)]
    Policy(#[from] SpecError),
    /// A placement from outside failed, or proposed what makes no sense.
    #[error("policy `{0}`: {1}")]
    Failed(String, String),
    /// Requests failed in a run that is compared with others.
    #[error(
        "policy `{policy}`: {failed} of {requests} requests failed, because the pools had no room; \
         what is left cannot be compared. Make a pool larger"
    )]
    Unserved {
        /// The policy's name.
        policy: String,
        /// Requests that failed.
        failed: u64,
        /// All requests.
        requests: u64,
    },
    /// The trace has fewer volumes.
    #[error("there is no volume {0}; the trace has {1}, counted from 0")]
    NoVolume(u32, usize),
    /// The volume is smaller.
    #[error("there is no chunk {chunk}: its volume has {count} of them, counted from 0")]
    NoChunk {
        /// The chunk.
        chunk: ChunkId,
        /// Number of chunks.
        count: u64,
    },
    /// More chunks than slots.
    #[error(
        "the trace touches {touched} chunks, the pools hold {held}; make a pool larger (100% is all \
         that the trace touches), or leave the volume thin"
    )]
    Room {
        /// Chunks that would have to be written.
        touched: u64,
        /// Chunks that fit.
        held: u64,
    },
    /// The volume could not be filled.
    #[error("the volume could not be populated: {0}")]
    Populating(String),
    /// A bug of the machine.
    #[error("the machine is not in service ({0}); this is a bug, please report it")]
    NotReady(String),
    /// A bug of the machine.
    #[error("the machine does not answer {0} requests; this is a bug, please report it")]
    Stuck(u64),
}

/// Runs every policy over `load` on pools of their own. `progress` is told requests asked, from any
/// thread.
///
/// # Errors
/// When an option, a policy or the pools cannot be used (found before anything runs), or the
/// machine or a placement fails.
pub fn run(
    load: &Load,
    pools: &[PoolPlan],
    specs: &[PolicySpec],
    options: &MachineOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Run>, MachineError> {
    run_each(load, pools, specs, options, progress)?.into_iter().collect()
}

/// Runs as [`run`] does; a run that fails in its middle leaves the others alone. One result a
/// policy, in their order.
///
/// # Errors
/// When an option, a policy or the pools cannot be used; found before anything runs.
pub fn run_each(
    load: &Load,
    pools: &[PoolPlan],
    specs: &[PolicySpec],
    options: &MachineOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Result<Run, MachineError>>, MachineError> {
    options.check()?;
    let placements = specs.iter().map(|spec| placement(spec, pools.len(), (load, options)));
    let placements = placements.collect::<Result<Vec<_>, _>>()?;
    let (touched, chunks) = places(load, pools, options)?;
    let jobs: Vec<_> = specs.iter().zip(placements).collect();
    let runs = jobs.into_par_iter().with_max_len(1).map(|(spec, placement)| {
        let options = &options.asked_by(&*placement);
        let scene = Scene { load, pools, chunks: &chunks, touched: &touched, options };
        one(&scene, &spec.label, Cast::new(spec, placement), progress)
    });
    Ok(runs.collect())
}

/// The placement that a specification names; one that must know the future is told the load.
fn placement(
    spec: &PolicySpec,
    pools: usize,
    (load, options): (&Load, &MachineOptions),
) -> Result<Box<dyn Placement>, MachineError> {
    spec.check_pools(pools)?;
    if let Build::Foreseeing(build) = spec.entry.build {
        let future = Box::new(FutureAccesses::of(load, options));
        return Ok(build(&spec.settings, future).map_err(SpecError::from)?);
    }
    Ok(spec.build_placement()?)
}

pub(super) fn check_room(
    chunks: &[u64],
    pools: &[PoolPlan],
    touched: u64,
    options: &MachineOptions,
) -> Result<(), MachineError> {
    let reserved = |pool: &PoolPlan| pool.reserve.0.div_ceil(options.chunk.0);
    let usable = chunks.iter().zip(pools).map(|(&all, pool)| all.saturating_sub(reserved(pool)));
    let held = usable.sum();
    let touched = options.start.as_ref().map_or(touched, |start| start.stored());
    let fits = !options.populate || touched <= held;
    if fits { Ok(()) } else { Err(MachineError::Room { touched, held }) }
}

/// Runs one placement, whoever made it, over `load`; `label` names it in the results.
///
/// # Errors
/// As [`run`].
pub fn run_one(
    load: &Load,
    pools: &[PoolPlan],
    (label, placement): (&str, Box<dyn Placement>),
    options: &MachineOptions,
) -> Result<Run, MachineError> {
    options.check()?;
    let (touched, chunks) = places(load, pools, options)?;
    let scene = Scene { load, pools, chunks: &chunks, touched: &touched, options };
    one(&scene, label, Cast { name: String::new(), placement, observer: None }, &|_| ())
}

/// Makes the observer of a group that has just been filled.
pub type MakeObserver<'a> = &'a dyn Fn(&Group) -> Box<dyn Observer>;

/// Runs one policy over `load` while an observer listens, from the moment at which the placement
/// joins: what has populated the volume before is not heard.
///
/// # Errors
/// As [`run`].
pub fn run_observed(
    load: &Load,
    pools: &[PoolPlan],
    spec: &PolicySpec,
    options: &MachineOptions,
    observer: MakeObserver<'_>,
) -> Result<Run, MachineError> {
    options.check()?;
    let placement = placement(spec, pools.len(), (load, options))?;
    let (touched, chunks) = places(load, pools, options)?;
    let scene = Scene { load, pools, chunks: &chunks, touched: &touched, options };
    one(
        &scene,
        &spec.label,
        Cast { observer: Some(observer), ..Cast::new(spec, placement) },
        &|_| (),
    )
}

/// Place of a chunk when a run is over, and the reasons.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its pool; `None`: it holds nothing.
    pub home: Option<PoolId>,
    /// Reasons of the placement, see [`Placement::explain`].
    pub reasons: Vec<String>,
}

/// Runs one policy over `load`, and asks it about a chunk at the end. `progress` is told requests
/// asked.
///
/// # Errors
/// As [`run`], and when the chunk lies beyond the end of its volume.
pub fn explain(
    load: &Load,
    pools: &[PoolPlan],
    spec: &PolicySpec,
    options: &MachineOptions,
    chunk: ChunkId,
    progress: &dyn Fn(u64),
) -> Result<Account, MachineError> {
    options.check()?;
    let extent = load.extents.get(chunk.volume.0 as usize);
    let count = extent.ok_or(MachineError::NoVolume(chunk.volume.0, load.extents.len()))?;
    let count = count.0.div_ceil(options.chunk.0);
    if u64::from(chunk.index) >= count {
        return Err(MachineError::NoChunk { chunk, count });
    }
    let placement = placement(spec, pools.len(), (load, options))?;
    let (touched, chunks) = places(load, pools, options)?;
    let scene = Scene { load, pools, chunks: &chunks, touched: &touched, options };
    let drive = Drive::new(prepared(&scene)?, load, options, Cast::new(spec, placement));
    let group = drive.run(progress)?.stage.group;
    Ok(Account {
        home: group.pool_of(chunk),
        reasons: group.explain(chunk).expect("a placement was set"),
    })
}

/// The placement that decides, and those who listen.
pub(super) struct Cast<'a> {
    /// The placement's name with all settings; empty when it is not of the registry.
    pub(super) name: String,
    pub(super) placement: Box<dyn Placement>,
    /// Makes the observer.
    pub(super) observer: Option<MakeObserver<'a>>,
}

impl Cast<'_> {
    fn new(spec: &PolicySpec, placement: Box<dyn Placement>) -> Self {
        Cast { name: spec.spelled_out(), placement, observer: None }
    }
}

/// The chunks that the load touches, and how many each pool holds.
fn places(
    load: &Load,
    pools: &[PoolPlan],
    options: &MachineOptions,
) -> Result<(Vec<ChunkId>, Vec<u64>), MachineError> {
    options.check_span(load)?;
    if pools.is_empty() || pools.len() > POOLS_MAX {
        return Err(CreateError::PoolCount(pools.len()).into());
    }
    let touched = load.touched(options.chunk);
    let count = touched.len() as u64;
    let chunks: Vec<u64> =
        pools.iter().map(|pool| pool.size.chunks(options.chunk, count)).collect();
    check_room(&chunks, pools, count, options)?;
    Ok((touched, chunks))
}

fn one(
    scene: &Scene<'_>,
    label: &str,
    cast: Cast<'_>,
    progress: &dyn Fn(u64),
) -> Result<Run, MachineError> {
    let (stage, watch) = (prepared(scene)?, Stopwatch::start());
    let ended = Drive::new(stage, scene.load, scene.options, cast).run(progress)?;
    Ok(Run::new(scene, label, &ended, watch.spent().processor_s))
}

fn prepared(scene: &Scene<'_>) -> Result<Stage, MachineError> {
    let mut stage = Stage::new(scene.options, scene.pools, scene.chunks)?;
    prepare(&mut stage, scene.load, scene.options, scene.touched)?;
    Ok(stage)
}
