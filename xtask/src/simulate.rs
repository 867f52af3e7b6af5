//! `cargo xtask simulate`: the deterministic simulation of the volume machine, by hand.
//!
//! Builds `crates/volume/tests/simulation` optimised and runs seeds: so many, or one again, or
//! batch after batch until the time is up. `--mutants` builds the machine in four deliberately
//! broken ways instead, and expects the simulation to notice each: a mutant that survives is a hole
//! in the tests. What it covers and how to read a failure: docs/testing/simulation.md.

use crate::{Failure, workspace};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TEST: &str = "no_seed_loses_data_leaks_a_slot_or_hangs";

/// Broken builds, `--cfg mutant="…"`, and what each leaves out.
const MUTANTS: [(&str, &str); 4] = [
    ("skip_barrier", "one flush before the map points at data"),
    ("early_reuse", "waiting for the map that frees a slot before using it again"),
    ("drop_recopy", "copying again what was written during a copy"),
    ("trust_both", "doubting, after a crash, that both sides of a mirror are equal"),
];

/// Seeds in which a mutant must be noticed.
const MUTANT_SEEDS: u64 = 1000;

/// Seeds of a run that is not told how many, and of a batch.
const SEEDS: u64 = 1000;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wish {
    from: u64,
    seeds: u64,
    one: Option<u64>,
    minutes: Option<u64>,
    verbose: bool,
    mutants: bool,
}

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let wish = parse(arguments)?;
    if wish.mutants {
        return mutants(wish.from);
    }
    build(&mut test_command(None))?;
    if let Some(seed) = wish.one {
        return replay(seed, wish.verbose);
    }
    let start = Instant::now();
    let until = wish.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let mut done = 0;
    loop {
        let batch = if until.is_some() { SEEDS } else { wish.seeds };
        seeds(wish.from + done, batch)?;
        done += batch;
        let seconds = start.elapsed().as_secs_f64();
        println!("{done} seeds clean in {seconds:.0} s, {:.1} a second", done as f64 / seconds);
        if until.is_none_or(|until| start.elapsed() >= until) {
            return Ok(());
        }
    }
}

fn parse(arguments: &[String]) -> Result<Wish, Failure> {
    let mut wish =
        Wish { from: 0, seeds: SEEDS, one: None, minutes: None, verbose: false, mutants: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || {
            let text = rest.next().map(String::as_str).unwrap_or_default();
            number(text).ok_or_else(|| {
                Failure::Usage(format!("`{argument}` takes a whole number, decimal or 0x…"))
            })
        };
        match argument.as_str() {
            "--seeds" => wish.seeds = value()?,
            "--from" => wish.from = value()?,
            "--seed" => wish.one = Some(value()?),
            "--minutes" => wish.minutes = Some(value()?),
            "--verbose" => wish.verbose = true,
            "--mutants" => wish.mutants = true,
            _ => {
                let known = "--seeds N, --from S, --seed S, --minutes M, --verbose, --mutants";
                return Err(Failure::Usage(format!("`{argument}`: simulate takes {known}")));
            }
        }
    }
    Ok(wish)
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// `cargo test` of the simulation, sound or broken.
fn test_command(mutant: Option<&str>) -> Command {
    let mut command = workspace::cargo();
    command.args(["test", "--release", "--quiet", "--package", "thermocline-volume"]);
    command.args(["--test", "simulation"]);
    if let Some(mutant) = mutant {
        command.env("RUSTFLAGS", format!("--cfg mutant=\"{mutant}\""));
        command.env("CARGO_TARGET_DIR", workspace::root().join("target").join("mutants"));
        // Three builds for a few seconds of running each: these need not be the fastest.
        command.env("CARGO_PROFILE_RELEASE_LTO", "off");
        command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        command.env("CARGO_PROFILE_RELEASE_DEBUG", "none");
    }
    command
}

fn build(command: &mut Command) -> Result<(), Failure> {
    match command.arg("--no-run").status().is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => Err(Failure::from("the simulation does not build; the compiler says why above")),
    }
}

fn seeds(from: u64, count: u64) -> Result<(), Failure> {
    let mut command = test_command(None);
    command.args(["--", "--exact", TEST, "--nocapture"]);
    command.env("THERMOCLINE_FROM", from.to_string()).env("THERMOCLINE_SEEDS", count.to_string());
    finish(command)
}

fn replay(seed: u64, verbose: bool) -> Result<(), Failure> {
    let mut command = test_command(None);
    command.args(["--", "--exact", TEST, "--nocapture"]);
    command.env("THERMOCLINE_SEED", seed.to_string());
    if verbose {
        command.env("THERMOCLINE_VERBOSE", "1");
    }
    finish(command)
}

fn finish(mut command: Command) -> Result<(), Failure> {
    match command.status().is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => Err(Failure::from("a seed fails; the line that replays it is above")),
    }
}

/// Every mutant must be noticed.
fn mutants(from: u64) -> Result<(), Failure> {
    let mut survivors = Vec::new();
    for (mutant, without) in MUTANTS {
        build(&mut test_command(Some(mutant)))?;
        let start = Instant::now();
        let noticed = noticed(mutant, from)?;
        let seconds = start.elapsed().as_secs_f64();
        match noticed {
            Some(line) => {
                println!("{mutant} (without {without}): caught in {seconds:.0} s: {line}")
            }
            None => {
                println!("{mutant} (without {without}): SURVIVED {MUTANT_SEEDS} seeds");
                survivors.push(mutant);
            }
        }
    }
    match survivors.is_empty() {
        true => Ok(()),
        false => Err(Failure::Failed(format!("not noticed: {}", survivors.join(", ")))),
    }
}

/// Runs seeds of a broken build; how the first failing one was reported.
fn noticed(mutant: &str, from: u64) -> Result<Option<String>, Failure> {
    let mut command = test_command(Some(mutant));
    command.args(["--", "--exact", TEST, "--nocapture"]);
    command.env("THERMOCLINE_FROM", from.to_string());
    command.env("THERMOCLINE_SEEDS", MUTANT_SEEDS.to_string());
    command.env("THERMOCLINE_SHRINK", "0");
    let output = command.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(None);
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    match failing_line(&text) {
        Some(line) => Ok(Some(line)),
        None => Err(Failure::Failed(format!("{mutant} ended without naming a seed:\n{text}"))),
    }
}

/// The line that names the failing seed.
fn failing_line(text: &str) -> Option<String> {
    text.lines().find(|line| line.starts_with("seed 0x")).map(str::to_string)
}

#[cfg(test)]
mod tests;
