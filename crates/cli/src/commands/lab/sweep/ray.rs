//! `lab sweep --on ray`: hands a sweep to the Python package, which has the client of Ray.
//!
//! 1. A Python is found that has the packages `thermocline` and `ray`.
//! 2. This process becomes that Python: signals and the exit status are then its own.

use crate::error::CliError;
use crate::output;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Variable that names the Python to use.
const NAMED_BY: &str = "THERMOCLINE_PYTHON";

/// Prints the packages that are missing.
const PROBE: &str = "import importlib.util as u; \
                     print(*[n for n in ('thermocline', 'ray') if u.find_spec(n) is None])";

/// Becomes the Python that runs the sweep; returns only when that fails.
pub(super) fn become_driver(plan: &Path, out: &Path, workers: Option<u16>, json: bool) -> CliError {
    let python = std::env::var_os(NAMED_BY).unwrap_or_else(|| "python3".into());
    let name = python.to_string_lossy().into_owned();
    let mut probe = Command::new(&python);
    probe.args(["-c", PROBE]).stdin(Stdio::null()).stderr(Stdio::null());
    let missing = match probe.output() {
        Err(error) => {
            let found = format!("{name} does not start: {error}; name a Python with {NAMED_BY}");
            return CliError::failed(found);
        }
        Ok(done) => String::from_utf8_lossy(&done.stdout).trim().to_string(),
    };
    if !missing.is_empty() {
        return CliError::failed(format!(
            "`{name}` has no package {}; `pip install './python[ray]'` in the checkout installs \
             both, and {NAMED_BY} names another Python",
            missing.replace(' ', " and no package "),
        ));
    }
    let mut driver = Command::new(&python);
    driver.args(["-m", "thermocline.on_ray"]).arg(plan).arg("--out").arg(out);
    driver.args(["--command", &output::command_line()]);
    if let Some(workers) = workers {
        driver.args(["--workers", &workers.to_string()]);
    }
    if json {
        driver.arg("--json");
    }
    CliError::failed(format!("{name} does not start: {}", driver.exec()))
}
