//! Sweeps: many traces × policies × sizes × seeds, as a list of jobs that can be stopped at any
//! time and run anywhere.
//!
//! 1. [`Plan::parse`] reads what a user wrote; nothing is opened.
//! 2. [`list()`] finds the traces and makes the jobs: one for each trace and seed. A job runs every
//!    policy at every size.
//! 3. [`Folder`] is where a sweep lives: the plan, the jobs, and a file of rows for each job that
//!    is done. [`drive`] does all jobs that are missing, on some threads. [`Worker`] does one,
//!    also on another machine.
//! 4. [`report`] reads the rows of a folder and compares.
//!
//! Invariants:
//! - [`Contest`] and [`Job`] are plain data; with copies of the libraries that a contest names they
//!   are all that a job needs. A driver sends the job as JSON to another machine, whose worker
//!   reads the rest in the shared folder.
//! - The file of a job is complete or absent. Its bytes depend on the contest, the job and the
//!   trace, and not on the machine, the number of threads or the day; what was measured of the
//!   machine is in a file beside it.
//! - A broken trace, a policy that cannot run at a size, and one from outside that fails, is a row
//!   with an error. A job whose trace could not be read for a reason that may pass has no rows: it
//!   stays undone, and the next run tries it again.
//!
//! What it does not do: it decides nothing about caches (that is `lab`), and it opens no bucket by
//! itself: whoever runs a sweep gives it the way there ([`Buckets`]).

mod buckets;
mod estimate;
mod folder;
mod libraries;
mod list;
mod plan;
mod plan_file;
pub mod report;
mod rows;
mod run;
mod summary;
#[cfg(test)]
mod tests;
mod worker;

pub use buckets::{Bucket, Buckets, NoBuckets, Object};
pub use estimate::{Estimate, estimate};
pub use folder::{Beginning, Drive, Driven, Folder, FolderError, drive};
pub use list::{Job, JobTrace, list, parse_jobs, write_jobs};
pub use plan::{Contest, Plan, PlanError, TraceGroup, TraceOrigin};
pub use plan_file::{BeginError, PlanFile};
pub use rows::{Measured, read_rows};
pub use summary::{Summary, unread_text};
pub use worker::{Ran, Worker};
