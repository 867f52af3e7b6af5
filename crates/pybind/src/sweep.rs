//! Sweeps: what the command does in its process, and the parts that a driver of a cluster needs.
//!
//! The driver holds a [`Sweep`], which holds the folder's lock, and hands out jobs as JSON. A
//! worker, in whatever process, runs one with [`sweep_job`].

use crate::job::{self, Told};
use crate::options::refused;
use crate::table::parsed;
use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use thermocline_sim::progress::{Amount, ProgressSink};
use thermocline_sim::sweep::{self, Drive, Driven, Folder, Job, PlanFile, Ran, Summary, Worker};

/// A sweep that has begun, held by whoever drives it.
#[pyclass(frozen, module = "thermocline")]
pub(crate) struct Sweep {
    /// `None` once it is closed.
    folder: Mutex<Option<Arc<Folder>>>,
    jobs: usize,
    plan_blake3: String,
    out: PathBuf,
    /// Jobs that are not done, from 1.
    missing: Vec<u64>,
    /// Estimated memory of each job, bytes.
    memory: Vec<u64>,
}

#[pymethods]
impl Sweep {
    /// Hash of the plan, for the workers.
    #[getter]
    fn plan_blake3(&self) -> String {
        self.plan_blake3.clone()
    }

    /// The folder, as every process finds it.
    #[getter]
    fn folder(&self) -> PathBuf {
        self.out.clone()
    }

    /// Number of jobs.
    fn __len__(&self) -> usize {
        self.jobs
    }

    /// Lets others drive the sweep. An exception's traceback may keep this object much longer.
    fn close(&self) {
        drop(self.folder.lock().expect("nothing panics with it held").take());
    }

    /// Numbers of the jobs that were not done when this began, in order.
    #[getter]
    fn missing(&self) -> Vec<u64> {
        self.missing.clone()
    }

    /// Numbers of the jobs that are not done now. When all are done, what workers that died left
    /// half written goes.
    fn still_missing(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        let folder = self.open()?;
        let numbers = || {
            let missing: Vec<u64> = folder.missing()?.iter().map(|job| job.number).collect();
            if missing.is_empty() {
                folder.clear()?;
            }
            Ok(missing)
        };
        py.detach(numbers)
            .map_err(|error: sweep::FolderError| PyOSError::new_err(error.to_string()))
    }

    /// A job as JSON, its family, and its estimated memory, bytes.
    fn job(&self, number: u64) -> PyResult<(String, String, u64)> {
        let folder = self.open()?;
        let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
        let job = index.and_then(|index| folder.jobs().get(index)).ok_or_else(|| {
            PyIndexError::new_err(format!("job {number}: the jobs are 1 to {}", self.jobs))
        })?;
        let memory = self.memory.get(number as usize - 1).copied().unwrap_or_default();
        let text = serde_json::to_string(job).expect("a job is plain");
        Ok((text, job.family.clone(), memory))
    }

    /// Runs all jobs that are missing in this process; the outcome.
    fn drive<'py>(
        &self,
        py: Python<'py>,
        workers: Option<usize>,
        progress: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = workers.unwrap_or(cores);
        let (folder, missing) = (self.open()?, self.missing.len() as u64);
        let ran = job::run(py, progress, move |told| {
            told.begin("jobs", Amount::Things(Some(missing)));
            let driven = Counted { told, errors: AtomicUsize::new(0), unread: Mutex::default() };
            let stop = AtomicBool::new(false); // Ctrl-C unwinds out of the jobs under way
            let finished = sweep::drive(&folder, Drive { workers }, &stop, &driven);
            let mut unread = driven.unread.into_inner().expect("nothing panics with it held");
            unread.sort_unstable();
            finished.map(|finished| (finished, driven.errors.into_inner(), unread))
        })?;
        let (done_now, errors_now, unread) =
            ran.map_err(|error| PyOSError::new_err(error.to_string()))?;
        if !unread.is_empty() {
            return Err(PyRuntimeError::new_err(sweep::unread_text(&unread)));
        }
        self.outcome(py, done_now, errors_now)
    }

    /// The outcome of a run, as the command prints it with --json.
    fn outcome<'py>(
        &self,
        py: Python<'py>,
        done_now: usize,
        errors_now: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let summary = self.summary(done_now, errors_now);
        parsed(py, &serde_json::to_string(&summary).expect("a summary is plain"))
    }

    /// The outcome of a run, as the command prints it for people.
    fn outcome_text(&self, done_now: usize, errors_now: usize) -> String {
        self.summary(done_now, errors_now).text(&self.out)
    }
}

impl Sweep {
    fn open(&self) -> PyResult<Arc<Folder>> {
        let folder = self.folder.lock().expect("nothing panics with it held");
        folder.clone().ok_or_else(|| refused("this sweep was closed; begin it again"))
    }

    fn summary(&self, done_now: usize, errors_now: usize) -> Summary {
        let done_before = self.jobs - self.missing.len();
        Summary { jobs: self.jobs, done_before, done_now, errors_now, unread_now: 0 }
    }
}

/// Counts jobs and errors, and stops after Ctrl-C.
struct Counted<'a> {
    told: &'a Told,
    errors: AtomicUsize,
    /// Jobs whose traces could not be read, and why.
    unread: Mutex<Vec<(u64, String)>>,
}

impl Driven for Counted<'_> {
    fn ran(&self, job: &Job, outcome: &Ran) {
        match outcome {
            Ran::Done { errors } => {
                self.errors.fetch_add(*errors, Ordering::Relaxed);
            }
            Ran::Unread { problem } => {
                let mut unread = self.unread.lock().expect("nothing panics with it held");
                unread.push((job.number, problem.clone()));
            }
        }
        self.told.more(1);
    }

    fn reading(&self) {
        self.told.check();
    }
}

/// Begins the sweep of a plan in `out`, or goes on with it. Other processes are refused until the
/// result is closed or dropped. With `memory`, the memory of jobs is estimated.
#[pyfunction]
pub(crate) fn sweep_begin(
    py: Python<'_>,
    plan: PathBuf,
    out: PathBuf,
    command: String,
    memory: bool,
) -> PyResult<Sweep> {
    let begun: Result<Sweep, String> = job::run(py, None, move |_| {
        let file = PlanFile::read(&plan).map_err(|error| error.to_string())?;
        let folder = file.begin(&out, &command).map_err(|error| error.to_string())?;
        let jobs = folder.missing().map_err(|error| error.to_string())?;
        let missing = jobs.iter().map(|job| job.number).collect();
        let memory = match memory {
            true => folder.estimate().memory_bytes,
            false => Vec::new(),
        };
        let out = out.canonicalize().map_err(|error| format!("{}: {error}", out.display()))?;
        Ok(Sweep {
            jobs: folder.jobs().len(),
            plan_blake3: folder.plan_blake3().to_string(),
            folder: Mutex::new(Some(Arc::new(folder))),
            out,
            missing,
            memory,
        })
    })?;
    begun.map_err(refused)
}

/// The needs of a plan: a dictionary, as `lab sweep --dry-run --json` prints it.
#[pyfunction]
pub(crate) fn sweep_estimate(py: Python<'_>, plan: PathBuf) -> PyResult<Bound<'_, PyAny>> {
    let estimate = job::run(py, None, move |_| {
        let file = PlanFile::read(&plan).map_err(|error| error.to_string())?;
        let jobs = file.jobs().map_err(|error| error.to_string())?;
        file.estimate(&jobs)
    })?;
    let estimate = estimate.map_err(refused)?;
    parsed(py, &serde_json::to_string(&estimate).expect("an estimate is plain"))
}

/// Runs one job of the sweep in `folder` and writes its files; the number of rows that are errors,
/// and the reason if the trace could not be read now and there are none.
#[pyfunction]
pub(crate) fn sweep_job(
    py: Python<'_>,
    folder: PathBuf,
    plan_blake3: String,
    job: &str,
    threads: usize,
) -> PyResult<(usize, Option<String>)> {
    let job: Job = serde_json::from_str(job).map_err(|error| refused(format!("a job: {error}")))?;
    let worker = Worker::open(&folder, &plan_blake3).map_err(refused)?;
    let ran = job::run(py, None, move |told| {
        worker.run_on(threads, &job, &|_| told.check()).map_err(|error| error.to_string())
    })?;
    match ran.map_err(PyOSError::new_err)? {
        Ran::Done { errors } => Ok((errors, None)),
        Ran::Unread { problem } => Ok((0, Some(problem))),
    }
}
