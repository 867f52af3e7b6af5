//! Fitness of backends for requests, and the number of times that a failed request is tried again.
//! One backend at a time; `thermocline_balancer` holds them all and acts.
//!
//! - [`Health`]: results of active checks; [`Record`]: failures of requests (passive detection);
//! - [`SlowStart`]: the share of a backend that has come back;
//! - [`RetryBudget`]: retries that a dispatcher may make.

mod checks;
mod outliers;
mod retries;
mod slow_start;
#[cfg(test)]
mod tests;

pub use checks::{Checks, Health};
pub(crate) use outliers::EJECTIONS_MAX;
pub use outliers::{Outliers, Record, Window};
pub use retries::RetryBudget;
pub use slow_start::SlowStart;
