//! A distribution around a mean, given by some of its quantiles.
//!
//! 1. Between the given points the quantile function is a straight line.
//! 2. It is scaled so that its mean is one, so a profile's times stay means.
//!
//! A draw costs one random number and a walk over the points, of which there are a handful.

use std::ops::RangeInclusive;
use thermocline_units::{Nanos, Rng};

/// Factors that may be given, before they are scaled.
const FACTORS: RangeInclusive<f64> = 0.01..=1000.0;

/// Factors by which a time varies; mean 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    /// (share, factor), shares from 0 to 1.
    points: Vec<(f64, f64)>,
}

impl Spread {
    /// A distribution through the points (share, factor); factors count relative to each other.
    /// `None` unless shares rise from 0 to 1 and factors, from 0.01 to 1000, do not fall.
    pub fn new(mut points: Vec<(f64, f64)>) -> Option<Spread> {
        let (first, last) = (points.first()?, points.last()?);
        let rises = points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1);
        let bounded = points.iter().all(|p| FACTORS.contains(&p.1));
        if first.0 != 0.0 || last.0 != 1.0 || !rises || !bounded {
            return None;
        }
        let mean: f64 =
            points.windows(2).map(|w| (w[1].0 - w[0].0) * (w[0].1 + w[1].1) / 2.0).sum();
        points.iter_mut().for_each(|point| point.1 /= mean);
        Some(Spread { points })
    }

    /// The points, as (share, factor).
    pub(super) fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.points.iter().copied()
    }

    /// The factor below which a share `p` of all draws lies.
    pub fn quantile(&self, p: f64) -> f64 {
        let above =
            self.points.iter().position(|point| point.0 > p).unwrap_or(self.points.len() - 1);
        let ((p0, f0), (p1, f1)) = (self.points[above - 1], self.points[above]);
        f0 + (f1 - f0) * (p - p0) / (p1 - p0)
    }

    /// A time of this distribution with the given mean.
    pub fn draw(&self, rng: &mut Rng, mean: Nanos) -> Nanos {
        Nanos((mean.0 as f64 * self.quantile(rng.unit_f64())) as u64)
    }
}
