//! `lab cache`: every policy at every size over one workload, on all cores.

mod results;
mod run;
mod size;
#[cfg(test)]
mod tests;

pub use results::{Report, Row};
pub use run::{LabError, LabOptions, run};
pub use size::{CacheSize, SizeError};
