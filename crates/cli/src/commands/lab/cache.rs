//! `thermocline lab cache`: which cache or flash manager, at which size, serves a trace best, and
//! at what cost.

use super::table;
use crate::config::library;
use crate::error::CliError;
use crate::output::{self, OutputFile};
use crate::progress::{Progress, Unit as Counted};
use crate::source::SourceArgs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use thermocline_policy::registry::{self, PolicySpec};
use thermocline_sim::lab::{self, CacheSize, CurveMethod, LabOptions, Report, Row, Seen};
use thermocline_sim::replay::cost::Profile;
use thermocline_sim::replay::{ReplayOptions, Warmup, WriteMode};
use thermocline_sim::workload::{Cut, Stream, Unit, Workload};
use thermocline_trace::TraceReader;
use thermocline_units::{Bytes, Nanos};

const EXAMPLES: &str = "\
Examples:
  thermocline lab cache --synth mixed                    every policy on a made multi-VM workload
  thermocline lab cache web.csv.gz --policy lru,arc,g2-vfrm --size 1GiB,4GiB,10%
  thermocline lab cache a.csv b.csv --policy larc+arc --size 5% --write through --json

A size is bytes (4GiB), a share of the working set (10%) or a number of lines (1000lines). A policy is
a name with settings (lirs:hir=0.02), with an admission filter in front if wanted (larc+arc);
`thermocline policies` lists them all.";

/// What to replay, through what, and how to report it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Policies, separated by commas; `all` for every one.
    #[arg(long, short, value_name = "POLICIES", default_value = "all", value_delimiter = ',')]
    policy: Vec<String>,
    /// Cache sizes, separated by commas.
    #[arg(long, short, value_name = "SIZES", default_value = "1%,5%,20%", value_delimiter = ',')]
    size: Vec<CacheSize>,
    #[command(flatten)]
    model: Model,
    #[command(flatten)]
    output: Output,
}

/// How the replay works.
#[derive(clap::Args)]
#[command(next_help_heading = "Model")]
struct Model {
    /// Bytes of a cache line.
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    line: Bytes,
    /// Take each request as one object of unit size, named by its offset (as libCacheSim does with
    /// object sizes ignored), instead of splitting it into lines.
    #[arg(long, conflicts_with = "line")]
    objects: bool,
    /// Bytes of a chunk that flash managers move (the sources' bin).
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    chunk: Bytes,
    /// How often flash managers and partitions reconsider.
    #[arg(long, value_name = "TIME", default_value = "5m")]
    epoch: Nanos,
    /// What caches do with writes: back, through or around.
    #[arg(long, value_name = "MODE", default_value = "back")]
    write: WriteMode,
    /// Leave the beginning out of the counts: 10%, 1h, or a number of requests.
    #[arg(long, value_name = "PART", default_value = "0")]
    warmup: Warmup,
    /// Print miss-ratio curves instead: `exact` for LRU, or `shards:RATE` for every policy by
    /// miniature simulation of a share of the lines.
    #[arg(long, value_name = "METHOD")]
    mrc: Option<CurveMethod>,
    /// Device latencies, a TOML file; the sources' SSD and disk when not given.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads; all cores when not given.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// Where the results go.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
struct Output {
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Print CSV instead of tables.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Also write the rows as a Parquet file.
    #[arg(long, value_name = "OUT")]
    parquet: Option<PathBuf>,
    /// Also write the report as a self-contained HTML page with curves.
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Write over files that exist.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let specs = parse_policies(&args.policy)?;
    let options = lab_options(&args.model)?;
    if let Some(threads) = args.model.threads {
        lab::use_threads(threads).map_err(CliError::input)?;
    }
    let cut = cut(&args.model, &specs)?;
    let mut reader = args.source.open()?;
    if let Some(method) = args.model.mrc {
        let workload = read(&args, &mut *reader, cut)?;
        return curves(&args, &workload, &specs, method, &options);
    }
    let (rows, seen) = match lab::needs_whole(&specs, &args.size, &options.replay) {
        None => stream(&args, &mut *reader, cut, &specs, &options)?,
        Some(_) => {
            let workload = read(&args, &mut *reader, cut)?;
            drop(reader);
            (replay(&args, &workload, &specs, &options)?, Seen::of(&workload))
        }
    };
    let report = Report::new(cut, &seen, args.traces(), &options, rows);
    args.output.deliver(&report)
}

impl Args {
    fn traces(&self) -> Vec<String> {
        self.source.sources().iter().map(ToString::to_string).collect()
    }
}

/// Replays while reading, in memory that does not grow with the trace.
fn stream(
    args: &Args,
    reader: &mut dyn TraceReader,
    cut: Cut,
    specs: &[PolicySpec],
    options: &LabOptions,
) -> Result<(Vec<Row>, Seen), CliError> {
    let bar = Progress::bar(args.source.size_bytes(), Counted::Bytes, "replaying");
    let mut stream = Stream::new(reader, cut);
    lab::run_stream(&mut stream, cut, specs, &args.size, options, &|bytes| bar.at(bytes))
        .map_err(CliError::input)
}

/// Reads the whole trace, for runs that must know it beforehand.
fn read(args: &Args, reader: &mut dyn TraceReader, cut: Cut) -> Result<Workload, CliError> {
    let bar = Progress::bar(args.source.size_bytes(), Counted::Bytes, "reading");
    Workload::read(reader, cut, &|bytes| bar.at(bytes)).map_err(CliError::input)
}

fn replay(
    args: &Args,
    workload: &Workload,
    specs: &[PolicySpec],
    options: &LabOptions,
) -> Result<Vec<Row>, CliError> {
    let touches = workload.touches() * (specs.len() * args.size.len()) as u64;
    let bar = Progress::bar(Some(touches), Counted::Things, "replaying lines");
    let done = AtomicU64::new(0);
    let progress = |n: u64| bar.at(done.fetch_add(n, Ordering::Relaxed) + n);
    lab::run(workload, specs, &args.size, options, &progress).map_err(CliError::input)
}

fn curves(
    args: &Args,
    workload: &Workload,
    specs: &[PolicySpec],
    method: CurveMethod,
    options: &LabOptions,
) -> Result<(), CliError> {
    let curves = match method {
        CurveMethod::Exact => vec![lab::exact_curve(workload)],
        CurveMethod::Shards(rate) => {
            let caches: Vec<PolicySpec> =
                specs.iter().filter(|spec| !spec.is_placement()).cloned().collect();
            let bar = Progress::bar(None, Counted::Things, "replaying sampled lines");
            let done = AtomicU64::new(0);
            let progress = |n: u64| bar.at(done.fetch_add(n, Ordering::Relaxed) + n);
            lab::sampled_curves(workload, &caches, rate, options, &progress)
                .map_err(CliError::input)?
        }
    };
    let version = env!("CARGO_PKG_VERSION");
    args.output.write_html(|command| lab::curves_html(&curves, method, version, command))?;
    let printed = if args.output.json {
        table::curves_json(&curves, method)?
    } else {
        table::curves_text(&curves, method)
    };
    output::print(&printed)
}

impl Output {
    /// Writes the page, if one was asked for.
    fn write_html(&self, page: impl FnOnce(&str) -> String) -> Result<(), CliError> {
        let Some(path) = &self.html else { return Ok(()) };
        let command: Vec<String> = std::env::args().skip(1).collect();
        let page = page(&format!("thermocline {}", command.join(" ")));
        output::write_text(path, &page, self.force)
    }

    fn deliver(&self, report: &Report) -> Result<(), CliError> {
        self.write_html(|command| report.to_html(command))?;
        if let Some(path) = &self.parquet {
            let name = || path.display();
            let mut file = OutputFile::create(path, self.force)?;
            lab::write_parquet(&report.rows, &mut file)
                .map_err(|error| CliError::failed(format!("{}: {error}", name())))?;
            file.finish()?;
        }
        if self.json {
            output::print(&table::json(report)?)
        } else if self.csv {
            let mut csv = Vec::new();
            lab::write_csv(&report.rows, &mut csv).map_err(CliError::failed)?;
            output::print(&String::from_utf8_lossy(&csv))
        } else {
            output::print(&table::text(report))
        }
    }
}

fn parse_policies(words: &[String]) -> Result<Vec<PolicySpec>, CliError> {
    let mut specs = Vec::new();
    for word in words {
        if word == "all" {
            let every = registry::entries().map(|entry| PolicySpec::parse(entry.name));
            specs.extend(every.filter_map(Result::ok));
        } else {
            specs.push(library::policy(word).map_err(CliError::input)?);
        }
    }
    Ok(specs)
}

fn lab_options(model: &Model) -> Result<LabOptions, CliError> {
    if model.epoch.0 == 0 {
        return Err(CliError::input("--epoch 0s: an epoch lasts some time; the default is 5m"));
    }
    let profile = match &model.profile {
        None => Profile::source(),
        Some(path) => {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .map_err(|error| CliError::input(format!("{name}: {error}")))?;
            Profile::parse(&text, &name).map_err(CliError::input)?
        }
    };
    let replay =
        ReplayOptions { write_mode: model.write, warmup: model.warmup, epoch: model.epoch };
    Ok(LabOptions { replay, profile, seed: model.seed })
}

/// How the trace is cut: into chunks too when a flash manager runs.
fn cut(model: &Model, specs: &[PolicySpec]) -> Result<Cut, CliError> {
    for (flag, size) in [("--line", model.line), ("--chunk", model.chunk)] {
        if size.0 < 512 || !size.0.is_power_of_two() {
            return Err(CliError::input(format!("{flag} {size}: use a power of two from 512 up")));
        }
    }
    if model.chunk < model.line {
        let (line, chunk) = (model.line, model.chunk);
        return Err(CliError::input(format!("--chunk {chunk} is smaller than --line {line}")));
    }
    let unit = if model.objects { Unit::Objects } else { Unit::Lines(model.line) };
    let needs_chunks = !model.objects && specs.iter().any(PolicySpec::is_placement);
    Ok(Cut { unit, chunk: needs_chunks.then_some(model.chunk) })
}
