//! Arrival times of requests: a Poisson process, or a Markov-modulated one with bursts.
//!
//! MMPP(2): two states, quiet and burst, each with its own Poisson rate; the time spent in a state
//! is exponential. Steps for the next arrival:
//! 1. Draw the time to the next arrival at the state's rate, from now.
//! 2. When it lies before the state's end, that is it. Otherwise go to the state's end, change
//!    state, draw the new state's end, and begin again from there (the exponential forgets).
//!
//! Source: W. Fischer and K. Meier-Hellstern, "The Markov-modulated Poisson process (MMPP)
//! cookbook", Performance Evaluation 18(2), 1993; for counts over a long time the index of
//! dispersion is I = 1 + 2 p (1 − p) (r₁ − r₀)² / (λ q), p the share of time in bursts, λ the mean
//! rate, q the sum of the two leaving rates. State: 32 bytes.

use super::SpecError;
use thermocline_units::{Nanos, Rng};

/// Arrivals of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Independently, at a constant rate.
    Poisson {
        /// Requests per second, > 0.
        rate_per_s: f64,
    },
    /// Arrivals in bursts.
    Bursty(Mmpp2),
}

/// A Markov-modulated Poisson process with a quiet and a burst state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mmpp2 {
    /// Requests per second in each state, ≥ 0, one of them > 0; quiet first.
    pub rates_per_s: [f64; 2],
    /// Mean time spent in each state, > 0; quiet first.
    pub dwells: [Nanos; 2],
}

/// Bursts as one would measure them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Burstiness {
    /// Mean requests per second over all time.
    pub rate_per_s: f64,
    /// Index of dispersion of counts over a long time, ≥ 1; 1 is Poisson.
    pub dispersion: f64,
    /// Mean length of a burst.
    pub burst: Nanos,
    /// Share of time in bursts, between 0 and 1, both excluded.
    pub burst_share: f64,
}

impl Mmpp2 {
    /// The process that has the measures `wanted`.
    ///
    /// # Errors
    /// When there is none: the quiet state would need a negative rate.
    pub fn from_measures(wanted: Burstiness) -> Result<Mmpp2, SpecError> {
        let Burstiness { rate_per_s: rate, dispersion, burst, burst_share: p } = wanted;
        if !(rate > 0.0 && rate.is_finite() && dispersion >= 1.0 && dispersion.is_finite()) {
            let problem = format!(
                "bursts of rate {rate}/s and dispersion {dispersion}; the rate must be above 0, \
                 the dispersion at least 1"
            );
            return Err(SpecError(problem));
        }
        if !(p > 0.0 && p < 1.0) || burst.0 == 0 {
            let problem = format!(
                "bursts of mean length {burst} for {p} of the time; the length must be above 0, \
                 the share between 0 and 1"
            );
            return Err(SpecError(problem));
        }
        let burst_s = burst.as_secs_f64();
        let leaving_per_s = 1.0 / (burst_s * (1.0 - p));
        let step = ((dispersion - 1.0) * rate * leaving_per_s / (2.0 * p * (1.0 - p))).sqrt();
        let quiet = rate - p * step;
        if quiet < 0.0 {
            // step = rate / p at the limit; solved for the burst's length.
            let shortest_s = (dispersion - 1.0) * p / (2.0 * (1.0 - p) * (1.0 - p) * rate);
            return Err(SpecError(format!(
                "a dispersion of {dispersion} at {rate} requests/s with bursts of {burst} would \
                 need a negative quiet rate; make bursts at least {shortest_s:.3} s long, rarer, \
                 or the dispersion smaller"
            )));
        }
        let dwell_quiet = Nanos((burst.0 as f64 * (1.0 - p) / p).round() as u64);
        Ok(Mmpp2 { rates_per_s: [quiet, quiet + step], dwells: [dwell_quiet, burst] })
    }

    /// Mean requests per second.
    pub fn mean_rate_per_s(&self) -> f64 {
        let p = self.burst_share();
        (1.0 - p) * self.rates_per_s[0] + p * self.rates_per_s[1]
    }

    /// Index of dispersion of the counts of windows of the given length; of infinitely long ones
    /// for `None`.
    pub fn dispersion(&self, window: Option<Nanos>) -> f64 {
        let p = self.burst_share();
        let leaving_per_s: f64 = self.dwells.iter().map(|dwell| 1.0 / dwell.as_secs_f64()).sum();
        let step = self.rates_per_s[1] - self.rates_per_s[0];
        let limit = 2.0 * p * (1.0 - p) * step * step / (self.mean_rate_per_s() * leaving_per_s);
        let reached = window.map_or(1.0, |window| {
            let decay = leaving_per_s * window.as_secs_f64();
            1.0 + (-decay).exp_m1() / decay
        });
        1.0 + limit * reached
    }

    fn burst_share(&self) -> f64 {
        let [quiet, burst] = self.dwells.map(Nanos::as_secs_f64);
        burst / (quiet + burst)
    }
}

impl Arrivals {
    /// Mean requests per second.
    pub fn mean_rate_per_s(&self) -> f64 {
        match self {
            Arrivals::Poisson { rate_per_s } => *rate_per_s,
            Arrivals::Bursty(bursts) => bursts.mean_rate_per_s(),
        }
    }

    /// Checks rates and dwells.
    pub(super) fn check(&self) -> Result<(), SpecError> {
        let rates: &[f64] = match self {
            Arrivals::Poisson { rate_per_s } => std::slice::from_ref(rate_per_s),
            Arrivals::Bursty(bursts) => {
                if bursts.dwells.contains(&Nanos(0)) {
                    return Err(SpecError("a state of bursts lasts no time".to_string()));
                }
                &bursts.rates_per_s
            }
        };
        let possible = |rate: &f64| (0.0..=RATE_MAX_PER_S).contains(rate);
        if rates.iter().all(possible) && rates.iter().any(|rate| *rate >= RATE_MIN_PER_S) {
            return Ok(());
        }
        Err(SpecError(format!(
            "a rate of {rates:?} requests/s; rates lie between {RATE_MIN_PER_S} and \
             {RATE_MAX_PER_S}"
        )))
    }
}

/// One request a nanosecond is as fast as time can tell them apart.
const RATE_MAX_PER_S: f64 = 1e9;
/// One request in eleven days; slower, and times would leave 63 bits in long traces.
const RATE_MIN_PER_S: f64 = 1e-6;

/// The arrival times of one stream.
#[derive(Debug, Clone)]
pub(super) struct ArrivalTimes {
    arrivals: Arrivals,
    now: Nanos,
    state: usize,
    /// End of the state.
    state_end: Nanos,
}

impl ArrivalTimes {
    /// Starts at time 0, in a state drawn by the share of time that is spent in it.
    pub(super) fn new(arrivals: Arrivals, rng: &mut Rng) -> ArrivalTimes {
        let mut times =
            ArrivalTimes { arrivals, now: Nanos(0), state: 0, state_end: Nanos(u64::MAX) };
        if let Arrivals::Bursty(bursts) = arrivals {
            times.state = usize::from(rng.unit_f64() < bursts.burst_share());
            times.state_end = exponential(rng, bursts.dwells[times.state].0 as f64);
        }
        times
    }

    /// Lets nothing arrive before `time`.
    pub(super) fn skip_to(&mut self, time: Nanos) {
        self.now = self.now.max(time);
    }

    /// The next arrival; never before the one before.
    #[inline]
    pub(super) fn next(&mut self, rng: &mut Rng) -> Nanos {
        loop {
            let rate_per_s = match &self.arrivals {
                Arrivals::Poisson { rate_per_s } => *rate_per_s,
                Arrivals::Bursty(bursts) => bursts.rates_per_s[self.state],
            };
            // At a rate of 0 the mean is infinite and the next arrival never.
            let gap = exponential(rng, 1e9 / rate_per_s);
            let arrival = Nanos(self.now.0.saturating_add(gap.0));
            if arrival < self.state_end {
                self.now = arrival;
                return arrival;
            }
            let Arrivals::Bursty(bursts) = &self.arrivals else { return Nanos(u64::MAX) };
            self.now = self.now.max(self.state_end);
            self.state = 1 - self.state;
            let dwell = exponential(rng, bursts.dwells[self.state].0 as f64);
            self.state_end = Nanos(self.now.0.saturating_add(dwell.0.max(1)));
        }
    }
}

/// An exponential span of mean `mean_ns`, rounded to whole nanoseconds.
#[inline]
fn exponential(rng: &mut Rng, mean_ns: f64) -> Nanos {
    Nanos(rng.exponential(mean_ns).round() as u64)
}

#[cfg(test)]
mod tests;
