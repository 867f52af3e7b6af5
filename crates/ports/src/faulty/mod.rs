//! Ports that misbehave by seed, for deterministic simulation.
//!
//! [`SimDisk`] keeps real contents and breaks every promise that `Device`'s contract does not make:
//! completions reorder, volatile sectors are lost in any subset at a crash, requests fail, time out
//! or crawl, stored bits flip, the disk fills up or dies. [`SimLink`] loses, duplicates, delays,
//! reorders and corrupts packets. Both give the same run for the same seed and the same calls.
//!
//! What they do not do: cost time as a real medium would. That is `model`'s part.

mod accelerator;
mod disk;
mod faults;
mod image;
mod link;
mod log;
mod recorded;

pub use accelerator::{AcceleratorFaults, FaultyAccelerator, Misdeeds};
pub use disk::SimDisk;
pub use faults::{Background, Faults};
pub use link::{LinkFaults, SimLink};
pub use log::Survival;
pub use recorded::{Recorded, fold_result};

use thermocline_units::Rng;

/// True if something of probability `p` happens now. Draws nothing for `p = 0`, so that a fault
/// that is switched off leaves the stream of the others as it was.
fn happens(rng: &mut Rng, p: f64) -> bool {
    p > 0.0 && rng.unit_f64() < p
}

#[cfg(test)]
mod tests;
