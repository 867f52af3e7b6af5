//! A mean over seeds, and how well it is known.

use serde::Serialize;

/// A mean over independent runs with the half width of its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The true mean lies within so much of it with 95 % confidence, by Student's t; `NaN` (in JSON
    /// null) of a single run.
    pub ci95: f64,
}

/// Student's t at 97.5 %, for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// Beyond the table the normal distribution is 2 % off at most.
const T_BEYOND: f64 = 2.0;

impl Estimate {
    /// Estimates from one value a run; at least one.
    pub fn of(values: &[f64]) -> Estimate {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let freedom = values.len().saturating_sub(1);
        let t = match freedom {
            0 => f64::NAN,
            freedom => T.get(freedom - 1).copied().unwrap_or(T_BEYOND),
        };
        Estimate { mean, ci95: t * (squares / freedom as f64 / count).sqrt() }
    }
}
