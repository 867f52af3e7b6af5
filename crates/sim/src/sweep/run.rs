//! One job: a trace, all policies at all sizes, and rows whatever happens.
//!
//! 1. A file is hashed (BLAKE3), so that a result says what it is about. An object of a bucket is
//!    copied into a file first.
//! 2. Where sizes are shares or a warm-up is, the trace is counted first; a bound that is told the
//!    future makes it be held whole. Otherwise it is read once and replayed as it comes.
//! 3. A file that was changed meanwhile has no result: its hash would be another's. Nor has one of
//!    another length than when the sweep began.
//! 4. An error of the system, such as a file that is not there, may pass: the job has no result.
//!    All else is the trace's own fault, if its bytes can be read again and are the same.

use super::buckets::{Buckets, Scratch};
use super::list::{Job, JobTrace};
use super::plan::Ready;
use super::rows::{Facts, ResultRow};
use crate::lab::{Grid, LabError, Needs, Refusal, Seen, Tried};
use crate::lab::{read_totals, run_grid, run_grid_stream};
use crate::workload::{Stream, Workload, WorkloadError};
use std::fs::{File, Metadata};
use std::path::Path;
use thermocline_trace::TraceError;

/// Told bytes of input read, from any thread.
pub(super) type Progress<'a> = &'a (dyn Fn(u64) + Sync);

/// The rows of a job, errors among them: a broken trace is a row.
///
/// # Errors
/// When the trace could not be read, for a reason that may pass.
pub(super) fn run(
    ready: &Ready,
    job: &Job,
    buckets: &dyn Buckets,
    progress: Progress<'_>,
) -> Result<(Facts, Vec<ResultRow>), String> {
    let (name, seed) = (job.name.clone(), job.seed);
    let mut facts = Facts { job: job.number, name, seed, ..Facts::default() };
    let copy = match &job.trace {
        JobTrace::Object { bucket, object, .. } => {
            let copy = Scratch::copy(buckets, bucket, object);
            Some(copy.map_err(|error| format!("{}: {error}", job.name))?)
        }
        JobTrace::File { .. } | JobTrace::Synth(_) => None,
    };
    let place = Place { job, copy: copy.as_ref().map(Scratch::path) };
    match replay(ready, place, &mut facts, progress) {
        Ok(tried) => Ok((facts, placed(ready, place, tried))),
        Err(Fault::Lasting(error)) => {
            let row = ResultRow { cell: None, outcome: Err(place.as_named(&error)) };
            Ok((facts, vec![row]))
        }
        Err(Fault::Passing(error)) => Err(place.as_named_beside_files(&error)),
    }
}

/// A job, and where its object was copied to if its trace is one.
#[derive(Clone, Copy)]
struct Place<'a> {
    job: &'a Job,
    copy: Option<&'a Path>,
}

impl<'a> Place<'a> {
    /// The file that is read, and the length that it had when the sweep began; `None`: the
    /// workload is made.
    fn file(&self) -> Option<(&'a Path, u64)> {
        match &self.job.trace {
            JobTrace::File { path, bytes, .. } => Some((path, *bytes)),
            JobTrace::Object { object, .. } => Some((self.copy?, object.bytes)),
            JobTrace::Synth(_) => None,
        }
    }

    /// A message that names the trace as the plan does: the same on every machine.
    fn as_named(&self, message: &str) -> String {
        match self.file() {
            Some((path, _)) => message.replace(&*path.to_string_lossy(), &self.job.name),
            None => message.to_string(),
        }
    }

    /// The same where a copy was read; of a file it names the path, for whoever is to mend it.
    fn as_named_beside_files(&self, message: &str) -> String {
        if self.copy.is_some() { self.as_named(message) } else { message.to_string() }
    }
}

/// A reason for a job without rows of policies.
enum Fault {
    /// A failure of the trace itself: the next run would find it again.
    Lasting(String),
    /// A failure of reading it: the next run may not find it.
    Passing(String),
}

impl From<TraceError> for Fault {
    /// A decoder's errors have no number of the system's: they are about bytes that were read.
    fn from(error: TraceError) -> Fault {
        match &error {
            TraceError::Io { source, .. } if source.raw_os_error().is_some() => {
                Fault::Passing(error.to_string())
            }
            _ => Fault::Lasting(error.to_string()),
        }
    }
}

impl From<LabError> for Fault {
    fn from(error: LabError) -> Fault {
        match error {
            LabError::Workload(WorkloadError::Trace(error)) => error.into(),
            other => Fault::Lasting(other.to_string()),
        }
    }
}

/// Gives every result its policy and size.
fn placed(ready: &Ready, place: Place<'_>, tried: Vec<Tried>) -> Vec<ResultRow> {
    let cells = ready.specs.iter().flat_map(|spec| {
        ready.sizes.iter().map(move |size| (spec.label.clone(), size.to_string()))
    });
    let row = |(cell, tried): ((String, String), Tried)| ResultRow {
        cell: Some(cell),
        outcome: tried.map(Box::new).map_err(|error| place.as_named(&error.to_string())),
    };
    cells.zip(tried).map(row).collect()
}

fn replay(
    ready: &Ready,
    place: Place<'_>,
    facts: &mut Facts,
    progress: Progress<'_>,
) -> Result<Vec<Tried>, Fault> {
    let Some((path, listed)) = place.file() else {
        return replay_once(ready, place, facts, progress);
    };
    let hashed = Hashed::new(path).map_err(Fault::Passing)?;
    let there = hashed.metadata.len();
    if there != listed {
        // Rows of its other seeds would be of another trace.
        return Err(Fault::Passing(format!(
            "{}: {there} bytes, and {listed} when the sweep began; restore it, or begin anew",
            path.display()
        )));
    }
    facts.file = Some((hashed.metadata.len(), hashed.hash.clone()));
    let replayed = replay_once(ready, place, facts, progress);
    match &replayed {
        Ok(_) => hashed.check().map_err(Fault::Passing)?,
        // Errors of the system may come out of a reader as damage.
        Err(Fault::Lasting(_)) => hashed.check_bytes().map_err(Fault::Passing)?,
        Err(Fault::Passing(_)) => {}
    }
    replayed
}

fn replay_once(
    ready: &Ready,
    place: Place<'_>,
    facts: &mut Facts,
    progress: Progress<'_>,
) -> Result<Vec<Tried>, Fault> {
    let file = place.file().map(|(path, _)| path);
    let (source, read) = place.job.source(file).map_err(Fault::Lasting)?;
    let options = ready.options(place.job.seed);
    let grid = Grid { specs: &ready.specs, sizes: &ready.sizes, refusal: Refusal::KeepsPlace };
    let mut reader = source.open(&read)?;
    let (tried, seen) = match Needs::of(grid.specs, grid.sizes, &options.replay) {
        Needs::Whole => {
            let workload = Workload::read(&mut *reader, ready.cut, progress);
            let workload = workload.map_err(LabError::from)?;
            (run_grid(&workload, grid, &options, &|_| {})?, Seen::of(&workload))
        }
        needs => {
            let known = if needs == Needs::Totals {
                let counted =
                    read_totals(&mut Stream::new(&mut *reader, ready.cut), ready.cut, progress);
                reader = source.open(&read)?;
                Some(counted?)
            } else {
                None
            };
            let mut stream = Stream::new(&mut *reader, ready.cut);
            run_grid_stream(&mut stream, ready.cut, grid, &options, known.as_ref(), progress)?
        }
    };
    facts.seen = Some((seen.requests, seen.distinct as u64, seen.last.0));
    Ok(tried)
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

    /// Checks that the file can be read to its end, and holds the bytes that were hashed.
    fn check_bytes(&self) -> Result<(), String> {
        if Hashed::new(self.path)?.hash == self.hash { Ok(()) } else { Err(self.changed()) }
    }

    fn changed(&self) -> String {
        format!("{}: it changed while it was read", self.path.display())
    }

    /// Checks that the file is still the one that was hashed.
    fn check(&self) -> Result<(), String> {
        let now = std::fs::metadata(self.path);
        let now = now.map_err(|error| format!("{}: {error}", self.path.display()))?;
        let same = now.len() == self.metadata.len()
            && now.modified().ok() == self.metadata.modified().ok();
        if same { Ok(()) } else { Err(self.changed()) }
    }
}
