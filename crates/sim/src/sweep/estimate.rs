//! Estimate of the memory and time of a sweep, before anything is run.
//!
//! 1. Of each group of files that are read alike, the beginning of the largest is read: requests
//!    and distinct lines for each byte of input. Workloads that are made and differ in nothing but
//!    their length and seed are a group too.
//! 2. These are scaled to a file's length. Distinct lines grow more slowly than that, so the
//!    estimate is high for long traces.
//! 3. Every policy is built small; its memory for each line of capacity and for each distinct line
//!    is scaled to the sizes of the plan.
//!
//! Placements are charged a fixed amount for each chunk. The estimate knows nothing of the buffers
//! of decompression and Parquet, for which it adds a constant.

use super::libraries::Libraries;
use super::list::{Job, JobTrace};
use super::plan::{Contest, Ready};
use crate::lab::{CacheSize, Needs};
use crate::workload::{Block, Names, Stream};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use thermocline_policy::Footprint;
use thermocline_policy::cache::{Outcome, Tag};
use thermocline_policy::registry::{Built, Geometry, PolicySpec};
use thermocline_units::{Bytes, LineId};

/// Requests of a trace that are looked at.
const PROBE_REQUESTS: u64 = 100_000;
/// Memory of a distinct line while a trace is read, bytes: the head of `workload`.
const NAME_BYTES: f64 = 59.0;
/// Memory of a request of a workload held whole, with the future of its lines, bytes.
const HELD_BYTES: f64 = 40.0;
/// Memory of a chunk under a placement, bytes.
const CHUNK_BYTES: f64 = 128.0;
/// Buffers of readers and writers, bytes.
const BUFFERS_BYTES: f64 = 32e6;
/// Capacity and distinct lines of the small caches.
const SMALL_LINES: u32 = 4096;

/// Needs of a sweep.
#[derive(Debug, Clone, Serialize)]
pub struct Estimate {
    /// Jobs.
    pub jobs: u64,
    /// Rows: jobs times policies times sizes.
    pub rows: u64,
    /// Bytes of all files, each counted once for each seed.
    pub input_bytes: u64,
    /// Memory of each job, bytes, in order.
    #[serde(skip)]
    pub memory_bytes: Vec<u64>,
    /// The job that needs most memory, and how much, bytes.
    pub largest: Option<(u64, u64)>,
    /// Reasons for missing estimates: a beginning could not be read.
    pub notes: Vec<String>,
}

/// Requests and distinct lines for each byte of a trace, or of a workload that is made.
#[derive(Debug, Clone, Copy, Default)]
struct Density {
    requests: f64,
    touches: f64,
    distinct: f64,
    /// Bytes of the probe.
    bytes: f64,
}

/// Memory of one policy.
struct Weight {
    spec: PolicySpec,
    resident: f64,
    index: f64,
}

/// Estimates the needs of `jobs`; the libraries that a contest names lie relative to `folder`.
///
/// # Errors
/// When the contest is none, or a library cannot be loaded.
pub fn estimate(contest: &Contest, folder: &Path, jobs: &[Job]) -> Result<Estimate, String> {
    let libraries = Libraries::beside(folder, &contest.policies);
    Ok(of_ready(&contest.ready(&libraries)?, jobs))
}

/// Estimates the needs of `jobs` under a contest that is ready.
pub(super) fn of_ready(ready: &Ready, jobs: &[Job]) -> Estimate {
    let weights: Vec<Weight> = ready.specs.iter().map(|spec| weight(spec, ready)).collect();
    let mut densities: BTreeMap<String, Density> = BTreeMap::new();
    let mut notes = Vec::new();
    for job in largest_of_each(jobs) {
        let density = probe(ready, job).unwrap_or_else(|error| {
            notes.push(format!("no estimate for what is read like {}: {error}", job.name));
            Density::default()
        });
        densities.insert(kind(job), density);
    }
    let memory = |job: &Job| {
        let density = densities.get(&kind(job)).copied().unwrap_or_default();
        memory_of(ready, &weights, job, density)
    };
    let memory_bytes: Vec<u64> = jobs.iter().map(memory).collect();
    let largest = jobs.iter().zip(&memory_bytes).max_by_key(|(_, bytes)| **bytes);
    Estimate {
        jobs: jobs.len() as u64,
        rows: (jobs.len() * ready.specs.len() * ready.sizes.len()) as u64,
        input_bytes: jobs.iter().map(Job::input_bytes).sum(),
        largest: largest.map(|(job, bytes)| (job.number, *bytes)),
        memory_bytes,
        notes,
    }
}

impl Job {
    /// Length, to compare with jobs of its kind: bytes of its file, requests of what is made.
    fn length(&self) -> u64 {
        match &self.trace {
            JobTrace::File { .. } | JobTrace::Object { .. } => self.input_bytes(),
            JobTrace::Synth(words) => requests(words),
        }
    }

    /// Bytes of its file or object; 0 for what is made.
    fn input_bytes(&self) -> u64 {
        match &self.trace {
            JobTrace::File { bytes, .. } => *bytes,
            JobTrace::Object { object, .. } => object.bytes,
            JobTrace::Synth(_) => 0,
        }
    }
}

/// Mark of jobs whose traces are alike: family, format, and the ending of the name.
fn kind(job: &Job) -> String {
    match &job.trace {
        JobTrace::Synth(words) => {
            let is_kind =
                |word: &&str| !word.starts_with("requests=") && !word.starts_with("seed=");
            let kind: Vec<&str> = words.split(',').filter(is_kind).collect();
            format!("made:{}", kind.join(","))
        }
        JobTrace::File { format, .. } | JobTrace::Object { format, .. } => {
            let ending = Path::new(&job.name).extension().unwrap_or_default().to_string_lossy();
            format!("{}:{}:{ending}", job.family, format.as_deref().unwrap_or_default())
        }
    }
}

fn largest_of_each(jobs: &[Job]) -> Vec<&Job> {
    let mut largest: BTreeMap<String, &Job> = BTreeMap::new();
    for job in jobs {
        let best = largest.entry(kind(job)).or_insert(job);
        if job.length() > best.length() {
            *best = job;
        }
    }
    largest.into_values().collect()
}

/// Reads the beginning of a trace.
fn probe(ready: &Ready, job: &Job) -> Result<Density, String> {
    let file = match &job.trace {
        JobTrace::File { path, .. } => Some(path.as_path()),
        JobTrace::Synth(_) => None,
        JobTrace::Object { .. } => {
            return Err("it is in a bucket, and is read by its job only".to_string());
        }
    };
    let (source, options) = job.source(file)?;
    let mut reader = source.open(&options).map_err(|error| error.to_string())?;
    let mut stream = Stream::new(&mut *reader, ready.cut);
    let (mut names, mut block) = (Names::new(ready.cut), Block::new(ready.cut));
    let (mut requests, mut touches, mut ended) = (0, 0, false);
    while requests < PROBE_REQUESTS && !ended {
        ended = !stream.fill(&mut block).map_err(|error| error.to_string())?;
        if !ended {
            names.learn(&mut block);
            requests += block.requests();
            touches += block.lines.ids.len() as u64;
        }
    }
    let whole = source.size_bytes().unwrap_or_else(|| job.input_bytes());
    let read = stream.bytes_read().min(whole);
    let bytes = if ended || read == 0 { whole } else { read };
    Ok(Density {
        requests: requests as f64,
        touches: touches as f64,
        distinct: f64::from(names.distinct_lines()),
        bytes: bytes as f64,
    })
}

fn memory_of(ready: &Ready, weights: &[Weight], job: &Job, density: Density) -> u64 {
    let scale = match &job.trace {
        JobTrace::File { .. } if density.bytes > 0.0 => job.input_bytes() as f64 / density.bytes,
        // A workload that is made says how long it is.
        JobTrace::Synth(words) => made_scale(words, density.requests),
        JobTrace::File { .. } | JobTrace::Object { .. } => 1.0,
    };
    let scale = scale.max(1.0);
    let distinct = density.distinct * scale;
    let line = ready.cut.unit.line_bytes();
    let mut memory = BUFFERS_BYTES + NAME_BYTES * distinct;
    for weight in weights {
        for size in &ready.sizes {
            let lines = size.lines(line, distinct).map_or(0.0, f64::from).min(match size {
                CacheSize::Share(_) => f64::INFINITY,
                _ => u32::MAX.into(),
            });
            memory += match ready.cut.chunk {
                Some(chunk) if weight.spec.is_placement() => {
                    CHUNK_BYTES * distinct * line.0 as f64 / chunk.0 as f64
                }
                _ => weight.resident * lines + weight.index * distinct,
            };
        }
    }
    if Needs::of(&ready.specs, &ready.sizes, &ready.replay) == Needs::Whole {
        memory += HELD_BYTES * scale * density.requests.max(density.touches);
    }
    memory as u64
}

fn made_scale(words: &str, probed: f64) -> f64 {
    if probed > 0.0 { requests(words) as f64 / probed } else { 1.0 }
}

/// Requests of a workload that is made.
fn requests(words: &str) -> u64 {
    crate::synth::from_words(words).map_or(0, |spec| spec.requests)
}

/// Builds a policy small and fills it, to see what it keeps for each line.
fn weight(spec: &PolicySpec, ready: &Ready) -> Weight {
    let line_bytes = ready.cut.unit.line_bytes();
    let geometry = Geometry {
        lines: SMALL_LINES,
        line_bytes: line_bytes.max(Bytes(512)),
        volumes: 1,
        seed: 1,
    };
    let future: std::sync::Arc<[u32]> = vec![u32::MAX; SMALL_LINES as usize].into();
    let footprint = match spec.build(&geometry, Some(&future)) {
        Ok(Built::Cache(mut policy)) => {
            policy.reserve(SMALL_LINES);
            let lines: Vec<LineId> = (0..SMALL_LINES).map(LineId).collect();
            let tags = vec![Tag::default(); lines.len()];
            let mut outcomes = vec![Outcome::HIT; lines.len()];
            policy.access_batch(&lines, &tags, &mut outcomes);
            policy.footprint()
        }
        _ => Footprint::default(),
    };
    let each = f64::from(SMALL_LINES);
    Weight {
        spec: spec.clone(),
        resident: footprint.resident as f64 / each,
        index: footprint.index as f64 / each,
    }
}
