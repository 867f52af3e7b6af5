//! The laboratory: traces into policies, costs, curves, experiments and reports.
//!
//! Runs the same decision code as the engine, in virtual time. Never reaches a real device.

pub mod source;
