//! `cargo xtask deny`: what the dependencies bring with them, checked by cargo-deny.
//!
//! Licences, bans and sources always; advisories when the RustSec database can be fetched, and
//! loudly not when it cannot (a gate without network to GitHub is a fact of life, a silent one is a
//! lie). cargo-deny is a build of one fixed version; when it is missing it is built once, without
//! optimisation (78 s on two cores), into the user's cache folder, from where every checkout uses
//! it.

use crate::{Failure, no_arguments, workspace};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const VERSION: &str = "0.20.2";

/// Below this many bytes a second for this many seconds, git gives up on the advisory database.
const FETCH_BYTES_PER_S_MIN: &str = "1000";
const FETCH_PATIENCE_S: &str = "30";

/// Printed when advisories could not be checked; the gate repeats it in its summary.
pub(crate) const ADVISORIES_SKIPPED: &str =
    "ADVISORIES NOT CHECKED: the RustSec database could not be fetched";

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    no_arguments(arguments)?;
    for note in check()? {
        println!("{note}");
    }
    Ok(())
}

/// Runs every check that can run; notes on what could not.
pub(crate) fn check() -> Result<Vec<String>, Failure> {
    let tool = tool()?;
    let status = deny(&tool, &["licenses", "bans", "sources"])
        .status()
        .map_err(|e| format!("{} does not start: {e}", tool.display()))?;
    if !status.success() {
        return Err(Failure::Failed(
            "cargo-deny refused a dependency; docs/decisions/0004-dependencies.md is the policy"
                .to_string(),
        ));
    }
    advisories(&tool)
}

fn advisories(tool: &Path) -> Result<Vec<String>, Failure> {
    let output = deny(tool, &["advisories"])
        .env("GIT_HTTP_LOW_SPEED_LIMIT", FETCH_BYTES_PER_S_MIN)
        .env("GIT_HTTP_LOW_SPEED_TIME", FETCH_PATIENCE_S)
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{} does not start: {e}", tool.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        println!("advisories ok");
        return Ok(Vec::new());
    }
    eprint!("{said}");
    if said.contains("failed to fetch advisory database") {
        return Ok(vec![ADVISORIES_SKIPPED.to_string()]);
    }
    Err(Failure::Failed(
        "a dependency has a published advisory: update it, or record in deny.toml why it does not \
         apply"
            .to_string(),
    ))
}

fn deny(tool: &Path, checks: &[&str]) -> Command {
    let mut command = Command::new(tool);
    command.current_dir(workspace::root());
    command.args(["--locked", "check", "--hide-inclusion-graph"]).args(checks);
    command
}

/// The path of a cargo-deny of [`VERSION`]: one the user has, or ours, built when missing.
fn tool() -> Result<PathBuf, Failure> {
    let ours = tools_folder()?.join(format!("cargo-deny-{VERSION}"));
    let binary = ours.join("bin").join("cargo-deny");
    for candidate in [PathBuf::from("cargo-deny"), binary.clone()] {
        if has_version(&candidate) {
            return Ok(candidate);
        }
    }
    println!("cargo-deny {VERSION} is not here: building it once into {}", ours.display());
    // A build folder of our own: other checkouts may be doing the same, and clean up after
    // themselves.
    let build = ours.join(format!("build-{}", std::process::id()));
    let status = workspace::cargo()
        .args(["install", "cargo-deny", "--locked", "--debug", "--quiet", "--version", VERSION])
        .arg("--root")
        .arg(&ours)
        .env("CARGO_TARGET_DIR", &build)
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .env_remove("RUSTFLAGS")
        .status()
        .map_err(|e| format!("cargo install does not start: {e}"))?;
    // Only our own build output, some hundred MiB that nothing needs any more.
    let _ = std::fs::remove_dir_all(&build);
    if !status.success() {
        return Err(Failure::Failed(format!(
            "cargo-deny could not be built: \
             `cargo install cargo-deny --locked --version {VERSION}` says why"
        )));
    }
    Ok(binary)
}

fn has_version(tool: &Path) -> bool {
    let output = Command::new(tool).arg("--version").stderr(Stdio::null()).output();
    output.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).trim().ends_with(VERSION))
}

fn tools_folder() -> Result<PathBuf, Failure> {
    let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    from("XDG_CACHE_HOME")
        .or_else(|| from("HOME").map(|home| home.join(".cache")))
        .map(|cache| cache.join("thermocline").join("tools"))
        .ok_or_else(|| Failure::Failed("neither XDG_CACHE_HOME nor HOME is set".to_string()))
}
