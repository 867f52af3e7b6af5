//! Scenario of a run of `lab balance`: sites, balancers, load, reports and probes.

use super::arrivals::Arrivals;
use thermocline_units::Nanos;

/// Ways in which balancers learn of queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Every change is known exactly `delay` after it has happened. The source's tables.
    Exact,
    /// All sites report at the same moments, `delay` apart, and are known at once.
    Refresh,
    /// Reports as under `Refresh`, and a report takes `delay` to arrive.
    Transit,
}

/// Distribution of work; its mean follows from the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Service {
    /// Exponential.
    Exponential,
    /// Every request is as much work.
    Deterministic,
    /// Pareto with this shape, above 1; below 2 its variance is infinite.
    Pareto(f64),
    /// Work in proportion to the request's length in the trace; one byte at least.
    Bytes,
}

/// Contents of an answer to a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probes {
    /// State at this moment: probes cost no time.
    Fresh,
    /// State when the last report was taken.
    Late,
    /// Nothing: none is sent.
    None,
}

/// Cost of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbeCost {
    /// Time that a site of speed 1 spends on an answer, and on nothing else meanwhile.
    pub work: Nanos,
    /// From the balancer to the site and back.
    pub trip: Nanos,
}

/// Sites that slow down for a while, one at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowing {
    /// From the beginning of one slow time to that of the next, of any site.
    pub every: Nanos,
    /// Length of one, at most `every`.
    pub lasting: Nanos,
    /// Share of its speed that the site then has, above 0 and at most 1.
    pub to: f64,
}

/// Sites, load, and what balancers know.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Speed of each site; 1 to 65,535 sites, each above 0.
    pub speeds: Vec<f64>,
    /// Share of what all sites can do that is asked of them, above 0.
    pub load: f64,
    /// Arrivals of requests.
    pub arrivals: Arrivals,
    /// Work of requests.
    pub service: Service,
    /// Age of the load information that balancers have.
    pub delay: Nanos,
    /// Manner in which it is stale.
    pub view: View,
    /// Contents of answers to probes.
    pub probes: Probes,
    /// Their cost.
    pub probe_cost: ProbeCost,
    /// Slowing of sites at times, if they slow.
    pub slowing: Option<Slowing>,
    /// Independent balancers, 1 or more; each request goes to any of them.
    pub balancers: u32,
    /// True if balancers are told how fast sites are, as weights; otherwise they hold them equal.
    pub weights_known: bool,
    /// Requests of a run; a trace may have fewer.
    pub jobs: usize,
    /// Share of them at the beginning that is not counted, below 1.
    pub warmup: f64,
}

impl Scenario {
    /// The source's system (Tai 2015 §3.1): 16 equal sites, half loaded, state exactly 1 s old, one
    /// balancer.
    pub fn of_the_source(arrivals: Arrivals) -> Scenario {
        Scenario {
            speeds: vec![1.0; 16],
            load: 0.5,
            arrivals,
            service: Service::Exponential,
            delay: Nanos::from_secs(1),
            view: View::Exact,
            probes: Probes::Fresh,
            probe_cost: ProbeCost::default(),
            slowing: None,
            balancers: 1,
            weights_known: true,
            jobs: 1_000_000,
            warmup: 0.05,
        }
    }

    /// Mean seconds that a request takes alone on a site of speed 1.
    pub(crate) fn service_s(&self) -> f64 {
        self.load * self.speeds.iter().sum::<f64>() * self.arrivals.gap_s()
    }
}
