//! Whole-crate claims of the laboratory, checked against what others published.

#![allow(clippy::print_stderr)] // A test without its data says SKIPPED.
#![allow(clippy::unwrap_used)] // Helpers of tests, too, end their test.

mod arc_paper;
mod car_model;
mod fixtures;
mod oracle_counts;
mod oracle_ratios;
mod own_policy;
mod recording;
mod sampled_curves;
