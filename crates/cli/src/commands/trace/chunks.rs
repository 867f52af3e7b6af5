//! `thermocline trace chunks`: what the chunks of a trace are like, window by window.

use crate::config::library;
use crate::error::CliError;
use crate::output;
use crate::progress::{Progress, Unit};
use crate::source::SourceArgs;
use crate::table;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use thermocline_charts::format::{count, seconds, share};
use thermocline_policy::placement::chew::library::{Library, Thresholds};
use thermocline_sim::chunks::{ChunkOptions, ChunkReport, Seen, WindowRow};
use thermocline_units::text::counted;
use thermocline_units::{Bytes, Nanos};

const EXAMPLES: &str = "\
Examples:
  thermocline trace chunks prxy_0.csv.gz --window 45m
  thermocline trace chunks web.csv.gz --chunk 64MiB --window 20m --csv
  thermocline trace chunks web.csv.gz --each >each.csv        every chunk in every window
  thermocline trace chunks web.csv.gz --plot patterns.html

docs/guides/traces.md defines every column.";

/// Windows that a table shows; --csv and --json have all.
const WINDOWS_SHOWN: usize = 48;

/// Options of the look.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Bytes of a chunk: a power of two from 4KiB to 64GiB.
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    chunk: Bytes,
    /// Length of a window.
    #[arg(long, value_name = "TIME", default_value = "20m")]
    window: Nanos,
    /// Count the patterns of this library (`thermocline policies library` prints the built-in one).
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Also draw the shares of classes and patterns over time: NAME.html.
    #[arg(long, value_name = "OUT")]
    plot: Option<PathBuf>,
    /// Write over a file that exists.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    form: Form,
}

/// Form of the report.
#[derive(clap::Args)]
#[group(multiple = false)]
struct Form {
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Print CSV instead of tables: a line a window.
    #[arg(long)]
    csv: bool,
    /// Print CSV: a line a chunk in each window in which it was accessed.
    #[arg(long)]
    each: bool,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let library = match &args.library {
        Some(path) => library::load(path).map_err(CliError::input)?,
        None => Library::three_pools(Thresholds::default()),
    };
    let options = ChunkOptions { chunk: args.chunk, window: args.window, library };
    let mut rows = Each::new(&options.library, args.form.each);
    let report = {
        let mut reader = args.source.open()?;
        let bar = Progress::bar(args.source.size_bytes(), Unit::Bytes, "reading");
        let each = &mut |seen: Seen<'_>| rows.take(&seen);
        ChunkReport::read(&mut *reader, &options, each, &|bytes| bar.at(bytes))
            .map_err(CliError::input)?
    };
    rows.finish()?;
    if let Some(path) = &args.plot {
        args.draw(&report, path)?;
    }
    match &args.form {
        Form { each: true, .. } => Ok(()),
        Form { csv: true, .. } => output::print(&csv(&report)),
        Form { json: true, .. } => {
            let text = serde_json::to_string_pretty(&report).map_err(CliError::failed)?;
            output::print(&(text + "\n"))
        }
        _ => output::print(&text(&report)),
    }
}

impl Args {
    fn draw(&self, report: &ChunkReport, path: &Path) -> Result<(), CliError> {
        let sources = self.source.sources();
        let traces: Vec<String> = sources.iter().map(ToString::to_string).collect();
        let command = output::command_line();
        let page = report.to_html(&traces.join(", "), env!("CARGO_PKG_VERSION"), &command);
        output::write_text(path, &page, self.force)
    }
}

/// Lines of chunks in windows, printed as they come.
struct Each<'a> {
    library: &'a Library,
    wanted: bool,
    lines: String,
    /// The first line that could not be printed.
    failed: Option<CliError>,
}

/// Bytes of lines that are printed at once.
const LINES_BYTES: usize = 64 << 10;

impl<'a> Each<'a> {
    fn new(library: &'a Library, wanted: bool) -> Each<'a> {
        let mut lines = String::new();
        if wanted {
            lines.push_str(
                "window,volume,chunk,reads,writes,read_bytes,written_bytes,random,overwritten,\
                 intensity",
            );
            for level in &library.levels {
                let _ = write!(lines, ",{}", quoted(&format!("{} pattern", level.name)));
            }
            lines.push('\n');
        }
        Each { library, wanted, lines, failed: None }
    }

    fn take(&mut self, seen: &Seen<'_>) {
        if !self.wanted || self.failed.is_some() {
            return;
        }
        let chunk = seen.chunk;
        let _ = write!(
            self.lines,
            "{},{},{},{},{},{},{},{:.4},{:.4},{:.3}",
            seen.window,
            chunk.chunk.volume.0,
            chunk.chunk.index,
            chunk.reads,
            chunk.writes,
            chunk.read_bytes.0,
            chunk.written_bytes.0,
            chunk.random,
            chunk.overwritten,
            chunk.intensity
        );
        for (number, level) in self.library.levels.iter().enumerate() {
            let _ = write!(self.lines, ",{}", quoted(&level.rules[chunk.rule(number)].pattern));
        }
        self.lines.push('\n');
        if self.lines.len() >= LINES_BYTES {
            self.failed = self.print().err();
        }
    }

    fn print(&mut self) -> Result<(), CliError> {
        let lines = std::mem::take(&mut self.lines);
        output::print(&lines)
    }

    fn finish(mut self) -> Result<(), CliError> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.print(),
        }
    }
}

/// A name as a field of CSV.
fn quoted(name: &str) -> String {
    match name.contains(['"', ',']) {
        true => format!("\"{}\"", name.replace('"', "\"\"")),
        false => name.to_string(),
    }
}

/// Classes of Table 3.2 that are told, with their counts.
type Class = (&'static str, fn(&WindowRow) -> u64);
const CLASSES: [Class; 8] = [
    ("active", |row| row.active),
    ("sequential", |row| row.sequential),
    ("random read", |row| row.random_read),
    ("random write", |row| row.random_write),
    ("sequential write", |row| row.sequential_write),
    ("fully random write", |row| row.fully_random_write),
    ("overwritten", |row| row.overwritten),
    ("accessed", |row| row.accessed),
];

fn csv(report: &ChunkReport) -> String {
    let mut out = String::from("window,at_s,reads,writes,accessed");
    for (name, _) in &CLASSES[..7] {
        let _ = write!(out, ",{}", name.replace(' ', "_"));
    }
    for (level, patterns) in &report.levels {
        for pattern in patterns {
            let _ = write!(out, ",{}", quoted(&format!("{level}: {pattern}")));
        }
    }
    out.push('\n');
    for row in &report.windows {
        let WindowRow { window, at_s, reads, writes, accessed, .. } = row;
        let _ = write!(out, "{window},{at_s},{reads},{writes},{accessed}");
        let classes = CLASSES[..7].iter().map(|(_, count)| count(row));
        for count in classes.chain(row.patterns.iter().flatten().copied()) {
            let _ = write!(out, ",{count}");
        }
        out.push('\n');
    }
    out
}

fn text(report: &ChunkReport) -> String {
    let windows = report.windows.len();
    let mut out = format!(
        "{} of {}, {} of {}\n\n{}\n",
        counted(report.chunks, "chunk"),
        Bytes(report.chunk_bytes),
        counted(windows as u64, "window"),
        seconds(report.window_s),
        classes(report)
    );
    if windows > WINDOWS_SHOWN {
        let _ = writeln!(out, "the first {WINDOWS_SHOWN} windows; --csv and --json have all");
    }
    let _ =
        writeln!(out, "\nPatterns of `{}` over all windows:\n{}", report.library, patterns(report));
    let _ = writeln!(out, "\nAccesses to a chunk in a window:\n{}", frequencies(report));
    out
}

fn classes(report: &ChunkReport) -> comfy_table::Table {
    let heading = ["window", "at", "accessed"];
    let names = CLASSES[..7].iter().map(|(name, _)| *name);
    let mut table = table::plain(heading.into_iter().chain(names));
    let mut add = |name: String, at: String, row: &WindowRow| {
        let classes = CLASSES[..7].iter().map(|(_, count)| share(row.share(count(row))));
        table.add_row([name, at, count(row.accessed)].into_iter().chain(classes));
    };
    for row in report.windows.iter().take(WINDOWS_SHOWN) {
        add(row.window.to_string(), seconds(row.at_s), row);
    }
    add("all".to_string(), String::new(), &report.total);
    table::align_numbers(&mut table);
    table
}

fn patterns(report: &ChunkReport) -> comfy_table::Table {
    let mut table = table::plain(["level", "pattern", "share of chunks"]);
    for ((level, patterns), counts) in report.levels.iter().zip(&report.total.patterns) {
        for (pattern, count) in patterns.iter().zip(counts) {
            table.add_row([level.clone(), pattern.clone(), share(report.total.share(*count))]);
        }
    }
    table
}

fn frequencies(report: &ChunkReport) -> comfy_table::Table {
    let mut table = table::plain(["accesses", "chunks", "at most", "accesses", "at most"]);
    let all = |of: fn(&thermocline_sim::chunks::Frequency) -> u64| -> u64 {
        report.frequencies.iter().map(of).sum()
    };
    let totals = (all(|f| f.chunks).max(1), all(|f| f.accesses).max(1));
    let mut sums = (0, 0);
    for row in &report.frequencies {
        sums = (sums.0 + row.chunks, sums.1 + row.accesses);
        let name = match row.from == row.to {
            true => row.from.to_string(),
            false => format!("{} to {}", count(row.from), count(row.to)),
        };
        table.add_row([
            name,
            count(row.chunks),
            share(sums.0 as f64 / totals.0 as f64),
            count(row.accesses),
            share(sums.1 as f64 / totals.1 as f64),
        ]);
    }
    table::align_numbers(&mut table);
    table
}
