//! `cargo xtask python`: the Python package, its tests, and its installation.
//!
//! - `test [ARGUMENT…]`: puts the module that the workspace's build has made beside the package's
//!   files, and runs pytest over them: tests, docstrings, types, notebooks;
//! - `install`: what a user does: `pip install ./python` in a fresh environment, and a run;
//! - `wheel`: a wheel for other machines, installed in a fresh environment, and a run (`wheel`).
//!
//! The gate runs `test`. It builds the module with the whole workspace selected, because cargo then
//! finds everything but the module itself already built; a wheel of the package alone would build
//! all crates a second time, with other features. Python is that of THERMOCLINE_PYTHON, of
//! `target/python-venv`, or `python3`: it needs what `python/requirements.txt` lists.

mod wheel;

use crate::{Failure, workspace};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Modules that the tests need; libcachesim is compared with where it is.
const PROBE: &str = "import duckdb, matplotlib, mypy, nbclient, nbformat, ipykernel, numpy, pandas, polars, \
                     pyarrow, pytest, tqdm";

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    match arguments.first().map(String::as_str) {
        Some("test") => match python() {
            Some(python) => test(&python, &arguments[1..]),
            None => Err(Failure::Failed(missing())),
        },
        Some("install") => install(),
        Some("wheel") => wheel::run(),
        _ => Err(Failure::Usage("python takes test, install or wheel".to_string())),
    }
}

/// The gate's share; `Some` says what was skipped.
pub(crate) fn gate() -> Result<Option<String>, Failure> {
    let Some(python) = python() else { return Ok(Some(format!("SKIPPED: {}", missing()))) };
    test(&python, &[])?;
    let mut probe = Command::new(&python);
    probe.args(["-c", "import libcachesim"]).stdout(Stdio::null()).stderr(Stdio::null());
    let there = probe.status().is_ok_and(|status| status.success());
    let skipped = "SKIPPED: misses were not compared with libcachesim's in Python: it is not there";
    Ok((!there).then(|| skipped.to_string()))
}

fn missing() -> String {
    "the Python package was not tested: no Python with what its tests need; docs/guides/python.md \
     says how to get one"
        .to_string()
}

/// A Python that has what the tests need.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("THERMOCLINE_PYTHON").map(PathBuf::from);
    let ours = workspace::root().join("target/python-venv/bin/python");
    let has_modules = |python: &PathBuf| {
        let mut probe = Command::new(python);
        probe.args(["-c", PROBE]).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    named.into_iter().chain([ours, PathBuf::from("python3")]).find(has_modules)
}

fn test(python: &Path, arguments: &[String]) -> Result<(), Failure> {
    let package = staged()?;
    let mut command = Command::new(python);
    command.args(["-m", "pytest", "-rs", "-p", "no:cacheprovider"]).args(arguments);
    // Not in python/, whose package has no module beside it.
    command.current_dir(workspace::root().join("python/tests"));
    // Only the package that was just built, not one that is installed.
    command.env("PYTHONPATH", &package).env("MYPYPATH", &package);
    command.env("CARGO_TARGET_DIR", workspace::target()).env("PYTHONDONTWRITEBYTECODE", "1");
    // The program of the same build, not one of another day.
    command.env("THERMOCLINE_COMMAND", workspace::target().join("debug/thermocline"));
    let status = command.stdin(Stdio::null()).status().map_err(|e| e.to_string())?;
    if !status.success() {
        return Err("the Python package's tests failed; pytest says why above".into());
    }
    Ok(())
}

/// Builds the module and puts it beside the package's files; the folder that has the package.
fn staged() -> Result<PathBuf, Failure> {
    let built = workspace::built()?;
    let folder = workspace::target().join("python-package");
    let package = folder.join("thermocline");
    let io = |error: std::io::Error| Failure::Failed(format!("{}: {error}", package.display()));
    if package.exists() {
        std::fs::remove_dir_all(&package).map_err(io)?;
    }
    std::fs::create_dir_all(&package).map_err(io)?;
    let files = std::fs::read_dir(workspace::root().join("python/thermocline")).map_err(io)?;
    for file in files {
        let file = file.map_err(io)?;
        if file.file_type().map_err(io)?.is_file() {
            std::fs::copy(file.path(), package.join(file.file_name())).map_err(io)?;
        }
    }
    std::fs::copy(built.join("libthermocline_native.so"), package.join("_native.abi3.so"))
        .map_err(io)?;
    Ok(folder)
}

/// `pip install ./python` in a fresh environment, and a run of what was installed.
fn install() -> Result<(), Failure> {
    let python = environment("python-fresh")?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "./python"]).current_dir(workspace::root());
    step("pip install ./python", &mut pip)?;
    let mut tried = Command::new(&python);
    // Not in the checkout, where the package lies without its module.
    step("a run", tried.args(["-c", TRIED]).current_dir(python.parent().expect("a folder")))
}

/// Makes a fresh environment below the build folder; its Python.
fn environment(name: &str) -> Result<PathBuf, Failure> {
    let folder = workspace::target().join(name);
    let mut fresh = Command::new("python3");
    step("a fresh environment", fresh.args(["-m", "venv", "--clear"]).arg(&folder))?;
    Ok(folder.join("bin/python"))
}

/// Runs a command that says itself why it fails.
fn step(what: &str, command: &mut Command) -> Result<(), Failure> {
    let status = command.stdin(Stdio::null()).status().map_err(|e| format!("{what}: {e}"))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::Failed(format!("{what} failed; it says why above")))
}

/// A run that needs nothing but the package.
const TRIED: &str = "from thermocline import cache, trace; \
                     print(cache.simulate(trace.synth('oltp', requests='10k'), 'lru').to_dicts()[0])";
