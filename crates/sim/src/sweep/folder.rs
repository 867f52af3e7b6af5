//! Folder of a sweep: its plan, its jobs, and what is done.
//!
//! ```text
//! DIR/plan.toml                                  the plan, byte for byte
//! DIR/jobs.jsonl                                 the jobs, a line each
//! DIR/libraries/HASH.so                          copies of the shared libraries it names, if any
//! DIR/sweep.json                                 the contest; version, command, hashes
//! DIR/results/family=NAME/job-0000001.parquet    rows of a job that is done
//! DIR/times/family=NAME/job-0000001.parquet      what the machine needed for them
//! ```
//!
//! `sweep.json` is written last: a folder without it never began. A job is done when its file of
//! results is there. Whoever drives a sweep locks the folder for itself; single jobs share the
//! lock. [`Worker`] writes the files of a job, here or on another machine.

use super::buckets::Buckets;
use super::estimate::{Estimate, of_ready};
use super::libraries::{self, Libraries, LibraryHash};
use super::list::{Job, parse_jobs, write_jobs};
use super::plan::Contest;
use super::rows::{Measured, Origin, read_rows_of};
use super::run::Progress;
use super::worker::{Ran, Worker, file_of, partition, put};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// Version of the format of the folder.
const FORMAT: u32 = 1;
/// Files that a beginning leaves when it is cut off, beside `lock` and the copies of libraries.
const BEGINNING: [&str; 2] = ["plan.toml", "jobs.jsonl"];

/// A folder that cannot be used, or not now.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The file system refuses.
    #[error("{path}: {source}")]
    Io {
        /// The file or folder.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// Another plan, another version, or no sweep at all.
    #[error("{path}: {problem}")]
    Other {
        /// The file or folder.
        path: String,
        /// The fault, and what would do.
        problem: String,
    },
}

pub(super) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.display().to_string();
    move |source| FolderError::Io { path, source }
}

pub(super) fn other(path: &Path, problem: impl ToString) -> FolderError {
    FolderError::Other { path: path.display().to_string(), problem: problem.to_string() }
}

/// `sweep.json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    format: u32,
    pub(super) version: String,
    command: String,
    pub(super) plan_blake3: String,
    jobs_blake3: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) libraries: Vec<LibraryHash>,
    pub(super) contest: Contest,
}

impl Head {
    /// Origin of the files of a job that this sweep writes, in this version.
    pub(super) fn origin(&self, job: &Job) -> Origin {
        Origin {
            version: self.version.clone(),
            plan_blake3: self.plan_blake3.clone(),
            job_blake3: hash(job.line().as_bytes()),
        }
    }
}

/// Facts that a sweep begins with.
#[derive(Debug, Clone, Copy)]
pub struct Beginning<'a> {
    /// The plan, as it was written.
    pub plan: &'a str,
    /// Its contest.
    pub contest: &'a Contest,
    /// Folder of the plan, to which the names of libraries are relative.
    pub beside: &'a Path,
    /// The command, kept as the origin of the results.
    pub command: &'a str,
}

/// The folder of a sweep.
#[derive(Debug)]
pub struct Folder {
    worker: Worker,
    jobs: Vec<Job>,
    /// Locked as long as the folder is used.
    _lock: File,
}

impl Folder {
    /// Begins a sweep in `path`, or goes on with the one that is there.
    ///
    /// `make_jobs` is called only for a new one: the list of a sweep that began stays as it is.
    ///
    /// # Errors
    /// When the folder holds something else or another plan, is in use, or cannot be written; when
    /// a library cannot be loaded, or was changed since the sweep began.
    pub fn begin<E: From<FolderError>>(
        path: &Path,
        with: Beginning<'_>,
        make_jobs: impl FnOnce() -> Result<Vec<Job>, E>,
    ) -> Result<Folder, E> {
        let named = Libraries::beside(with.beside, &with.contest.policies);
        if path.join("sweep.json").exists() {
            let folder = Folder::open(path, File::try_lock)?;
            return Ok(folder.go_on(&with, &named)?);
        }
        refuse_strangers(path, with.plan)?;
        let jobs = write_jobs(&make_jobs()?);
        let mut made = Made::default();
        made.note(&[path.to_path_buf(), path.join("lock"), path.join(libraries::FOLDER)]);
        fs::create_dir_all(path).map_err(io_error(path))?;
        let lock = lock(path, File::try_lock)?;
        // Somebody else may have begun while the traces were listed, and be done already.
        if path.join("sweep.json").exists() {
            return Ok(Folder::read(path, lock)?.go_on(&with, &named)?);
        }
        made.note(&named.places(path));
        let head = match copied(path, &with, &named, &jobs) {
            Ok(head) => head,
            Err(error) => {
                made.withdraw();
                return Err(error.into());
            }
        };
        let text = serde_json::to_string_pretty(&head).expect("a head is plain") + "\n";
        put(&path.join("plan.toml"), |file| file.write_all(with.plan.as_bytes()))?;
        put(&path.join("jobs.jsonl"), |file| file.write_all(jobs.as_bytes()))?;
        put(&path.join("sweep.json"), |file| file.write_all(text.as_bytes()))?;
        Ok(Folder::read(path, lock)?)
    }

    /// The folder of a sweep that began, if it is of this plan.
    fn go_on(self, with: &Beginning<'_>, named: &Libraries) -> Result<Folder, FolderError> {
        if self.worker.head.plan_blake3 != hash(with.plan.as_bytes()) {
            let problem = "this folder belongs to another plan (its plan.toml); choose another";
            return Err(other(&self.worker.path, problem));
        }
        named.check(&self.worker.head.libraries)?;
        self.clear()?;
        Ok(self)
    }

    /// Opens a sweep to run single jobs of it; others may do so at the same time.
    ///
    /// # Errors
    /// When there is no sweep, or somebody drives it.
    pub fn open_shared(path: &Path) -> Result<Folder, FolderError> {
        Folder::open(path, File::try_lock_shared)
    }

    /// The same, whose jobs have this way to buckets.
    pub fn with_buckets(mut self, buckets: Arc<dyn Buckets>) -> Folder {
        self.worker.buckets = buckets;
        self
    }

    fn open(path: &Path, how: Lock) -> Result<Folder, FolderError> {
        read_current_head(path)?; // Where no sweep is, no lock is made.
        let lock = lock(path, how)?;
        Folder::read(path, lock)
    }

    /// Reads a folder that is locked.
    fn read(path: &Path, lock: File) -> Result<Folder, FolderError> {
        let head = read_current_head(path)?;
        let list_path = path.join("jobs.jsonl");
        let list = fs::read_to_string(&list_path).map_err(io_error(&list_path))?;
        if hash(list.as_bytes()) != head.jobs_blake3 {
            let problem = "not the list that this sweep began with; restore it, or begin anew";
            return Err(other(&list_path, problem));
        }
        let jobs = parse_jobs(&list, &list_path.display().to_string());
        let jobs = jobs.map_err(|error| other(&list_path, error))?;
        let worker = Worker::new(path, head)?;
        Ok(Folder { worker, jobs, _lock: lock })
    }

    /// All jobs, in order.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// The contest that every job runs.
    pub fn contest(&self) -> &Contest {
        &self.worker.head.contest
    }

    /// Hash of the plan, by which a worker elsewhere knows that its folder is this one.
    pub fn plan_blake3(&self) -> &str {
        &self.worker.head.plan_blake3
    }

    /// The needs of all jobs.
    pub fn estimate(&self) -> Estimate {
        of_ready(&self.worker.ready, &self.jobs)
    }

    /// The jobs that are not done, in order. Results of another job, plan or version, and broken
    /// files, count for none: they are written anew.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn missing(&self) -> Result<Vec<&Job>, FolderError> {
        let mut done: BTreeSet<PathBuf> = BTreeSet::new();
        for family in self.families() {
            let folder = self.worker.path.join("results").join(partition(family));
            done.extend(entries(&folder)?);
        }
        let is_done = |job: &Job| {
            let path = self.worker.file("results", job);
            // The report reads the same rows: a job that it cannot use has to run again.
            let rows = || rows_of(&self.worker.head.origin(job), &path).ok().flatten();
            done.contains(&path) && rows().is_some()
        };
        Ok(self.jobs.iter().filter(|job| !is_done(job)).collect())
    }

    /// Removes what runs that were cut off left half written.
    ///
    /// # Errors
    /// The folder cannot be read, or a file not be removed.
    pub fn clear(&self) -> Result<(), FolderError> {
        for part in ["results", "times"] {
            for family in self.families() {
                let halves = entries(&self.worker.path.join(part).join(partition(family)))?;
                for half in halves.iter().filter(|path| path.extension() == Some("part".as_ref())) {
                    fs::remove_file(half).map_err(io_error(half))?;
                }
            }
        }
        Ok(())
    }

    fn families(&self) -> BTreeSet<&str> {
        self.jobs.iter().map(|job| job.family.as_str()).collect()
    }

    /// Runs a job and writes its files, as [`Worker::run`] does.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn run(&self, job: &Job, progress: Progress<'_>) -> Result<Ran, FolderError> {
        self.worker.run(job, progress)
    }
}

/// The head of a new sweep, whose libraries have been copied and can be loaded.
fn copied(
    path: &Path,
    with: &Beginning<'_>,
    named: &Libraries,
    jobs: &str,
) -> Result<Head, FolderError> {
    let libraries = named.copy_to(path)?;
    let ready = with.contest.ready(&Libraries::copied(path, &libraries)?);
    ready.map_err(|error| other(path, error))?;
    Ok(Head {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_string(),
        command: with.command.to_string(),
        plan_blake3: hash(with.plan.as_bytes()),
        jobs_blake3: hash(jobs.as_bytes()),
        libraries,
        contest: with.contest.clone(),
    })
}

/// Files and folders that a beginning makes and that were not there before: folders first.
#[derive(Debug, Default)]
struct Made(Vec<PathBuf>);

impl Made {
    /// Adds those of the paths that are not there yet.
    fn note(&mut self, paths: &[PathBuf]) {
        self.0.extend(paths.iter().filter(|path| path.symlink_metadata().is_err()).cloned());
    }

    /// Removes what a beginning that is refused has made, and nothing else: a folder goes only when
    /// it is empty. The refusal is the error to tell.
    fn withdraw(self) {
        for path in self.0.iter().rev() {
            if fs::remove_file(path).is_err() {
                let _ = fs::remove_dir(path);
            }
        }
    }
}

pub(super) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

fn read_head(folder: &Path) -> Result<Head, FolderError> {
    let path = folder.join("sweep.json");
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let problem =
                "there is no sweep here; `thermocline lab sweep PLAN --out DIR` begins one";
            return Err(other(folder, problem));
        }
        text => text.map_err(io_error(&path))?,
    };
    serde_json::from_str(&text).map_err(|error| other(&path, error))
}

/// The head of a sweep that this version can go on with.
pub(super) fn read_current_head(folder: &Path) -> Result<Head, FolderError> {
    let head = read_head(folder)?;
    let own = env!("CARGO_PKG_VERSION");
    if head.format == FORMAT && head.version == own {
        return Ok(head);
    }
    let problem = format!(
        "begun by version {} (format {}), and this is {own} (format {FORMAT}): results of two \
         versions are not mixed; go on with that version, or choose another folder",
        head.version, head.format
    );
    Err(other(folder, problem))
}

/// Contents of a folder, locked by nobody.
pub(super) struct Contents {
    pub(super) contest: Contest,
    pub(super) version: String,
    pub(super) jobs: u64,
    /// Rows of the jobs that are done, with times where they were measured.
    pub(super) rows: Vec<Measured>,
    /// Jobs that are done.
    pub(super) done: u64,
}

/// Reads all results; a sweep may be under way. Only the files of its jobs count, and of these only
/// what this sweep has written: a folder may hold copies, or results of another plan.
pub(super) fn contents(path: &Path) -> Result<Contents, FolderError> {
    let head = read_head(path)?;
    let list = path.join("jobs.jsonl");
    let text = fs::read_to_string(&list).map_err(io_error(&list))?;
    let jobs = parse_jobs(&text, &list.display().to_string());
    let jobs = jobs.map_err(|error| other(&list, error))?;
    let (mut rows, mut done) = (Vec::new(), 0);
    for job in &jobs {
        let own = head.origin(job);
        let Some(more) = rows_of(&own, &file_of(path, "results", job))? else { continue };
        done += 1;
        let mut times: BTreeMap<(String, String), f64> = BTreeMap::new();
        // Times are no results: where they cannot be read, they were not measured.
        for row in rows_of(&own, &file_of(path, "times", job)).ok().flatten().unwrap_or_default() {
            if let Some(seconds) = row.processor_s {
                times.insert((row.policy, row.size), seconds);
            }
        }
        rows.extend(more.into_iter().map(|row| {
            let key = (row.policy.clone(), row.size.clone());
            Measured { processor_s: times.get(&key).copied(), ..row }
        }));
    }
    Ok(Contents {
        contest: head.contest,
        version: head.version,
        jobs: jobs.len() as u64,
        rows,
        done,
    })
}

/// Rows of a job's file; `None`: it is not there, broken, or not of this origin, and the job is not
/// done.
fn rows_of(own: &Origin, path: &Path) -> Result<Option<Vec<Measured>>, FolderError> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        file => Ok(read_rows_of(file.map_err(io_error(path))?, own)),
    }
}

/// Tries to get a lock, and the pause between two of them: half a second in all.
const LOCK_TRIES: u32 = 25;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Way of locking: alone or shared.
type Lock = fn(&File) -> Result<(), TryLockError>;

fn lock(folder: &Path, how: Lock) -> Result<File, FolderError> {
    let path = folder.join("lock");
    let mut options = File::options();
    let file = options.create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(io_error(&path))?;
    // A process that this one has started keeps a lock that was just given up, until it has become
    // another program.
    for _ in 0..LOCK_TRIES {
        match how(&file) {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(io_error(&path)(error)),
        }
    }
    Err(other(folder, "another process runs this sweep; wait for it, or stop it"))
}

/// Refuses a folder that holds anything but a beginning that was cut off. A `plan.toml` may be a
/// plan that somebody has written: it is only written over by the same bytes. `libraries` and
/// `lock` are common names, so that what they hold must be what a beginning leaves there.
fn refuse_strangers(path: &Path, plan: &str) -> Result<(), FolderError> {
    for entry in entries(path)? {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let half = name.ends_with(".part");
        let is_known = || {
            let same = || fs::read(&entry).is_ok_and(|bytes| bytes == plan.as_bytes());
            name != "plan.toml" || path.join("lock").exists() || same()
        };
        let ours = half
            || match name.as_str() {
                libraries::FOLDER => libraries::is_own_folder(&entry),
                "lock" => entry.metadata().is_ok_and(|lock| lock.is_file() && lock.len() == 0),
                name => BEGINNING.contains(&name) && is_known(),
            };
        if !ours {
            let problem = format!("the folder holds `{name}` and no sweep; name a new folder");
            return Err(other(path, problem));
        }
    }
    Ok(())
}

/// Paths in a folder; none when there is no folder.
fn entries(path: &Path) -> Result<Vec<PathBuf>, FolderError> {
    let listed = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(io_error(path))?,
    };
    listed.map(|entry| Ok(entry.map_err(io_error(path))?.path())).collect()
}

/// Manner of driving a sweep.
#[derive(Debug, Clone, Copy)]
pub struct Drive {
    /// Jobs at the same time, 1 or more.
    pub workers: usize,
}

/// Listener to a drive; told from any thread.
pub trait Driven: Sync {
    /// A job has run.
    fn ran(&self, job: &Job, outcome: &Ran);

    /// A job has read more of its trace. It may unwind; then [`drive`] unwinds.
    fn reading(&self) {}
}

impl<F: Fn(&Job, &Ran) + Sync> Driven for F {
    fn ran(&self, job: &Job, outcome: &Ran) {
        self(job, outcome);
    }
}

/// Runs every job that is missing, and tells `told`. Once `stop` is set no further job begins.
/// Returns the number of jobs done.
///
/// # Errors
/// The first file that cannot be written; no job begins after it.
pub fn drive(
    folder: &Folder,
    how: Drive,
    stop: &AtomicBool,
    told: &dyn Driven,
) -> Result<usize, FolderError> {
    let missing = folder.missing()?;
    let workers = how.workers.clamp(1, missing.len().max(1));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (cores / workers).max(1);
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || -> Result<(), FolderError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool =
            pool.map_err(|error| other(&folder.worker.path, format!("no threads: {error}")))?;
        while !stop.load(Ordering::Relaxed) {
            let Some(job) = missing.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            match pool.install(|| folder.run(job, &|_| told.reading())) {
                Ok(outcome) => {
                    told.ran(job, &outcome);
                    let is_done = matches!(outcome, Ran::Done { .. });
                    finished.fetch_add(usize::from(is_done), Ordering::Relaxed);
                }
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(())
    };
    let ended: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    ended.into_iter().collect::<Result<(), _>>()?;
    Ok(finished.into_inner())
}
