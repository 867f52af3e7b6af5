//! `thermocline dedup estimate`: what a tunnel would save of some files.
//!
//! Each file is a flow, one after the other in the order of their names, through the tunnel's own
//! sending half. Every chunking starts with an empty cache.

use crate::error::CliError;
use crate::output;
use crate::progress::Bars;
use crate::table;
use std::fmt::Write as _;
use std::path::PathBuf;
use thermocline_charts::format::{Quantity, count, share};
use thermocline_charts::{Axis, LineChart, Page, Series};
use thermocline_chunking::Chunking;
use thermocline_sim::dedup::{CHUNKINGS, Estimate, Row};
use thermocline_tunnel::Encoded;
use thermocline_units::Bytes;
use thermocline_units::text::counted;

const EXAMPLES: &str = "\
Examples:
  thermocline dedup estimate images/                      every chunking, four sizes
  thermocline dedup estimate a.tar b.tar --chunking gear:2KiB,rabin16:2KiB,none
  thermocline dedup estimate backups/ --cache 64GiB --plot saved.html

saved: bytes of chunks that the other end would hold already. sent: what goes over the link, with
references, headers, and literals compressed by zstd where that pays. A chunking is METHOD:SIZE;
methods: none, fixed, gear, rabin16, rabin-source, modp, maxp.";

/// Options of the estimate.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Files, and folders whose files are taken with those below.
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Chunkings, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = CHUNKINGS)]
    chunking: Vec<Chunking>,
    /// Bytes of chunks that each end keeps; as much memory is used.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    cache: Bytes,
    /// Also draw what is sent by chunk size: NAME.html.
    #[arg(long, value_name = "OUT")]
    plot: Option<PathBuf>,
    /// Write over a file that exists.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    form: Form,
}

/// The form of the result.
#[derive(clap::Args)]
#[group(multiple = false)]
struct Form {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Print CSV instead of a table.
    #[arg(long)]
    csv: bool,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let bars = Bars::default();
    let made = Estimate::of(&args.paths, &args.chunking, args.cache, &bars);
    drop(bars);
    let estimate = made.map_err(CliError::input)?;
    let Estimate { files, rows } = &estimate;
    if let Some(path) = &args.plot {
        output::write_text(path, &page(&args, files, rows), args.force)?;
    }
    let text = match &args.form {
        Form { json: true, .. } => {
            serde_json::to_string_pretty(&estimate.to_json()).map_err(CliError::failed)? + "\n"
        }
        Form { csv: true, .. } => as_csv(rows),
        Form { .. } => as_table(files, rows),
    };
    output::print(&text)
}

fn as_table(files: &[(PathBuf, u64)], rows: &[Row]) -> String {
    let heading = ["chunking", "mean chunk", "chunks", "found again", "saved", "sent", "rate"];
    let mut out = table::plain(heading);
    for row in rows {
        let totals = &row.totals;
        out.add_row([
            row.chunking.to_string(),
            row.mean().map_or_else(|| "–".to_string(), |mean| mean.to_string()),
            count(totals.chunks),
            count(totals.references),
            share(row.part(totals.saved)),
            share(row.part(totals.sent)),
            format!("{}/s", Quantity::Bytes.show(row.bytes_per_s())),
        ]);
    }
    table::align_numbers(&mut out);
    let bytes: u64 = files.iter().map(|(_, length)| length).sum();
    let files = counted(files.len() as u64, "file");
    format!("{files}, {}; saved and sent in parts of that\n{out}\n", Bytes(bytes))
}

fn as_csv(rows: &[Row]) -> String {
    let mut text =
        "chunking,expected_bytes,bytes,chunks,references,saved_bytes,sent_bytes,bytes_per_s\n"
            .to_string();
    for row in rows {
        let Encoded { bytes, sent, chunks, references, saved, .. } = row.totals;
        let expected = row.chunking.expected().map_or(String::new(), |size| size.0.to_string());
        let rate = row.bytes_per_s();
        let _ = writeln!(
            text,
            "{},{expected},{bytes},{chunks},{references},{saved},{sent},{rate:.0}",
            row.chunking
        );
    }
    text
}

fn page(args: &Args, files: &[(PathBuf, u64)], rows: &[Row]) -> String {
    let mut series: Vec<Series> = Vec::new();
    let mut methods: Vec<&str> = rows.iter().map(|row| row.chunking.method().name()).collect();
    methods.dedup();
    for method in methods {
        let of = rows.iter().filter(|row| row.chunking.method().name() == method);
        let points = of.filter_map(|row| Some((row.mean()?.0 as f64, row.part(row.totals.sent))));
        let points: Vec<_> = points.collect();
        if !points.is_empty() {
            series.push(Series::new(method, points));
        }
    }
    let bytes: u64 = files.iter().map(|(_, length)| length).sum();
    let chart = LineChart {
        title: "What is sent, by mean chunk size".to_string(),
        note: format!(
            "{}, {}, cache {}",
            counted(files.len() as u64, "file"),
            Bytes(bytes),
            args.cache
        ),
        x: Axis::log("mean chunk", Quantity::Bytes),
        y: Axis::linear("sent", Quantity::Share),
        series,
    };
    let command = output::command_line();
    Page::new("Redundancy by chunking")
        .lede("The share of the bytes that a tunnel would send, with references and compression.")
        .chart(&chart)
        .made_by(env!("CARGO_PKG_VERSION"), &command)
        .to_html()
}
