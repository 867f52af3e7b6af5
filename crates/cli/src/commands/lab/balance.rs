//! `thermocline lab balance`: which balancer makes requests wait least, when all that it knows of
//! its servers is old.

use super::balance_table;
use crate::error::CliError;
use crate::output;
use crate::progress::{Progress, Unit as Counted};
use crate::source::SourceArgs;
use std::path::PathBuf;
use thermocline_sim::balance::words::{self, Burstiness, Requests, Sites, SlowTimes, Work};
use thermocline_sim::balance::{
    self as balancing, Arrivals, BalanceReport, ProbeCost, Probes, Scenario, View, read_arrivals,
};
use thermocline_sim::lab;
use thermocline_units::Nanos;

const EXAMPLES: &str = "\
Examples:
  thermocline lab balance                          16 servers, one balancer, reports 1 s old
  thermocline lab balance --bursts I=32.25,share=0.9,length=1.3s --balancers 16
  thermocline lab balance --policy ara,qlen:ties=first,rand --delay 6s --load 0.8
  thermocline lab balance --gap 5ms --delay 1s --sites 8 --view refresh --service pareto:1.5
  thermocline lab balance web.csv.gz --service bytes --sites 4,1,1 --html report.html

Policies are those that `thermocline policies balancer` lists, with settings:
p2c:d=3:load=reported. The central queue and jsq, which use information that no real balancer has,
stand in every table. docs/guides/lab-balance.md explains every figure; `thermocline lab run
experiments/ara` makes the tables of ARA's source.";

/// Options of a run.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Balancers, separated by commas; `all` for every one, the default one and its rivals when not
    /// given.
    #[arg(long, short, value_name = "POLICIES", value_delimiter = ',')]
    policy: Vec<String>,
    #[command(flatten)]
    system: System,
    #[command(flatten)]
    arrivals: Coming,
    #[command(flatten)]
    repeats: Repeats,
    #[command(flatten)]
    output: Output,
}

/// Servers and balancers.
#[derive(clap::Args)]
#[command(next_help_heading = "Servers and balancers")]
struct System {
    /// Number of servers, or speed of each: `16`, or `4,1,1` for three.
    #[arg(long, value_name = "SITES", default_value = "16")]
    sites: Sites,
    /// Share of what all servers can do that is asked of them; service times follow from it.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    load: f64,
    /// Time that requests take: exp, fixed, pareto:SHAPE, or, with a trace, bytes.
    #[arg(long, value_name = "KIND", default_value = "exp")]
    service: Work,
    /// Age of the load information that balancers have: the lengths of queues.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    delay: Nanos,
    /// Manner in which it is stale: every change is known so much later; or servers report so
    /// often; or that, and reports take as long to arrive.
    #[arg(long, value_name = "VIEW", value_enum, default_value_t = Viewing::Exact)]
    view: Viewing,
    /// Answers to probes: as it is now, or as it was when servers last reported; or nobody probes.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Probing::Fresh)]
    probes: Probing,
    /// Time that a server of speed 1 spends on the answer to a probe.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    probe_work: Nanos,
    /// Time that a probe takes to a server and back.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    probe_trip: Nanos,
    /// Servers that slow down, one at a time, like every=10s,for=3s,to=0.25.
    #[arg(long, value_name = "SLOWING")]
    slowing: Option<SlowTimes>,
    /// Independent balancers that share the requests.
    #[arg(long, value_name = "M", default_value_t = 1)]
    balancers: u32,
    /// Do not tell balancers how fast servers are.
    #[arg(long)]
    unweighted: bool,
}

/// Arrivals of requests.
#[derive(clap::Args)]
#[command(next_help_heading = "Arrivals, when no trace is named")]
struct Coming {
    /// Mean time between requests.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    gap: Nanos,
    /// Index of dispersion, share of requests in bursts, mean length of a burst, like
    /// I=313.5,share=0.9,length=750ms; independent arrivals when not given.
    #[arg(long, value_name = "BURSTS")]
    bursts: Option<Burstiness>,
}

/// Number of repeats, and their length.
#[derive(clap::Args)]
#[command(next_help_heading = "Repeats")]
struct Repeats {
    /// Requests of a run, k and M understood; of a trace, at most so many.
    #[arg(long, value_name = "N", default_value = "200k")]
    requests: Requests,
    /// Runs, each with a seed of its own.
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=balancing::SEEDS_MAX))]
    seeds: u64,
    /// The first seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Share of each run at its beginning that is not counted.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    warmup: f64,
    /// Threads; all cores when not given.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// Destinations of the results.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
struct Output {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Print CSV instead of a table: a line a policy.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Also write the report as a self-contained HTML page.
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Write over files that exist.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Viewing {
    Exact,
    Refresh,
    Transit,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Probing {
    Fresh,
    Late,
    None,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let (scenario, arrivals) = args.scenario()?;
    let specs = words::chosen(&args.policy, &scenario.arrivals).map_err(CliError::input)?;
    if let Some(threads) = args.repeats.threads {
        lab::use_threads(threads).map_err(CliError::input)?;
    }
    let seeds: Vec<u64> =
        (0..args.repeats.seeds).map(|n| args.repeats.seed.wrapping_add(n)).collect();
    let rows = {
        let asked = scenario.jobs as u64 * (specs.len() as u64 + 2) * seeds.len() as u64;
        let bar = Progress::bar(Some(asked), Counted::Things, "placing requests");
        let progress = |n: u64| bar.more(n);
        balancing::run(&scenario, &specs, &seeds, &progress).map_err(CliError::input)?
    };
    let report = BalanceReport::new(&scenario, &arrivals, &seeds, rows);
    args.output.deliver(&report)
}

impl Args {
    /// Scenario, and its arrivals in words.
    fn scenario(&self) -> Result<(Scenario, String), CliError> {
        let (arrivals, words) = self.coming()?;
        let system = &self.system;
        let scenario = Scenario {
            speeds: system.sites.0.clone(),
            load: system.load,
            arrivals,
            service: system.service.0,
            delay: system.delay,
            view: match system.view {
                Viewing::Exact => View::Exact,
                Viewing::Refresh => View::Refresh,
                Viewing::Transit => View::Transit,
            },
            probes: match system.probes {
                Probing::Fresh => Probes::Fresh,
                Probing::Late => Probes::Late,
                Probing::None => Probes::None,
            },
            probe_cost: ProbeCost { work: system.probe_work, trip: system.probe_trip },
            slowing: system.slowing.map(|SlowTimes(slowing)| slowing),
            balancers: system.balancers,
            weights_known: !system.unweighted,
            jobs: self.repeats.requests.0,
            warmup: self.repeats.warmup,
        };
        Ok((scenario, words))
    }

    fn coming(&self) -> Result<(Arrivals, String), CliError> {
        if !self.source.sources().is_empty() {
            let mut reader = self.source.open()?;
            let bar = Progress::bar(self.source.size_bytes(), Counted::Bytes, "reading");
            let arrivals =
                read_arrivals(&mut *reader, self.repeats.requests.0, &|bytes| bar.at(bytes))
                    .map_err(CliError::input)?;
            let words = words::traced(&self.source.traces().names(), &arrivals);
            return Ok((arrivals, words));
        }
        words::arrivals(self.arrivals.gap, self.arrivals.bursts).map_err(CliError::input)
    }
}

impl Output {
    fn deliver(&self, report: &BalanceReport) -> Result<(), CliError> {
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
            output::print(&balance_table::text(report))
        }
    }
}
