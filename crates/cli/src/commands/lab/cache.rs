//! `thermocline lab cache`: which cache or flash manager, at which size, serves a trace best, and
//! at what cost.

use super::{check_complete, curves, policies, table};
use crate::error::CliError;
use crate::output::{self, OutputFile, Readers};
use crate::progress::Bars;
use crate::source::SourceArgs;
use std::path::PathBuf;
use thermocline_policy::placement::{CHUNK_TEXT, EPOCH_TEXT};
use thermocline_sim::lab::{self, CacheSize, Contest, CurveMethod, LabOptions, Refusal, Report};
use thermocline_sim::replay::cost::Profile;
use thermocline_sim::replay::{ReplayOptions, Warmup, WriteMode};
use thermocline_sim::workload::Unit;
use thermocline_units::{Bytes, Nanos};

const EXAMPLES: &str = "\
Examples:
  thermocline lab cache --synth mixed                    the usual policies on a made workload
  thermocline lab cache web.csv.gz --policy lru,arc,g2-vfrm --size 1GiB,4GiB,10%
  thermocline lab cache a.csv b.csv --policy larc+arc --size 5% --write through --json

A size is bytes (4GiB), a share of the working set (10%) or a number of lines (1000lines). A
policy is a name with settings (lirs:hir=0.02), with an admission filter in front if wanted
(larc+arc); `thermocline policies` lists them all.";

/// Options of a run: traces, policies, and the report.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    /// Policies, separated by commas; `usual` for a selection (the default), `all` for every one.
    #[arg(long, short, value_name = "POLICIES", value_delimiter = ',')]
    pub(super) policy: Vec<String>,
    /// Cache sizes, separated by commas; 1%,5%,20% when not given.
    #[arg(long, short, value_name = "SIZES", value_delimiter = ',')]
    pub(super) size: Option<Vec<CacheSize>>,
    #[command(flatten)]
    pub(super) model: Model,
    #[command(flatten)]
    pub(super) output: Output,
}

/// Options of the replay.
#[derive(clap::Args)]
#[command(next_help_heading = "Model")]
pub(super) struct Model {
    /// Bytes of a cache line.
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    line: Bytes,
    /// Take each request as one object of unit size, named by its offset (as libCacheSim does with
    /// object sizes ignored), instead of splitting it into lines.
    #[arg(long, conflicts_with_all = ["line", "chunk"])]
    objects: bool,
    /// Bytes of a chunk that flash managers move (the sources' bin).
    #[arg(long, value_name = "SIZE", default_value = CHUNK_TEXT)]
    chunk: Bytes,
    /// Time between decisions of flash managers and partitions.
    #[arg(long, value_name = "TIME", default_value = EPOCH_TEXT)]
    epoch: Nanos,
    /// Mode of writes: back, through or around.
    #[arg(long, value_name = "MODE", default_value = "back")]
    write: WriteMode,
    /// Leave the beginning out of the counts: 10%, 1h, or a number of requests.
    #[arg(long, value_name = "PART", default_value = "0")]
    warmup: Warmup,
    /// Print miss-ratio curves instead: `exact` for LRU, or for every cache policy by miniature
    /// simulation of a sample, `shards:0.01` (a share of the lines) or `shards:20000lines`.
    #[arg(long, value_name = "METHOD")]
    #[arg(conflicts_with_all = ["parquet", "profile", "chunk", "write"])]
    mrc: Option<CurveMethod>,
    /// Device latencies, a TOML file; the sources' SSD and disk when not given.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads, at most one a core; all cores when not given.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// Destinations of the results.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct Output {
    /// Print JSON instead of tables.
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV instead of tables.
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
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
    let contest = args.contest()?;
    if let Some(threads) = args.model.threads {
        lab::use_threads(threads).map_err(CliError::input)?;
    }
    if let Some(method) = args.model.mrc {
        return curves::run(&args, &contest, method);
    }
    let chosen = policies::chosen(&args.policy, args.model.objects)?;
    let bars = Bars::default();
    let report = contest.run(chosen, args.size.as_deref(), &bars).map_err(CliError::input)?;
    drop(bars);
    if !report.rows.is_empty() {
        args.output.write_files(&report)?;
    }
    args.output.print(&report)?;
    let told: Vec<String> = report.failures.iter().map(table::failure).collect();
    check_complete(report.rows.len(), &told)
}

impl Args {
    /// True if objects of unit size are cached.
    pub(super) fn objects(&self) -> bool {
        self.model.objects
    }

    fn contest(&self) -> Result<Contest, CliError> {
        let Model { line, objects, chunk, .. } = self.model;
        let unit = if objects { Unit::Objects } else { Unit::Lines(line) };
        let options = lab_options(&self.model)?;
        let refusal = Refusal::EndsBeginning;
        Ok(Contest { traces: self.source.traces(), unit, chunk, options, refusal })
    }
}

impl Output {
    /// Writes the page, if one was asked for.
    pub(super) fn write_html(&self, page: impl FnOnce(&str) -> String) -> Result<(), CliError> {
        let Some(path) = &self.html else { return Ok(()) };
        let page = page(&output::command_line());
        output::write_text(path, &page, self.force)
    }

    fn write_files(&self, report: &Report) -> Result<(), CliError> {
        self.write_html(|command| report.to_html(command))?;
        if let Some(path) = &self.parquet {
            let name = || path.display();
            let mut file = OutputFile::create(path, self.force, Readers::Anyone)?;
            lab::write_parquet(&report.rows, &mut file)
                .map_err(|error| CliError::failed(format!("{}: {error}", name())))?;
            file.finish()?;
        }
        Ok(())
    }

    fn print(&self, report: &Report) -> Result<(), CliError> {
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

fn lab_options(model: &Model) -> Result<LabOptions, CliError> {
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
