//! Places of the ticks on an axis: at numbers people count in.
//!
//! 1. Linear: the smallest step of the quantity's own ladder that needs no more ticks than wanted:
//!    1, 2, 5 × 10ⁿ for counts and shares, powers of two for bytes, clock steps (15 s, 10 min, 6 h)
//!    for time.
//! 2. Logarithmic: powers of two with an even exponent step for bytes; decades otherwise, thinned
//!    when there are many, joined by 2 and 5 when there are few; for time the ladder bends at a
//!    minute so that ticks stay whole (1 s, 10 s, 1 min, 10 min, 1 h, 1 d).

use super::axis::{Axis, Scale};
use crate::format::Quantity;

/// A labelled place on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

/// Ticks at most, whatever is asked for: a bound on the loops below.
const TICKS_MAX: usize = 64;

/// Steps of time from a second up, in seconds; below, 1-2-5.
const CLOCK_STEPS: [f64; 21] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0,
    10_800.0, 21_600.0, 43_200.0, 86_400.0, 172_800.0, 432_000.0, 604_800.0,
];

/// The bends of a logarithmic time axis above a second, in seconds; above ten days decades of days.
const CLOCK_DECADES: [f64; 7] = [1.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0, 86_400.0];

/// The ticks within `lower..=upper`, about `wanted` of them.
pub(super) fn ticks(axis: &Axis, lower: f64, upper: f64, wanted: usize) -> Vec<Tick> {
    let slack = (upper - lower) * 1e-9;
    candidates(axis, lower, upper, wanted.clamp(2, TICKS_MAX))
        .into_iter()
        .filter(|value| *value >= lower - slack && *value <= upper + slack)
        .map(|value| Tick { value, label: axis.quantity.tick(value) })
        .collect()
}

/// The interval grown to the ticks just outside it.
pub(super) fn rounded_out(axis: &Axis, lower: f64, upper: f64) -> (f64, f64) {
    match axis.scale {
        Scale::Linear => {
            let step = linear_step(axis.quantity, (upper - lower) / 5.0);
            ((lower / step).floor() * step, (upper / step - 1e-9).ceil() * step)
        }
        Scale::Log => (nice_below(lower), nice_above(upper)),
    }
}

fn candidates(axis: &Axis, lower: f64, upper: f64, wanted: usize) -> Vec<f64> {
    match (axis.scale, axis.quantity) {
        (Scale::Linear, quantity) => {
            let step = linear_step(quantity, (upper - lower) / wanted as f64);
            let first = (lower / step - 1e-9).ceil();
            (0..=TICKS_MAX)
                .map(|i| (first + i as f64) * step)
                .take_while(|v| *v <= upper * 1.000_001 + step * 1e-6)
                .collect()
        }
        (Scale::Log, Quantity::Bytes) => powers_of_two(lower, upper, wanted),
        (Scale::Log, Quantity::Seconds) => thinned(clock_decades(lower, upper), wanted),
        (Scale::Log, _) => decades(lower, upper, wanted),
    }
}

/// The smallest step of the ladder that is at least `least`.
fn linear_step(quantity: Quantity, least: f64) -> f64 {
    match quantity {
        Quantity::Bytes if least > 0.5 => least.log2().ceil().exp2(),
        Quantity::Seconds if least > 0.5 => CLOCK_STEPS
            .into_iter()
            .find(|step| *step >= least * 0.999)
            .unwrap_or_else(|| nice_above(least / 86_400.0) * 86_400.0),
        Quantity::Count => nice_above(least).max(1.0),
        _ => nice_above(least),
    }
}

/// The next of 1, 2, 5 × 10ⁿ at or above `value`, which is positive.
fn nice_above(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0]
        .map(|digit| digit * decade)
        .into_iter()
        .find(|step| *step >= value * 0.999_999)
        .unwrap_or(decade * 10.0)
}

/// The next of 1, 2, 5 × 10ⁿ at or below `value`, which is positive.
fn nice_below(value: f64) -> f64 {
    let decade = 10f64.powf((value * 1.000_001).log10().floor());
    [5.0, 2.0]
        .map(|digit| digit * decade)
        .into_iter()
        .find(|step| *step <= value * 1.000_001)
        .unwrap_or(decade)
}

fn powers_of_two(lower: f64, upper: f64, wanted: usize) -> Vec<f64> {
    let (first, last) = ((lower.log2() - 1e-9).ceil() as i32, (upper.log2() + 1e-9).floor() as i32);
    let span = (last - first).max(0) as usize;
    let step = [1, 2, 5, 10].into_iter().find(|step| span / step < wanted).unwrap_or(10);
    // Aligned to the step, so that steps of ten fall on whole units.
    (first..=last).filter(|e| e.rem_euclid(step as i32) == 0).map(|e| f64::from(e).exp2()).collect()
}

fn decades(lower: f64, upper: f64, wanted: usize) -> Vec<f64> {
    let (first, last) = (lower.log10().floor() as i32, upper.log10().ceil() as i32);
    let span = (upper / lower).log10();
    let digits: &[f64] = if span * 3.0 <= wanted as f64 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let all = (first..=last)
        .flat_map(|e| digits.iter().map(move |digit| digit * 10f64.powi(e)))
        .filter(|value| *value >= lower * 0.999_999 && *value <= upper * 1.000_001)
        .collect();
    thinned(all, wanted)
}

fn clock_decades(lower: f64, upper: f64) -> Vec<f64> {
    let below = (-9..0).map(|e| 10f64.powi(e));
    let above = (1..6).map(|e| 86_400.0 * 10f64.powi(e));
    below
        .chain(CLOCK_DECADES)
        .chain(above)
        .filter(|value| *value >= lower * 0.999_999 && *value <= upper * 1.000_001)
        .collect()
}

/// Every n-th of `values`, so that at most `wanted` + 1 are left.
fn thinned(values: Vec<f64>, wanted: usize) -> Vec<f64> {
    let step = values.len().div_ceil(wanted + 1).max(1);
    values.into_iter().step_by(step).collect()
}
