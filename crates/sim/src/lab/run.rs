//! Every policy at every size over one trace, on all cores; results in the order asked for.
//!
//! A workload held whole gives each job (one policy at one size, or LRU at all sizes at once) a
//! core for itself. A stream feeds every job block by block, in memory that does not grow with the
//! requests; what has to be known beforehand ([`Needs`]) is counted in a first pass over the trace.

use super::job::{Job, Place, Replay};
use super::results::{Row, Scene, Seen};
use super::size::{CacheSize, SizeError};
use crate::replay::cost::Profile;
use crate::replay::{CACHE_IO_BYTES, FLASH_IO_BYTES, Warmup};
use crate::replay::{CacheReplay, FlashReplay, ReplayOptions, SweepReplay, WriteMode};
use crate::workload::{Block, Cut, Names, Stream, Unit, Workload, WorkloadError};
use rayon::prelude::*;
use std::sync::Arc;
use thermocline_policy::Footprint;
use thermocline_policy::registry::{Built, Geometry, PolicySpec, SettingsError};
use thermocline_units::{Bytes, LineId, Nanos};

/// Options that all jobs share.
#[derive(Debug, Clone)]
pub struct LabOptions {
    /// Options of each replay.
    pub replay: ReplayOptions,
    /// Costs of I/Os.
    pub profile: Profile,
    /// Seed of everything random.
    pub seed: u64,
}

/// A laboratory run that could not be done.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A size does not fit.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The trace could not be read.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A setting is wrong.
    #[error("policy `{policy}`: {source}")]
    Settings {
        /// The policy.
        policy: String,
        /// The fault.
        source: SettingsError,
    },
    /// The warm-up is as long as the trace.
    #[error(
        "the warm-up of {warmup} leaves nothing to count: the trace has {requests} requests and \
         its last comes after {last}"
    )]
    Warmup {
        /// The warm-up.
        warmup: Warmup,
        /// Requests of the trace.
        requests: u64,
        /// Time of the last.
        last: Nanos,
    },
    /// A sampled cache would hold next to nothing.
    #[error(
        "a cache of {size} has {lines:.1} lines in a sample of {rate:.4} of the trace's lines: too \
         few to say anything; sample more, with shards:{wanted:.4} or more"
    )]
    SampleTooSmall {
        /// The size.
        size: CacheSize,
        /// Lines of the miniature.
        lines: f64,
        /// Rate of the sample.
        rate: f64,
        /// Rate that would do.
        wanted: f64,
    },
    /// A policy keeps nothing.
    #[error("`{policy}` balances requests and keeps nothing; `thermocline lab balance` runs it")]
    Balancer {
        /// The policy.
        policy: String,
    },
    /// A policy keeps nothing.
    #[error("`{policy}` chooses how a tunnel cuts flows and keeps nothing")]
    Controller {
        /// The policy.
        policy: String,
    },
    /// A policy keeps nothing.
    #[error("`{policy}` says where blocks of a host cache are read from and keeps nothing")]
    Lookup {
        /// The policy.
        policy: String,
    },
    /// A policy keeps nothing.
    #[error("`{policy}` is a tactic inside a volume or a balancer and keeps nothing")]
    Tactic {
        /// The policy.
        policy: String,
    },
    /// A policy keeps nothing.
    #[error("`{policy}` says which functions accelerators hold and keeps nothing")]
    Scheduler {
        /// The policy.
        policy: String,
    },
    /// Only caches have curves.
    #[error("`{policy}` is no cache: miss-ratio curves are of caches, such as lru")]
    NoCache {
        /// The policy.
        policy: String,
    },
    /// A policy was asked for a curve and has none.
    #[error("{policy} moves chunks: miss-ratio curves are of caches only")]
    NoCurve {
        /// The policy.
        policy: String,
    },
    /// A policy from outside failed, or answered what cannot be true.
    #[error("policy `{policy}`: {problem}")]
    Failed {
        /// The policy.
        policy: String,
        /// The fault.
        problem: String,
    },
    /// A placement that is told the future, which a replay of caches does not have.
    #[error("`{policy}` is told what a volume will be asked for; `thermocline lab volume` runs it")]
    OnlyVolumes {
        /// Its name.
        policy: String,
    },
    /// The exact method knows one policy.
    #[error("--mrc exact is LRU's curve; for other policies take a sample: --mrc shards:0.01")]
    OnlyLru,
    /// An option makes no sense.
    #[error("{0}")]
    Option(String),
    /// Flash managers need bytes.
    #[error("policy `{policy}` moves chunks: it needs lines with a size, not `--objects`")]
    NeedsBytes {
        /// The policy.
        policy: String,
    },
}

/// Requests in a block when one replay has the machine to itself: 30 B each stay in a core's cache.
const BLOCK_REQUESTS_ALONE: usize = 1 << 12;

/// Facts about a trace that a run must have before it can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Needs {
    /// Nothing: the trace can be streamed.
    Nothing,
    /// Number of its lines, requests and volumes: a first pass tells, [`read_totals`].
    Totals,
    /// Everything: a policy is told the future.
    Whole,
}

impl Needs {
    /// Needs of runs of `specs` at `sizes`.
    pub(crate) fn of(specs: &[PolicySpec], sizes: &[CacheSize], replay: &ReplayOptions) -> Needs {
        if specs.iter().any(PolicySpec::is_clairvoyant) {
            return Needs::Whole;
        }
        let totals = sizes.iter().any(|size| matches!(size, CacheSize::Share(_)))
            || matches!(replay.warmup, Warmup::Fraction(part) if part > 0.0)
            || specs.iter().any(PolicySpec::needs_volumes);
        if totals { Needs::Totals } else { Needs::Nothing }
    }
}

/// Reads a trace to its end and counts. `progress` is told bytes of input read.
///
/// # Errors
/// When the trace cannot be read or holds nothing to cache.
pub(crate) fn read_totals(
    stream: &mut Stream<'_>,
    cut: Cut,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Seen, LabError> {
    let mut names = Names::new(cut);
    let feed = Feed { refusal: Refusal::EndsRun, progress };
    feed.all(stream, cut, &mut names, &mut [])
}

/// That a warm-up ends before the trace does; a share of the requests must have become a number.
pub(super) fn check_warmup(warmup: Warmup, requests: u64, last: Nanos) -> Result<(), LabError> {
    let counts_nothing = match warmup {
        Warmup::Requests(count) => count >= requests,
        Warmup::Time(time) => time > last,
        Warmup::Fraction(part) => part >= 1.0,
    };
    if counts_nothing { Err(LabError::Warmup { warmup, requests, last }) } else { Ok(()) }
}

/// Bounds the threads of every later run in this process: `threads`, but no more than there are
/// cores, because more make nothing faster and thousands cost seconds.
///
/// # Errors
/// When `threads` is 0, or a run has already begun.
pub fn use_threads(threads: usize) -> Result<(), String> {
    if threads == 0 {
        return Err("0 threads can do nothing; leave it out to use every core".to_string());
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.min(cores));
    pool.build_global().map_err(|error| error.to_string())
}

/// Policies, sizes, and what becomes of a policy that cannot run at a size.
#[derive(Debug, Clone, Copy)]
pub struct Grid<'a> {
    /// The policies.
    pub specs: &'a [PolicySpec],
    /// The sizes; every policy runs at each.
    pub sizes: &'a [CacheSize],
    /// Effect on the others of a policy that cannot be built, or a size that is too small.
    pub refusal: Refusal,
}

/// Effect of a policy that cannot run at a size, or fails in the middle, as one from outside may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing runs, or runs on: the whole run is an error.
    EndsRun,
    /// If it cannot begin, nothing runs. If it fails later, an error stands in its own place, and
    /// everything else runs on.
    EndsBeginning,
    /// An error stands in its own place; everything else runs.
    KeepsPlace,
}

impl Refusal {
    /// That a job failed, where that ends the run.
    fn check(self, jobs: &[Job]) -> Result<(), LabError> {
        match self {
            Refusal::EndsRun => jobs.iter().find_map(Job::failure).map_or(Ok(()), Err),
            Refusal::EndsBeginning | Refusal::KeepsPlace => Ok(()),
        }
    }
}

/// A policy at a size: its row, or why it has none.
pub type Tried = Result<Row, LabError>;

/// Runs every policy at every size over a workload held whole. `progress` is told line touches
/// replayed, from any thread.
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
    let grid = Grid { specs, sizes, refusal: Refusal::EndsRun };
    run_grid(workload, grid, options, progress)?.into_iter().collect()
}

/// Runs as [`run`] does. Policies come one after the other, each with all its sizes.
///
/// # Errors
/// When nothing can run at all.
pub(crate) fn run_grid(
    workload: &Workload,
    grid: Grid<'_>,
    options: &LabOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Tried>, LabError> {
    let warmup = options.replay.warmup.of(workload.heads());
    check_warmup(warmup, workload.heads(), workload.last_time())?;
    let planner = Planner {
        options,
        replay: ReplayOptions { warmup, ..options.replay },
        unit: workload.names.unit(),
        chunk: workload.names.chunk_bytes(),
        volumes: workload.names.volumes.len().max(1) as u32,
        distinct: Some(workload.distinct()),
        future: future_if_needed(workload, grid.specs, options.replay.write_mode),
    };
    let (mut jobs, refused) = planner.jobs(grid)?;
    jobs.par_iter_mut().with_max_len(1).for_each(|job| {
        for block in &workload.blocks {
            job.feed(&workload.names, block);
            progress(block.lines.ids.len() as u64 * job.places.len() as u64);
            if job.failure().is_some() {
                break;
            }
        }
    });
    grid.refusal.check(&jobs)?;
    let scene = Scene { names: &workload.names };
    Ok(planner.tried(jobs, refused, &scene))
}

/// Runs every policy at every size over a stream. `known` is what [`read_totals`] counted in the
/// same trace. `progress` is told bytes of input read.
///
/// # Errors
/// As [`run`], and when the trace cannot be read.
///
/// # Panics
/// When [`Needs::of`] says that more must be known than is.
pub fn run_stream(
    stream: &mut Stream<'_>,
    cut: Cut,
    specs: &[PolicySpec],
    sizes: &[CacheSize],
    options: &LabOptions,
    known: Option<&Seen>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(Vec<Row>, Seen), LabError> {
    let grid = Grid { specs, sizes, refusal: Refusal::EndsRun };
    let (tried, seen) = run_grid_stream(stream, cut, grid, options, known, progress)?;
    Ok((tried.into_iter().collect::<Result<_, _>>()?, seen))
}

/// Runs as [`run_stream`] does. Policies come one after the other, each with all its sizes.
///
/// # Errors
/// When nothing can run at all, or the trace cannot be read.
///
/// # Panics
/// When [`Needs::of`] says that more must be known than is.
pub(crate) fn run_grid_stream(
    stream: &mut Stream<'_>,
    cut: Cut,
    grid: Grid<'_>,
    options: &LabOptions,
    known: Option<&Seen>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(Vec<Tried>, Seen), LabError> {
    let enough = if known.is_some() { Needs::Totals } else { Needs::Nothing };
    let needs = Needs::of(grid.specs, grid.sizes, &options.replay);
    assert!(needs <= enough, "this run needs to know more");
    let warmup = options.replay.warmup;
    let warmup = known.map_or(warmup, |seen| warmup.of(seen.heads));
    if let Some(seen) = known {
        check_warmup(warmup, seen.heads, seen.last)?;
    }
    let planner = Planner {
        options,
        replay: ReplayOptions { warmup, ..options.replay },
        unit: cut.unit,
        chunk: cut.chunk,
        volumes: known.map_or(1, |seen| seen.volumes.max(1) as u32),
        distinct: known.map(|seen| seen.distinct),
        future: None,
    };
    let (mut jobs, refused) = planner.jobs(grid)?;
    if jobs.len() == 1 {
        stream.close_after(BLOCK_REQUESTS_ALONE);
    }
    let mut names = Names::new(cut);
    let feed = Feed { refusal: grid.refusal, progress };
    let seen = rayon::scope(|_| feed.all(stream, cut, &mut names, &mut jobs))?;
    check_warmup(warmup, seen.heads, seen.last)?;
    Ok((planner.tried(jobs, refused, &Scene { names: &names }), seen))
}

/// Manner of feeding a stream.
struct Feed<'a> {
    refusal: Refusal,
    progress: &'a (dyn Fn(u64) + Sync),
}

impl Feed<'_> {
    /// Feeds a stream to all jobs, block after block. One block is read and numbered while the jobs
    /// replay the one before. A job that failed is fed no more; the stream is counted to its end.
    fn all(
        &self,
        stream: &mut Stream<'_>,
        cut: Cut,
        names: &mut Names,
        jobs: &mut [Job],
    ) -> Result<Seen, LabError> {
        let mut seen = Seen::default();
        let (mut block, mut next) = (Block::new(cut), Block::new(cut));
        let mut more = stream.fill(&mut block)?;
        while more {
            names.learn(&mut block);
            let feed = |job: &mut Job| {
                if job.failure().is_none() {
                    job.feed(names, &block);
                }
            };
            // Job by job: shared out several at a time, a core would wait for the other's last.
            let each = jobs.par_iter_mut().with_max_len(1);
            let (filled, ()) = rayon::join(|| stream.fill(&mut next), || each.for_each(feed));
            self.refusal.check(jobs)?;
            more = filled?;
            seen.requests += block.requests();
            seen.touches += block.lines.ids.len() as u64;
            seen.heads += block.heads.len() as u64;
            seen.last = block.heads.last().map_or(seen.last, |head| head.time);
            (self.progress)(stream.bytes_read());
            std::mem::swap(&mut block, &mut next);
        }
        if seen.requests == 0 {
            return Err(WorkloadError::Empty.into());
        }
        seen.distinct = f64::from(names.distinct_lines());
        seen.volumes = names.volumes.len() as u64;
        seen.memory_bytes = names.bytes() + stream.bytes();
        seen.repairs = stream.repairs();
        Ok(seen)
    }
}

/// Makes jobs, and rows of their results.
struct Planner<'a> {
    options: &'a LabOptions,
    replay: ReplayOptions,
    unit: Unit,
    chunk: Option<Bytes>,
    volumes: u32,
    /// Distinct lines, where known.
    distinct: Option<f64>,
    future: Option<Arc<[u32]>>,
}

impl Planner<'_> {
    /// One job a policy and size, but all sizes of plain LRU together; and the places of what
    /// cannot run.
    fn jobs(&self, grid: Grid<'_>) -> Result<(Vec<Job>, Vec<Refused>), LabError> {
        let (mut jobs, mut refused) = (Vec::new(), Vec::new());
        let mut keep = |row: usize, error: LabError| match grid.refusal {
            Refusal::EndsRun | Refusal::EndsBeginning => Err(error),
            Refusal::KeepsPlace => {
                refused.push((row, error));
                Ok(())
            }
        };
        for (i, spec) in grid.specs.iter().enumerate() {
            let mut places = Vec::new();
            for (j, size) in grid.sizes.iter().enumerate() {
                let row = i * grid.sizes.len() + j;
                match self.place(row, spec, *size) {
                    Ok(place) => places.push(place),
                    Err(error) => keep(row, error)?,
                }
            }
            if spec.is_plain_lru() && (2..=SweepReplay::SIZES_MAX).contains(&places.len()) {
                jobs.extend(self.sweeps(places)?);
                continue;
            }
            for place in places {
                let row = place.row;
                match self.single(place) {
                    Ok(job) => jobs.push(job),
                    Err(error) => keep(row, error)?,
                }
            }
        }
        Ok((jobs, refused))
    }

    fn place(&self, row: usize, spec: &PolicySpec, size: CacheSize) -> Result<Place, LabError> {
        let line = self.unit.line_bytes();
        let lines = size.lines(line, self.distinct.unwrap_or(f64::NAN))?;
        let (capacity, unit) = if spec.is_placement() {
            let needs_bytes = || LabError::NeedsBytes { policy: spec.label.clone() };
            let chunk = self.chunk.ok_or_else(needs_bytes)?;
            let bytes = CacheSize::Bytes(Bytes(u64::from(lines) * line.0));
            (bytes.lines(chunk, f64::NAN)?, chunk)
        } else {
            (lines, line)
        };
        Ok(Place { row, spec: spec.clone(), size, capacity, unit })
    }

    /// Plain LRU at all its sizes: one sweep, and another for sizes that come to the same capacity.
    fn sweeps(&self, mut places: Vec<Place>) -> Result<Vec<Job>, LabError> {
        places.sort_by_key(|place| place.capacity);
        let mut jobs = Vec::new();
        while !places.is_empty() {
            let mut taken: Vec<Place> = Vec::new();
            places.retain(|place| {
                let more = taken.last().is_none_or(|last| last.capacity < place.capacity);
                if more {
                    taken.push(place.clone());
                }
                !more
            });
            let capacities: Vec<u32> = taken.iter().map(|place| place.capacity).collect();
            let sweep = SweepReplay::new(&capacities, self.unit, &self.replay);
            let sweep = sweep.map_err(|source| settings_error(&taken[0], source))?;
            jobs.push(Job::new(Replay::Sweep(sweep), taken));
        }
        Ok(jobs)
    }

    fn single(&self, place: Place) -> Result<Job, LabError> {
        let built = place.spec.build(&self.geometry(&place), self.future.as_ref());
        let replay = match built.map_err(|source| settings_error(&place, source))? {
            Built::Cache(policy) => {
                Replay::Cache(CacheReplay::new(policy, self.unit, &self.replay))
            }
            Built::Placement(placement) => {
                let capacity = place.capacity.into();
                Replay::Flash(FlashReplay::new(placement, capacity, &self.replay))
            }
            Built::Balancer(_) => return Err(LabError::Balancer { policy: place.spec.label }),
            Built::Controller(_) => return Err(LabError::Controller { policy: place.spec.label }),
            Built::Lookup(_) => return Err(LabError::Lookup { policy: place.spec.label }),
            Built::Scheduler(_) => return Err(LabError::Scheduler { policy: place.spec.label }),
            Built::Tactic(_) => return Err(LabError::Tactic { policy: place.spec.label }),
        };
        Ok(Job::new(replay, vec![place]))
    }

    /// Footprint of a policy of a sweep if it ran alone: the sweep itself shares its memory.
    fn footprint_alone(&self, place: &Place, scene: &Scene<'_>) -> Footprint {
        match place.spec.build(&self.geometry(place), None) {
            Ok(Built::Cache(mut policy)) => {
                policy.reserve(scene.names.distinct_lines());
                policy.footprint()
            }
            _ => Footprint::default(),
        }
    }

    fn geometry(&self, place: &Place) -> Geometry {
        Geometry {
            lines: place.capacity,
            line_bytes: place.unit,
            volumes: self.volumes,
            seed: self.options.seed,
        }
    }

    /// The rows of what ran to its end and the errors of what did not, each in its place.
    fn tried(&self, jobs: Vec<Job>, refused: Vec<Refused>, scene: &Scene<'_>) -> Vec<Tried> {
        let mut rows: Vec<(usize, Tried)> =
            refused.into_iter().map(|(row, error)| (row, Err(error))).collect();
        for job in jobs {
            if let Some(failure) = job.failure() {
                assert_eq!(job.places.len(), 1, "a policy from outside runs at one size");
                rows.push((job.places[0].row, Err(failure)));
                continue;
            }
            let (places, counts, footprint, spent) = job.finish();
            let each = spent.shared_by(places.len());
            let shared = places.len() > 1;
            for (place, counts) in places.into_iter().zip(counts) {
                let footprint =
                    if shared { self.footprint_alone(&place, scene) } else { footprint };
                let operation =
                    if place.spec.is_placement() { FLASH_IO_BYTES } else { CACHE_IO_BYTES };
                let cost = self.options.profile.cost(&counts, operation);
                let capacity = (place.capacity, place.unit);
                let made = Row::new(scene, &place.spec, place.size, capacity, counts, cost);
                rows.push((place.row, Ok(made.with_machine_use(footprint, each))));
            }
        }
        rows.sort_by_key(|(row, _)| *row);
        rows.into_iter().map(|(_, row)| row).collect()
    }
}

/// Place of a policy at a size that cannot run, and why.
type Refused = (usize, LabError);

fn settings_error(place: &Place, source: SettingsError) -> LabError {
    LabError::Settings { policy: place.spec.label.clone(), source }
}

/// For every access the policies will see, the position of the next one to the same line.
fn future_if_needed(
    workload: &Workload,
    specs: &[PolicySpec],
    mode: WriteMode,
) -> Option<Arc<[u32]>> {
    if !specs.iter().any(PolicySpec::is_clairvoyant) {
        return None;
    }
    let around = mode == WriteMode::Around;
    let mut accesses: Vec<LineId> = Vec::with_capacity(workload.touches() as usize);
    for block in &workload.blocks {
        for (i, head) in block.heads.iter().enumerate() {
            let passes = head.discard || around && head.tag.is_write();
            if !passes {
                accesses.extend(&block.lines.ids[block.lines.of(i)]);
            }
        }
    }
    let mut next_of = vec![u32::MAX; workload.names.distinct_lines() as usize];
    let mut future = vec![u32::MAX; accesses.len()];
    for (at, line) in accesses.iter().enumerate().rev() {
        future[at] = std::mem::replace(&mut next_of[line.index()], at as u32);
    }
    Some(future.into())
}
