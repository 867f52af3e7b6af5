//! Sockets that a service manager hands over when it starts this process: sd_listen_fds(3).
//!
//! 1. `LISTEN_PID` names the process that is meant; where it is another one, or none, nothing is
//!    handed over. A child of ours that inherits the variables takes nothing.
//! 2. `LISTEN_FDS` says how many descriptors follow the three standard ones, and `LISTEN_FDNAMES`
//!    their names, between colons.
//! 3. They are taken once. From then on they close when their owner drops them, and no process that
//!    is started later inherits them.
//!
//! Not here: whether they are sockets that listen, and for what.
#![allow(unsafe_code)] // Numbers in the environment become descriptors.

use rustix::io::{FdFlags, fcntl_setfd};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of the first descriptor.
const FIRST: RawFd = 3;
/// Descriptors that are taken, at most.
const HANDED_MAX: usize = 256;

/// True once they have been taken.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// A descriptor that was handed over.
#[derive(Debug)]
pub struct Handed {
    /// Its name in the unit; empty where it has none.
    pub name: String,
    /// The descriptor.
    pub socket: OwnedFd,
}

/// Takes what the service manager has handed over, in its order; nothing when this is asked again.
/// Call it before anything else opens files.
///
/// # Errors
/// When the variables make no sense, or a descriptor is not open.
pub fn take() -> io::Result<Vec<Handed>> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let names = said(
        &variable("LISTEN_PID"),
        &variable("LISTEN_FDS"),
        &variable("LISTEN_FDNAMES"),
        std::process::id(),
    )?;
    if names.is_empty() || TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let mut handed = Vec::with_capacity(names.len());
    for (number, name) in (FIRST..).zip(names) {
        // SAFETY: it is looked at for the length of this block only; a number that is not open is
        // an error of the call.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        fcntl_setfd(borrowed, FdFlags::CLOEXEC)
            .map_err(|error| wrong(format!("descriptor {number} of LISTEN_FDS: {error}")))?;
        // SAFETY: it is open, as the call above has shown. By the protocol it is ours since this
        // process began, and `TAKEN` makes this its only owner.
        let socket = unsafe { OwnedFd::from_raw_fd(number) };
        handed.push(Handed { name, socket });
    }
    Ok(handed)
}

/// Names of the descriptors that the variables promise to process `own`; empty text where a
/// descriptor has none.
fn said(pid: &str, count: &str, names: &str, own: u32) -> io::Result<Vec<String>> {
    if pid.parse() != Ok(own) || count.is_empty() {
        return Ok(Vec::new());
    }
    let count: usize = match count.parse() {
        Ok(count) if count <= HANDED_MAX => count,
        _ => return Err(wrong(format!("LISTEN_FDS={count}: not a number up to {HANDED_MAX}"))),
    };
    let named = names.split(':').map(String::from).chain(std::iter::repeat(String::new()));
    Ok(named.take(count).collect())
}

fn wrong(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

#[cfg(test)]
mod tests;
