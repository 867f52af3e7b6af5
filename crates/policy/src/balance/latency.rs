//! A latency that is forgotten: what decides between sites that are not equally fast, and how long
//! a bad moment is held against one.
//!
//! 1. The estimate falls towards 0 with time, by e in each `decay`: a site that nobody asks is
//!    tried again.
//! 2. A latency is entered as a *peak*: above the estimate it replaces it at once, below it is
//!    averaged in, the more the longer ago the last one was (Finagle's and linkerd's way, for
//!    servers). Or as a *mean*: a sixteenth of it counts, and more after a pause (for media, whose
//!    single answers differ by themselves).
//! 3. What a request will cost is the estimate times those under way and one more.
//!
//! State: 16 B.

use thermocline_units::Nanos;

/// Share of a latency in a mean, when the last one was a moment ago.
const SHARE: f64 = 1.0 / 16.0;

/// A site's latency, which is forgotten with time.
#[derive(Debug, Clone, Copy)]
pub struct Latency {
    seconds: f64,
    at: Nanos,
}

impl Latency {
    /// An estimate before the first answer, in seconds; 0: the server is tried soon.
    pub fn assumed(seconds: f64) -> Latency {
        Latency { seconds, at: Nanos(0) }
    }

    /// Enters a latency as a peak.
    pub fn peak(&mut self, now: Nanos, seconds: f64, decay_s: f64) {
        let kept = self.left(now, decay_s);
        self.seconds = if seconds > self.seconds {
            seconds
        } else {
            self.seconds * kept + seconds * (1.0 - kept)
        };
        self.at = now;
    }

    /// Enters a latency into a mean.
    pub fn mean(&mut self, now: Nanos, seconds: f64, decay_s: f64) {
        let share = SHARE.max(1.0 - self.left(now, decay_s));
        self.seconds += (seconds - self.seconds) * share;
        self.at = now;
    }

    /// Cost of a request with so many own ones under way, in seconds.
    pub fn cost(&self, now: Nanos, outstanding: u32, decay_s: f64) -> f64 {
        self.seconds * self.left(now, decay_s) * (f64::from(outstanding) + 1.0)
    }

    /// Share of the estimate that is left.
    fn left(&self, now: Nanos, decay_s: f64) -> f64 {
        (-now.saturating_sub(self.at).as_secs_f64() / decay_s).exp()
    }
}
