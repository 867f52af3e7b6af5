//! `thermocline lab volume --replay`: a live volume's recording told again to its placement, or
//! to a rival.

use crate::commands::engine::shadow;
use crate::error::CliError;
use crate::output;
use crate::progress::{Progress, Unit};
use crate::table;
use serde_json::json;
use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use thermocline_charts::format::{count, seconds};
use thermocline_engine::api::Shadow;
use thermocline_policy::placement::Move;
use thermocline_policy::registry::PolicySpec;
use thermocline_recording::{Difference, EpochRow, Replay};
use thermocline_trace::recording::EventReader;
use thermocline_units::text::counted;

/// Moves of each proposal that are shown from where two part.
const SHOWN: usize = 8;

/// Outcome of a replay.
struct Outcome {
    placement: String,
    about: Vec<(String, String)>,
    rows: Vec<EpochRow>,
    /// First difference from the recorded placement, with the two proposals.
    difference: Option<(Difference, Vec<Move>, Vec<Move>)>,
    torn: Option<String>,
    /// Figures of rivals.
    shadows: Vec<Shadow>,
}

/// Form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Table,
    Json,
}

/// Replays `path` under the recorded placement up to the first difference, or under `rival` to the
/// end.
///
/// Every one of `rivals` also runs as a shadow; the first is the one whose moves are compared.
pub(super) fn run(path: &Path, rivals: &[PolicySpec], form: Form) -> Result<(), CliError> {
    let rival = rivals.first();
    let outcome = replay(path, rivals)?;
    note(outcome.torn.as_deref());
    match form {
        Form::Json => {
            let text = serde_json::to_string_pretty(&outcome.json()).map_err(CliError::failed)?;
            output::print(&(text + "\n"))?;
        }
        Form::Table => output::print(&outcome.text(rival.is_some()))?,
    }
    match (&outcome.difference, outcome.rows.last()) {
        (Some((difference, ..)), Some(row)) => Err(CliError::failed(format!(
            "the proposals part in epoch {} at move {}",
            row.epoch,
            difference.index + 1
        ))),
        (_, None) => Err(CliError::failed(format!(
            "{} ends before its first epoch does: there is nothing to compare",
            path.display()
        ))),
        _ => Ok(()),
    }
}

fn replay(path: &Path, rivals: &[PolicySpec]) -> Result<Outcome, CliError> {
    let rival = rivals.first();
    let (mut replay, size) = open(path, rival)?;
    rivals.iter().try_for_each(|rival| replay.shadow(rival)).map_err(CliError::input)?;
    let bar = Progress::bar(Some(size), Unit::Bytes, "replaying");
    let mut rows = Vec::new();
    let mut difference = None;
    while let Some(row) = replay.next_epoch().map_err(CliError::input)? {
        rows.push(row);
        bar.at(replay.bytes_read());
        if let Some(found) = replay.difference().filter(|_| rival.is_none()) {
            let (then, now) = replay.proposals();
            difference = Some((found, then.to_vec(), now.to_vec()));
            break;
        }
    }
    let placement = replay.placement().to_string();
    let pools: Vec<String> = (0..replay.pool_count()).map(|pool| format!("pool {pool}")).collect();
    let shadows = replay.shadows();
    let told = shadows.reports().map(|report| {
        let age = replay.now().saturating_sub(report.begun);
        Shadow::of(&report, shadows.one_in(), age, &pools)
    });
    let shadows = told.collect();
    let about = replay.about().to_vec();
    Ok(Outcome { placement, about, rows, difference, torn: replay.torn(), shadows })
}

/// A replay of a file, and the file's bytes.
pub(crate) fn open(path: &Path, rival: Option<&PolicySpec>) -> Result<(Replay, u64), CliError> {
    let name = path.display().to_string();
    let unreadable = |error: std::io::Error| CliError::input(format!("{name}: {error}"));
    let file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let events = EventReader::open(Box::new(file), &name).map_err(CliError::input)?;
    Ok((Replay::new(events, rival).map_err(CliError::input)?, size))
}

#[allow(clippy::print_stderr)]
pub(crate) fn note(text: Option<&str>) {
    if let Some(text) = text {
        eprintln!("note: {text}");
    }
}

impl Outcome {
    fn total(&self, of: fn(&EpochRow) -> u64) -> u64 {
        self.rows.iter().map(of).sum()
    }

    fn json(&self) -> serde_json::Value {
        let step = |step: &Move| json!({ "chunk": step.chunk.to_string(), "to": step.to.0 });
        let difference = self.difference.as_ref().map(|(difference, then, now)| {
            json!({
                "move": difference.index + 1,
                "recorded": then.iter().map(step).collect::<Vec<_>>(),
                "proposed": now.iter().map(step).collect::<Vec<_>>(),
            })
        });
        json!({
            "placement": self.placement,
            "about": self.about.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "epochs": self.rows,
            "equal": self.rows.iter().all(|row| row.equal),
            "difference": difference,
            "cut_off": self.torn,
            "shadows": self.shadows,
        })
    }

    fn text(&self, rival: bool) -> String {
        let mut out = String::new();
        self.write(rival, &mut out).expect("a String takes every text");
        out
    }

    fn write(&self, rival: bool, out: &mut String) -> std::fmt::Result {
        for (key, value) in &self.about {
            writeln!(out, "{}: {value}", key.rsplit('.').next().unwrap_or(key))?;
        }
        let heading = match rival {
            true => {
                ["epoch", "ended at", "requests", "accesses", "moves then", "moves now", "same"]
            }
            false => {
                ["epoch", "ended at", "requests", "accesses", "moves then", "moves now", "equal"]
            }
        };
        let mut table = table::plain(heading);
        table::align_numbers(&mut table);
        for row in &self.rows {
            let verdict = match (rival, row.equal) {
                (true, _) => count(row.common),
                (false, true) => "yes".to_string(),
                (false, false) => "NO".to_string(),
            };
            table.add_row([
                row.epoch.to_string(),
                seconds(row.at_s),
                count(row.requests),
                count(row.accesses),
                count(row.recorded),
                count(row.proposed),
                verdict,
            ]);
        }
        writeln!(out, "\n{table}")?;
        self.write_verdict(rival, out)?;
        if self.shadows.is_empty() {
            return Ok(());
        }
        write!(out, "\nas shadows of what was done, from the first epoch's end on:\n\n")?;
        out.write_str(&shadow::text(&self.shadows))
    }

    fn write_verdict(&self, rival: bool, out: &mut String) -> std::fmt::Result {
        let (then, now) = (self.total(|row| row.recorded), self.total(|row| row.proposed));
        let epochs = counted(self.rows.len() as u64, "epoch");
        let accesses = count(self.total(|row| row.accesses));
        if let Some((difference, recorded, proposed)) = &self.difference {
            let epoch = self.rows.last().map_or(0, |row| row.epoch);
            let at = difference.index;
            writeln!(out, "epoch {epoch} parts at move {}: {}", at + 1, shown(&self.placement))?;
            write_moves(out, "then", recorded, at)?;
            return write_moves(out, "now", proposed, at);
        }
        if !rival {
            return writeln!(
                out,
                "equal: {epochs}, {accesses} accesses, {} proposed: {}",
                counted(then, "move"),
                shown(&self.placement)
            );
        }
        let common = self.total(|row| row.common);
        writeln!(
            out,
            "{} would have proposed {} moves, of which {} were among the {} that were",
            shown(&self.placement),
            count(now),
            count(common),
            count(then)
        )
    }
}

/// A placement as a recording names it, without the libraries that its settings spell out.
pub(crate) fn shown(name: &str) -> String {
    PolicySpec::parse(name).map_or_else(|_| name.to_string(), |spec| spec.label)
}

/// The moves of one proposal around the place where it parts from the other.
fn write_moves(out: &mut String, when: &str, moves: &[Move], at: usize) -> std::fmt::Result {
    writeln!(out, "  {when}, {} moves:", count(moves.len() as u64))?;
    for (index, step) in moves.iter().enumerate().skip(at.saturating_sub(2)).take(SHOWN) {
        let mark = if index == at { ">" } else { " " };
        writeln!(out, "  {mark} {:>6}. {} to pool {}", index + 1, step.chunk, step.to.0)?;
    }
    if moves.len() == at {
        writeln!(out, "  > no more")?;
    }
    Ok(())
}
