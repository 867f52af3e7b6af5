//! Sweeps: many traces × policies × sizes × seeds, as a list of jobs that can be stopped at any
//! time and run anywhere.
//!
//! 1. [`Plan::parse`] reads what a user wrote; nothing is opened.
//! 2. [`list()`] finds the traces and makes the jobs: one for each trace and seed. A job runs every
//!    policy at every size.
//! 3. [`Folder`] is where a sweep lives: the plan, the jobs, and a file of rows for each job that
//!    is done. [`Folder::run`] does one job; [`drive`] does all that are missing, on some threads.
//! 4. [`report`] reads the rows of a folder and compares.
//!
//! Invariants:
//! - [`Contest`] and [`Job`] are plain data; together they are all that a job needs. The driver of
//!   another machine sends them as JSON and gets a file of rows.
//! - The file of a job is complete or absent. Its bytes depend on the contest, the job and the
//!   trace, and not on the machine, the number of threads or the day; what was measured of the
//!   machine is in a file beside it.
//! - A trace that cannot be read, and a policy that cannot run at a size, is a row with an error.
//!
//! What it does not do: it decides nothing about caches (that is `lab`), and it opens no bucket.

mod estimate;
mod folder;
mod list;
mod plan;
pub mod report;
mod rows;
mod run;
#[cfg(test)]
mod tests;

pub use estimate::{Estimate, estimate};
pub use folder::{Drive, Folder, FolderError, drive};
pub use list::{Job, JobTrace, list, parse_jobs, write_jobs};
pub use plan::{Contest, Plan, PlanError, TraceGroup, TraceOrigin};
pub use rows::{Measured, read_rows};
