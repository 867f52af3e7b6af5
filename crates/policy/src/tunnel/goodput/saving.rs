//! A share of bytes saved, as a mean that forgets, with its uncertainty.
//!
//! 1. The mean is over the last `age` bytes: each sample moves it by its share of them.
//! 2. So is the variance between samples. That of the mean is the variance times the bytes of a
//!    sample over the bytes remembered.
//! 3. Estimates come in rounds: one of each choice, of the same bytes. What a round has in common
//!    (its bytes repeat more or less) says nothing of the choices' difference, so the variance that
//!    counts is that of what is left when the round's mean is taken off. The means need no such
//!    care: all forget alike.
//!
//! State: 48 B, and 0.4 KiB for the round.

use crate::tunnel::{Choice, Choices};

/// Variance that is assumed of a first sample: between 0 and 1, it may be anything.
const VARIANCE: f64 = 1.0 / 12.0;
/// Times `age` that shadows' memory may grow to; and bytes without change for a byte of memory.
const GROWTH: f64 = 8.0;
/// Share of `age` in which change shows.
const QUICK: f64 = 0.25;
/// Change is a difference of so many standard errors, and this much.
const ERRORS: f64 = 4.0;
const NOTICED: f64 = 0.02;

#[derive(Clone, Copy, Default)]
pub(super) struct Saving {
    /// Bytes remembered, at most `age`.
    pub(super) weight: f64,
    mean: f64,
    /// Mean of what is left.
    rest: f64,
    variance: f64,
    /// Mean bytes of a sample.
    grain: f64,
    /// Bytes of the class when it was last told anything.
    pub(super) at: f64,
}

/// A share, and the variance of its being wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

impl Saving {
    /// Enters that `saved` of `bytes` were; below 0 when more was sent than came.
    pub(super) fn add(&mut self, bytes: f64, saved: f64, age: f64, seen: f64) {
        if bytes <= 0.0 {
            return;
        }
        self.pair((saved / bytes).clamp(-1.0, 1.0), 0.0, bytes, age, seen);
    }

    /// Enters `value` of a round whose mean is `common`.
    fn pair(&mut self, value: f64, common: f64, bytes: f64, age: f64, seen: f64) {
        let rest = value - common;
        if self.weight <= 0.0 {
            let fresh = Saving { mean: value, rest, variance: VARIANCE, grain: bytes, ..*self };
            *self = fresh;
        }
        self.weight = (self.weight + bytes).min(age.max(bytes));
        let share = (bytes / self.weight).min(1.0);
        let off = rest - self.rest;
        self.mean += (value - self.mean) * share;
        self.rest += off * share;
        self.variance += (off * off - self.variance) * share;
        self.grain += (bytes - self.grain) * share;
        self.at = seen;
    }

    /// The mean; `None` before the first sample.
    pub(super) fn share(&self) -> Option<Share> {
        (self.weight > 0.0).then(|| {
            let samples = (self.weight / self.grain.max(1.0)).max(1.0);
            Share { mean: self.mean, variance: self.variance.max(0.0) / samples }
        })
    }
}

/// Savings by shadows, for all choices.
///
/// The longer nothing changes, the longer the memory, up to [`GROWTH`] times `age`: choices that
/// are nearly alike can be told apart, and noise does not make them change places. What rounds
/// have in common tells of change: when its mean over a quarter of `age` leaves its long mean,
/// the memory shrinks to that quarter.
pub(super) struct Told {
    savings: [Saving; Choice::COUNT],
    fast: Saving,
    slow: Saving,
    /// Bytes since the last change.
    calm: f64,
    members: Choices,
    values: [(f64, f64); Choice::COUNT],
}

impl Told {
    pub(super) fn new() -> Told {
        Told {
            savings: [Saving::default(); Choice::COUNT],
            fast: Saving::default(),
            slow: Saving::default(),
            calm: 0.0,
            members: Choices::EMPTY,
            values: [(0.0, 0.0); Choice::COUNT],
        }
    }

    pub(super) fn of(&self, choice: Choice) -> &Saving {
        &self.savings[choice.index()]
    }

    /// Adds that `choice` would have saved `saved` of `bytes`, above 0. That of a choice which the
    /// round has already ends the round.
    pub(super) fn add(&mut self, choice: Choice, (bytes, saved): (f64, f64), age: f64, seen: f64) {
        if self.members.contains(choice) {
            self.enter(age, seen);
        }
        self.members = self.members.with(choice);
        self.values[choice.index()] = (bytes, (saved / bytes).clamp(0.0, 1.0));
    }

    fn enter(&mut self, age: f64, seen: f64) {
        let count = self.members.iter().count() as f64;
        let sums = self.members.iter().map(|choice| self.values[choice.index()]);
        let (bytes, shares) = sums.fold((0.0, 0.0), |(a, b), (c, d)| (a + c, b + d));
        let (bytes, mean) = (bytes / count, shares / count);
        self.calm += bytes;
        let memory = (self.calm / GROWTH).clamp(age, GROWTH * age);
        // With one alone nothing is in common with others.
        let common = if count > 1.0 { mean } else { 0.0 };
        for choice in self.members.iter() {
            let (bytes, value) = self.values[choice.index()];
            self.savings[choice.index()].pair(value, common, bytes, memory, seen);
        }
        self.members = Choices::EMPTY;
        self.fast.pair(mean, 0.0, bytes, age * QUICK, seen);
        self.slow.pair(mean, 0.0, bytes, memory, seen);
        if self.has_changed() {
            self.calm = 0.0;
            self.slow = self.fast;
            for saving in &mut self.savings {
                saving.weight = saving.weight.min(age * QUICK);
            }
        }
    }

    fn has_changed(&self) -> bool {
        let (Some(fast), Some(slow)) = (self.fast.share(), self.slow.share()) else { return false };
        let error = (fast.variance + slow.variance).sqrt();
        (fast.mean - slow.mean).abs() > NOTICED + ERRORS * error
    }
}
