//! `lab cache`: every policy at every size over one workload, on all cores.

mod curve;
mod flat;
mod html;
mod job;
mod results;
mod run;
mod size;
#[cfg(test)]
mod tests;

pub use curve::{Curve, CurveMethod, Point, exact_curve, sampled_curves};
pub use flat::{write_csv, write_parquet};
pub use html::curves_html;
pub use results::{Report, Row, Seen};
pub use run::{LabError, LabOptions, needs_whole, run, run_stream, use_threads};
pub use size::{CacheSize, SizeError};
