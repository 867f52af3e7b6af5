//! `thermocline doctor`: does this machine have what the programs need, and how is the rest got?
//!
//! Every check looks and tries, and changes nothing but a file of its own in the folder that it is
//! given, which it removes. What nothing works without is *missing* and makes the exit status 1;
//! what only a part needs is a *note*.

mod look;
#[cfg(test)]
mod tests;

use crate::error::CliError;
use crate::output;
use serde::Serialize;
use std::path::PathBuf;
use thermocline_units::text::counted;

const EXAMPLES: &str = "\
Examples:
  thermocline doctor                       this machine, and the current folder as a place for pools
  thermocline doctor /srv/pools --json
  sudo -u thermocline thermocline doctor /srv/pools    as the user that will run the engine

Exit status 1: something is missing without which the engine does not run.";

/// Options of `doctor`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder in which pools will be.
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Verdict of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// A state as it should be.
    Ok,
    /// A part of the programs does not work, or works less well.
    Note,
    /// The engine does not run.
    Missing,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    /// State that was found.
    found: String,
    /// Purpose of the thing.
    needed_for: &'static str,
    /// Advice; empty when there is nothing to do.
    advice: String,
}

impl Check {
    fn ok(name: &'static str, needed_for: &'static str, found: impl Into<String>) -> Check {
        let (found, advice) = (found.into(), String::new());
        Check { name, verdict: Verdict::Ok, found, needed_for, advice }
    }

    /// The same, but a part does not work.
    fn noted(self, advice: impl Into<String>) -> Check {
        Check { verdict: Verdict::Note, advice: advice.into(), ..self }
    }

    /// The same, but nothing works.
    fn missing(self, advice: impl Into<String>) -> Check {
        Check { verdict: Verdict::Missing, advice: advice.into(), ..self }
    }
}

/// All checks with a summary.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    /// True if the engine can run.
    fit: bool,
    checks: Vec<Check>,
}

impl Report {
    fn text(&self) -> String {
        let width = self.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
        let mut text = String::new();
        for check in &self.checks {
            let word = match check.verdict {
                Verdict::Ok => "ok",
                Verdict::Note => "note",
                Verdict::Missing => "MISSING",
            };
            text.push_str(&format!("{word:<8} {:<width$}  {}\n", check.name, check.found));
            if check.verdict != Verdict::Ok {
                let indent = " ".repeat(width + 11);
                text.push_str(&format!("{indent}needed for {}\n", check.needed_for));
                text.push_str(&format!("{indent}{}\n", check.advice));
            }
        }
        let count = |verdict| self.checks.iter().filter(|check| check.verdict == verdict).count();
        let (notes, missing) = (count(Verdict::Note), count(Verdict::Missing));
        text.push_str(&match (missing, notes) {
            (0, 0) => "\nEverything is there.\n".to_string(),
            (0, n) => {
                let notes = counted(n as u64, "note");
                format!("\nThe engine can run; see the {notes} above for what will not work.\n")
            }
            (n, _) => {
                format!("\nThe engine cannot run: {} missing.\n", counted(n as u64, "thing"))
            }
        });
        text
    }
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    if !args.folder.is_dir() {
        let folder = args.folder.display();
        return Err(CliError::input(format!("{folder} is no folder; name one for pools")));
    }
    let checks = look::all(&args.folder);
    let fit = checks.iter().all(|check| check.verdict != Verdict::Missing);
    let report = Report { version: env!("CARGO_PKG_VERSION"), fit, checks };
    output::answer(args.json, &report, Report::text)?;
    match report.fit {
        true => Ok(()),
        false => Err(CliError::failed("something is missing; the lines above say how to get it")),
    }
}
