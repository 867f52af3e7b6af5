//! `lab cache`: every policy at every size over one workload, on all cores.

mod contest;
mod curve;
mod flat;
mod html;
mod job;
mod miniature;
mod results;
mod run;
mod selection;
mod size;
#[cfg(test)]
mod tests;

pub use contest::Contest;
pub use curve::{Curve, CurveMethod, Curves, Point, exact_curve};
pub use flat::{write_csv, write_curves_csv, write_parquet};
pub use html::curves_html;
pub use miniature::{Adjustment, sampled_curves};
pub use results::{Report, Row, Seen};
pub use run::{LabError, LabOptions, Needs, run, run_stream, survey, use_threads};
pub use selection::Selection;
pub use size::{CacheSize, SizeError};
