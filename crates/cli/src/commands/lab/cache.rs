//! `thermocline lab cache`: which cache or flash manager, at which size, serves a trace best, and
//! at what cost.

use super::{curves, policies, table};
use crate::error::CliError;
use crate::output::{self, OutputFile, Readers};
use crate::progress::{Progress, Unit as Counted};
use crate::source::SourceArgs;
use std::path::PathBuf;
use thermocline_policy::registry::PolicySpec;
use thermocline_sim::lab::{self, CacheSize, CurveMethod, LabOptions, Needs, Report, Row, Seen};
use thermocline_sim::replay::cost::Profile;
use thermocline_sim::replay::{ReplayOptions, Warmup, WriteMode};
use thermocline_sim::workload::{Cut, Stream, Unit, Workload};
use thermocline_trace::TraceReader;
use thermocline_units::{Bytes, Nanos};

const EXAMPLES: &str = "\
Examples:
  thermocline lab cache --synth mixed                    the usual policies on a made workload
  thermocline lab cache web.csv.gz --policy lru,arc,g2-vfrm --size 1GiB,4GiB,10%
  thermocline lab cache a.csv b.csv --policy larc+arc --size 5% --write through --json

A size is bytes (4GiB), a share of the working set (10%) or a number of lines (1000lines). A policy is
a name with settings (lirs:hir=0.02), with an admission filter in front if wanted (larc+arc);
`thermocline policies` lists them all.";

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
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    chunk: Bytes,
    /// Time between decisions of flash managers and partitions.
    #[arg(long, value_name = "TIME", default_value = "5m")]
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
    let chosen = policies::chosen(&args.policy, args.model.objects)?;
    let options = lab_options(&args.model)?;
    if let Some(threads) = args.model.threads {
        lab::use_threads(threads).map_err(CliError::input)?;
    }
    let cut = cut(&args.model, &chosen.specs)?;
    if let Some(method) = args.model.mrc {
        return curves::run(&args, chosen, cut, method, &options);
    }
    let sizes = args.size.clone().unwrap_or_else(usual_sizes);
    let mut reader = args.source.open()?;
    let (rows, seen) = match Needs::of(&chosen.specs, &sizes, &options.replay) {
        Needs::Nothing => {
            args.stream(&mut *reader, cut, (&chosen.specs, &sizes), &options, None)?
        }
        Needs::Totals if args.source.can_be_read_again() => {
            let seen = args.survey(&mut *reader, cut)?;
            let mut again = args.source.open()?;
            args.stream(&mut *again, cut, (&chosen.specs, &sizes), &options, Some(&seen))?
        }
        _ => {
            let workload = args.read(&mut *reader, cut)?;
            (args.replay(&workload, (&chosen.specs, &sizes), &options)?, Seen::of(&workload))
        }
    };
    let mut notes = notes(&*reader, cut, &chosen.specs, &seen, &options);
    notes.extend(chosen.note);
    let report = Report::new(cut, &seen, args.traces(), &options, rows).with_notes(notes);
    args.output.deliver(&report)
}

/// Sizes when none are asked for.
fn usual_sizes() -> Vec<CacheSize> {
    [0.01, 0.05, 0.2].map(CacheSize::Share).to_vec()
}

/// Epochs below which decisions once an epoch say little.
const EPOCHS_FEW: u64 = 24;

/// Notes to read before trusting the figures.
fn notes(
    reader: &dyn TraceReader,
    cut: Cut,
    specs: &[PolicySpec],
    seen: &Seen,
    options: &LabOptions,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Unit::Lines(line), true) = (cut.unit, reader.names_objects()) {
        let ids = line.0 / 512;
        notes.push(format!(
            "this trace names objects, not addresses: {ids} neighbouring ids share a line of \
             {line}; --objects caches each by itself"
        ));
    }
    let by_epoch = |spec: &&PolicySpec| spec.is_placement() || spec.needs_volumes();
    let slow: Vec<&str> = specs.iter().filter(by_epoch).map(|spec| spec.entry.name).collect();
    let epochs = seen.last.0 / options.replay.epoch.0;
    if !slow.is_empty() && epochs < EPOCHS_FEW {
        notes.push(format!(
            "the trace lasts {epochs} epochs of {}: too few to judge what decides once an epoch \
             ({}); --epoch makes them shorter",
            options.replay.epoch,
            slow.join(", ")
        ));
    }
    notes
}

/// Policies and sizes.
type Contest<'a> = (&'a [PolicySpec], &'a [CacheSize]);

impl Args {
    /// True if objects of unit size are cached.
    pub(super) fn objects(&self) -> bool {
        self.model.objects
    }

    fn traces(&self) -> Vec<String> {
        self.source.sources().iter().map(ToString::to_string).collect()
    }

    /// Replays while reading, in memory that does not grow with the requests.
    fn stream(
        &self,
        reader: &mut dyn TraceReader,
        cut: Cut,
        (specs, sizes): Contest<'_>,
        options: &LabOptions,
        known: Option<&Seen>,
    ) -> Result<(Vec<Row>, Seen), CliError> {
        let bar = self.reading("replaying");
        let mut stream = Stream::new(reader, cut);
        lab::run_stream(&mut stream, cut, specs, sizes, options, known, &|bytes| bar.at(bytes))
            .map_err(CliError::input)
    }

    /// Counts what must be known before a stream can be replayed.
    fn survey(&self, reader: &mut dyn TraceReader, cut: Cut) -> Result<Seen, CliError> {
        let bar = self.reading("counting");
        let mut stream = Stream::new(reader, cut);
        lab::survey(&mut stream, cut, &|bytes| bar.at(bytes)).map_err(CliError::input)
    }

    /// Reads the whole trace, for runs that must know it beforehand.
    fn read(&self, reader: &mut dyn TraceReader, cut: Cut) -> Result<Workload, CliError> {
        let bar = self.reading("reading");
        Workload::read(reader, cut, &|bytes| bar.at(bytes)).map_err(CliError::input)
    }

    fn replay(
        &self,
        workload: &Workload,
        (specs, sizes): Contest<'_>,
        options: &LabOptions,
    ) -> Result<Vec<Row>, CliError> {
        let touches = workload.touches() * (specs.len() * sizes.len()) as u64;
        let bar = Progress::bar(Some(touches), Counted::Things, "replaying lines");
        let progress = |n: u64| bar.more(n);
        lab::run(workload, specs, sizes, options, &progress).map_err(CliError::input)
    }

    /// Progress through the input's bytes.
    pub(super) fn reading(&self, what: &'static str) -> Progress {
        Progress::bar(self.source.size_bytes(), Counted::Bytes, what)
    }
}

impl Output {
    /// Writes the page, if one was asked for.
    pub(super) fn write_html(&self, page: impl FnOnce(&str) -> String) -> Result<(), CliError> {
        let Some(path) = &self.html else { return Ok(()) };
        let command: Vec<String> = std::env::args().skip(1).collect();
        let page = page(&format!("thermocline {}", command.join(" ")));
        output::write_text(path, &page, self.force)
    }

    fn deliver(&self, report: &Report) -> Result<(), CliError> {
        self.write_html(|command| report.to_html(command))?;
        if let Some(path) = &self.parquet {
            let name = || path.display();
            let mut file = OutputFile::create(path, self.force, Readers::Anyone)?;
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

/// Cutting of the trace: into chunks too when a flash manager runs.
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
