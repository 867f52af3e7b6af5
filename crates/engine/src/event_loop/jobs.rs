//! Operations over ranges: started chunk by chunk, a bounded number at a time.
//!
//! 1. A job walks over the chunks of its range and starts an operation on each; a chunk for which
//!    there is nothing to do is skipped, and counted by reason.
//! 2. [`OUTSTANDING_MAX`] operations of a job are queued or under way at once; as they end, the
//!    walk goes on. So jobs of any size take bounded memory and leave room for others.
//! 3. A job that has ended is kept until [`JOBS_KEPT`] newer ones have.

use super::Engine;
use crate::api::Kind;
use std::collections::BTreeMap;
use std::ops::Range;
use thermocline_admin::api::Severity;
use thermocline_units::{ChunkId, PoolId, VolumeId};
use thermocline_volume::{Finished, Operation, OperationId, OperationKind, Outcome, Refusal};

/// Operations of one job queued or under way.
const OUTSTANDING_MAX: usize = 256;
/// Chunks that a job looks at before others get a turn.
const STEPS_MAX: usize = 4096;
/// Jobs that have ended and are still told.
const JOBS_KEPT: usize = 64;
/// Reason why a chunk is not pinned.
const BUDGET: &str = "as many chunks of its pool are pinned as `[hints] pins` allows";
/// Jobs that may be under way.
const JOBS_MAX: usize = 1024;

/// An operation over a range.
pub(super) struct Job {
    pub(super) kind: Kind,
    volume: VolumeId,
    /// The volume's name, which is told also when the volume is gone.
    pub(super) name: String,
    pub(super) to: Option<PoolId>,
    /// Chunks: the first, the next to be looked at, and where the range ends.
    pub(super) first: u32,
    pub(super) next: u32,
    pub(super) end: u32,
    outstanding: Vec<OperationId>,
    /// For a job that pins: chunks that may still be pinned, by pool.
    pins_left: Vec<u64>,
    pub(super) done: u64,
    pub(super) failed: u64,
    pub(super) cancelled: u64,
    pub(super) skipped: BTreeMap<String, u64>,
    /// True if its end was told.
    pub(super) over: bool,
}

impl Job {
    pub(super) fn new(
        kind: Kind,
        (volume, name): (VolumeId, String),
        to: Option<PoolId>,
        chunks: Range<u32>,
    ) -> Job {
        Job {
            kind,
            volume,
            name,
            to,
            first: chunks.start,
            next: chunks.start,
            end: chunks.end,
            outstanding: Vec::new(),
            pins_left: Vec::new(),
            done: 0,
            failed: 0,
            cancelled: 0,
            skipped: BTreeMap::new(),
            over: false,
        }
    }

    /// Chunks dealt with.
    pub(super) fn ended(&self) -> u64 {
        self.done + self.failed + self.cancelled + self.skipped.values().sum::<u64>()
    }
}

/// All jobs.
#[derive(Default)]
pub(super) struct Jobs {
    last: u64,
    jobs: BTreeMap<u64, Job>,
    /// Jobs that operations belong to.
    owners: BTreeMap<OperationId, u64>,
}

impl Jobs {
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Job)> {
        self.jobs.iter().map(|(&id, job)| (id, job))
    }

    pub(super) fn get(&self, id: u64) -> Option<&Job> {
        self.jobs.get(&id)
    }
}

fn operation_kind(kind: Kind) -> Option<OperationKind> {
    match kind {
        Kind::Migrate => Some(OperationKind::Migrate),
        Kind::Replicate => Some(OperationKind::Replicate),
        Kind::Prefetch => Some(OperationKind::Prefetch),
        Kind::Redirect => Some(OperationKind::Redirect),
        Kind::Mirror => Some(OperationKind::Mirror),
        Kind::Pin | Kind::Unpin => None,
    }
}

impl Engine {
    /// Begins a job; `None` when too many are under way.
    pub(super) fn begin_job(&mut self, job: Job) -> Option<u64> {
        let under_way = self.jobs.jobs.values().filter(|job| !job.over).count();
        if under_way >= JOBS_MAX {
            return None;
        }
        self.jobs.last += 1;
        let id = self.jobs.last;
        self.jobs.jobs.insert(id, job);
        self.advance_job(id);
        Some(id)
    }

    /// Starts what a job may have under way.
    fn advance_job(&mut self, id: u64) {
        let now = self.now();
        let job = self.jobs.jobs.get_mut(&id).expect("callers name jobs that exist");
        if job.kind == Kind::Pin {
            // Other jobs pin as well.
            job.pins_left = self.group.pins_left();
        }
        for _ in 0..STEPS_MAX {
            let job = self.jobs.jobs.get_mut(&id).expect("callers name jobs that exist");
            if job.next == job.end || job.outstanding.len() >= OUTSTANDING_MAX {
                return;
            }
            let chunk = ChunkId { volume: job.volume, index: job.next };
            let (kind, to) = (job.kind, job.to.unwrap_or_default());
            let started = match operation_kind(kind) {
                Some(kind) => self.group.start(now, Operation { kind, chunk, to }).map(Some),
                None if kind == Kind::Pin && !self.may_pin(id, chunk) => {
                    let job = self.jobs.jobs.get_mut(&id).expect("it was there");
                    *job.skipped.entry(BUDGET.to_string()).or_default() += 1;
                    job.next += 1;
                    continue;
                }
                None => self.group.pin(now, chunk, kind == Kind::Pin).map(|()| None),
            };
            let job = self.jobs.jobs.get_mut(&id).expect("it was there");
            match started {
                // The rest of the range waits for the queue.
                Err(Refusal::QueueFull) => return,
                Err(refusal) => *job.skipped.entry(refusal.to_string()).or_default() += 1,
                Ok(None) => job.done += 1,
                Ok(Some(operation)) => {
                    job.outstanding.push(operation);
                    self.jobs.owners.insert(operation, id);
                }
            }
            job.next += 1;
        }
    }

    /// True if the budget of its pool lets a chunk be pinned, or it is pinned already; uses a place
    /// of the budget up.
    fn may_pin(&mut self, id: u64, chunk: ChunkId) -> bool {
        let Some(status) = self.group.locate(chunk) else { return true };
        let Some(home) = status.copies.first().map(|copy| copy.place.pool) else { return true };
        let job = self.jobs.jobs.get_mut(&id).expect("callers name jobs that exist");
        let Some(left) = job.pins_left.get_mut(usize::from(home.0)) else { return true };
        let may = status.pinned || *left > 0;
        *left = left.saturating_sub(u64::from(!status.pinned));
        may
    }

    /// Books operations that have ended.
    pub(super) fn end_operations(&mut self) {
        let mut advanced = Vec::new();
        for Finished { id, outcome, .. } in std::mem::take(&mut self.finished) {
            let Some(owner) = self.jobs.owners.remove(&id) else { continue };
            let job = self.jobs.jobs.get_mut(&owner).expect("jobs outlive their operations");
            job.outstanding.retain(|&other| other != id);
            match outcome {
                Outcome::Done => job.done += 1,
                Outcome::Failed => job.failed += 1,
                Outcome::Cancelled => job.cancelled += 1,
            }
            advanced.push(owner);
        }
        advanced.dedup();
        for id in advanced {
            self.advance_job(id);
        }
    }

    /// Lets jobs go on that were held up, tells of those that have ended, and forgets old ones.
    pub(super) fn end_jobs(&mut self) {
        let open: Vec<u64> =
            self.jobs.iter().filter(|(_, job)| !job.over).map(|(id, _)| id).collect();
        for id in open {
            self.advance_job(id);
            let job = self.jobs.jobs.get_mut(&id).expect("it is open");
            if job.next < job.end || !job.outstanding.is_empty() {
                continue;
            }
            job.over = true;
            let skipped: u64 = job.skipped.values().sum();
            let text = format!(
                "job {id} has ended: {} chunks done, {} failed, {} cancelled, {skipped} skipped",
                job.done, job.failed, job.cancelled
            );
            let severity = if job.failed > 0 { Severity::Warning } else { Severity::Info };
            self.event(severity, "job", text);
        }
        let ended = self.jobs.jobs.iter().filter(|(_, job)| job.over).map(|(&id, _)| id);
        let mut ended: Vec<u64> = ended.collect();
        ended.truncate(ended.len().saturating_sub(JOBS_KEPT));
        ended.into_iter().for_each(|id| {
            self.jobs.jobs.remove(&id);
        });
    }

    /// Cancels what a job has not done yet; whether there is such a job.
    pub(super) fn cancel_job(&mut self, id: u64) -> bool {
        let now = self.now();
        let Some(job) = self.jobs.jobs.get_mut(&id) else { return false };
        job.cancelled += u64::from(job.end - job.next);
        job.next = job.end;
        for operation in job.outstanding.clone() {
            self.group.cancel(now, operation);
        }
        true
    }

    /// Cancels what jobs have not done yet with a volume that is being deleted.
    pub(super) fn cancel_jobs_of(&mut self, volume: VolumeId) {
        let jobs = self.jobs.iter().filter(|(_, job)| job.volume == volume && !job.over);
        let ids: Vec<u64> = jobs.map(|(id, _)| id).collect();
        ids.into_iter().for_each(|id| _ = self.cancel_job(id));
    }
}
