//! BBR, its first version (Cardwell, Cheng, Gunn, Yeganeh and Jacobson, BBR: congestion-based
//! congestion control, ACM Queue 2016), as Linux has it.
//!
//! It sends at the greatest rate that it has measured in ten rounds, times a gain, and lets a
//! multiple of that rate times the least round trip be under way. Losses change nothing.

use super::window::{FIRST_SEGMENTS, Heard};
use thermocline_units::Nanos;

/// Gain that doubles the rate each round: 2 / ln 2.
const START_GAIN: f64 = 2.885;
/// Gain of the window once the rate is known.
const WINDOW_GAIN: f64 = 2.0;
/// Gains of the pace, one a round trip.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Rounds that a rate is remembered for.
const REMEMBERED: usize = 10;
/// The link is full when the rate has not grown by a quarter in three rounds.
const GROWTH: f64 = 1.25;
const ROUNDS_WITHOUT: u32 = 3;
/// Segments under way while the round trip of an empty queue is looked for; for how long, how
/// often.
const LOOK_SEGMENTS: usize = 4;
const LOOK_FOR: Nanos = Nanos::from_micros(200_000);
const LOOK_EVERY: Nanos = Nanos::from_secs(10);
/// A round trip that is assumed before one was seen: Linux takes a millisecond.
const FIRST_ROUND_TRIP: Nanos = Nanos::from_micros(1_000);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// The rate doubles.
    Start,
    /// The queue that the start made empties.
    Drain,
    /// The rate is known.
    Steady,
    /// The least round trip is looked for until then.
    Look(Nanos),
}

/// A window and a pace.
#[derive(Debug)]
pub(super) struct Bbr {
    segment_bytes: usize,
    phase: Phase,
    /// The greatest rate of each of the last rounds, bytes a second; the newest first.
    rates: [f64; REMEMBERED],
    least: Option<(Nanos, Nanos)>,
    /// Rate at which the link was last not full, and rounds since.
    full_at: f64,
    rounds: u32,
    /// Place in the cycle, and since when.
    step: usize,
    stepped: Nanos,
    window: usize,
}

impl Bbr {
    pub(super) fn new(segment_bytes: usize) -> Bbr {
        Bbr {
            segment_bytes,
            phase: Phase::Start,
            rates: [0.0; REMEMBERED],
            least: None,
            full_at: 0.0,
            rounds: 0,
            step: 2,
            stepped: Nanos(0),
            window: FIRST_SEGMENTS * segment_bytes,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self.phase {
            Phase::Look(_) => LOOK_SEGMENTS * self.segment_bytes,
            _ => self.window,
        }
    }

    pub(super) fn pace(&self, bytes: usize) -> Nanos {
        let gain = match self.phase {
            Phase::Start => START_GAIN,
            Phase::Drain => 1.0 / START_GAIN,
            Phase::Steady => CYCLE[self.step],
            Phase::Look(_) => 1.0,
        };
        let first = || (FIRST_SEGMENTS * self.segment_bytes) as f64 / self.round_trip_s();
        let rate = if self.rate() > 0.0 { self.rate() } else { first() };
        Nanos((bytes as f64 * 1e9 / (rate * gain)) as u64)
    }

    fn rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    fn round_trip_s(&self) -> f64 {
        self.least.map_or(FIRST_ROUND_TRIP, |(least, _)| least).as_secs_f64().max(1e-6)
    }

    /// Bytes that are under way where the link is just full, times a gain.
    fn full_link(&self, gain: f64) -> f64 {
        self.rate() * self.round_trip_s() * gain
    }

    pub(super) fn hear(&mut self, heard: &Heard) {
        self.measure(heard);
        match self.phase {
            Phase::Start => {
                if heard.is_round && !heard.is_idle {
                    self.look_whether_full();
                }
            }
            Phase::Drain => {
                if heard.in_flight as f64 <= self.full_link(1.0) {
                    self.phase = Phase::Steady;
                    self.stepped = heard.now;
                }
            }
            Phase::Steady => {
                if heard.now.saturating_sub(self.stepped).as_secs_f64() > self.round_trip_s() {
                    self.step = (self.step + 1) % CYCLE.len();
                    self.stepped = heard.now;
                }
            }
            Phase::Look(until) => {
                if heard.now >= until {
                    self.phase = Phase::Steady;
                    self.stepped = heard.now;
                }
            }
        }
        let gain = if self.phase == Phase::Start { START_GAIN } else { WINDOW_GAIN };
        let wanted = self.full_link(gain) as usize;
        let floor = LOOK_SEGMENTS * self.segment_bytes;
        self.window = match self.phase {
            // The window grows by what arrived, never faster.
            Phase::Start => self.window.max((self.window + heard.bytes).min(wanted)),
            _ => (self.window + heard.bytes).min(wanted).max(floor),
        };
    }

    fn measure(&mut self, heard: &Heard) {
        if heard.is_round {
            self.rates.rotate_right(1);
            self.rates[0] = 0.0;
        }
        // A sender that had nothing to send says nothing of the link, unless it was fast.
        if !heard.is_idle || heard.rate > self.rate() {
            self.rates[0] = self.rates[0].max(heard.rate);
        }
        let is_old = self.least.is_some_and(|(_, at)| heard.now.saturating_sub(at) > LOOK_EVERY);
        if self.least.is_none_or(|(least, _)| heard.round_trip <= least) || is_old {
            self.least = Some((heard.round_trip, heard.now));
        }
        if is_old && self.phase == Phase::Steady {
            self.phase = Phase::Look(Nanos(heard.now.0 + LOOK_FOR.0));
        }
    }

    fn look_whether_full(&mut self) {
        if self.rate() >= self.full_at * GROWTH {
            self.full_at = self.rate();
            self.rounds = 0;
            return;
        }
        self.rounds += 1;
        if self.rounds >= ROUNDS_WITHOUT {
            self.phase = Phase::Drain;
        }
    }
}
