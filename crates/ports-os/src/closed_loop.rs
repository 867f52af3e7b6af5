//! A closed-loop load on a real device, on the caller's clock: what `ports::pattern` is in virtual
//! time.
//!
//! 1. As many requests as the load is deep are submitted; each that is answered makes room for the
//!    next.
//! 2. When the time is up nothing more is submitted, and what is in flight is waited for.
//!
//! Latencies contain what one thread needs to ask and to take the answer: that is what a user gets.

use crate::FileDevice;
use std::io;
use thermocline_ports::pattern::{Load, Outcome};
use thermocline_ports::{Device, DeviceError};
use thermocline_units::Nanos;

/// Bounds on the run of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Nothing is submitted once so much time has passed; at least one request is.
    pub time: Nanos,
}

/// A reason that a load was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The device failed a request.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The kernel refused to wait.
    #[error("cannot wait for the device: {0}")]
    Wait(#[from] io::Error),
}

/// Runs `load` on `device`, which has nothing else in flight. `clock` never goes backwards.
///
/// # Errors
/// When a request fails, or the kernel refuses to wait. Requests may be in flight then.
pub fn run_load(
    device: &mut FileDevice,
    mut load: Load,
    budget: Budget,
    mut clock: impl FnMut() -> Nanos,
) -> Result<Outcome, LoadError> {
    let start = clock();
    let mut now = start;
    let mut done = Vec::new();
    while !load.is_over() {
        while let Some((ticket, io)) = load.next(now) {
            device.submit(now, ticket, io);
        }
        device.poll(now, &mut done);
        if done.is_empty() {
            device.wait()?;
            device.poll(now, &mut done);
        }
        now = clock();
        for completion in done.drain(..) {
            completion.result?;
            load.answered(completion.ticket, now);
        }
        if now.saturating_sub(start) >= budget.time {
            load.stop();
        }
    }
    Ok(load.outcome())
}

#[cfg(test)]
mod tests;
