//! A Python that has libCacheSim: one that the user names, or ours, made when it is missing.

use crate::{Failure, workspace};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version whose counts are the reference.
const VERSION: &str = "0.3.5";

/// Names a Python that imports libcachesim, instead of an environment of ours.
const VARIABLE: &str = "THERMOCLINE_ORACLE_PYTHON";

/// A Python interpreter that imports libCacheSim's [`VERSION`].
pub(crate) fn python() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()) {
        let named = PathBuf::from(named);
        return match has_libcachesim(&named) {
            true => Ok(named),
            false => Err(Failure::Failed(format!(
                "{VARIABLE}={}: it does not import libcachesim {VERSION}",
                named.display()
            ))),
        };
    }
    let folder = workspace::root().join("target").join("oracle-venv");
    let python = folder.join("bin").join("python");
    if !has_libcachesim(&python) {
        println!("libCacheSim {VERSION} is not here: installing it into {}", folder.display());
        install(&folder, &python)?;
    }
    Ok(python)
}

fn has_libcachesim(python: &Path) -> bool {
    let program = "from importlib.metadata import version; import libcachesim; \
                   print(version('libcachesim'))";
    let output = Command::new(python).args(["-c", program]).stderr(Stdio::null()).output();
    output.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).trim() == VERSION)
}

fn install(folder: &Path, python: &Path) -> Result<(), Failure> {
    let wheel = format!("libcachesim=={VERSION}");
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(folder);
    let mut fill = Command::new(python);
    fill.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &wheel]);
    for (step, mut command) in [("python3 -m venv", make), ("pip install", fill)] {
        if !command.status().is_ok_and(|status| status.success()) {
            return Err(Failure::Failed(format!(
                "`{step}` failed. {wheel} needs Python 3.9 or later and PyPI; with another \
                 environment that has it, set {VARIABLE} to its python"
            )));
        }
    }
    match has_libcachesim(python) {
        true => Ok(()),
        false => Err(Failure::Failed(format!(
            "{wheel} was installed but does not import: `{} -c 'import libcachesim'` says why",
            python.display()
        ))),
    }
}
