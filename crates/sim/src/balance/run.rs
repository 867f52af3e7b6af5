//! Every policy over the same requests, seed by seed, on all cores.

use super::arrivals::Arrivals;
use super::central;
use super::jobs;
use super::machine::{Machine, Measures};
use super::pace;
use super::report::{Row, rows};
use super::scenario::{Scenario, Service};
use rayon::prelude::*;
use thermocline_policy::registry::{PolicySpec, SpecError};
use thermocline_units::Nanos;

/// A run that could not be done.
#[derive(Debug, thiserror::Error)]
pub enum BalanceError {
    /// A policy is unknown, no balancer, or has a wrong setting.
    #[error(transparent)]
    Policy(#[from] SpecError),
    /// The scenario makes no sense.
    #[error("{0}")]
    Scenario(String),
}

/// Contenders of a run: the bounds, then the policies.
enum Contender<'a> {
    /// One queue before all sites.
    Central,
    /// A balancer.
    Policy(&'a PolicySpec),
}

/// Balancers of a scenario at most: each has its own knowledge of all sites.
const BALANCERS_MAX: u32 = 65_536;

/// The shortest queue at this moment, in every table.
const JSQ: &str = "jsq";

/// Runs the policies, and both bounds, over `seeds`. `progress` is told of requests placed, from
/// any thread.
///
/// # Errors
/// When a policy or the scenario cannot be run; found before anything runs.
pub fn run(
    scenario: &Scenario,
    specs: &[PolicySpec],
    seeds: &[u64],
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Row>, BalanceError> {
    check(scenario, specs, seeds)?;
    let jsq = PolicySpec::parse(JSQ)?;
    let mut contenders = vec![Contender::Central, Contender::Policy(&jsq)];
    contenders.extend(specs.iter().filter(|spec| spec.written != JSQ).map(Contender::Policy));
    let mut measures: Vec<Vec<Measures>> = contenders.iter().map(|_| Vec::new()).collect();
    for seed in seeds {
        let jobs = jobs::make(scenario, *seed);
        let end = jobs.last().map_or(Nanos(0), |job| job.at);
        let paces = pace::of_sites(scenario.slowing.as_ref(), scenario.speeds.len(), end, *seed);
        let warmup = (jobs.len() as f64 * scenario.warmup) as usize;
        let one = |contender: &Contender<'_>| {
            let measured = match contender {
                Contender::Central => central::run(&jobs, &scenario.speeds, &paces, warmup),
                Contender::Policy(spec) => {
                    let rule = || spec.build_rule().expect("it was built before");
                    let clairvoyant = spec.is_clairvoyant();
                    let machine = Machine::new(scenario, &jobs, &paces, *seed, &rule);
                    machine.run(clairvoyant, warmup)
                }
            };
            progress(jobs.len() as u64);
            measured
        };
        let done: Vec<Measures> = contenders.par_iter().with_max_len(1).map(one).collect();
        measures.iter_mut().zip(done).for_each(|(all, one)| all.push(one));
    }
    let names = contenders.iter().map(|contender| match contender {
        Contender::Central => ("central queue".to_string(), true),
        Contender::Policy(spec) => (spec.label.clone(), spec.is_clairvoyant()),
    });
    Ok(rows(names.zip(measures), matches!(scenario.arrivals, Arrivals::Trace(_))))
}

fn check(scenario: &Scenario, specs: &[PolicySpec], seeds: &[u64]) -> Result<(), BalanceError> {
    let wrong = |text: String| Err(BalanceError::Scenario(text));
    for spec in specs {
        spec.build_rule()?;
        if spec.entry.name == "ara-opt" && matches!(scenario.arrivals, Arrivals::Trace(_)) {
            return wrong(format!(
                "`{}` is told when bursts begin and end, which a trace does not say; leave it out",
                spec.label
            ));
        }
    }
    if seeds.is_empty() {
        return wrong("no seed is given".to_string());
    }
    let sites = scenario.speeds.len();
    if sites == 0 || sites >= usize::from(u16::MAX) {
        return wrong(format!("{sites} sites; there are 1 to 65,534"));
    }
    if let Some(speed) = scenario.speeds.iter().find(|speed| !(speed.is_finite() && **speed > 0.0))
    {
        return wrong(format!("a site of speed {speed}; speeds are above 0"));
    }
    if !(scenario.load.is_finite() && scenario.load > 0.0) {
        return wrong(format!("a load of {}; it is above 0", scenario.load));
    }
    if !(0.0..1.0).contains(&scenario.warmup) {
        return wrong(format!("a warm-up of {}; it is a share below 1", scenario.warmup));
    }
    if !(1..=BALANCERS_MAX).contains(&scenario.balancers) {
        return wrong(format!(
            "{} balancers; 1 to {BALANCERS_MAX} are possible",
            scenario.balancers
        ));
    }
    if scenario.jobs == 0 || scenario.jobs > u32::MAX as usize {
        return wrong("1 to 4,294,967,295 requests are possible".to_string());
    }
    if let Some(slowing) = &scenario.slowing {
        let share = slowing.to > 0.0 && slowing.to <= 1.0;
        if !share || slowing.every.0 == 0 || slowing.lasting > slowing.every {
            return wrong(
                "sites slow down to a share above 0 and at most 1, for a time that is over before \
                 the next one slows down"
                    .to_string(),
            );
        }
    }
    match (scenario.service, &scenario.arrivals) {
        (Service::Pareto(shape), _) if !(shape.is_finite() && shape > 1.0) => {
            wrong(format!("a Pareto shape of {shape}; its mean is finite above 1 only"))
        }
        (Service::Bytes, Arrivals::Process(_)) => wrong(
            "work in proportion to bytes needs a trace; name one, or choose another service"
                .to_string(),
        ),
        _ => Ok(()),
    }
}
