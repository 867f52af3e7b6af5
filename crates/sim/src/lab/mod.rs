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
pub(crate) use flat::{Get, columns};
pub use flat::{write_csv, write_curves_csv, write_parquet};
pub use html::curves_html;
pub use miniature::{Adjustment, sampled_curves};
pub use results::{Failed, Report, Row, Seen};
pub use run::{Grid, LabError, LabOptions, Refusal, Tried, run, run_stream, use_threads};
pub(crate) use run::{Needs, read_totals, run_grid, run_grid_stream};
pub use selection::Selection;
pub use size::{CacheSize, SizeError};
