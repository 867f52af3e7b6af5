//! Report of a run of `lab balance`, for people and machines.

use super::Arrivals;
use super::machine::Measures;
use super::scenario::{Scenario, Service, View};
use super::spread::Estimate;
use serde::Serialize;
use thermocline_charts::format::{count, plain, seconds, share};
use thermocline_units::{Latencies, Nanos};

/// One policy over all seeds.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The policy as the user named it.
    pub policy: String,
    /// True if it is a bound: nobody can know what it knows.
    pub bound: bool,
    /// Mean time from arrival to the start of service, seconds.
    pub wait_s: Estimate,
    /// Its median.
    pub wait_p50_s: Estimate,
    /// Its 99th percentile.
    pub wait_p99_s: Estimate,
    /// Mean time from arrival to departure, seconds.
    pub response_s: Estimate,
    /// Its median.
    pub response_p50_s: Estimate,
    /// Its 99th percentile.
    pub response_p99_s: Estimate,
    /// The mean wait of each seed.
    pub wait_by_seed_s: Vec<f64>,
    /// The mean response of each seed.
    pub response_by_seed_s: Vec<f64>,
    /// Probes a request.
    pub probes: f64,
    /// Mean wait over that of the central queue, seed by seed.
    pub times_bound: Estimate,
    /// Share of the time that each site was busy; means over seeds.
    pub busy: Vec<f64>,
    /// Share of arrivals at which the rule was right about the burst; `None` when it has no
    /// opinion.
    pub bursts_known: Option<f64>,
    /// Sites that it chose among, on average; `None` when that has no meaning.
    pub candidates: Option<f64>,
}

/// Rows of the measures of each contender, a measure a seed; the central queue's come first. Seeds
/// over a trace share its arrivals: where nothing else differs between them either, they are one
/// run, and have no interval.
pub(super) fn rows(
    contenders: impl Iterator<Item = ((String, bool), Vec<Measures>)>,
    traced: bool,
) -> Vec<Row> {
    let mut central: Option<Vec<f64>> = None;
    let row = |((policy, bound), runs): ((String, bool), Vec<Measures>)| {
        let over = |of: &dyn Fn(&Measures) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
        let mean =
            |latencies: &Latencies| latencies.sum().as_secs_f64() / latencies.count().max(1) as f64;
        let waits = over(&|run| mean(&run.wait));
        let base = central.get_or_insert_with(|| waits.clone());
        let times: Vec<f64> = waits.iter().zip(base.iter()).map(|(own, base)| own / base).collect();
        let responses = over(&|run| mean(&run.response));
        let are_one = |values: &[f64]| values.iter().all(|value| *value == values[0]);
        let one_run = traced && are_one(&waits) && are_one(&responses);
        let estimate = |values: &[f64]| match one_run {
            true => Estimate::of(&values[..1]),
            false => Estimate::of(values),
        };
        let quantile =
            |of: &dyn Fn(&Measures) -> Nanos| estimate(&over(&|run| of(run).as_secs_f64()));
        let sum = |of: &dyn Fn(&Measures) -> f64| over(of).iter().sum::<f64>();
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let sites = runs.first().map_or(0, |run| run.busy.len());
        Row {
            bound,
            wait_s: estimate(&waits),
            wait_p50_s: quantile(&|run| run.wait.quantile(0.5)),
            wait_p99_s: quantile(&|run| run.wait.quantile(0.99)),
            response_s: estimate(&responses),
            response_p50_s: quantile(&|run| run.response.quantile(0.5)),
            response_p99_s: quantile(&|run| run.response.quantile(0.99)),
            probes: sum(&|run| run.probes as f64) / sum(&|run| run.placed as f64).max(1.0),
            wait_by_seed_s: waits,
            response_by_seed_s: responses,
            times_bound: estimate(&times),
            busy: (0..sites).map(|site| sum(&|run| run.busy[site]) / runs.len() as f64).collect(),
            bursts_known: ratio(sum(&|run| run.knew as f64), sum(&|run| run.said as f64)),
            candidates: ratio(sum(&|run| run.candidates), sum(&|run| run.named as f64)),
            policy,
        }
    };
    contenders.map(row).collect()
}

impl Row {
    /// The least and the greatest share of the time that a site was busy.
    pub fn busy_range(&self) -> (f64, f64) {
        let least = self.busy.iter().copied().fold(f64::INFINITY, f64::min);
        (least, self.busy.iter().copied().fold(0.0, f64::max))
    }
}

/// A whole run.
#[derive(Debug, Serialize)]
pub struct BalanceReport {
    /// The program's version.
    pub version: &'static str,
    /// Sites.
    pub sites: usize,
    /// Speed of each.
    pub speeds: Vec<f64>,
    /// Share of what all sites can do.
    pub load: f64,
    /// Mean seconds between requests.
    pub gap_s: f64,
    /// Mean seconds that one takes alone on a site of speed 1.
    pub service_s: f64,
    /// Requests of a seed.
    pub requests: u64,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Independent balancers.
    pub balancers: u32,
    /// Age of what balancers know, seconds.
    pub delay_s: f64,
    /// The scenario in words, a line each.
    pub about: Vec<String>,
    /// The bounds, then the policies as they were named.
    pub rows: Vec<Row>,
}

impl BalanceReport {
    /// A report of rows that [`super::run()`] made of a scenario. `arrivals` says in words where
    /// they come from.
    pub fn new(
        scenario: &Scenario,
        arrivals: &str,
        seeds: &[u64],
        rows: Vec<Row>,
    ) -> BalanceReport {
        let jobs = match &scenario.arrivals {
            Arrivals::Process(_) => scenario.jobs,
            Arrivals::Trace(arrivals) => scenario.jobs.min(arrivals.len()),
        };
        BalanceReport {
            version: env!("CARGO_PKG_VERSION"),
            sites: scenario.speeds.len(),
            speeds: scenario.speeds.clone(),
            load: scenario.load,
            gap_s: scenario.arrivals.gap_s(),
            service_s: scenario.service_s(),
            requests: jobs as u64,
            seeds: seeds.to_vec(),
            balancers: scenario.balancers,
            delay_s: scenario.delay.as_secs_f64(),
            about: about(scenario, arrivals, jobs, seeds.len()),
            rows,
        }
    }
}

fn about(scenario: &Scenario, arrivals: &str, jobs: usize, seeds: usize) -> Vec<String> {
    let sites = scenario.speeds.len();
    let equal = scenario.speeds.iter().all(|speed| *speed == scenario.speeds[0]);
    let kind = match (equal, scenario.weights_known) {
        (true, _) => "equal sites".to_string(),
        (false, true) => "unequal sites, known as weights".to_string(),
        (false, false) => "unequal sites, held to be equal".to_string(),
    };
    let service = match scenario.service {
        Service::Exponential => "exponential".to_string(),
        Service::Deterministic => "always the same".to_string(),
        Service::Pareto(shape) => format!("Pareto of shape {}", plain(shape)),
        Service::Bytes => "as long as requests of the trace".to_string(),
    };
    let age = seconds(scenario.delay.as_secs_f64());
    let view = match scenario.view {
        _ if scenario.delay.0 == 0 => "known at once".to_string(),
        View::Exact => format!("known exactly {age} later"),
        View::Refresh => format!("reported every {age}"),
        View::Transit => format!("reported every {age}, {age} on the way"),
    };
    let balancers = match scenario.balancers {
        1 => "one balancer".to_string(),
        many => format!("{} independent balancers", count(many.into())),
    };
    let mut about = vec![
        format!(
            "{sites} {kind}, {} loaded; work {service}, {} on average",
            share(scenario.load),
            seconds(scenario.service_s())
        ),
        format!("arrivals: {arrivals}"),
        format!("{balancers}; queues are {view}"),
        format!(
            "{} requests a seed, {} seeds; the first {} are not counted",
            count(jobs as u64),
            seeds,
            share(scenario.warmup)
        ),
    ];
    if matches!(scenario.arrivals, Arrivals::Trace(_)) && seeds > 1 {
        about.push(
            "all seeds have the trace's arrivals: ± tells of chance in work and choices, not of \
             other loads; without one, nothing was left to chance"
                .to_string(),
        );
    }
    about
}
