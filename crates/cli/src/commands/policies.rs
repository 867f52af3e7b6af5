//! `thermocline policies`: every policy, balancer, controller of a tunnel and admission filter with
//! its source and settings.
//!
//! Prints what the registry says and knows no policy itself. A word narrows the list; one that
//! leaves a single policy, or is the name of one, shows that policy with its settings. Beside that,
//! what placements reason with: ChewAnalyzer's library; and why a chunk is where it is
//! ([`explain`]).

mod explain;

use crate::config::library;
use crate::error::CliError;
use crate::output;
use crate::table::terminal_columns;
use comfy_table::{ColumnConstraint, ContentArrangement, LineStyle, Table, presets};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::PathBuf;
use thermocline_policy::placement::chew::library::{Library, Thresholds};
use thermocline_policy::registry::{Build, Entry, all, find, nearest};

const EXAMPLES: &str = "\
Examples:
  thermocline policies                  all of them
  thermocline policies lirs             one, with its settings
  thermocline policies filter           the admission filters
  thermocline policies --json           for programs
  thermocline policies library >mine.toml             ChewAnalyzer's rules, to be edited
  thermocline policies explain chew web.csv.gz --chunk 17     why is that chunk where it is?
  thermocline policies library mine.toml              checked, and as the API takes it

Settings follow the name after colons, a filter stands in front: lirs:hir=0.02, larc+arc.";

/// At most as wide as the help texts, and as the terminal; long cells wrap. What goes into a pipe
/// is one line a policy.
const TERMINAL_COLUMNS: usize = 100;

/// Options of the list.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Only policies whose name, kind or summary contains this word.
    word: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::Subcommand)]
#[allow(clippy::large_enum_variant)] // One value in a run.
enum Command {
    /// ChewAnalyzer's taxonomy, thresholds and pattern-to-pool library, as a TOML file.
    Library {
        /// Check this file instead, and print it as one line: what `library=` is in the API, in
        /// recordings, and where no file can be named.
        file: Option<PathBuf>,
    },
    /// Explain why a chunk is where it is, level by level: runs a placement over a trace, or over
    /// what a recording told one, and asks it about the chunk at the end.
    Explain(explain::Args),
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    match args.command {
        Some(Command::Library { file: None }) => {
            let built_in = Library::three_pools(Thresholds::default());
            return output::print(&library::text(&built_in));
        }
        Some(Command::Library { file: Some(path) }) => {
            let library = library::load(&path).map_err(CliError::input)?;
            return output::print(&(library.spelled_out() + "\n"));
        }
        Some(Command::Explain(args)) => return explain::run(args),
        None => {}
    }
    let found = select(args.word.as_deref()).map_err(CliError::input)?;
    if args.json {
        let list: Vec<Value> = found.iter().map(|entry| as_json(entry)).collect();
        let text = serde_json::to_string_pretty(&list).map_err(CliError::failed)?;
        return output::print(&(text + "\n"));
    }
    match found[..] {
        [entry] => output::print(&detail(entry)),
        _ => output::print(&list(&found)),
    }
}

/// Everything, or what `word` names or describes; never empty.
fn select(word: Option<&str>) -> Result<Vec<&'static Entry>, String> {
    let Some(word) = word else { return Ok(all().collect()) };
    let word = word.trim().to_lowercase();
    if let Some(entry) = find(&word) {
        return Ok(vec![entry]);
    }
    let speaks_of = |entry: &&Entry| {
        let texts = [entry.name, entry.build.kind(), entry.summary, entry.source];
        texts.iter().any(|text| text.to_lowercase().contains(&word))
    };
    let found: Vec<_> = all().filter(speaks_of).collect();
    if found.is_empty() {
        let names = all().map(|entry| entry.name);
        let hint = nearest(&word, names)
            .map(|name| format!("did you mean `{name}`?"))
            .unwrap_or("`thermocline policies` lists all".to_string());
        return Err(format!("no policy's name or description contains `{word}`; {hint}"));
    }
    Ok(found)
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    table.load_style(presets::NOTHING.header_separator(rule));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(columns) = terminal_columns() {
        table.set_width(columns.min(TERMINAL_COLUMNS) as u16);
    }
    table.set_header(header.to_vec());
    table
}

fn list(found: &[&Entry]) -> String {
    let mut table = table(&["name", "kind", "what it does", "source"]);
    for entry in found {
        table.add_row([entry.name, entry.build.kind(), entry.summary, entry.source]);
    }
    // A terminal has no room for it; with a name it is shown.
    if terminal_columns().is_some() {
        let source = table.column_mut(3).expect("it is the last");
        source.set_constraint(ColumnConstraint::Hidden);
    }
    let filtered = if found.iter().any(|entry| matches!(entry.build, Build::Admission(_))) {
        "\nA filter stands in front of a cache: larc+arc."
    } else {
        ""
    };
    format!(
        "{}\n\n`thermocline policies NAME` shows source and settings of one.{filtered}\n",
        trimmed(&table)
    )
}

fn detail(entry: &Entry) -> String {
    let mut out = format!(
        "{} ({}): {}\nsource: {}\n\n",
        entry.name,
        entry.build.kind(),
        entry.summary,
        entry.source
    );
    let Some(first) = entry.settings.first() else {
        out.push_str("It has no settings.\n");
        return out;
    };
    let mut table = table(&["setting", "default", "unit", "what it does"]);
    for setting in entry.settings {
        table.add_row([setting.name, setting.default, setting.unit, setting.help]);
    }
    let behind = if matches!(entry.build, Build::Admission(_)) { "+lru" } else { "" };
    let example = format!("{}:{}={}{behind}", entry.name, first.name, first.default);
    writeln!(out, "{}\n\nWritten as: {example}", trimmed(&table))
        .expect("a String takes every text");
    out
}

/// The table without the blanks that fill its last column.
fn trimmed(table: &Table) -> String {
    let text = table.to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn as_json(entry: &Entry) -> Value {
    let settings: Vec<Value> = entry
        .settings
        .iter()
        .map(|setting| {
            json!({
                "name": setting.name,
                "default": setting.default,
                "unit": setting.unit,
                "help": setting.help,
            })
        })
        .collect();
    json!({
        "name": entry.name,
        "kind": entry.build.kind(),
        "summary": entry.summary,
        "source": entry.source,
        "settings": settings,
    })
}

#[cfg(test)]
mod tests;
