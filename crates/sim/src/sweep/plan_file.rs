//! A plan as a file: read, listed, estimated, begun. Both the command and the Python package use
//! this, so that they mean the same by a plan.

use super::buckets::{Buckets, NoBuckets};
use super::estimate::{Estimate, estimate};
use super::folder::{Beginning, Folder, FolderError};
use super::list::{Job, list};
use super::plan::{Plan, PlanError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A plan with its text and the folder that its patterns are relative to.
#[derive(Debug, Clone)]
pub struct PlanFile {
    /// The plan.
    pub plan: Plan,
    text: String,
    name: String,
    folder: PathBuf,
    buckets: Arc<dyn Buckets>,
}

impl PlanFile {
    /// Reads the plan in the file `path`.
    ///
    /// # Errors
    /// When the file cannot be read, or is no plan.
    pub fn read(path: &Path) -> Result<PlanFile, PlanError> {
        let name = path.display().to_string();
        let unread = |error: std::io::Error| PlanError {
            origin: name.clone(),
            line: None,
            problem: error.to_string(),
        };
        let text = std::fs::read_to_string(path).map_err(unread)?;
        let plan = Plan::parse(&text, &name)?;
        let whole = path.canonicalize().map_err(unread)?;
        let folder = whole.parent().unwrap_or(Path::new("/")).to_path_buf();
        Ok(PlanFile { plan, text, name, folder, buckets: Arc::new(NoBuckets) })
    }

    /// The same with this way to buckets.
    pub fn with_buckets(self, buckets: Arc<dyn Buckets>) -> PlanFile {
        PlanFile { buckets, ..self }
    }

    /// The jobs of the plan, as its traces are now.
    ///
    /// # Errors
    /// When a pattern is none, matches nothing, or a bucket cannot be listed.
    pub fn jobs(&self) -> Result<Vec<Job>, PlanError> {
        list(&self.plan, &self.folder, &self.name, &*self.buckets)
    }

    /// The needs of these jobs of the plan.
    ///
    /// # Errors
    /// When the plan's contest is none, or a library that it names cannot be loaded.
    pub fn estimate(&self, jobs: &[Job]) -> Result<Estimate, String> {
        estimate(&self.plan.contest, &self.folder, jobs)
    }

    /// Begins the sweep in `out`, or goes on with it; `command` is kept as its origin.
    ///
    /// # Errors
    /// When the traces cannot be listed, or the folder cannot be used.
    pub fn begin(&self, out: &Path, command: &str) -> Result<Folder, BeginError> {
        let beginning = Beginning {
            plan: &self.text,
            contest: &self.plan.contest,
            beside: &self.folder,
            command,
        };
        let folder: Result<Folder, BeginError> = Folder::begin(out, beginning, || Ok(self.jobs()?));
        Ok(folder?.with_buckets(Arc::clone(&self.buckets)))
    }
}

/// A sweep that does not begin.
#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// The traces cannot be listed.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
}
