//! `lab balance`: requests before several first-come-first-served sites, request by request in
//! virtual time, under several balancers.
//!
//! 1. [`Scenario`] says what is there: sites, load, arrivals ([`Mmpp`] or a trace), service times,
//!    how stale the balancers' load information is, how many balancers there are.
//! 2. For each seed the requests are made once: when each comes, how much work it is, which
//!    balancer gets it. All policies are given the same ones (common random numbers), so that
//!    differences between policies are far better known than their values.
//! 3. `machine` runs a policy over them; `central` computes the lower bound: one queue before all
//!    sites. Both bounds, that one and `jsq`, stand in every report.
//! 4. [`Row`] holds means over seeds with the 95 % confidence interval of Student's t.
//!
//! Since sites are FIFO and work is known when a request is placed, its departure is known then:
//! the past state of a site at any moment is two counts, of arrivals and of departures. Nothing is
//! sampled or approximated.
//!
//! Invariants: results depend on the scenario, policies and seeds, not on the number of cores. Not
//! here: sites that fail, time-sharing, retries.

mod arrivals;
mod central;
mod flat;
mod html;
mod jobs;
mod machine;
mod mmpp;
mod pace;
mod report;
mod run;
mod scenario;
mod spread;
#[cfg(test)]
mod tests;
mod trail;
pub mod words;

pub use arrivals::{Arrival, Arrivals, ArrivalsError, read_arrivals};
pub use mmpp::{Bursts, Mmpp, Seconds};
pub use report::{BalanceReport, Row};
pub use run::{BalanceError, run};
pub use scenario::{ProbeCost, Probes, Scenario, Service, Slowing, View};
pub use spread::Estimate;

/// Seeds of one run, at most: each is a run of its own.
pub const SEEDS_MAX: u64 = 100_000;
