//! `cargo xtask bench`: speed, side by side with the rival, as ratios with their spread.
//!
//! - `caches [ARGUMENT…]`: replay speed of every policy beside libCacheSim's, one thread, one size
//!   at a time, in turn on the same file, with its default table and a fitting one: a Zipf load,
//!   with `--pages TRACE` a block trace page by page, with `--suite FOLDER` six loads; arguments go
//!   to `xtask/bench/caches.py`;
//! - `sweep`: sixteen sizes against one, and two threads against one;
//! - `nbd [ARGUMENT…]`: the live engine beside nbdkit and qemu-nbd, with fio; `moving [ARGUMENT…]`:
//!   its latency while chunks move; arguments go to `xtask/bench/nbd.py`;
//! - `tiers [ARGUMENT…]`: the engine beside dm-cache, dm-writecache and bcache, on the same slow
//!   disk and fast device in user-mode Linux; arguments go to `xtask/bench/tiers.py`;
//! - `forecast [ARGUMENT…]`: what the laboratory forecasts beside what the live engine did, for
//!   several placements; arguments go to `xtask/bench/forecast.py`;
//! - `up [ARGUMENT…]`: `thermocline up` with nothing chosen, ten seconds by ten seconds, beside the
//!   same with nothing moved; arguments go to `xtask/bench/up.py`;
//! - `hosting [ARGUMENT…]`: clones of one image on two hosts of one store, and one machine alone
//!   beside nbdkit and qemu-nbd; arguments go to `xtask/bench/hosting.py`;
//! - `placements [FOLDER] [ARGUMENT…]`: placements over the traces of a folder and over synthetic
//!   loads, in virtual time, beside doing nothing and beside one that knows the future; arguments
//!   go to `xtask/bench/placements.py`;
//! - `bucket [ARGUMENT…]`: reads in order and at random from a pool in a bucket, with and without
//!   reading ahead; arguments go to `xtask/bench/bucket.py`;
//! - `redis [ARGUMENT…]`: redis on a tiered volume, with and without hints of its log and snapshots
//!   (experiments/hintstor-redis); needs root; arguments go to `xtask/bench/redis.py`;
//! - `hintstor fs|stream|cloud|priority [ARGUMENT…]`: HintStor's experiments, the live engine under
//!   a mounted file system, as root; arguments go to `xtask/bench/hintstor.py`;
//! - `balance speed|fibonacci|connections|conformance [ARGUMENT…]`: the balancer beside HAProxy and
//!   nginx, with workers that compute, with servers that fail, and at the edges of HTTP/1.1;
//!   arguments go to `xtask/bench/balance.py`;
//! - `tunnel [ARGUMENT…]`: a set of files and its next version through a tunnel over a slow link,
//!   beside plain TCP and the laboratory's forecast; needs root; arguments go to
//!   `xtask/bench/tunnel.py`;
//! - `functions [ARGUMENT…]`: a live pool of accelerators beside the kernel's masquerade, in
//!   network namespaces; needs root; arguments go to `xtask/bench/functions.py`;
//! - `openanfv [ARGUMENT…]`: NAT, DPI and Dedup with and without accelerators, per core (Ge 2017,
//!   figure 4.16; experiments/openanfv); needs root; arguments go to `xtask/bench/openanfv.py`;
//! - `read`: trace readers, in bytes of text or records a second.
//!
//! Timings are never assertions: this prints, and keeps what it measured under `target/bench`. What
//! is published goes to docs/results with commit, machine and command.

use crate::oracle::environment;
use crate::{Failure, workspace};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Scripts that need nothing but Python, by what they measure.
const SCRIPTS: [(&str, &str); 13] = [
    ("nbd", "nbd.py"),
    ("moving", "nbd.py"),
    ("tiers", "tiers.py"),
    ("forecast", "forecast.py"),
    ("up", "up.py"),
    ("hosting", "hosting.py"),
    ("placements", "placements.py"),
    ("bucket", "bucket.py"),
    ("redis", "redis.py"),
    ("hintstor", "hintstor.py"),
    ("tunnel", "tunnel.py"),
    ("functions", "functions.py"),
    ("openanfv", "openanfv.py"),
];

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    match arguments.split_first() {
        Some((what, rest)) if what == "caches" || what == "sweep" => {
            measure(&environment::python()?, "caches.py", what, rest)
        }
        Some((what, [part, rest @ ..])) if what == "balance" => {
            measure(Path::new("python3"), "balance.py", part, rest)
        }
        Some((what, [])) if what == "read" => read(),
        Some((what, rest)) => match SCRIPTS.iter().find(|(name, _)| name == what) {
            Some((_, script)) => measure(Path::new("python3"), script, what, rest),
            None => Err(usage()),
        },
        None => Err(usage()),
    }
}

fn usage() -> Failure {
    let known: Vec<&str> = SCRIPTS.iter().map(|(name, _)| *name).collect();
    Failure::Usage(format!("bench takes caches, sweep, balance, read, {}", known.join(", ")))
}

/// Runs a script on the release build, which is not made where `--binary` brings another; it prints
/// what it measured as JSON, with a table. Asked for help, it measures nothing and needs no build.
fn measure(python: &Path, script: &str, what: &str, arguments: &[String]) -> Result<(), Failure> {
    let folder = workspace::root().join("target").join("bench");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let given = |options: &[&str]| arguments.iter().any(|given| options.contains(&given.as_str()));
    let helps = given(&["-h", "--help"]);
    let binary = if helps || given(&["--binary"]) { PathBuf::new() } else { release_binary()? };
    let script = workspace::root().join("xtask").join("bench").join(script);
    let mut command = Command::new(python);
    command.arg(script).arg(what).arg(binary).arg(&folder).args(arguments);
    if helps {
        let told = command.status().map_err(|e| e.to_string())?.success();
        return told.then_some(()).ok_or_else(|| Failure::Failed(format!("{what} has no help")));
    }
    let output = command.stderr(Stdio::inherit()).output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(Failure::Failed("the measuring script failed; it says why above".to_string()));
    }
    let kept = folder.join(format!("{what}.json"));
    std::fs::write(&kept, &output.stdout).map_err(|e| format!("{}: {e}", kept.display()))?;
    let measured: Value = serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())?;
    print!("{}", measured["table"].as_str().unwrap_or_default());
    println!("\nall figures: {}", kept.display());
    Ok(())
}

/// The program to run, as an absolute path: the one that was named, or a release build.
pub(crate) fn binary(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let binary = match named {
        Some(binary) => binary.to_path_buf(),
        None => release_binary()?,
    };
    let absolute = binary.canonicalize().map_err(|e| format!("{}: {e}", binary.display()))?;
    Ok(absolute)
}

fn release_binary() -> Result<PathBuf, Failure> {
    let mut build = workspace::cargo();
    build.args(["build", "--release", "--package", "thermocline-cli"]);
    if !build.status().is_ok_and(|status| status.success()) {
        return Err(Failure::Failed("the release build failed".to_string()));
    }
    Ok(workspace::target().join("release/thermocline"))
}

fn read() -> Result<(), Failure> {
    let mut command = workspace::cargo();
    command.args(["run", "--release", "--package", "thermocline-trace"]);
    command.args(["--example", "read_speed"]);
    if command.status().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(Failure::Failed("the reading example failed; it says why above".to_string()))
}
