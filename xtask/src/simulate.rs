//! `cargo xtask simulate`: the deterministic simulation of the volume machine, by hand.
//!
//! Builds `crates/volume/tests/simulation` optimised, with assertions, and runs seeds: so many, or
//! one again, or batch after batch until the time is up. `--mutants` plants every mutant of the
//! machine instead, and expects a seed to notice each: one that survives is a hole in the tests.
//! What it covers and how to read a failure: docs/testing/simulation.md.

use crate::{Failure, workspace};
use std::process::Command;
use std::time::{Duration, Instant};

const TEST: &str = "no_seed_loses_data_leaks_a_slot_or_hangs";

/// The test that plants mutants.
const MUTANTS: &str = "mutants::quick_mutants_are_caught";

/// Seeds of a run that is not told how many, and of a batch.
const SEEDS: u64 = 1000;

/// Options of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wish {
    from: u64,
    seeds: Option<u64>,
    one: Option<u64>,
    minutes: Option<u64>,
    verbose: bool,
    mutants: bool,
}

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let wish = parse(arguments)?;
    if wish.mutants {
        return mutants(&wish);
    }
    build(&mut test_command())?;
    if let Some(seed) = wish.one {
        return replay(seed, wish.verbose);
    }
    let start = Instant::now();
    let until = wish.minutes.map(|minutes| Duration::from_secs(60 * minutes));
    let mut done = 0;
    loop {
        let batch = if until.is_some() { SEEDS } else { wish.seeds.unwrap_or(SEEDS) };
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
        Wish { from: 0, seeds: None, one: None, minutes: None, verbose: false, mutants: false };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let mut value = || {
            let text = rest.next().map(String::as_str).unwrap_or_default();
            number(text).ok_or_else(|| {
                Failure::Usage(format!("`{argument}` takes a whole number, decimal or 0x…"))
            })
        };
        match argument.as_str() {
            "--seeds" => wish.seeds = Some(value()?),
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

/// `cargo test` of the simulation.
fn test_command() -> Command {
    let mut command = workspace::cargo();
    command.args(["test", "--profile", "simulation", "--quiet", "--package", "thermocline-volume"]);
    command.args(["--test", "simulation"]);
    command
}

fn build(command: &mut Command) -> Result<(), Failure> {
    match command.arg("--no-run").status().is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => Err(Failure::from("the simulation does not build; the compiler says why above")),
    }
}

fn seeds(from: u64, count: u64) -> Result<(), Failure> {
    let mut command = test_command();
    command.args(["--", "--exact", TEST, "--nocapture"]);
    command.env("THERMOCLINE_FROM", from.to_string()).env("THERMOCLINE_SEEDS", count.to_string());
    finish(command)
}

fn replay(seed: u64, verbose: bool) -> Result<(), Failure> {
    let mut command = test_command();
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
fn mutants(wish: &Wish) -> Result<(), Failure> {
    let mut command = test_command();
    command.args(["--", "--exact", MUTANTS, "--nocapture"]);
    command.env("THERMOCLINE_MUTANTS", "all").env("THERMOCLINE_FROM", wish.from.to_string());
    if let Some(seeds) = wish.seeds {
        command.env("THERMOCLINE_SEEDS", seeds.to_string());
    }
    match command.status().is_ok_and(|status| status.success()) {
        true => Ok(()),
        false => Err(Failure::from("a mutant survives; its name is above")),
    }
}

#[cfg(test)]
mod tests;
