//! Worker of a sweep, which runs a job and writes its files: a thread of the driver, or a process
//! on another machine.
//!
//! A worker needs the folder of the sweep and one job. It takes no lock: whoever gave it the job
//! holds the lock. Two workers may run the same job at the same time, for example when a machine
//! was taken for dead; both write the same results.
//!
//! Files are written beside their names, synced, and renamed, the times first. A file that is
//! there is complete.

use super::buckets::{Buckets, NoBuckets};
use super::folder::{FolderError, Head, io_error, other, read_current_head};
use super::libraries::Libraries;
use super::list::Job;
use super::plan::Ready;
use super::rows::{Facts, ResultRow, write_results, write_times};
use super::run::{self, Progress};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names that a half-written file may try, should others write the same file.
const PARTS_MAX: u32 = 1000;

/// Outcome of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ran {
    /// Its files are written.
    Done {
        /// Rows that are errors.
        errors: usize,
    },
    /// Its trace could not be read, for a reason that may pass. Nothing was written.
    Unread {
        /// The reason.
        problem: String,
    },
}

/// A worker of a sweep.
#[derive(Debug)]
pub struct Worker {
    pub(super) path: PathBuf,
    pub(super) head: Head,
    pub(super) ready: Ready,
    pub(super) buckets: Arc<dyn Buckets>,
}

impl Worker {
    /// A worker for the sweep in `folder`, whose plan has this hash
    /// ([`super::Folder::plan_blake3`]).
    ///
    /// # Errors
    /// When the folder has no sweep, one of another plan, or one of another version, or when a
    /// library is not the one that the sweep began with.
    pub fn open(folder: &Path, plan_blake3: &str) -> Result<Worker, FolderError> {
        let head = read_current_head(folder)?;
        if head.plan_blake3 != plan_blake3 {
            let problem = "a worker found a sweep of another plan here; the folder must be on a \
                           file system that all machines share";
            return Err(other(folder, problem));
        }
        Worker::new(folder, head)
    }

    pub(super) fn new(folder: &Path, head: Head) -> Result<Worker, FolderError> {
        let ready = head.contest.ready(&Libraries::copied(folder, &head.libraries)?);
        let ready = ready.map_err(|error| other(&folder.join("sweep.json"), error))?;
        let (path, buckets) = (folder.to_path_buf(), Arc::new(NoBuckets));
        Ok(Worker { path, head, ready, buckets })
    }

    /// Runs a job and writes its files; those of a job that is done are written again, the same
    /// but for the times.
    ///
    /// # Errors
    /// When the files cannot be written. A broken trace is no error: it is a row.
    pub fn run(&self, job: &Job, progress: Progress<'_>) -> Result<Ran, FolderError> {
        match run::run(&self.ready, job, &*self.buckets, progress) {
            Ok((facts, rows)) => {
                self.write(job, &facts, &rows)?;
                Ok(Ran::Done { errors: rows.iter().filter(|row| row.outcome.is_err()).count() })
            }
            Err(problem) => Ok(Ran::Unread { problem }),
        }
    }

    /// Runs as [`Worker::run`] does, on `threads` threads of its own, 1 or more.
    ///
    /// # Errors
    /// When the files cannot be written, or no threads can be started.
    pub fn run_on(
        &self,
        threads: usize,
        job: &Job,
        progress: Progress<'_>,
    ) -> Result<Ran, FolderError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build();
        let pool = pool.map_err(|error| other(&self.path, format!("no threads: {error}")))?;
        pool.install(|| self.run(job, progress))
    }

    /// The file of a job in `results` or `times`.
    pub(super) fn file(&self, part: &str, job: &Job) -> PathBuf {
        file_of(&self.path, part, job)
    }

    fn write(&self, job: &Job, facts: &Facts, rows: &[ResultRow]) -> Result<(), FolderError> {
        let mut metadata = self.head.origin(job).metadata();
        metadata.extend([
            ("thermocline.family", job.family.clone()),
            ("thermocline.contest", serde_json::to_string(&self.head.contest).expect("plain")),
        ]);
        if !self.head.libraries.is_empty() {
            let libraries = serde_json::to_string(&self.head.libraries).expect("plain");
            metadata.push(("thermocline.libraries", libraries));
        }
        let parquet = |error| io::Error::other(format!("{error}"));
        put(&self.file("times", job), |file| {
            write_times(facts, rows, &metadata, file).map_err(parquet)
        })?;
        put(&self.file("results", job), |file| {
            write_results(facts, rows, &metadata, file).map_err(parquet)
        })
    }
}

/// The file of a job in `results` or `times` of a sweep's folder.
pub(super) fn file_of(folder: &Path, part: &str, job: &Job) -> PathBuf {
    let name = format!("job-{:07}.parquet", job.number);
    folder.join(part).join(partition(&job.family)).join(name)
}

/// Name of the folder of a family.
pub(super) fn partition(family: &str) -> String {
    format!("family={family}")
}

/// Writes a file beside its name, syncs it and renames it into place.
pub(super) fn put(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), FolderError> {
    let folder = path.parent().expect("a file in a folder");
    fs::create_dir_all(folder).map_err(io_error(folder))?;
    let (part, mut file) = new_part(path)?;
    let written = write(&mut file).and_then(|()| {
        file.sync_data()?;
        fs::rename(&part, path)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&part); // the first error is the one to tell
        io_error(path)(error)
    })
}

/// A new file beside `path`. Its name is nobody else's, also when processes of two machines have
/// the same number.
fn new_part(path: &Path) -> Result<(PathBuf, File), FolderError> {
    let mut tried = 0;
    loop {
        let mut part = path.as_os_str().to_owned();
        part.push(format!(".{}-{tried}.part", std::process::id()));
        let part = PathBuf::from(part);
        match File::options().write(true).create_new(true).open(&part) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tried < PARTS_MAX => {
                tried += 1;
            }
            opened => return opened.map(|file| (part, file)).map_err(io_error(path)),
        }
    }
}
