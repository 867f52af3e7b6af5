//! CUBIC (Ha, Rhee and Xu, CUBIC: a new TCP-friendly high-speed TCP variant, 2008; RFC 9438), as
//! Linux has it, with HyStart (Ha and Rhee, Taming the elephants, 2011).
//!
//! The window doubles each round trip until a loss, or until HyStart sees the link fill. Then it
//! follows a cubic of time whose flat part lies where the last loss was, or Reno's line where that
//! is above. Windows are counted in segments.

use super::window::{FIRST_SEGMENTS, Heard};
use thermocline_units::Nanos;

/// Share of the window that stays after a loss (RFC 9438 §4.6).
const KEPT: f64 = 0.7;
/// The cubic's factor, segments a second cubed (RFC 9438 §5).
const FACTOR: f64 = 0.4;
/// Acknowledgements of a train follow each other within this time (HyStart, ACK trains).
const TRAIN_GAP: Nanos = Nanos::from_micros(2_000);
/// Bounds of the delay that ends slow start (HyStart).
const DELAY_LEAST: Nanos = Nanos::from_micros(4_000);
const DELAY_MOST: Nanos = Nanos::from_micros(16_000);
/// Round trips that a round's delay is judged by.
const SAMPLES: u32 = 8;
/// HyStart leaves smaller windows alone, in segments.
const HYSTART_FROM: f64 = 16.0;

/// A window.
#[derive(Debug)]
pub(super) struct Cubic {
    segment_bytes: usize,
    window: f64,
    /// Slow start ends here.
    threshold: f64,
    /// Window at the last loss; 0: there was none.
    last_most: f64,
    curve: Option<Curve>,
    least: Nanos,
    round: Round,
}

/// A cubic since the last loss.
#[derive(Debug, Clone, Copy)]
struct Curve {
    began: Nanos,
    /// Seconds to its flat part, and the window there.
    flat_after: f64,
    flat_at: f64,
    /// Window that Reno would have.
    reno: f64,
}

/// The round, as HyStart sees it.
#[derive(Debug, Clone, Copy)]
struct Round {
    began: Nanos,
    last: Nanos,
    least: Nanos,
    samples: u32,
}

impl Cubic {
    pub(super) fn new(segment_bytes: usize) -> Cubic {
        Cubic {
            segment_bytes,
            window: FIRST_SEGMENTS as f64,
            threshold: f64::INFINITY,
            last_most: 0.0,
            curve: None,
            least: Nanos(u64::MAX),
            round: Round { began: Nanos(0), last: Nanos(0), least: Nanos(u64::MAX), samples: 0 },
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.window as usize * self.segment_bytes
    }

    pub(super) fn hear(&mut self, heard: &Heard) {
        let segments = heard.bytes as f64 / self.segment_bytes as f64;
        self.least = self.least.min(heard.round_trip);
        if heard.is_recovering {
            return;
        }
        if self.window < self.threshold {
            self.look_for_the_end(heard);
            // A window that is not used does not grow.
            if heard.is_limited || 2.0 * self.used(heard) > self.window {
                self.window += segments;
            }
        } else if heard.is_limited {
            self.window += segments / self.segments_for_one(heard.now, segments);
        }
    }

    fn used(&self, heard: &Heard) -> f64 {
        (heard.in_flight + heard.bytes) as f64 / self.segment_bytes as f64
    }

    /// HyStart: slow start is over when a round's acknowledgements come in a train of half a round
    /// trip, or when its round trips grow.
    fn look_for_the_end(&mut self, heard: &Heard) {
        if heard.is_round {
            let (began, last) = (heard.now, heard.now);
            self.round = Round { began, last, least: Nanos(u64::MAX), samples: 0 };
        }
        let round = &mut self.round;
        if heard.now.saturating_sub(round.last) <= TRAIN_GAP {
            round.last = heard.now;
        }
        if round.samples < SAMPLES {
            round.samples += 1;
            round.least = round.least.min(heard.round_trip);
        }
        if self.window < HYSTART_FROM {
            return;
        }
        let train = round.last.saturating_sub(round.began).0 > self.least.0 / 2;
        let slack = (self.least.0 / 8).clamp(DELAY_LEAST.0, DELAY_MOST.0);
        let delay = round.samples == SAMPLES && round.least.0 > self.least.0 + slack;
        if train || delay {
            self.threshold = self.window;
        }
    }

    /// Acknowledged segments for which the window grows by one.
    fn segments_for_one(&mut self, now: Nanos, segments: f64) -> f64 {
        let (window, most) = (self.window, self.last_most);
        let curve = self.curve.get_or_insert_with(|| {
            let below = (most - window).max(0.0);
            let flat_after = (below / FACTOR).cbrt();
            Curve { began: now, flat_after, flat_at: window.max(most), reno: window }
        });
        let since = now.saturating_sub(curve.began).as_secs_f64() + self.least.as_secs_f64();
        let wanted = curve.flat_at + FACTOR * (since - curve.flat_after).powi(3);
        let mut count = if wanted > window { window / (wanted - window) } else { 100.0 * window };
        if most == 0.0 {
            count = count.min(20.0);
        }
        // RFC 9438 §4.3: as fast as Reno at the same loss, whose window falls less.
        curve.reno += segments / window * 3.0 * (1.0 - KEPT) / (1.0 + KEPT);
        if curve.reno > window {
            count = count.min(window / (curve.reno - window));
        }
        count.max(2.0)
    }

    pub(super) fn lose(&mut self) {
        let falls = self.window < self.last_most;
        self.last_most = if falls { self.window * (1.0 + KEPT) / 2.0 } else { self.window };
        self.window = (self.window * KEPT).max(2.0);
        self.threshold = self.window;
        self.curve = None;
    }
}
