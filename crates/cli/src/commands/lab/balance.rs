//! `thermocline lab balance`: which balancer makes requests wait least, when all that it knows of
//! its servers is old.

use super::balance_table;
use crate::error::CliError;
use crate::output;
use crate::progress::{Progress, Unit as Counted};
use crate::source::SourceArgs;
use std::path::PathBuf;
use std::str::FromStr;
use thermocline_charts::format::{plain, seconds, share};
use thermocline_policy::balance;
use thermocline_policy::registry::{PolicySpec, balancers};
use thermocline_sim::balance::{
    self as balancing, Arrivals, BalanceReport, Bursts, Mmpp, ProbeCost, Probes, Scenario, Service,
    Slowing, View, read_arrivals,
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

Policies are those that `thermocline policies balancer` lists, with settings: p2c:d=3:load=reported. The
central queue and jsq, which know what nobody can know, stand in every table.
docs/guides/lab-balance.md explains every figure; `thermocline lab run experiments/ara` makes the tables of ARA's
source.";

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
    /// Age of balancers' knowledge of queues.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    delay: Nanos,
    /// In what way it is old: every change is known so much later; or servers report so often; or
    /// that, and reports take as long to arrive.
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
    #[arg(long, value_name = "N", default_value_t = 5)]
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

/// Speeds of servers as a user writes them.
#[derive(Debug, Clone)]
struct Sites(Vec<f64>);

impl FromStr for Sites {
    type Err = String;

    fn from_str(text: &str) -> Result<Sites, String> {
        let wrong = || format!("`{text}` is neither a number of servers nor speeds like 4,1,1");
        if !text.contains(',') {
            let count: u16 = text.trim().parse().map_err(|_| wrong())?;
            return Ok(Sites(vec![1.0; count.into()]));
        }
        let speeds: Result<_, _> = text.split(',').map(|speed| speed.trim().parse()).collect();
        speeds.map(Sites).map_err(|_| wrong())
    }
}

/// A service as a user writes it.
#[derive(Debug, Clone, Copy)]
struct Work(Service);

impl FromStr for Work {
    type Err = String;

    fn from_str(text: &str) -> Result<Work, String> {
        let wrong = || format!("`{text}` is no service; write exp, fixed, pareto:1.5 or bytes");
        match text.split_once(':').unwrap_or((text, "")) {
            ("exp", "") => Ok(Work(Service::Exponential)),
            ("fixed", "") => Ok(Work(Service::Deterministic)),
            ("bytes", "") => Ok(Work(Service::Bytes)),
            ("pareto", shape) => shape.parse().map(Service::Pareto).map(Work).map_err(|_| wrong()),
            _ => Err(wrong()),
        }
    }
}

/// Bursts as a user writes them.
#[derive(Debug, Clone, Copy)]
struct Burstiness(Bursts);

impl FromStr for Burstiness {
    type Err = String;

    fn from_str(text: &str) -> Result<Burstiness, String> {
        let wrong = |what: &str| {
            format!("`{text}`: {what}; write I=313.5,share=0.9,length=750ms, share and length too")
        };
        let (mut index, mut share, mut length) = (None, None, None);
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong("no KEY=VALUE"))?;
            let number = || value.trim().parse::<f64>().map_err(|_| wrong("no number"));
            match key.trim() {
                "I" | "i" => index = Some(number()?),
                "share" => share = Some(number()?),
                "length" => {
                    let time: Nanos = value.trim().parse().map_err(|_| wrong("no length"))?;
                    length = Some(time.as_secs_f64());
                }
                _ => return Err(wrong("only I, share and length are known")),
            }
        }
        match (index, share, length) {
            (Some(index), Some(share), Some(length_s)) => {
                Ok(Burstiness(Bursts { index, share, length_s }))
            }
            _ => Err(wrong("one of them is missing")),
        }
    }
}

/// Slow times as a user writes them.
#[derive(Debug, Clone, Copy)]
struct SlowTimes(Slowing);

impl FromStr for SlowTimes {
    type Err = String;

    fn from_str(text: &str) -> Result<SlowTimes, String> {
        let wrong = |what: &str| format!("`{text}`: {what}; write every=10s,for=3s,to=0.25");
        let (mut every, mut lasting, mut to) = (None, None, None);
        for part in text.split(',') {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong("no KEY=VALUE"))?;
            let time = || value.trim().parse::<Nanos>().map_err(|_| wrong("no length of time"));
            match key.trim() {
                "every" => every = Some(time()?),
                "for" => lasting = Some(time()?),
                "to" => to = Some(value.trim().parse().map_err(|_| wrong("no number"))?),
                _ => return Err(wrong("only every, for and to are known")),
            }
        }
        match (every, lasting, to) {
            (Some(every), Some(lasting), Some(to)) => Ok(SlowTimes(Slowing { every, lasting, to })),
            _ => Err(wrong("one of them is missing")),
        }
    }
}

/// A number of requests as a user writes it.
#[derive(Debug, Clone, Copy)]
struct Requests(usize);

impl FromStr for Requests {
    type Err = String;

    fn from_str(text: &str) -> Result<Requests, String> {
        let text = text.trim();
        let (number, times) = match text.strip_suffix(['k', 'M']) {
            Some(number) if text.ends_with('k') => (number, 1_000),
            Some(number) => (number, 1_000_000),
            None => (text, 1),
        };
        let number: Option<usize> = number.trim().parse().ok();
        let requests = number.and_then(|number| number.checked_mul(times)).filter(|n| *n > 0);
        requests.map(Requests).ok_or_else(|| format!("`{text}` is no number such as 200k or 1M"))
    }
}

/// Policies when none is named.
const RIVALS: [&str; 9] =
    ["rand", "qlen", "ara", "ara-count", "least", "p2c", "jiq", "li", balance::DEFAULT];

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let (scenario, arrivals) = args.scenario()?;
    let specs = specs(&args.policy, &scenario)?;
    if let Some(threads) = args.repeats.threads {
        lab::use_threads(threads).map_err(CliError::input)?;
    }
    let seeds: Vec<u64> = (0..args.repeats.seeds).map(|n| args.repeats.seed + n).collect();
    let rows = {
        let asked = scenario.jobs as u64 * (specs.len() as u64 + 2) * seeds.len() as u64;
        let bar = Progress::bar(Some(asked), Counted::Things, "placing requests");
        let progress = |n: u64| bar.more(n);
        balancing::run(&scenario, &specs, &seeds, &progress).map_err(CliError::input)?
    };
    let report = BalanceReport::new(&scenario, &arrivals, &seeds, rows);
    args.output.deliver(&report)
}

/// The policies named; `ara-opt` is left out of `all` where nobody knows the bursts.
fn specs(words: &[String], scenario: &Scenario) -> Result<Vec<PolicySpec>, CliError> {
    let parse = |text: &str| PolicySpec::parse(text).map_err(CliError::input);
    if words.is_empty() {
        return RIVALS.into_iter().map(parse).collect();
    }
    let traced = matches!(scenario.arrivals, Arrivals::Trace(_));
    let mut specs = Vec::new();
    for word in words {
        if word == "all" {
            let every = balancers().filter(|entry| !(traced && entry.name == "ara-opt"));
            specs.extend(every.map(|entry| parse(entry.name)).collect::<Result<Vec<_>, _>>()?);
        } else {
            specs.push(parse(word)?);
        }
    }
    Ok(specs)
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
        let sources = self.source.sources();
        if !sources.is_empty() {
            let mut reader = self.source.open()?;
            let bar = Progress::bar(self.source.size_bytes(), Counted::Bytes, "reading");
            let arrivals =
                read_arrivals(&mut *reader, self.repeats.requests.0, &|bytes| bar.at(bytes))
                    .map_err(CliError::input)?;
            let names: Vec<String> = sources.iter().map(ToString::to_string).collect();
            let words = format!(
                "at the times of {}, {} apart on average",
                names.join(", "),
                seconds(arrivals.gap_s())
            );
            return Ok((arrivals, words));
        }
        let gap_s = self.arrivals.gap.as_secs_f64();
        if gap_s == 0.0 {
            return Err(CliError::input("--gap 0s: requests need some time between them"));
        }
        let apart = format!("{} apart on average", seconds(gap_s));
        let Some(Burstiness(bursts)) = self.arrivals.bursts else {
            let words = format!("independent, {apart}");
            return Ok((Arrivals::Process(Mmpp::poisson(gap_s)), words));
        };
        let process = Mmpp::fit(gap_s, &bursts)
            .map_err(|problem| CliError::input(format!("--bursts: {problem}")))?;
        let words = format!(
            "{apart}, index of dispersion {}; {} come in bursts of {}, {} a second there and {} \
             otherwise",
            plain(process.index_of_dispersion()),
            share(bursts.share),
            seconds(bursts.length_s),
            plain(process.rates[1]),
            plain(process.rates[0]),
        );
        Ok((Arrivals::Process(process), words))
    }
}

impl Output {
    fn deliver(&self, report: &BalanceReport) -> Result<(), CliError> {
        if let Some(path) = &self.html {
            let command: Vec<String> = std::env::args().skip(1).collect();
            let page = report.to_html(&format!("thermocline {}", command.join(" ")));
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
