//! `thermocline lab volume`: a tiered volume under a load, with one placement or several, in
//! virtual time; or a live volume's recording told again.

use super::{check_complete, volume_replay, volume_table};
use crate::config::library;
use crate::error::CliError;
use crate::output;
use crate::progress::{Progress, Unit as Counted};
use crate::source::SourceArgs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thermocline_policy::migration::RATE_TEXT;
use thermocline_policy::placement::{AUTO_EPOCH_TEXT, CHUNK_TEXT, EPOCH_TEXT};
use thermocline_policy::registry::PolicySpec;
use thermocline_policy::tactics::VolumeTactics;
use thermocline_sim::lab;
use thermocline_sim::machine::{
    self, Arrivals, Load, MachineError, MachineOptions, PoolPlan, Run, VolumeReport, parse_pools,
};
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::Copying;

const EXAMPLES: &str = "\
Examples:
  thermocline lab volume --synth fileserver,requests=200k
  thermocline lab volume web.csv.gz --pools pools.toml --policy static,baseline,vfrm --epoch 1m
  thermocline lab volume web.csv.gz --policy baseline:k=200 --speed 2 --html report.html
  thermocline lab volume web.csv.gz --closed 32 --json
  thermocline lab volume web.csv.gz --tactic slowest-first,most-free --tactic-shadow fastest-copy
  thermocline lab volume --replay today.tcr     does the live placement propose the same again?

pools.toml lists pools, fastest first:
  [[pool]]
  profile = \"nvme\"       scm, nvme, nvme-pcie3, ssd-sata, hdd-15k, hdd-7200, smr-7200, s3,
                           s3-1gbps, s3-200mbps, or a file
  size = \"10%\"           of the chunks that the trace touches, or bytes: 4GiB
  [[pool]]
  profile = \"hdd-7200\"
  size = \"100%\"
docs/guides/lab-volume.md explains every figure.";

/// Options of a run: load, pools, placements, and the report.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Placements, separated by commas; static,auto when not given. `./mine.so:name` is one of a
    /// shared library (thermocline_placement.h).
    #[arg(long, short, value_name = "POLICIES", value_delimiter = ',')]
    policy: Vec<String>,
    /// Instead of running a trace: tell the placement of this recording (`thermocline up --record`)
    /// again what it was told, and compare what it proposes; with --policy, tell that one.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "traces", "more", "synth", "format", "columns", "blkparse_event", "pools", "chunk",
            "epoch", "rate", "locking", "tactic", "tactic_shadow", "thin", "seed", "threads", "closed", "speed",
            "csv", "html", "force",
        ]
    )]
    replay: Option<PathBuf>,
    #[command(flatten)]
    machine: Machine,
    #[command(flatten)]
    load: Loading,
    #[command(flatten)]
    output: Output,
}

/// The machine.
#[derive(clap::Args)]
#[command(next_help_heading = "Machine")]
struct Machine {
    /// Pools, a TOML file; an NVMe SSD of a tenth of the chunks touched over a 7,200 rpm disk of
    /// all of them when not given.
    #[arg(long, value_name = "FILE")]
    pools: Option<PathBuf>,
    /// Bytes of a chunk, the unit of placement: a power of two from 64KiB to 1GiB.
    #[arg(long, value_name = "SIZE", default_value = CHUNK_TEXT)]
    chunk: Bytes,
    #[arg(long, value_name = "TIME", help = epoch_help())]
    epoch: Option<Nanos>,
    /// Bytes a second that migrations may read from, and write to, each pool; `none`: no limit.
    #[arg(long, value_name = "SIZE", default_value = RATE_TEXT)]
    rate: Rate,
    /// Bytes that a migration copies at a time: a multiple of 4KiB up to 16MiB; when not given,
    /// 1MiB from or to a disk, else 128KiB.
    #[arg(long, value_name = "SIZE")]
    piece: Option<Bytes>,
    /// Migration requests under way on one pool; when not given, two, one on a disk, and more where
    /// clients queue: one for each eight of theirs, up to eight.
    #[arg(long, value_name = "N")]
    outstanding: Option<u32>,
    /// Migrations under way at once.
    #[arg(long, value_name = "N", default_value_t = Copying::default().concurrent)]
    concurrent: u32,
    /// Time that clients may hold a migration back.
    #[arg(long, value_name = "TIME", default_value_t = Copying::default().patience)]
    patience: Nanos,
    /// Copy by requests of its own only: clients' reads and writes bring nothing to a chunk's new
    /// pool.
    #[arg(long)]
    no_feed: bool,
    /// Free the slow copy of a chunk that was moved to a faster pool at once, instead of keeping it
    /// until the chunk is written or the room is wanted.
    #[arg(long)]
    no_keep: bool,
    /// Per cent of the fastest pool that hold lines of 4 KiB of chunks on slower pools, as far as
    /// no chunk needs the room; under placements that do not divide pools (`auto:lines=…` does).
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=100))]
    lines: u8,
    /// Lock a chunk while it is copied, as the sources do; to see what that costs.
    #[arg(long)]
    locking: bool,
    /// Tactics: small policies of the volume, such as which pool takes a new chunk, separated by
    /// commas. Several of one kind are compared, each in runs of its own; with several kinds, every
    /// combination is run. `thermocline policies tactic` lists them.
    #[arg(long, value_name = "TACTICS", value_delimiter = ',')]
    tactic: Vec<String>,
    /// Tactics that follow as shadows: asked the same as those in force, and not obeyed. A table
    /// says how often they would have answered otherwise.
    #[arg(long, value_name = "TACTICS", value_delimiter = ',')]
    tactic_shadow: Vec<String>,
    /// Removed: use `--tactic allocation=NAME`.
    #[arg(long, hide = true, value_parser = ["fastest", "slowest"])]
    fill: Option<String>,
    /// Leave the volume thin: what is read before it is written reads as zeroes, without I/O.
    #[arg(long)]
    thin: bool,
    /// Seed of everything random in the devices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Threads; all cores when not given. Each policy runs on one.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// Arrivals of requests.
#[derive(clap::Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct Loading {
    /// Keep so many requests under way, in the order of the trace, instead of following its times.
    #[arg(long, value_name = "N", conflicts_with = "speed")]
    closed: Option<u32>,
    /// Let requests come so many times as fast as in the trace.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    speed: f64,
}

/// Destinations of the results.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
struct Output {
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
    /// Print CSV instead of tables: a line a policy and pool.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Also write the report as a self-contained HTML page with time lines.
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Write over files that exist.
    #[arg(long)]
    force: bool,
}

/// A throttle as a user writes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate(pub(crate) Option<Bytes>);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let wrong = || format!("`{text}` is not a rate; write {RATE_TEXT} (a second) or none");
        match text.trim() {
            "none" => Ok(Rate(None)),
            rate => match rate.trim_end_matches("/s").parse() {
                Ok(Bytes(0)) | Err(_) => Err(wrong()),
                Ok(bytes) => Ok(Rate(Some(bytes))),
            },
        }
    }
}

/// Help of `--epoch`.
fn epoch_help() -> String {
    format!(
        "Time between two decisions of placements; {EPOCH_TEXT} when not given, but for those that \
         say how often (`auto`: {AUTO_EPOCH_TEXT})"
    )
}

/// Policies when none is named.
const POLICIES: [&str; 2] = ["static", "auto"];

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let parse = |word: &str| library::policy(word).map_err(CliError::input);
    let mut specs: Vec<PolicySpec> =
        args.policy.iter().map(|word| parse(word)).collect::<Result<_, _>>()?;
    if let Some(pool) = &args.machine.fill {
        let text = format!("--fill is a tactic now: write --tactic {pool}-first");
        return Err(CliError::input(text));
    }
    if let Some(path) = &args.replay {
        return replay(path, &specs, &args.output);
    }
    if specs.is_empty() {
        specs = POLICIES.into_iter().map(parse).collect::<Result<_, _>>()?;
    }
    let (pools, assumed) = args.machine.plans()?;
    let mut options = args.options();
    let divides = |spec: &&PolicySpec| spec.build_placement().is_ok_and(|p| p.lines().is_some());
    if options.lent_percent > 0
        && let Some(spec) = specs.iter().find(divides)
    {
        return Err(CliError::input(format!(
            "`{}` says how much of the fastest pool holds lines, and so does --lines; leave that \
             out, or name policies that do not, such as --policy static,auto:lines=0",
            spec.label
        )));
    }
    for shadow in &args.machine.tactic_shadow {
        let spec = VolumeTactics::parse(shadow).map_err(CliError::input)?;
        options.tactics.follow(&spec).map_err(CliError::input)?;
    }
    let tactics = args.machine.tactic.iter().map(|text| VolumeTactics::parse(text));
    let tactics = tactics.collect::<Result<Vec<_>, _>>().map_err(CliError::input)?;
    let variants = options.variants(&tactics).map_err(CliError::input)?;
    if let Some(threads) = args.machine.threads {
        lab::use_threads(threads).map_err(CliError::input)?;
    }
    let load = read_load(&args.source)?;
    let (mut runs, mut failures) = (Vec::new(), Vec::new());
    {
        let asked = load.demands.len() as u64 * specs.len() as u64 * variants.len() as u64;
        let bar = Progress::bar(Some(asked), Counted::Things, "running requests");
        let progress = |n: u64| bar.more(n);
        for (suffix, options) in &variants {
            let ran = machine::run_each(&load, &pools, &specs, options, &progress);
            for run in ran.map_err(CliError::input)? {
                match run {
                    Ok(run) => runs.push(Run { policy: format!("{}{suffix}", run.policy), ..run }),
                    Err(error @ MachineError::Failed(..)) => failures.push(error.to_string()),
                    Err(error) => return Err(CliError::input(error)),
                }
            }
        }
    }
    if runs.is_empty() {
        return check_complete(0, &failures);
    }
    let ran = runs.len();
    // The names of runs say which tactics differ.
    let options = if let [(_, only)] = &variants[..] { only } else { &options };
    let traces = args.source.sources().iter().map(ToString::to_string).collect();
    let report = VolumeReport::new(&load, &pools, options, traces, assumed, runs);
    args.output.deliver(&report)?;
    check_complete(ran, &failures)
}

fn replay(path: &Path, specs: &[PolicySpec], output: &Output) -> Result<(), CliError> {
    let form = if output.json { volume_replay::Form::Json } else { volume_replay::Form::Table };
    volume_replay::run(path, specs, form)
}

impl Args {
    fn options(&self) -> MachineOptions {
        let machine = &self.machine;
        MachineOptions {
            chunk: machine.chunk,
            epoch: machine.epoch.unwrap_or(MachineOptions::default().epoch),
            own_epochs: machine.epoch.is_none(),
            arrivals: self.load.arrivals(),
            populate: !machine.thin,
            start: None,
            tactics: VolumeTactics::default(),
            copying: Copying {
                rate_per_second: machine.rate.0,
                locking: machine.locking,
                piece: machine.piece,
                outstanding: machine.outstanding,
                concurrent: machine.concurrent,
                patience: machine.patience,
                feeds: !machine.no_feed,
                keeps: !machine.no_keep,
                ..Copying::default()
            },
            lent_percent: machine.lines,
            seed: machine.seed,
        }
    }
}

impl Loading {
    /// The arrivals that were asked for.
    pub(crate) fn arrivals(&self) -> Arrivals {
        match self.closed {
            Some(outstanding) => Arrivals::Closed { outstanding },
            None => Arrivals::Open { speed: self.speed },
        }
    }
}

impl Machine {
    /// The pools, and whether they are assumed.
    fn plans(&self) -> Result<(Vec<PoolPlan>, bool), CliError> {
        Ok((pool_plans(self.pools.as_deref())?, self.pools.is_none()))
    }
}

/// The pools of a file, or those that are assumed.
pub(crate) fn pool_plans(path: Option<&Path>) -> Result<Vec<PoolPlan>, CliError> {
    let Some(path) = path else { return Ok(PoolPlan::assumed()) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| CliError::input(format!("{}: {error}", path.display())))?;
    parse_pools(&text, path).map_err(CliError::input)
}

/// Reads the whole of the traces that the command line names.
pub(crate) fn read_load(source: &SourceArgs) -> Result<Load, CliError> {
    let mut reader = source.open()?;
    let bar = Progress::bar(source.size_bytes(), Counted::Bytes, "reading");
    Load::read(&mut *reader, &|bytes| bar.at(bytes)).map_err(CliError::input)
}

impl Output {
    fn deliver(&self, report: &VolumeReport) -> Result<(), CliError> {
        if let Some(path) = &self.html {
            let page = report.to_html(&output::command_line());
            output::write_text(path, &page, self.force)?;
        }
        if self.json {
            let text = serde_json::to_string_pretty(report).map_err(CliError::failed)?;
            output::print(&(text + "\n"))
        } else if self.csv {
            output::print(&report.to_csv())
        } else {
            output::print(&volume_table::text(report))
        }
    }
}
