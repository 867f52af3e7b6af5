//! Whole machines in virtual time: a trace as the load of a volume machine on modelled pools, under
//! one placement or several.
//!
//! The machine is the one that the engine runs ([`thermocline_volume::Group`]), with its journal,
//! its throttle and its live migrations; only the devices are models and only the clock is virtual.
//! What differs between two runs of one report is the placement and nothing else.
//!
//! - [`Load`]: a trace in memory, in whole sectors;
//! - [`parse_pools`]: which devices, how large;
//! - [`run()`]: every policy over the load, on all cores;
//! - [`Session`]: programs at work on a machine, with hints;
//! - [`explain`]: one policy over the load, and why a chunk is where it ends up;
//! - [`VolumeReport`]: what came of it, as data and as a page.
//!
//! Invariants: results depend on load, pools, options and seed, and not on the number of threads;
//! no request is lost: each is answered, and counted once.

mod drive;
mod flat;
mod future;
mod html;
mod load;
mod meter;
mod pools;
mod proposals;
mod results;
mod run;
mod session;
mod stage;
mod start;

pub use load::{Demand, Load, LoadError};
pub use pools::{CachePlan, PoolPlan, PoolSize, PoolsError, parse_pools};
pub use results::{LatencyRow, LinesUse, PoolRow, PoolUse, Run, SliceRow, VolumeReport};
pub use run::{
    Account, Arrivals, MachineError, MachineOptions, MakeObserver, explain, run, run_each,
    run_observed, run_one,
};

pub use session::{Ran, Session, Step, Tally, Task, Worker};
pub use start::{START_CHUNKS_MAX, Start, StartPool};

#[cfg(test)]
mod tests;
