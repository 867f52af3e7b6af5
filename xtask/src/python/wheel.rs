//! `cargo xtask python wheel`: a wheel for other machines, and its trial.
//!
//! 1. An environment of its own gets maturin and Zig from PyPI, in the versions below. Zig brings
//!    the symbols of old C libraries, so that a wheel that is built here runs on every Linux with
//!    glibc 2.17 or later.
//! 2. maturin builds the wheel into `target/wheels`. It refuses one that needs newer symbols, or
//!    libraries that are not there everywhere.
//! 3. The wheel's name must promise just that, for Python 3.10 and later.
//! 4. A fresh environment installs it, without an index, and runs it: traces, caches, volumes, a
//!    class, and where there is a C compiler a shared library.
//!
//! No step of the gate: it needs PyPI, and compiles all crates anew, for minutes.

use super::{environment, step};
use crate::{Failure, workspace};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tools that build it.
const TOOLS: [&str; 2] = ["maturin==1.16.0", "ziglang==0.15.2"];
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The C library that every machine has: CentOS 7's, and that of PEP 599.
const PLATFORM: &str = "manylinux2014";
/// Part of a wheel's name that makes a promise for every Python from 3.10 on.
const PYTHONS: &str = "-cp310-abi3-";
/// The two names of that C library.
const PLATFORMS: [&str; 2] = ["manylinux2014_x86_64", "manylinux_2_17_x86_64"];

/// The subcommand.
pub(super) fn run() -> Result<(), Failure> {
    let wheel = build()?;
    println!("{}", wheel.display());
    try_out(&wheel)
}

fn build() -> Result<PathBuf, Failure> {
    let python = environment("python-wheel-tools")?;
    let mut pip = Command::new(&python);
    step("maturin and Zig from PyPI", pip.args(["-m", "pip", "install", "--quiet"]).args(TOOLS))?;
    let out = workspace::target().join("wheels");
    if out.exists() {
        // A wheel of another day would be tried in place of this one.
        std::fs::remove_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    }
    let mut maturin = Command::new(&python);
    maturin.args(["-m", "maturin", "build", "--zig", "--locked", "--target", TARGET]);
    maturin.args(["--compatibility", PLATFORM, "--auditwheel", "check", "--out"]).arg(&out);
    maturin.current_dir(workspace::root().join("python"));
    maturin.env("CARGO_TARGET_DIR", workspace::target()).env("PATH", path_with(&python)?);
    step("the wheel", &mut maturin)?;
    let files = std::fs::read_dir(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let mut names: Vec<String> = files
        .filter_map(|file| Some(file.ok()?.file_name().to_string_lossy().into_owned()))
        .collect();
    names.retain(|name| name.ends_with(".whl"));
    match &names[..] {
        [name] if is_for_all(name) => Ok(out.join(name)),
        names => {
            let found = names.join(", ");
            let platforms = PLATFORMS.join(".");
            let wanted = format!("`…{PYTHONS}{platforms}.whl`");
            Err(Failure::Failed(format!("expected one wheel {wanted}, found: {found}")))
        }
    }
}

/// True if a wheel says that it is for every such machine and Python, in whatever order.
fn is_for_all(name: &str) -> bool {
    let tags = name.strip_suffix(".whl").and_then(|name| name.split_once(PYTHONS));
    let mut platforms: Vec<&str> = tags.map_or(Vec::new(), |(_, tags)| tags.split('.').collect());
    platforms.sort_unstable();
    platforms == PLATFORMS
}

/// The search path, the environment of this Python first: maturin looks there for Zig.
fn path_with(python: &Path) -> Result<OsString, Failure> {
    let folder = python.parent().expect("a file is in a folder").to_path_buf();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(folder).chain(std::env::split_paths(&others));
    std::env::join_paths(all).map_err(|error| Failure::Failed(format!("PATH: {error}")))
}

fn try_out(wheel: &Path) -> Result<(), Failure> {
    let python = environment("python-wheel-trial")?;
    let mut pip = Command::new(&python);
    let words = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps"];
    step("pip install of the wheel", pip.args(words).arg(wheel))?;
    let mut tried = Command::new(&python);
    let script = workspace::root().join("python/bench/wheel_trial.py");
    // Not in the checkout: its package has no module beside it.
    tried.current_dir(wheel.parent().expect("a file is in a folder"));
    step("a run of the wheel", tried.arg("-I").arg(script))
}
