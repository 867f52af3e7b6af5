//! The requests of one seed: the same for every policy.
//!
//! Arrivals, work and balancers come from streams of their own, so that a change of one leaves the
//! others as they were. State: 24 B a request.

use super::arrivals::Arrivals;
use super::mmpp::Draw;
use super::scenario::{Scenario, Service};
use thermocline_units::{Nanos, Rng};

/// One request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    pub(super) at: Nanos,
    /// Time that it takes alone on a site of speed 1.
    pub(super) work: Nanos,
    pub(super) balancer: u32,
    /// True if it comes in a burst; false where that is not known.
    pub(super) burst: bool,
}

/// Stream of a generator; part of its seed.
pub(super) const STREAM_OF_ARRIVALS: u64 = 1;
const STREAM_OF_WORK: u64 = 2;
const STREAM_OF_BALANCERS: u64 = 3;
/// Stream of the machine's own choices, such as which balancer an idle site tells.
pub(super) const STREAM_OF_SITES: u64 = 4;
/// Stream of the sites' slow times.
pub(super) const STREAM_OF_PACES: u64 = 5;
/// Balancers have one each, from here on.
pub(super) const STREAM_OF_RULES: u64 = 16;

/// A seed for one stream of one run.
pub(super) fn seed_of(seed: u64, stream: u64) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(stream << 20)
}

/// The requests of `seed`, in order of time.
pub(super) fn make(scenario: &Scenario, seed: u64) -> Vec<Job> {
    let mut times = times(scenario, seed);
    let mut work = Work::new(scenario, seed);
    let mut balancers = Rng::seeded(seed_of(seed, STREAM_OF_BALANCERS));
    let jobs = times.by_ref().take(scenario.jobs).map(|(at, burst, bytes)| Job {
        at,
        work: work.draw(bytes),
        balancer: balancers.below(u64::from(scenario.balancers)) as u32,
        burst,
    });
    jobs.collect()
}

/// Time, burst, length of each request.
fn times(scenario: &Scenario, seed: u64) -> Box<dyn Iterator<Item = (Nanos, bool, u32)> + '_> {
    match &scenario.arrivals {
        Arrivals::Process(process) => {
            let mut draw = Draw::new(*process, seed_of(seed, STREAM_OF_ARRIVALS));
            Box::new(std::iter::from_fn(move || {
                let (at_s, burst) = draw.next();
                Some((Nanos((at_s * 1e9) as u64), burst, 0))
            }))
        }
        Arrivals::Trace(arrivals) => {
            Box::new(arrivals.iter().map(|arrival| (arrival.at, false, arrival.bytes)))
        }
    }
}

/// Draws how much work requests are.
struct Work {
    rng: Rng,
    service: Service,
    mean_ns: f64,
    /// Mean length of requests in the trace.
    mean_bytes: f64,
}

impl Work {
    fn new(scenario: &Scenario, seed: u64) -> Work {
        let mean_bytes = match &scenario.arrivals {
            Arrivals::Trace(arrivals) => {
                let some = &arrivals[..arrivals.len().min(scenario.jobs)];
                let sum: u64 = some.iter().map(|arrival| u64::from(arrival.bytes.max(1))).sum();
                sum as f64 / some.len().max(1) as f64
            }
            Arrivals::Process(_) => 1.0,
        };
        Work {
            rng: Rng::seeded(seed_of(seed, STREAM_OF_WORK)),
            service: scenario.service,
            mean_ns: scenario.service_s() * 1e9,
            mean_bytes,
        }
    }

    fn draw(&mut self, bytes: u32) -> Nanos {
        let times = match self.service {
            Service::Exponential => self.rng.exponential(1.0),
            Service::Deterministic => 1.0,
            Service::Pareto(shape) => {
                let least = (shape - 1.0) / shape;
                least * (1.0 - self.rng.unit_f64()).powf(-1.0 / shape)
            }
            Service::Bytes => f64::from(bytes.max(1)) / self.mean_bytes,
        };
        Nanos((self.mean_ns * times) as u64)
    }
}
