//! Raises the limit on open files to what connections need, or reports that it is too low.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets as many files be open as connections need: two each while they have requests, and some to
/// spare. `Err`: how many the system allows, when not even all clients can be connected.
pub(crate) fn open_files(connections_max: usize) -> Result<(), u64> {
    const SPARE: u64 = 1024;
    let wanted = 2 * connections_max as u64 + SPARE;
    let needed = connections_max as u64 + SPARE;
    let now = getrlimit(Resource::Nofile);
    let most = now.maximum.unwrap_or(u64::MAX);
    if now.current.is_some_and(|current| current < wanted) {
        let current = Some(wanted.min(most));
        // What is refused is told below.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum: now.maximum });
    }
    match getrlimit(Resource::Nofile).current {
        Some(current) if current < needed => Err(current),
        _ => Ok(()),
    }
}
