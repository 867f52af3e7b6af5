//! `thermocline advise`: what other devices or another policy would bring, from a trace, a
//! recording, or a running engine.

mod live;
mod page;
mod published;
mod text;

use super::lab::volume::{Loading, Rate, pool_plans, read_load};
use crate::config::library;
use crate::error::CliError;
use crate::output;
use crate::progress::{Progress, Unit as Counted};
use crate::source::SourceArgs;
use live::Sample;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thermocline_engine::api::Status;
use thermocline_policy::migration::RATE_TEXT;
use thermocline_policy::placement::CHUNK_TEXT;
use thermocline_policy::registry::PolicySpec;
use thermocline_sim::advise::{self, Advice, Answer, Prices, Question};
use thermocline_sim::lab;
use thermocline_sim::machine::{MachineOptions, PoolPlan};
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::Copying;

/// Time between two decisions of placements that have no epoch of their own: most of them profit
/// from deciding so often (docs/results/placements.md).
const EPOCH: Nanos = Nanos::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  thermocline advise web.csv.gz                       an NVMe SSD over a disk is assumed
  thermocline advise today.tcr --pools pools.toml     a recording of `thermocline up --record`
  thermocline advise web.csv.gz --add 32GiB --policy none --against auto,hemem
  thermocline advise web.csv.gz --p99 5ms             the cheapest devices that keep this
  thermocline advise --live 5m --api thermocline-data/http.sock
  thermocline advise --live 5m --publish              the engine's dashboard shows it, too
  thermocline advise web.csv.gz --prices mine.toml --html advice.html

pools.toml is that of `thermocline lab volume`. A table of prices has a device's price for a GiB and
the years over which it is written off, or an object store's for a GiB and month and for requests:
  [nvme]
  gib = 0.12
  years = 5
docs/guides/advise.md explains every figure.";

/// Options of the question.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Instead of a trace: what clients ask of a running engine in so long, 1s to 10min. Its policy
    /// and the sizes of its pools are taken from it.
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1m",
          conflicts_with_all = ["traces", "more", "synth", "format", "columns", "blkparse_event"])]
    live: Option<Nanos>,
    /// Also give the advice to the running engine, whose dashboard shows it.
    #[arg(long, requires = "live")]
    publish: bool,
    /// Socket of the engine's API, for --live.
    #[arg(long, value_name = "PATH", default_value = "thermocline-data/http.sock")]
    api: PathBuf,
    /// Pools as they are, a TOML file. When not given: an NVMe SSD of a tenth of the chunks touched
    /// over a 7,200 rpm disk of all of them; of a running engine its pools, as devices of like
    /// speed.
    #[arg(long, value_name = "FILE")]
    pools: Option<PathBuf>,
    /// Placement as it is; `none` is `static`. When not given `auto`, or the running engine's.
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Placements that are compared with it, separated by commas.
    #[arg(
        long,
        value_name = "POLICIES",
        value_delimiter = ',',
        default_value = "static,auto,hemem,benefit"
    )]
    against: Vec<String>,
    /// Bytes that one of the trials adds to the fastest pool; as much again when not given.
    #[arg(long, value_name = "SIZE")]
    add: Option<Bytes>,
    /// Also look for the cheapest set of devices whose 99th percentile is at most this.
    #[arg(long, value_name = "TIME")]
    p99: Option<Nanos>,
    /// Prices by profile, a TOML file; assumed ones when not given.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
    /// Bytes of a chunk, the unit of placement: a power of two from 64KiB to 1GiB.
    #[arg(long, value_name = "SIZE", default_value = CHUNK_TEXT)]
    chunk: Bytes,
    /// Bytes a second that moves may read from, and write to, each pool; `none`: no limit.
    #[arg(long, value_name = "SIZE", default_value = RATE_TEXT)]
    rate: Rate,
    /// Runs of each trial, with other seeds of the devices: 1 to 100.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=100)
    )]
    seeds: u64,
    /// Threads; all cores when not given.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    #[command(flatten)]
    load: Loading,
    #[command(flatten)]
    output: Output,
}

/// Destinations of the advice.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
struct Output {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Also write the advice as a self-contained HTML page.
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Write over a file that exists.
    #[arg(long)]
    force: bool,
}

/// The cheapest set of devices for a stated 99th percentile, as it was found.
#[derive(Debug, Serialize)]
struct Found {
    /// The 99th percentile that was asked for, seconds.
    p99_s: f64,
    /// True if the last of the sets keeps it; else none of them does.
    kept: bool,
    /// Sets that were run, by price.
    sets: Vec<Answer>,
}

/// Everything that is told.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    traces: Vec<String>,
    /// True if the load is a sample of a running engine, whose own pools the first trial is of.
    sampled: bool,
    /// True if the chunks begin where those of the engine were.
    from_map: bool,
    /// True if the prices are the assumed ones.
    prices_assumed: bool,
    #[serde(flatten)]
    advice: Advice,
    cheapest: Option<Found>,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let wish = args.question(None)?;
    if let Some(threads) = args.threads {
        lab::use_threads(threads).map_err(CliError::input)?;
    }
    // clap does not ask for what another option excludes.
    if args.publish && args.live.is_none() {
        let text = "--publish needs --live: an engine shows what was found of its own load";
        return Err(CliError::input(text));
    }
    let (question, load) = match args.live {
        None => (wish, read_load(&args.source)?),
        Some(time) => {
            let Sample { status, load, start } = live::sample(&args.api, time)?;
            let mut question = args.question(Some(&status))?;
            // Pools that somebody gives are not those of the engine.
            question.options.start = start.filter(|_| args.pools.is_none()).map(Arc::new);
            (question, load)
        }
    };
    let advice = {
        let bar =
            Progress::bar(Some(advise::requests(&load, &question)), Counted::Things, "requests");
        let progress = |n: u64| bar.more(n);
        advise::advise(&load, &question, &progress).map_err(CliError::input)?
    };
    let cheapest = match args.p99 {
        None => None,
        Some(p99) => {
            let p99_s = p99.as_secs_f64();
            let bar = Progress::bar(None, Counted::Things, "requests, by price of the devices");
            let progress = |n: u64| bar.more(n);
            let found = advise::cheapest(&load, &question, p99_s, &progress);
            let (sets, kept) = found.map_err(CliError::input)?;
            Some(Found { p99_s, kept, sets })
        }
    };
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        traces: match args.live {
            None => args.source.sources().iter().map(ToString::to_string).collect(),
            Some(_) => vec![args.api.display().to_string()],
        },
        sampled: args.live.is_some(),
        from_map: question.options.start.is_some(),
        prices_assumed: args.prices.is_none(),
        advice,
        cheapest,
    };
    // First the answer, which took minutes: the engine may not take it.
    args.output.deliver(&report)?;
    if args.publish {
        published::publish(&args.api, &report)?;
    }
    Ok(())
}

impl Args {
    /// The question; `live`: about the engine that has this status.
    fn question(&self, live: Option<&Status>) -> Result<Question, CliError> {
        let policy = |word: &str| -> Result<PolicySpec, CliError> {
            let word = if word == "none" { "static" } else { word };
            library::engine_placement(word).map_err(CliError::input)
        };
        let own = live.map_or("auto", |status| &status.policy.spec);
        let pools = match live.filter(|_| self.pools.is_none()) {
            Some(status) => live::pools(status),
            None => pool_plans(self.pools.as_deref())?,
        };
        let prices = prices(self.prices.as_deref(), &pools)?;
        Ok(Question {
            pools,
            policy: policy(self.policy.as_deref().unwrap_or(own))?,
            rivals: self.against.iter().map(|word| policy(word)).collect::<Result<_, _>>()?,
            more: self.add,
            options: MachineOptions {
                chunk: live.map_or(self.chunk, |status| Bytes(status.chunk_bytes)),
                epoch: EPOCH,
                own_epochs: true,
                arrivals: self.load.arrivals(),
                copying: Copying { rate_per_second: self.rate.0, ..Copying::default() },
                ..MachineOptions::default()
            },
            seeds: self.seeds,
            prices,
        })
    }
}

fn prices(path: Option<&Path>, pools: &[PoolPlan]) -> Result<Prices, CliError> {
    let Some(path) = path else { return Ok(Prices::assumed()) };
    let text = std::fs::read_to_string(path)
        .map_err(|error| CliError::input(format!("{}: {error}", path.display())))?;
    let origin = path.display().to_string();
    let prices = Prices::parse(&text, &origin).map_err(CliError::input)?;
    prices.check_names(pools, &origin).map_err(CliError::input)?;
    Ok(prices)
}

impl Output {
    fn deliver(&self, report: &Report) -> Result<(), CliError> {
        if let Some(path) = &self.html {
            let page = page::html(report, &output::command_line());
            output::write_text(path, &page, self.force)?;
        }
        if self.json {
            let text = serde_json::to_string_pretty(report).map_err(CliError::failed)?;
            output::print(&(text + "\n"))
        } else {
            output::print(&text::text(report))
        }
    }
}
