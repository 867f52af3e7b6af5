//! Advice from a load: what another policy, more fast space, a block cache or a bucket would bring
//! in latency, wear and money, and the cheapest set of devices for a stated 99th percentile.
//!
//! 1. The load runs on the pools as they are, and on each changed set (`changes`), with several
//!    seeds of the devices ([`Question::seeds`]); all machines are the engine's, on models.
//! 2. A change is judged by the ratio of its mean to that of now, seed by seed: better or worse
//!    only if the 95 % interval of the ratio says so, and it is at least [`TOLD`] away from 1. One
//!    pool alone runs under `static`: there is nowhere to move to.
//! 3. Where the trace tells how long its requests really took, the forecast for the pools as they
//!    are stands beside that: the error of this forecast is what the others may be off, too.
//!
//! Money is of a month, by [`Prices`]; wear is drive writes a day: bytes written to flash a day
//! over its capacity, of the device that is worn most. Days and months are those of the load, not
//! of the run: what a slow device works off long after the last request came is asked of it in the
//! load's time all the same. Of a load shorter than [`SPAN_MIN_S`] nobody knows what a day brings.
//!
//! Not here: choosing for the user, and anything that changes an engine.

mod changes;
mod prices;

pub use prices::{Prices, PricesError};

use self::changes::{Trial, sets, sized, trials};
use self::prices::Month;
use crate::balance::Estimate;
use crate::machine::{self, Arrivals, Load, MachineError, MachineOptions, PoolPlan, PoolUse, Run};
use rayon::prelude::*;
use serde::Serialize;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::Bytes;

/// Differences of the mean that are smaller than this share are not told as better or worse.
pub(crate) const TOLD: f64 = 0.02;

/// Seconds that a load lasts at least, for its writes to tell of a day.
pub(crate) const SPAN_MIN_S: f64 = 1.0;
/// Seconds that a load may last, ten years: beyond that its unit of time is wrong, and a placement
/// would be asked for hours what it does about nothing.
const SPAN_MAX_S: f64 = 3_653.0 * DAY_S;

const DAY_S: f64 = 86_400.0;
const MONTH_S: f64 = 30.44 * DAY_S;

/// The question.
#[derive(Debug, Clone)]
pub struct Question {
    /// Pools as they are, fastest first.
    pub pools: Vec<PoolPlan>,
    /// Policy as it is.
    pub policy: PolicySpec,
    /// Policies that are compared with it.
    pub rivals: Vec<PolicySpec>,
    /// Bytes that are added to the fastest pool in one of the trials; `None`: as much again.
    pub more: Option<Bytes>,
    /// Options of all machines; the seed is the first one.
    pub options: MachineOptions,
    /// Runs of each trial, with seeds of their own; at least 1.
    pub seeds: u64,
    /// Prices.
    pub prices: Prices,
}

/// A pool of a trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Its name.
    pub pool: String,
    /// Profile of its device.
    pub profile: String,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes of the block cache in front of it; none: there is none.
    pub cache_bytes: Option<u64>,
}

/// Comparison with the pools as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The machine as it is.
    Now,
    /// Its mean is lower, beyond chance and by a share worth telling.
    Better,
    /// Its mean is higher, likewise.
    Worse,
    /// No difference: whatever there is is too small to be worth telling.
    Same,
    /// Its runs differ too much to say; more seeds may tell.
    Unclear,
    /// A trial that could not be run.
    Impossible,
}

/// A ratio over several seeds: the geometric mean of each seed's, with its 95 % interval. Both ends
/// are the mean itself where there is one seed only.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Ratio {
    fn of(ratios: &[f64]) -> Ratio {
        let logarithms: Vec<f64> =
            ratios.iter().map(|ratio| ratio.max(f64::MIN_POSITIVE).ln()).collect();
        let Estimate { mean, ci95 } = Estimate::of(&logarithms);
        let around = if ci95.is_finite() { ci95 } else { 0.0 };
        Ratio { mean: mean.exp(), low: (mean - around).exp(), high: (mean + around).exp() }
    }
}

/// Figures of a trial: means over its seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Mean latency of reads and writes, seconds.
    pub mean_s: Estimate,
    /// 99th percentile, seconds.
    pub p99_s: Estimate,
    /// Ratio of the mean to that of now.
    pub mean_ratio: Ratio,
    /// The same of the 99th percentile.
    pub p99_ratio: Ratio,
    /// Drive writes a day of the flash device that is worn most; none: there is no flash, or the
    /// load is too short to tell.
    pub writes_a_day: Option<f64>,
    /// Bytes that moves wrote, a run.
    pub moved_bytes: f64,
    /// Cost of a month; none: a device has no price, or requests cost money and the load is too
    /// short to tell how many a month has.
    pub month_cost: Option<f64>,
    /// Requests that failed, a run.
    pub failed: f64,
}

/// Outcome of a trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The change, in a few words.
    pub what: String,
    /// Its policy.
    pub policy: String,
    /// Its pools, fastest first.
    pub pools: Vec<Part>,
    /// Comparison with now.
    pub verdict: Verdict,
    /// Figures; none where it could not be run.
    pub figures: Option<Figures>,
    /// Reason why it could not be run.
    pub problem: Option<String>,
}

/// Latencies that the trace tells of its own system.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Requests with a time.
    pub requests: u64,
    /// Their mean, seconds.
    pub mean_s: f64,
    /// 99th percentile, seconds.
    pub p99_s: f64,
}

/// Everything that was found out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// Requests of the load.
    pub requests: u64,
    /// From the first to the last, seconds.
    pub span_s: f64,
    /// Bytes of the chunks that it touches.
    pub touched_bytes: u64,
    /// Runs of each trial.
    pub seeds: u64,
    /// Answers: the machine as it is first, then the trials.
    pub answers: Vec<Answer>,
    /// Latencies of the trace's own system; none: it tells nothing.
    pub measured: Option<Measured>,
}

/// Runs all trials. `progress` is told requests asked, of [`requests`] in all.
///
/// # Errors
/// When the load lasts longer than ten years, or the pools as they are cannot run it. A changed
/// set that cannot is an [`Verdict::Impossible`] answer.
pub fn advise(
    load: &Load,
    question: &Question,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Advice, MachineError> {
    check_span(load)?;
    let (chunk, touched) = (question.options.chunk, touched(load, question));
    let pools = sized(&question.pools, chunk, touched);
    let now = Trial::new("as it is".to_string(), pools.clone(), &question.policy);
    let changed = changed(&pools, question);
    let mut all = vec![now];
    all.extend(changed);
    let mut runs = run_all(load, question, &all, progress);
    let first = std::mem::replace(&mut runs[0], Ok(Vec::new()))?;
    let answers = all.iter().zip(runs).enumerate().map(|(index, (trial, runs))| match index {
        0 => answer((load, question), trial, Ok(&first), &first),
        _ => answer((load, question), trial, runs.as_deref(), &first),
    });
    Ok(Advice {
        requests: load.demands.len() as u64,
        span_s: load.span().as_secs_f64(),
        touched_bytes: touched * chunk.0,
        seeds: question.seeds,
        answers: answers.collect(),
        measured: measured(load),
    })
}

/// Requests that [`advise`] runs in all.
pub fn requests(load: &Load, question: &Question) -> u64 {
    let pools = sized(&question.pools, question.options.chunk, touched(load, question));
    (changed(&pools, question).len() as u64 + 1) * question.seeds * load.demands.len() as u64
}

/// The cheapest of several sets of devices whose 99th percentile is at most `p99_s`, the upper end
/// of its interval included; the sets that are cheaper, and miss it, come before it. `None` in the
/// second place: none of them keeps it.
///
/// # Errors
/// When a machine cannot run the load for a reason that is not the set's.
pub fn cheapest(
    load: &Load,
    question: &Question,
    p99_s: f64,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(Vec<Answer>, bool), MachineError> {
    check_span(load)?;
    // Devices that are bought instead hold nothing yet.
    let options = MachineOptions { start: None, ..question.options.clone() };
    let question = &Question { options, ..question.clone() };
    let touched = touched(load, question);
    let mut priced: Vec<(f64, Trial)> = sets(&question.policy)
        .into_iter()
        .filter_map(|trial| {
            let pools = sized(&trial.pools, question.options.chunk, touched);
            let trial = Trial { pools, ..trial };
            Some((month_cost(&question.prices, &trial, None)?, trial))
        })
        .collect();
    priced.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut answers = Vec::new();
    for (_, trial) in priced {
        let mut runs = run_all(load, question, std::slice::from_ref(&trial), progress);
        let runs = runs.pop().expect("one trial was run");
        let base = runs.as_deref().unwrap_or_default().to_vec();
        let answer = answer((load, question), &trial, runs.as_deref(), &base);
        let kept = answer.figures.as_ref().is_some_and(|figures| {
            let above = if figures.p99_s.ci95.is_finite() { figures.p99_s.ci95 } else { 0.0 };
            figures.p99_s.mean + above <= p99_s && figures.failed == 0.0
        });
        answers.push(answer);
        if kept {
            return Ok((answers, true));
        }
    }
    Ok((answers, false))
}

fn check_span(load: &Load) -> Result<(), MachineError> {
    let years = load.span().as_secs_f64() / (365.25 * DAY_S);
    if load.span().as_secs_f64() <= SPAN_MAX_S {
        return Ok(());
    }
    Err(MachineError::Options(format!(
        "the trace lasts {years:.0} years; at most 10 are asked for: is its unit of time right \
         (--columns time=0:us)?"
    )))
}

/// Seconds of the load that a run stands for; `None`: too few to tell of a day.
fn span_s(load: &Load, arrivals: Arrivals, run: &Run) -> Option<f64> {
    let span_s = match arrivals {
        Arrivals::Open { speed } => load.span().as_secs_f64() / speed,
        Arrivals::Closed { .. } => run.span_s,
    };
    Some(span_s).filter(|span_s| *span_s >= SPAN_MIN_S)
}

fn changed(pools: &[PoolPlan], question: &Question) -> Vec<Trial> {
    let Question { policy, rivals, more, options, .. } = question;
    trials(pools, (policy, &rivals[..]), *more, options.chunk)
}

fn touched(load: &Load, question: &Question) -> u64 {
    load.touched(question.options.chunk).len() as u64
}

fn measured(load: &Load) -> Option<Measured> {
    let told = &load.responses;
    (told.count() > 0).then(|| Measured {
        requests: told.count(),
        mean_s: told.mean().as_secs_f64(),
        p99_s: told.quantile(0.99).as_secs_f64(),
    })
}

/// Runs of each trial, in the order of their seeds.
fn run_all(
    load: &Load,
    question: &Question,
    trials: &[Trial],
    progress: &(dyn Fn(u64) + Sync),
) -> Vec<Result<Vec<Run>, MachineError>> {
    let jobs: Vec<(&Trial, u64)> = trials
        .iter()
        .flat_map(|trial| (0..question.seeds).map(move |seed| (trial, seed)))
        .collect();
    let runs: Vec<Result<Run, MachineError>> = jobs
        .into_par_iter()
        .with_max_len(1)
        .map(|(trial, seed)| {
            let options =
                MachineOptions { seed: question.options.seed + seed, ..question.options.clone() };
            let policy = std::slice::from_ref(&trial.policy);
            let mut runs = machine::run(load, &trial.pools, policy, &options, progress)?;
            let run = runs.pop().expect("one policy was run");
            run.served_all().map(|()| run)
        })
        .collect();
    let mut runs = runs.into_iter();
    // All seeds of a trial are taken, whichever of them fails first.
    let mut of_next = || runs.by_ref().take(question.seeds as usize).collect::<Vec<_>>();
    trials.iter().map(|_| of_next().into_iter().collect()).collect()
}

fn answer(
    (load, question): (&Load, &Question),
    trial: &Trial,
    runs: Result<&[Run], &MachineError>,
    now: &[Run],
) -> Answer {
    let part = |pool: &PoolPlan| {
        let size = pool.size.bytes(Bytes(0));
        Part {
            pool: pool.name.clone(),
            profile: pool.profile_name.clone(),
            size_bytes: size.0,
            cache_bytes: pool.cache.as_ref().map(|cache| cache.size.bytes(size).0),
        }
    };
    let figures = runs.ok().map(|runs| figures((load, question), trial, runs, now));
    let verdict = match &figures {
        None => Verdict::Impossible,
        Some(_) if runs.is_ok_and(|runs| std::ptr::eq(runs, now)) => Verdict::Now,
        Some(figures) => verdict(figures.mean_ratio),
    };
    Answer {
        what: trial.what.clone(),
        policy: trial.policy.label.clone(),
        pools: trial.pools.iter().map(part).collect(),
        verdict,
        figures,
        problem: runs.err().map(ToString::to_string),
    }
}

/// Word on a ratio of means.
fn verdict(ratio: Ratio) -> Verdict {
    if ratio.low > 1.0 - TOLD && ratio.high < 1.0 + TOLD {
        Verdict::Same
    } else if ratio.high < 1.0 && ratio.mean <= 1.0 - TOLD {
        Verdict::Better
    } else if ratio.low > 1.0 && ratio.mean >= 1.0 + TOLD {
        Verdict::Worse
    } else {
        Verdict::Unclear
    }
}

fn figures(
    (load, question): (&Load, &Question),
    trial: &Trial,
    runs: &[Run],
    now: &[Run],
) -> Figures {
    let span = |run: &Run| span_s(load, question.options.arrivals, run);
    let of = |figure: &dyn Fn(&Run) -> f64| -> Vec<f64> { runs.iter().map(figure).collect() };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let ratios = |figure: fn(&Run) -> f64| -> Ratio {
        let ratio = |(run, now)| figure(run) / figure(now).max(f64::MIN_POSITIVE);
        Ratio::of(&runs.iter().zip(now).map(ratio).collect::<Vec<f64>>())
    };
    let worn: Option<Vec<f64>> =
        runs.iter().map(|run| writes_a_day(trial, run, span(run)?)).collect();
    let costs: Option<Vec<f64>> = runs
        .iter()
        .map(|run| month_cost(&question.prices, trial, Some((run, span(run)))))
        .collect();
    Figures {
        mean_s: Estimate::of(&of(&|run| run.all.mean_s)),
        p99_s: Estimate::of(&of(&|run| run.all.p99_s)),
        mean_ratio: ratios(|run| run.all.mean_s),
        p99_ratio: ratios(|run| run.all.p99_s),
        writes_a_day: worn.map(|worn| mean(&worn)),
        moved_bytes: mean(&of(&|run| run.migrated_bytes as f64)),
        month_cost: costs.map(|costs| mean(&costs)),
        failed: mean(&of(&|run| run.failed as f64)),
    }
}

/// Bytes written to flash a day over its capacity, of the device where that is most.
fn writes_a_day(trial: &Trial, run: &Run, span_s: f64) -> Option<f64> {
    let days = span_s / DAY_S;
    let each = trial.pools.iter().zip(&run.pools).flat_map(|(plan, used)| {
        let size = plan.size.bytes(Bytes(0));
        let pool =
            (used.flash_host_bytes > 0).then(|| used.flash_host_bytes as f64 / size.0 as f64);
        let cache = used.cache.as_ref().map(|cache| {
            (cache.written_bytes + cache.filled_bytes) as f64 / cache.size_bytes.max(1) as f64
        });
        [pool, cache]
    });
    each.flatten().map(|writes| writes / days).max_by(f64::total_cmp)
}

/// Cost of a month: of the devices, and of the requests of a run that stands for so many seconds,
/// if there is one. `None`: something has no price, or its requests have one and are not known.
fn month_cost(prices: &Prices, trial: &Trial, run: Option<(&Run, Option<f64>)>) -> Option<f64> {
    let months = run.map_or(Some(1.0), |(_, span_s)| Some(span_s? / MONTH_S));
    let requests = |used: &PoolUse| {
        let pieces = |bytes: u64| bytes as f64 / (1u64 << 20) as f64;
        [
            used.reads.count as f64 + pieces(used.copied_out_bytes),
            used.writes.count as f64 + pieces(used.copied_in_bytes),
        ]
        .map(|count| months.map_or(f64::INFINITY, |months| count / months))
    };
    let mut cost = 0.0;
    for (index, plan) in trial.pools.iter().enumerate() {
        let size = plan.size.bytes(Bytes(0));
        let [reads, writes] = run.map_or([0.0; 2], |(run, _)| requests(&run.pools[index]));
        cost += prices.month(&plan.profile_name, Month { bytes: size.0 as f64, reads, writes })?;
        if let Some(cache) = &plan.cache {
            let bytes = cache.size.bytes(size).0 as f64;
            cost += prices.month(&cache.profile_name, Month { bytes, ..Month::default() })?;
        }
    }
    Some(cost).filter(|cost| cost.is_finite())
}

#[cfg(test)]
mod tests;
