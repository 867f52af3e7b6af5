//! The laboratory as a Python module, `thermocline._native`.
//!
//! Arguments come in as Python's texts and numbers and are read by the code that reads the command
//! line; work is done by the entry points that the command calls; results go out as Arrow tables
//! (`arrow`). While work runs the interpreter's lock is free, and Ctrl-C ends it (`job`). Decides
//! nothing; what people see, with its documentation, is the package in `python/`.

mod arrow;
mod cache;
mod job;
mod options;
mod placements;
mod policies;
mod reports;
mod sweep;
mod table;
mod traces;

use pyo3::prelude::*;

#[pymodule]
#[pyo3(name = "_native")]
mod thermocline_native {
    use super::*;

    #[pymodule_export]
    use super::cache::{cache_mrc, cache_simulate};
    #[pymodule_export]
    use super::reports::{
        balance_simulate, dedup_estimate, experiments_run, trace_stat, volume_simulate,
    };
    #[pymodule_export]
    use super::sweep::{Sweep, sweep_begin, sweep_estimate, sweep_job};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::traces::{Trace, open, synth_trace};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let at_exit = wrap_pyfunction!(super::job::end_left_work, module)?;
        module.py().import("atexit")?.call_method1("register", (at_exit,)).map(drop)
    }
}
