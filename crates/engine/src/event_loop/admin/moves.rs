//! Requests about moves: jobs over ranges, and the operations under way.

use super::super::jobs::Job as LiveJob;
use super::AdminApi;
use crate::api::{self, Kind, NewJob, Operations};
use thermocline_admin::api::Refused;
use thermocline_volume::OperationKind;

/// Operations told at once.
const OPERATIONS_TOLD: usize = 64;

impl AdminApi<'_> {
    /// Begins to do something with the chunks of a range.
    ///
    /// # Errors
    /// When the volume, the range or the pool is not there, or too many jobs are under way.
    pub fn begin(&mut self, wish: &NewJob) -> Result<api::Job, Refused> {
        let volume = self.volume(&wish.volume)?;
        let chunks = self.chunks_of(volume, wish.offset_bytes, wish.length_bytes)?;
        let needs_pool = !matches!(wish.kind, Kind::Pin | Kind::Unpin);
        let to = match &wish.pool {
            Some(name) => Some(self.pool_named(name)?),
            None if needs_pool => return Err(Refused::invalid("name the pool to move to")),
            None => None,
        };
        let job = LiveJob::new(wish.kind, (volume, wish.volume.clone()), to, chunks);
        let begun = self.engine.begin_job(job);
        let id = begun.ok_or_else(|| Refused::conflict("too many jobs are under way"))?;
        self.job(id)
    }

    /// State of a job.
    ///
    /// # Errors
    /// When there is no such job, or no longer.
    pub fn job(&self, id: u64) -> Result<api::Job, Refused> {
        let job = self.engine.jobs.get(id);
        let job = job.ok_or_else(|| Refused::missing(format!("there is no job {id}")))?;
        Ok(self.told(id, job))
    }

    fn told(&self, id: u64, job: &LiveJob) -> api::Job {
        let pool = job.to.and_then(|to| self.engine.group.pool_status(to));
        let chunks = u64::from(job.end - job.first);
        let ended = job.ended();
        api::Job {
            id,
            kind: job.kind,
            volume: job.name.clone(),
            pool: pool.map(|pool| pool.name),
            chunks,
            ended,
            done: job.done,
            failed: job.failed,
            cancelled: job.cancelled,
            skipped: job.skipped.clone(),
            over: ended == chunks,
        }
    }

    /// Cancels what a job has not done yet.
    ///
    /// # Errors
    /// When there is no such job.
    pub fn cancel(&mut self, id: u64) -> Result<api::Job, Refused> {
        if !self.engine.cancel_job(id) {
            return Err(Refused::missing(format!("there is no job {id}")));
        }
        self.job(id)
    }

    /// Everything that moves.
    pub fn operations(&self) -> Operations {
        let group = &self.engine.group;
        let chunk_size = group.chunk_size().0;
        let chunks = group.operations(OPERATIONS_TOLD).into_iter().map(|status| api::Operation {
            kind: match status.operation.kind {
                OperationKind::Migrate => "migrate",
                OperationKind::Replicate => "replicate",
                OperationKind::Prefetch => "prefetch",
                OperationKind::Redirect => "redirect",
                OperationKind::Mirror => "mirror",
            }
            .to_string(),
            volume: self.name_of(status.operation.chunk.volume),
            offset_bytes: u64::from(status.operation.chunk.index) * chunk_size,
            from: status.from.map(|pool| pool.0),
            to: status.operation.to.0,
            copied_bytes: status.copied.0,
        });
        Operations {
            chunks: chunks.collect(),
            jobs: self.engine.jobs.iter().map(|(id, job)| self.told(id, job)).collect(),
            pending: group.operations_pending() as u64,
        }
    }
}
