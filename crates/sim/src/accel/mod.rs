//! `lab accel`: the platform of a pool of accelerators on modelled slots, in virtual time.
//!
//! 1. A [`Scene`] has cards, functions, tenants with their chains, and something that happens
//!    ([`Happening`]).
//! 2. `stage` runs the live machine (`thermocline_accel::Platform`) with a scheduler: packets come
//!    as a Poisson process, their flows by a power law. A slot does one packet after the other, the
//!    processor is one core for all functions, a configuration port loads one slot at a time.
//! 3. [`Outcome`] has what was carried, late and lost from the change on. Each scheduler gets the
//!    same packets.
//!
//! *Best after the fact* is the best of several runs with the demand to come known (`foresight`
//! with several values of `ahead`), chosen when all is over. It is a reference, not a proven bound.
//!
//! Not modelled: contention for the bus, caches of the processor, packets' lengths.

mod outcome;
mod scene;
mod stage;
#[cfg(test)]
mod tests;

pub use outcome::{Outcome, Row};
pub use scene::{FunctionModel, Happening, Profile, Scene, SceneError, Tenant};

use outcome::mean;
use rayon::prelude::*;
use thermocline_policy::registry::PolicySpec;

/// Variants of which the best is taken after the fact.
const AFTER_THE_FACT: [&str; 4] = [
    "foresight:ahead=20ms",
    "foresight:ahead=100ms",
    "foresight:ahead=400ms",
    "foresight:ahead=400ms:high=0.6",
];

/// Name of that row.
pub(crate) const BEST: &str = "best after the fact";

/// Runs a scene with each scheduler, and the best after the fact, over the seeds.
///
/// # Errors
/// When the scene or a scheduler cannot be used; found before anything runs.
pub fn run(scene: &Scene, specs: &[PolicySpec], seeds: &[u64]) -> Result<Vec<Row>, SceneError> {
    scene.check()?;
    if seeds.is_empty() {
        return Err(SceneError::Scene("no seed is given".to_string()));
    }
    for spec in specs {
        spec.build_scheduler(Box::new(thermocline_policy::accel::NothingComing))?;
    }
    let best = AFTER_THE_FACT.iter().map(|text| PolicySpec::parse(text));
    let best: Vec<PolicySpec> = best.collect::<Result<_, _>>()?;
    let all: Vec<(&PolicySpec, u64)> =
        specs.iter().chain(&best).flat_map(|spec| seeds.iter().map(move |s| (spec, *s))).collect();
    let one = |(spec, seed): &(&PolicySpec, u64)| stage::play(scene, spec, *seed);
    let outcomes: Vec<Outcome> = all.par_iter().with_max_len(1).map(one).collect();
    let of_spec = |at: usize| outcomes[at * seeds.len()..][..seeds.len()].to_vec();
    let mut rows: Vec<Row> = specs
        .iter()
        .enumerate()
        .map(|(at, spec)| Row { policy: spec.label.clone(), outcomes: of_spec(at) })
        .collect();
    let variants = (0..best.len()).map(|at| of_spec(specs.len() + at));
    let worse = |outcomes: &Vec<Outcome>| mean(outcomes, |o| (o.late + o.lost) as f64);
    let least = variants.min_by(|a, b| worse(a).total_cmp(&worse(b)));
    rows.extend(least.map(|outcomes| Row { policy: BEST.to_string(), outcomes }));
    Ok(rows)
}
