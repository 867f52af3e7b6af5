//! One job: a trace, all policies at all sizes, and rows whatever happens.
//!
//! 1. A file is hashed (BLAKE3), so that a result says what it is about.
//! 2. Where sizes are shares or a warm-up is, the trace is counted first; a bound that is told the
//!    future makes it be held whole. Otherwise it is read once and replayed as it comes.
//! 3. A file that was changed meanwhile is an error: its hash would be another's.

use super::list::{Job, JobTrace};
use super::plan::Ready;
use super::rows::{Facts, ResultRow};
use crate::lab::{Grid, Needs, Refusal, Seen, Tried, run_grid, run_grid_stream, survey};
use crate::workload::{Stream, Workload};
use std::fs::{File, Metadata};
use std::path::Path;

/// Told bytes of input read, from any thread.
pub(super) type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// The rows of a job, errors among them. Never fails: a trace that cannot be read is a row.
pub(super) fn run(ready: &Ready, job: &Job, progress: Progress<'_>) -> (Facts, Vec<ResultRow>) {
    let (name, seed) = (job.name.clone(), job.seed);
    let mut facts = Facts { job: job.number, name, seed, ..Facts::default() };
    match replay(ready, job, &mut facts, progress) {
        Ok(tried) => (facts, placed(ready, job, tried)),
        Err(error) => {
            let row = ResultRow { cell: None, outcome: Err(job.as_named(&error)) };
            (facts, vec![row])
        }
    }
}

/// Gives every result its policy and size.
fn placed(ready: &Ready, job: &Job, tried: Vec<Tried>) -> Vec<ResultRow> {
    let cells = ready.specs.iter().flat_map(|spec| {
        ready.sizes.iter().map(move |size| (spec.label.clone(), size.to_string()))
    });
    let row = |(cell, tried): ((String, String), Tried)| ResultRow {
        cell: Some(cell),
        outcome: tried.map(Box::new).map_err(|error| job.as_named(&error.to_string())),
    };
    cells.zip(tried).map(row).collect()
}

fn replay(
    ready: &Ready,
    job: &Job,
    facts: &mut Facts,
    progress: Progress<'_>,
) -> Result<Vec<Tried>, String> {
    let (source, read) = job.source()?;
    let hashed = match &job.trace {
        JobTrace::File { path, .. } => Some(Hashed::new(path)?),
        JobTrace::Synth(_) => None,
    };
    facts.file = hashed.as_ref().map(|hashed| (hashed.metadata.len(), hashed.hash.clone()));
    let options = ready.options(job.seed);
    let grid = Grid { specs: &ready.specs, sizes: &ready.sizes, refusal: Refusal::KeepsPlace };
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let mut reader = source.open(&read).map_err(|error| text(&error))?;
    let (tried, seen) = match Needs::of(grid.specs, grid.sizes, &options.replay) {
        Needs::Whole => {
            let workload = Workload::read(&mut *reader, ready.cut, progress);
            let workload = workload.map_err(|error| text(&error))?;
            let tried = run_grid(&workload, grid, &options, &|_| {});
            (tried.map_err(|error| text(&error))?, Seen::of(&workload))
        }
        needs => {
            let known = if needs == Needs::Totals {
                let counted =
                    survey(&mut Stream::new(&mut *reader, ready.cut), ready.cut, progress);
                reader = source.open(&read).map_err(|error| text(&error))?;
                Some(counted.map_err(|error| text(&error))?)
            } else {
                None
            };
            let mut stream = Stream::new(&mut *reader, ready.cut);
            run_grid_stream(&mut stream, ready.cut, grid, &options, known.as_ref(), progress)
                .map_err(|error| text(&error))?
        }
    };
    if let Some(hashed) = hashed {
        hashed.check()?;
    }
    facts.seen = Some((seen.requests, seen.distinct as u64, seen.last.0));
    Ok(tried)
}

impl Job {
    /// A message that names the trace as the plan does: the same on every machine.
    fn as_named(&self, message: &str) -> String {
        match &self.trace {
            JobTrace::File { path, .. } => message.replace(&*path.to_string_lossy(), &self.name),
            JobTrace::Synth(_) => message.to_string(),
        }
    }
}

/// A file with its hash.
struct Hashed<'a> {
    path: &'a Path,
    metadata: Metadata,
    hash: String,
}

impl Hashed<'_> {
    fn new(path: &Path) -> Result<Hashed<'_>, String> {
        let error = |error: std::io::Error| format!("{}: {error}", path.display());
        let file = File::open(path).map_err(error)?;
        let metadata = file.metadata().map_err(error)?;
        if !metadata.is_file() {
            return Err(format!("{}: not a file", path.display()));
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(file).map_err(error)?;
        Ok(Hashed { path, metadata, hash: hasher.finalize().to_hex().to_string() })
    }

    /// Checks that the file is still the one that was hashed.
    fn check(&self) -> Result<(), String> {
        let now = std::fs::metadata(self.path);
        let now = now.map_err(|error| format!("{}: {error}", self.path.display()))?;
        let same = now.len() == self.metadata.len()
            && now.modified().ok() == self.metadata.modified().ok();
        if same {
            Ok(())
        } else {
            Err(format!("{}: it changed while it was read", self.path.display()))
        }
    }
}
