//! An axis: what it measures, whether it is linear or logarithmic, and from where to where it goes.
//!
//! Invariant: the interval it settles on is never empty, and on a logarithmic axis never reaches
//! zero.

use super::ticks::{self, Tick};
use crate::format::Quantity;

/// One axis of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub(super) label: String,
    pub(super) quantity: Quantity,
    pub(super) scale: Scale,
    lower: Option<f64>,
    upper: Option<f64>,
    /// Cells of an x axis that several charts under each other share.
    pub(super) cells: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Log,
}

impl Axis {
    /// A linear axis. It starts at zero when nothing drawn is negative, because a cut-off axis
    /// exaggerates; [`Axis::between`] overrides that.
    pub fn linear(label: impl Into<String>, quantity: Quantity) -> Axis {
        Axis {
            label: label.into(),
            quantity,
            scale: Scale::Linear,
            lower: None,
            upper: None,
            cells: None,
        }
    }

    /// A logarithmic axis: powers of two for bytes, decades otherwise. Values that are not positive
    /// are not drawn.
    pub fn log(label: impl Into<String>, quantity: Quantity) -> Axis {
        Axis { scale: Scale::Log, ..Axis::linear(label, quantity) }
    }

    /// Fixes both ends instead of following the data. Ends that are not finite, or not in order, or
    /// not positive on a logarithmic axis, are ignored.
    #[must_use]
    pub fn between(mut self, lower: f64, upper: f64) -> Axis {
        let valid = lower < upper && (self.scale == Scale::Linear || lower > 0.0);
        if valid && lower.is_finite() && upper.is_finite() {
            (self.lower, self.upper) = (Some(lower), Some(upper));
        }
        self
    }

    /// Makes it an x axis of so many equal cells that charts under each other share: their plots
    /// begin at the same place and are equally wide, so that what happened at the same time stands
    /// one below the other. Both ends should be fixed, too.
    #[must_use]
    pub fn shared_by(mut self, cells: usize) -> Axis {
        self.cells = Some(cells.max(1));
        self
    }

    /// True if a value can be shown on this axis.
    pub(super) fn takes(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// Settles the interval for `values`; `snug` keeps it at the data's ends (an x axis), otherwise
    /// it grows to the next tick.
    pub(super) fn settle(&self, values: impl Iterator<Item = f64>, snug: bool) -> Interval {
        let (mut lower, mut upper) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| self.takes(*value)) {
            lower = lower.min(value);
            upper = upper.max(value);
        }
        if lower > upper {
            (lower, upper) = match self.scale {
                Scale::Linear => (0.0, 1.0),
                Scale::Log => (1.0, 10.0),
            };
        }
        if self.scale == Scale::Linear {
            lower = lower.min(0.0);
        }
        if lower == upper {
            (lower, upper) = match self.scale {
                Scale::Linear => (lower, lower + 1.0),
                Scale::Log => (lower / 2.0, upper * 2.0),
            };
        }
        if !snug {
            (lower, upper) = ticks::rounded_out(self, lower, upper);
        }
        let (lower, upper) = (self.lower.unwrap_or(lower), self.upper.unwrap_or(upper));
        Interval { lower, upper, scale: self.scale }
    }

    pub(super) fn ticks(&self, interval: &Interval, wanted: usize) -> Vec<Tick> {
        ticks::ticks(self, interval.lower, interval.upper, wanted)
    }
}

/// A settled axis: maps values to 0..1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Interval {
    pub(super) lower: f64,
    pub(super) upper: f64,
    scale: Scale,
}

impl Interval {
    /// Place of `value`, 0 at the lower end and 1 at the upper, clamped to between them.
    pub(super) fn place(&self, value: f64) -> f64 {
        let fraction = match self.scale {
            Scale::Linear => (value - self.lower) / (self.upper - self.lower),
            Scale::Log => (value / self.lower).ln() / (self.upper / self.lower).ln(),
        };
        fraction.clamp(0.0, 1.0)
    }
}
