//! Cache policies and placements in shared libraries, as `--policy ./mine.so:name` names them.
//!
//! `include/thermocline_policy.h` and `include/thermocline_placement.h` are the interfaces;
//! `library.rs` loads what keeps them, `placement.rs` asks placements. Answers are checked by
//! `thermocline_policy` like those of every policy from outside. A library runs in our process:
//! what it does to our memory is not caught.

#![allow(clippy::module_name_repetitions)]

mod library;
mod placement;

use library::{Library, Named};
use std::path::Path;
use std::sync::Arc;
use thermocline_policy::registry::{FilterSpec, PolicySpec, SpecError, filters};

/// Separator between a library's path and the policy's name.
const MARK: &str = ".so:";

/// The filter in front of a policy, and the policy. Paths may have a plus: only what a filter is
/// called counts as one.
fn split_filter(text: &str) -> (Option<&str>, &str) {
    let Some((filter, policy)) = text.split_once('+') else { return (None, text) };
    let name = filter.split(':').next().unwrap_or_default().trim();
    match filters().any(|known| known.name == name) {
        true => (Some(filter), policy),
        false => (None, text),
    }
}

/// Library and policy of a text `[FILTER+]PATH.so:NAME[:SETTINGS]`: `PATH.so`, and what follows the
/// colon; `None` when the text names no library.
pub fn split(text: &str) -> Option<(&str, &str)> {
    let (_, text) = split_filter(text);
    let at = text.find(MARK)?;
    Some((&text[..at + MARK.len() - 1], &text[at + MARK.len()..]))
}

/// Checks the filter of a text `[FILTER+]PATH.so:NAME[:SETTINGS]`, without opening the library.
///
/// # Errors
/// When its settings are wrong.
pub fn check_filter(text: &str) -> Result<(), SpecError> {
    let Some(filter) = split_filter(text).0 else { return Ok(()) };
    FilterSpec::parse(filter).map(drop)
}

/// The policy or placement that `text` names, `[FILTER+]PATH.so:NAME[:SETTINGS]`; `None` when it
/// names none of a library.
///
/// # Errors
/// When the library cannot be loaded, keeps another version of the interface, or has no such
/// policy, when the filter's settings are wrong, or a filter stands before a placement. The message
/// names the library and what it has.
pub fn policy(text: &str) -> Option<Result<PolicySpec, String>> {
    let (path, _) = split(text)?;
    policy_in(Path::new(path), text)
}

/// Finds a policy as [`policy`] does, with the library in the file `path`, wherever the text says
/// it is. The loader knows a library by its path: a file that was replaced since it was loaded is
/// not loaded again.
///
/// # Errors
/// As [`policy`]; the message names the library as `text` does.
pub fn policy_in(path: &Path, text: &str) -> Option<Result<PolicySpec, String>> {
    let (written, rest) = split(text)?;
    let (name, settings) = rest.split_once(':').unwrap_or((rest, ""));
    let loaded = Library::load(path).and_then(|library| library.named(name, settings));
    let named = |problem| format!("{written}: {problem}");
    let spec = loaded.map_err(named).and_then(|found| {
        let spec = match found {
            Named::Policy(policy) => PolicySpec::foreign(text.into(), Arc::new(policy)),
            Named::Placement(placement) => {
                PolicySpec::foreign_placement(text.into(), Arc::new(placement))
            }
        };
        match split_filter(text).0 {
            None => Ok(spec),
            Some(filter) => spec.behind(filter).map_err(|error| error.to_string()),
        }
    });
    Some(spec)
}
