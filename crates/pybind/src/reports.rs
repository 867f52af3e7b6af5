//! The other runs: characteristics of a trace, volumes, balancers, de-duplication, experiments.

use crate::job;
use crate::options::{items, read, read_all, read_or, refused, seed, traces, whole};
use crate::placements;
use crate::policies::{Raised, failed};
use crate::table::{Table, about, parsed};
use pyo3::prelude::*;
use std::path::PathBuf;
use thermocline_experiments::{Experiment, Folders};
use thermocline_sim::balance::words::{self, Burstiness, Requests, Sites, SlowTimes, Work};
use thermocline_sim::balance::{
    self, BalanceReport, ProbeCost, Probes, Scenario, Service, View, read_arrivals,
};
use thermocline_sim::dedup::{CHUNKINGS, Estimate};
use thermocline_sim::machine::{
    self, Arrivals, Load, MachineOptions, PoolPlan, VolumeReport, parse_pools,
};
use thermocline_sim::progress::{Amount, ProgressSink};
use thermocline_sim::stat::StatReport;
use thermocline_units::{Bytes, Nanos};

/// Statistics of a trace and of each of its volumes: dictionaries, as `trace stat --json` prints
/// them.
#[pyfunction]
pub(crate) fn trace_stat<'py>(
    py: Python<'py>,
    trace: &Bound<'py, PyAny>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let traces = traces(trace)?;
    let report = job::run(py, progress, move |told| StatReport::read(&traces, told))?;
    parsed(py, &report.map_err(refused)?.to_json().to_string())
}

/// Savings of a tunnel on some files: a table, a row a chunking.
#[pyfunction]
pub(crate) fn dedup_estimate(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    chunkings: Option<&Bound<'_, PyAny>>,
    cache: Option<&Bound<'_, PyAny>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Table> {
    let mut chosen = read_all("chunkings", chunkings)?;
    if chosen.is_empty() {
        let usual = CHUNKINGS.split(',').map(str::parse);
        chosen = usual.collect::<Result<_, _>>().map_err(refused)?;
    }
    let cache = read_or("cache", cache, Bytes::from_gib(1))?;
    let made = job::run(py, progress, move |told| Estimate::of(&paths, &chosen, cache, told))?;
    let made = made.map_err(refused)?;
    Ok(Table::new(made.to_table(), about(&made.to_json(), "chunkings")))
}

/// Arguments of a volume's run, named as the command's options.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Machine<'py> {
    pools: Option<Bound<'py, PyAny>>,
    chunk: Option<Bound<'py, PyAny>>,
    epoch: Option<Bound<'py, PyAny>>,
    closed: Option<Bound<'py, PyAny>>,
    speed: f64,
    thin: bool,
    seed: Bound<'py, PyAny>,
}

impl Machine<'_> {
    fn options(&self) -> PyResult<MachineOptions> {
        let usual = MachineOptions::default();
        Ok(MachineOptions {
            chunk: read_or("chunk", self.chunk.as_ref(), usual.chunk)?,
            epoch: read_or("epoch", self.epoch.as_ref(), usual.epoch)?,
            own_epochs: self.epoch.is_none(),
            arrivals: match &self.closed {
                Some(closed) => {
                    let outstanding = whole("closed", closed, u32::MAX.into())? as u32;
                    Arrivals::Closed { outstanding }
                }
                None => Arrivals::Open { speed: self.speed },
            },
            populate: !self.thin,
            seed: seed(&self.seed)?,
            ..usual
        })
    }

    /// The pools, and whether they are assumed: a file's, or those of a text in TOML.
    fn plans(&self) -> PyResult<(Vec<PoolPlan>, bool)> {
        let Some(pools) = &self.pools else { return Ok((PoolPlan::assumed(), true)) };
        let written: PathBuf = pools.extract()?;
        let inline = pools.extract::<String>().ok().filter(|text| text.contains('\n'));
        let (text, path) = match inline {
            Some(text) => (text, PathBuf::from("pools")),
            None => {
                let text = std::fs::read_to_string(&written)
                    .map_err(|error| refused(format!("{}: {error}", written.display())))?;
                (text, written)
            }
        };
        Ok((parse_pools(&text, &path).map_err(refused)?, false))
    }
}

/// Placements on a tiered volume: a table, a row a placement and pool.
#[pyfunction]
pub(crate) fn volume_simulate(
    py: Python<'_>,
    trace: &Bound<'_, PyAny>,
    policies: Option<&Bound<'_, PyAny>>,
    machine_options: Machine<'_>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Table> {
    let traces = traces(trace)?;
    let options = machine_options.options()?;
    let (pools, assumed) = machine_options.plans()?;
    let raised = Raised::default();
    let specs = placements::chosen(policies, &raised)?;
    let report = job::run(py, progress, move |told| {
        told.begin("reading", Amount::Bytes(traces.size_bytes()));
        let mut reader = traces.open().map_err(|error| error.to_string())?;
        let load =
            Load::read(&mut *reader, &|bytes| told.at(bytes)).map_err(|error| error.to_string())?;
        let asked = load.demands.len() as u64 * specs.len() as u64;
        told.begin("running requests", Amount::Things(Some(asked)));
        let runs = machine::run(&load, &pools, &specs, &options, &|n| told.more(n))
            .map_err(|error| error.to_string())?;
        Ok::<_, String>(VolumeReport::new(&load, &pools, &options, traces.names(), assumed, runs))
    })?;
    let report = report.map_err(|error| failed(&raised, error))?;
    Ok(Table::new(report.to_table(), about(&report, "runs")))
}

/// Arguments of a balancers' run, named as the command's options.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct System<'py> {
    sites: Option<Bound<'py, PyAny>>,
    load: f64,
    service: Option<Bound<'py, PyAny>>,
    delay: Option<Bound<'py, PyAny>>,
    view: String,
    probes: String,
    slowing: Option<Bound<'py, PyAny>>,
    balancers: u32,
    unweighted: bool,
    gap: Option<Bound<'py, PyAny>>,
    bursts: Option<Bound<'py, PyAny>>,
    requests: Option<Bound<'py, PyAny>>,
    seeds: Bound<'py, PyAny>,
    seed: Bound<'py, PyAny>,
    warmup: f64,
}

impl System<'_> {
    /// The seeds, one after the other.
    fn seeds(&self) -> PyResult<Vec<u64>> {
        let (first, count) = (seed(&self.seed)?, whole("seeds", &self.seeds, u64::MAX)?);
        if !(1..=balance::SEEDS_MAX).contains(&count) {
            let most = balance::SEEDS_MAX;
            return Err(refused(format!("seeds: {count} is none of 1 to {most}")));
        }
        Ok((0..count).map(|n| first.wrapping_add(n)).collect())
    }

    fn scenario(&self, arrivals: balance::Arrivals) -> PyResult<Scenario> {
        let usual = Scenario::of_the_source(arrivals);
        let choice = |name: &str, value: &str, choices: &str| {
            refused(format!("{name}: `{value}` is none of {choices}"))
        };
        let slowing: Option<SlowTimes> =
            self.slowing.as_ref().map(|slowing| read("slowing", slowing)).transpose()?;
        Ok(Scenario {
            speeds: read_or("sites", self.sites.as_ref(), Sites(usual.speeds.clone()))?.0,
            load: self.load,
            service: read_or("service", self.service.as_ref(), Work(Service::Exponential))?.0,
            delay: read_or("delay", self.delay.as_ref(), usual.delay)?,
            view: match self.view.as_str() {
                "exact" => View::Exact,
                "refresh" => View::Refresh,
                "transit" => View::Transit,
                other => return Err(choice("view", other, "exact, refresh, transit")),
            },
            probes: match self.probes.as_str() {
                "fresh" => Probes::Fresh,
                "late" => Probes::Late,
                "none" => Probes::None,
                other => return Err(choice("probes", other, "fresh, late, none")),
            },
            probe_cost: ProbeCost::default(),
            slowing: slowing.map(|SlowTimes(slowing)| slowing),
            balancers: self.balancers,
            weights_known: !self.unweighted,
            jobs: read_or("requests", self.requests.as_ref(), Requests(200_000))?.0,
            warmup: self.warmup,
            ..usual
        })
    }
}

/// Balancers before sites: a table, a row a balancer.
#[pyfunction]
pub(crate) fn balance_simulate(
    py: Python<'_>,
    trace: Option<&Bound<'_, PyAny>>,
    policies: Option<&Bound<'_, PyAny>>,
    system: System<'_>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Table> {
    let jobs: Requests = read_or("requests", system.requests.as_ref(), Requests(200_000))?;
    let (arrivals, coming) = match trace {
        None => {
            let gap = read_or("gap", system.gap.as_ref(), Nanos::from_secs(10))?;
            let bursts: Option<Burstiness> =
                system.bursts.as_ref().map(|bursts| read("bursts", bursts)).transpose()?;
            words::arrivals(gap, bursts).map_err(refused)?
        }
        Some(trace) => {
            let traces = traces(trace)?;
            let names = traces.names();
            let arrivals = job::run(py, progress, move |told| {
                told.begin("reading", Amount::Bytes(traces.size_bytes()));
                let mut reader = traces.open().map_err(|error| error.to_string())?;
                read_arrivals(&mut *reader, jobs.0, &|bytes| told.at(bytes))
                    .map_err(|error| error.to_string())
            })?
            .map_err(refused)?;
            let words = words::traced(&names, &arrivals);
            (arrivals, words)
        }
    };
    let words: Vec<String> = read_all("policies", policies)?;
    let specs = words::chosen(&words, &arrivals).map_err(refused)?;
    let scenario = system.scenario(arrivals)?;
    let seeds = system.seeds()?;
    let report = job::run(py, progress, move |told| {
        let asked = scenario.jobs as u64 * (specs.len() as u64 + 2) * seeds.len() as u64;
        told.begin("placing requests", Amount::Things(Some(asked)));
        balance::run(&scenario, &specs, &seeds, &|n| told.more(n))
            .map(|rows| BalanceReport::new(&scenario, &coming, &seeds, rows))
    })?;
    let report = report.map_err(refused)?;
    Ok(Table::new(report.to_table(), about(&report, "rows")))
}

/// A published figure or table: what came of it and its verdicts, as `lab run --json` prints them,
/// with `holds` and `markdown` beside.
#[pyfunction]
pub(crate) fn experiments_run<'py>(
    py: Python<'py>,
    folder: PathBuf,
    published: Option<&Bound<'py, PyAny>>,
    stand_ins: Option<&Bound<'py, PyAny>>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let path = folder.join("experiment.toml");
    let name = path.display().to_string();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| refused(format!("{name}: {error}; give an experiment's folder")))?;
    let experiment = Experiment::parse(&text, &name).map_err(refused)?;
    let paths = |folders: Option<&Bound<'py, PyAny>>| {
        items(folders)?.iter().map(|folder| folder.extract()).collect::<PyResult<Vec<PathBuf>>>()
    };
    let mut made = paths(stand_ins)?;
    made.push(folder);
    let folders = Folders { published: paths(published)?, stand_ins: made };
    let outcome = job::run(py, progress, move |told| {
        experiment.run(&folders, &mut |note| told.begin(note, Amount::Things(None)))
    })?;
    let outcome = outcome.map_err(refused)?;
    let json = serde_json::to_string(&outcome).map_err(refused)?;
    let result = parsed(py, &json)?;
    result.set_item("holds", outcome.all_hold())?;
    result.set_item("markdown", outcome.to_markdown())?;
    Ok(result)
}
