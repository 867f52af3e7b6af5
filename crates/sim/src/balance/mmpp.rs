//! A Markov-modulated Poisson process of two states: arrivals at one rate in bursts, at another
//! between them, both of exponential length.
//!
//! Given the mean gap g between arrivals, the index of dispersion I, the share f of arrivals that
//! fall into bursts, and the mean length B of a burst, the rates follow. With p the share of time
//! in bursts, λ = 1/g, and r = 1/B the rate at which bursts end:
//!
//! 1. Rates are λ₁ = fλ/p in bursts and λ₂ = (1 − f)λ/(1 − p) outside; bursts begin at rp/(1 − p).
//! 2. The index of dispersion of counts, to which that of gaps tends as well, is
//!    I = 1 + 2 (λ₁ − λ₂)² p (1 − p)² B / λ (Fischer and Meier-Hellstern 1993), which with step 1
//!    is 1 + 2λB (f − p)² / p.
//! 3. So p is the smaller root of p² − (2f + c) p + f² = 0, where c = (I − 1) / (2λB).
//!
//! Two of the four numbers are not in the source: experiments/ara says which were fitted. I = 1 is
//! a Poisson process. State: 64 B. O(1) an arrival, amortised.

use thermocline_units::Rng;

/// Clusters of arrivals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bursts {
    /// Index of dispersion, ≥ 1.
    pub index: f64,
    /// Share of the arrivals that come in bursts, above 0 and below 1.
    pub share: f64,
    /// Mean length of a burst, seconds.
    pub length_s: f64,
}

/// The process. Index 0 is outside bursts, 1 in bursts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mmpp {
    /// Arrivals a second.
    pub rates: [f64; 2],
    /// Rate at which each state ends, a second; both 0 for a Poisson process.
    pub leaving: [f64; 2],
}

impl Mmpp {
    /// Independent arrivals, `gap_s` seconds apart on average.
    pub fn poisson(gap_s: f64) -> Mmpp {
        Mmpp { rates: [1.0 / gap_s; 2], leaving: [0.0; 2] }
    }

    /// Arrivals `gap_s` > 0 seconds apart on average, in bursts.
    ///
    /// # Errors
    /// When an argument is out of its range; the message says which.
    pub fn fit(gap_s: f64, bursts: &Bursts) -> Result<Mmpp, String> {
        let Bursts { index, share, length_s } = *bursts;
        if !(gap_s.is_finite() && gap_s > 0.0) {
            return Err(format!("a mean gap of {gap_s} s is not above 0"));
        }
        if !(index.is_finite() && index >= 1.0) {
            return Err(format!("an index of dispersion is at least 1, not {index}"));
        }
        if !(share > 0.0 && share < 1.0) {
            return Err(format!("the share of arrivals in bursts is between 0 and 1, not {share}"));
        }
        if !(length_s.is_finite() && length_s > 0.0) {
            return Err(format!("bursts last longer than {length_s} s"));
        }
        if index == 1.0 {
            return Ok(Mmpp::poisson(gap_s));
        }
        let rate = 1.0 / gap_s;
        let c = (index - 1.0) / (2.0 * rate * length_s);
        let b = 2.0 * share + c;
        // The smaller root, in the form that does not cancel out.
        let part = 2.0 * share * share / (b + (b * b - 4.0 * share * share).sqrt());
        let rates = [(1.0 - share) * rate / (1.0 - part), share * rate / part];
        let leaving = [part / (1.0 - part) / length_s, 1.0 / length_s];
        Ok(Mmpp { rates, leaving })
    }

    /// Share of the time that is in bursts; 0 for a Poisson process.
    pub(crate) fn burst_time(&self) -> f64 {
        let sum = self.leaving[0] + self.leaving[1];
        if sum == 0.0 { 0.0 } else { self.leaving[0] / sum }
    }

    /// Mean gap between arrivals, seconds.
    pub fn gap_s(&self) -> f64 {
        let part = self.burst_time();
        1.0 / (self.rates[0] * (1.0 - part) + self.rates[1] * part)
    }

    /// Its index of dispersion, from rates alone.
    pub fn index_of_dispersion(&self) -> f64 {
        let sum = self.leaving[0] + self.leaving[1];
        if sum == 0.0 {
            return 1.0;
        }
        let part = self.burst_time();
        let apart = self.rates[1] - self.rates[0];
        1.0 + 2.0 * apart * apart * part * (1.0 - part) * self.gap_s() / sum
    }
}

/// Counts of arrivals a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seconds {
    /// Arrivals in the busiest.
    pub most: u64,
    /// Share of the seconds that have any.
    pub busy: f64,
}

impl Mmpp {
    /// The first `arrivals` of one draw by the second.
    pub fn by_second(&self, arrivals: u64, seed: u64) -> Seconds {
        let mut draw = Draw::new(*self, seed);
        let (mut most, mut busy, mut here, mut second) = (0, 0_u64, 0, u64::MAX);
        for _ in 0..arrivals {
            let at = draw.next().0 as u64;
            if at != second {
                (busy, here, second) = (busy + 1, 0, at);
            }
            here += 1;
            most = most.max(here);
        }
        Seconds { most, busy: busy as f64 / (second.wrapping_add(1)).max(1) as f64 }
    }
}

/// Draws arrivals.
#[derive(Debug, Clone)]
pub(super) struct Draw {
    process: Mmpp,
    rng: Rng,
    now_s: f64,
    state: usize,
    changes_s: f64,
}

impl Draw {
    /// From time 0 on, in a state as likely as it is long.
    pub(super) fn new(process: Mmpp, seed: u64) -> Draw {
        let mut rng = Rng::seeded(seed);
        let state = usize::from(rng.unit_f64() < process.burst_time());
        let mut draw = Draw { process, rng, now_s: 0.0, state, changes_s: 0.0 };
        draw.changes_s = draw.stays();
        draw
    }

    fn stays(&mut self) -> f64 {
        let leaving = self.process.leaving[self.state];
        if leaving == 0.0 { f64::INFINITY } else { self.rng.exponential(1.0 / leaving) }
    }

    /// The next arrival: seconds since time 0, and whether it is in a burst.
    pub(super) fn next(&mut self) -> (f64, bool) {
        loop {
            let next = self.now_s + self.rng.exponential(1.0 / self.process.rates[self.state]);
            if next < self.changes_s {
                self.now_s = next;
                return (next, self.state == 1);
            }
            self.now_s = self.changes_s;
            self.state = 1 - self.state;
            self.changes_s = self.now_s + self.stays();
        }
    }
}
