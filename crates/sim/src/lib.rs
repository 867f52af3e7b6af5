//! The laboratory: traces into policies, costs, curves, experiments and reports.
//!
//! Runs the same decision code as the engine, in virtual time. Never reaches a real device: what it
//! opens are trace files and the results it writes.

pub mod accel;
pub mod advise;
pub mod balance;
pub mod chunks;
pub mod dedup;
pub mod files;
pub mod hostcache;
pub mod lab;
pub mod machine;
pub mod popularity;
mod processor;
pub mod progress;
pub mod replay;
pub mod source;
pub mod stat;
pub mod sweep;
pub mod synth;
pub mod table;
pub mod tunnel;
pub mod workload;
