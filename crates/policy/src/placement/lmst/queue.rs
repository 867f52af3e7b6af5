//! A pool as a single queue, M/M/1 with priorities by service level (Tai 2015 §4.1.2, eq. 3 to 16).
//!
//! Rates are bytes a second. A pool serves µ of them, the mean over the patterns of its requests
//! (eq. 5); a random request of s bytes takes 1/rate and, beyond 4 KiB, what a stream takes. The
//! mean response time is s / (µ − λ) (eq. 9), the bytes that wait λ̄ / (µ − λ̄) · s (eq. 6), λ̄ the
//! rates of all classes whose SLA is at least as strict.
//!
//! µ may also be read off what the pool completed ([`Queue::measured`]).

use crate::placement::activity::Counts;
use crate::placement::zones::Form;
use crate::placement::{Pattern, PoolLoad, PoolTraits};

const UNIT: f64 = 4096.0;
/// Completions in a window from which on their mean latency tells a pool's rate.
const COMPLETIONS_MIN: u64 = 30;

/// Requests by pattern, in the order of [`Pattern::ALL`], and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mix {
    requests: [u64; 4],
    bytes: u64,
}

impl Mix {
    pub(super) fn add(&mut self, counts: &Counts) {
        *self = self.and(&Mix { requests: counts.by_pattern(), bytes: counts.bytes() });
    }

    pub(super) fn and(&self, other: &Mix) -> Mix {
        let requests = std::array::from_fn(|at| self.requests[at] + other.requests[at]);
        Mix { requests, bytes: self.bytes + other.bytes }
    }

    fn count(&self) -> u64 {
        self.requests.iter().sum()
    }

    /// This, or `other` when it has no requests.
    pub(super) fn or<'a>(&'a self, other: &'a Mix) -> &'a Mix {
        if self.count() > 0 { self } else { other }
    }
}

/// A pool as a single queue.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    /// Bytes of a request, s.
    size: f64,
    /// Bytes served a second, µ; and as the profile says.
    service: f64,
    profile: f64,
    /// Bytes that come a second, λ.
    rate: f64,
    /// Those of them by service level in seconds, strictest first.
    classes: Vec<(f64, f64)>,
}

impl Queue {
    /// A pool without chunks; `mix` is what its requests are like, equal parts when there are none.
    pub(super) fn new(traits: &PoolTraits, mix: &Mix) -> Queue {
        let count = mix.count();
        let size = if count > 0 { (mix.bytes as f64 / count as f64).max(512.0) } else { UNIT };
        let serves = |pattern: Pattern, stream: Pattern| {
            let stream = traits.of(stream).per_second as f64 * UNIT;
            if pattern as usize >= 2 {
                return stream;
            }
            let seconds =
                1.0 / traits.of(pattern).per_second as f64 + (size - UNIT).max(0.0) / stream;
            size / seconds
        };
        let rates = [
            serves(Pattern::RandomRead, Pattern::SequentialRead),
            serves(Pattern::RandomWrite, Pattern::SequentialWrite),
            serves(Pattern::SequentialRead, Pattern::SequentialRead),
            serves(Pattern::SequentialWrite, Pattern::SequentialWrite),
        ];
        let part = |at: usize| match count {
            0 => 0.25,
            count => mix.requests[at] as f64 / count as f64,
        };
        let service = (0..4).map(|at| part(at) * rates[at]).sum();
        Queue { size, service, profile: service, rate: 0.0, classes: Vec::new() }
    }

    /// The same pool with the rate that its completions in a window of so many seconds show, where
    /// there are [`COMPLETIONS_MIN`] of them: µ = λ + c · s / T, eq. 9 read backwards, for c
    /// requests served at once. On a device that serves one at a time, c is 1, and the queue
    /// answers as slowly as it was measured. A pool that is slower than its profile says, because
    /// it ages, is shared or collects garbage, is thereby known to be.
    pub(super) fn measured(self, traits: &PoolTraits, load: &PoolLoad, seconds: f64) -> Queue {
        let (count, latency) = (load.requests(), load.latency().map_or(0.0, |t| t.as_secs_f64()));
        if count < COMPLETIONS_MIN || latency <= 0.0 || seconds <= 0.0 {
            return self;
        }
        let bytes = load.read_bytes.0.saturating_add(load.written_bytes.0) as f64;
        let size = (bytes / count as f64).max(512.0);
        let service = bytes / seconds + f64::from(traits.at_once()) * size / latency;
        Queue { size, service, ..self }
    }

    /// The pool as one that chunks leave: it serves at least what its profile says. One that cannot
    /// keep up completes less than is asked of it, and would never be relieved. Without classes:
    /// nobody waits to come to it.
    pub(super) fn as_source(&self) -> Queue {
        let Queue { size, service, profile, rate, .. } = *self;
        Queue { size, service: service.max(profile), profile, rate, classes: Vec::new() }
    }

    /// A chunk of `rate` with an SLA of `sla` seconds joins.
    pub(super) fn join(&mut self, rate: f64, sla: f64) {
        self.rate += rate;
        match self.classes.binary_search_by(|class| class.0.total_cmp(&sla)) {
            Ok(at) => self.classes[at].1 += rate,
            Err(at) => self.classes.insert(at, (sla, rate)),
        }
    }

    /// A chunk that has joined leaves.
    pub(super) fn leave(&mut self, rate: f64, sla: f64) {
        self.rate = (self.rate - rate).max(0.0);
        if let Ok(at) = self.classes.binary_search_by(|class| class.0.total_cmp(&sla)) {
            self.classes[at].1 = (self.classes[at].1 - rate).max(0.0);
        }
    }

    /// The share of its service that is asked for.
    pub(super) fn load(&self) -> f64 {
        self.rate / self.service
    }

    /// Share of its service that is left with `more` on it; not positive when it cannot keep up
    /// (eq. 7).
    pub(super) fn spare(&self, more: f64) -> f64 {
        self.service - self.rate - more
    }

    /// Bytes that wait in front of a request with SLA `sla`, with `more` of its class (eq. 6, 8);
    /// endless when that class cannot keep up.
    pub(super) fn waiting(&self, sla: f64, more: f64) -> f64 {
        let stricter = self.classes.iter().filter(|class| class.0 <= sla);
        let rate = stricter.map(|class| class.1).sum::<f64>() + more;
        if rate < self.service { rate / (self.service - rate) * self.size } else { f64::INFINITY }
    }

    /// Bytes that may wait without breaking an SLA of `sla` seconds.
    pub(super) fn bearable(&self, sla: f64) -> f64 {
        sla * self.service
    }

    /// Mean response time with `more` on it, in seconds (eq. 9); endless when it cannot keep up.
    fn response(&self, more: f64) -> f64 {
        let spare = self.spare(more);
        if spare > 0.0 { self.size / spare } else { f64::INFINITY }
    }
}

/// A migration that is weighed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Migration {
    /// The chunk's rate, λ_A.
    pub(super) rate: f64,
    /// Load that copying adds to both pools, Δλ.
    pub(super) extra: f64,
    /// Seconds it takes.
    pub(super) takes: f64,
    /// Seconds of a window.
    pub(super) window: f64,
}

impl Migration {
    /// Response time that it saves over this window and the next; below 0 when it costs (eq. 10 to
    /// 16).
    pub(super) fn benefit(&self, source: &Queue, destination: &Queue, form: Form) -> f64 {
        let pools = [(source, -self.rate), (destination, self.rate)];
        let both = pools.map(|(queue, change)| {
            let without = 2.0 * queue.response(0.0) * self.window;
            let now = queue.response(0.0) * (self.window - self.takes)
                + queue.response(self.extra) * self.takes;
            (queue, change, without, now, queue.response(change) * self.window)
        });
        match form {
            // Both relative benefits count the same, as printed in eq. 16.
            Form::Printed => {
                let benefit = both.map(|(_, _, without, now, next)| 1.0 - (now + next) / without);
                f64::midpoint(benefit[0], benefit[1])
            }
            // Time that all requests of both pools take: each period by the rate in it.
            Form::Corrected => {
                let without: f64 = both.iter().map(|(q, _, without, ..)| q.rate * without).sum();
                let with: f64 = both
                    .iter()
                    .map(|(q, change, _, now, next)| {
                        q.rate * now + (q.rate + change).max(0.0) * next
                    })
                    .sum();
                1.0 - with / without
            }
        }
    }
}
