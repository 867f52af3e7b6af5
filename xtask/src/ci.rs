//! `cargo xtask ci`: the only gate, the same for people and machines.
//!
//! A list of steps, run in order; a step that fails does not stop the later ones, so that one run
//! shows everything that is wrong. Each has a heading and a time; a table and the test runner's
//! closing lines end the output. What could not be checked (skipped tests, advisories) is said
//! there.

mod report;
mod room;

use crate::{Failure, api, deny, dist, hdl, python, tidy, workspace};
use report::{Row, Tests};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Words of a step besides having passed.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// One line for the summary table.
    detail: String,
    /// Parts that could not be checked; repeated at the very end.
    warnings: Vec<String>,
    /// The test runner's closing lines.
    closing: Vec<String>,
}

struct Step {
    name: &'static str,
    what: &'static str,
    /// True if `--fast`, the run before a commit, includes it.
    fast: bool,
    run: fn() -> Result<Passed, Failure>,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", what: "cargo fmt --check", fast: true, run: fmt },
    Step { name: "tidy", what: "house rules", fast: true, run: tidy_step },
    Step { name: "clippy", what: "clippy, warnings denied", fast: true, run: clippy },
    Step { name: "test", what: "tests of every target", fast: true, run: test },
    Step { name: "doctest", what: "examples in the documentation", fast: false, run: doctest },
    Step { name: "api", what: "APIs beside the last release's", fast: false, run: api_step },
    Step { name: "hdl", what: "chunking cores beside the reference", fast: false, run: hdl_step },
    Step { name: "python", what: "the Python package", fast: false, run: python_step },
    Step { name: "package", what: "the package in a clean Debian", fast: false, run: package_step },
    Step { name: "doc", what: "documentation, warnings denied", fast: false, run: doc },
    Step { name: "deny", what: "licences, bans, sources, advisories", fast: false, run: deny_step },
];

/// Names of the steps, in order.
pub(crate) fn step_names() -> Vec<&'static str> {
    STEPS.iter().map(|s| s.name).collect()
}

/// The subcommand: all steps, the fast ones, or the named ones.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let chosen = choose(arguments)?;
    let start = Instant::now();
    if let Some(warning) = room::warning() {
        println!("warning: {warning}");
    }
    let rows: Vec<Row> = chosen.iter().map(|step| run_step(step)).collect();
    let failed: Vec<&str> = rows.iter().filter(|r| r.result.is_err()).map(|r| r.name).collect();
    println!("\n{}", report::summary(&rows, start.elapsed()));
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "failed: {}; run one alone with `cargo xtask ci {}`",
        failed.join(", "),
        failed[0]
    )))
}

fn choose(arguments: &[String]) -> Result<Vec<&'static Step>, Failure> {
    if arguments.is_empty() {
        return Ok(STEPS.iter().collect());
    }
    if arguments == ["--fast"] {
        return Ok(STEPS.iter().filter(|s| s.fast).collect());
    }
    let find = |argument: &String| {
        STEPS.iter().find(|s| s.name == argument.as_str()).ok_or_else(|| {
            let known = step_names().join(", ");
            Failure::Usage(format!("`{argument}` is neither --fast nor a step ({known})"))
        })
    };
    arguments.iter().map(find).collect()
}

fn run_step(step: &Step) -> Row {
    println!("\n==== {}: {}", step.name, step.what);
    let start = Instant::now();
    let result = (step.run)().map_err(|failure| match failure {
        Failure::Failed(message) | Failure::Usage(message) => room::explained(message),
    });
    let elapsed = start.elapsed();
    match &result {
        Ok(passed) => {
            println!("---- {} ok, {:.1} s  {}", step.name, elapsed.as_secs_f64(), passed.detail)
        }
        Err(message) => {
            println!("---- {} FAILED: {}", step.name, message.lines().next().unwrap_or_default())
        }
    }
    Row { name: step.name, elapsed, result }
}

fn fmt() -> Result<Passed, Failure> {
    cargo(&["fmt", "--all", "--check"], &[])
}

fn tidy_step() -> Result<Passed, Failure> {
    let detail = tidy::check()?;
    Ok(Passed { detail, ..Passed::default() })
}

fn clippy() -> Result<Passed, Failure> {
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], &[])
}

fn doc() -> Result<Passed, Failure> {
    // Private items too: the documentation is for whoever changes the code, and links lead into it.
    let arguments = ["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"];
    cargo(&arguments, &[("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links")])
}

fn deny_step() -> Result<Passed, Failure> {
    Ok(Passed { warnings: deny::check()?, ..Passed::default() })
}

fn api_step() -> Result<Passed, Failure> {
    Ok(Passed { detail: api::check()?, ..Passed::default() })
}

fn hdl_step() -> Result<Passed, Failure> {
    Ok(Passed { warnings: hdl::gate()?.into_iter().collect(), ..Passed::default() })
}

fn python_step() -> Result<Passed, Failure> {
    Ok(Passed { warnings: python::gate()?.into_iter().collect(), ..Passed::default() })
}

fn package_step() -> Result<Passed, Failure> {
    Ok(Passed { warnings: dist::gate()?.into_iter().collect(), ..Passed::default() })
}

fn test() -> Result<Passed, Failure> {
    room::delete_folders_of_tests();
    // --show-output: a test that found no data says SKIPPED, and the runner would hide it.
    let passed = tests(
        &[
            &["test", "--workspace", "--lib", "--bins", "--tests", "--examples"][..],
            &["--locked", "--no-fail-fast", "--", "--show-output"],
        ]
        .concat(),
    )?;
    // What a failed test left behind is left for whoever looks for its cause.
    room::delete_folders_of_tests();
    Ok(passed)
}

fn doctest() -> Result<Passed, Failure> {
    tests(&["test", "--workspace", "--doc", "--locked", "--no-fail-fast"])
}

fn cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Passed, Failure> {
    let status = started(arguments, environment)
        .status()
        .map_err(|e| Failure::Failed(format!("cargo does not start: {e}")))?;
    ended(arguments, status.success()).map(|()| Passed::default())
}

/// Runs a test command, passing its output on line by line and keeping the lines that matter.
fn tests(arguments: &[&str]) -> Result<Passed, Failure> {
    let mut child = started(arguments, &[])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| Failure::Failed(format!("cargo does not start: {e}")))?;
    let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
    let mut tests = Tests::default();
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.map_err(|e| format!("reading the test runner: {e}"))?;
        let line = String::from_utf8_lossy(&line);
        if tests.line(&line) {
            // When nobody reads our output any more the exit status still counts.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }
    let status = child.wait().map_err(|e| format!("waiting for the test runner: {e}"))?;
    println!("{}", tests.closing.join("\n"));
    if !tests.failed.is_empty() {
        return Err(Failure::Failed(format!("failed: {}", tests.failures())));
    }
    ended(arguments, status.success())?;
    if tests.passed == 0 {
        return Err(Failure::Failed("no test ran at all".to_string()));
    }
    Ok(Passed { detail: tests.detail(), warnings: tests.skipped, closing: tests.closing })
}

fn started(arguments: &[&str], environment: &[(&str, &str)]) -> Command {
    println!("cargo {}", arguments.join(" "));
    let mut command = workspace::cargo();
    command.args(arguments).envs(environment.iter().copied()).stdin(Stdio::null());
    command
}

fn ended(arguments: &[&str], success: bool) -> Result<(), Failure> {
    if success {
        return Ok(());
    }
    Err(Failure::Failed(format!("`cargo {}` failed; its output is above", arguments.join(" "))))
}

#[cfg(test)]
mod tests;
