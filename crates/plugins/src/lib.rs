//! Cache policies in shared libraries, as `--policy ./mine.so:name` names them.
//!
//! `include/thermocline_policy.h` is the interface; `library.rs` loads what keeps it. Answers are
//! checked by `thermocline_policy` like those of every policy from outside. A library runs in our
//! process: what it does to our memory is not caught.

#![allow(clippy::module_name_repetitions)]

mod library;

use library::Library;
use std::path::Path;
use std::sync::Arc;
use thermocline_policy::registry::PolicySpec;

/// Separator between a library's path and the policy's name.
const MARK: &str = ".so:";

/// The policy that `text` names, `PATH.so:NAME[:SETTINGS]`; `None` when it names none of a library.
///
/// # Errors
/// When the library cannot be loaded, keeps another version of the interface, or has no such
/// policy. The message names the library and what it has.
pub fn policy(text: &str) -> Option<Result<PolicySpec, String>> {
    let at = text.find(MARK)?;
    let (path, rest) = (&text[..at + MARK.len() - 1], &text[at + MARK.len()..]);
    let (name, settings) = rest.split_once(':').unwrap_or((rest, ""));
    let loaded = Library::load(Path::new(path)).and_then(|library| library.policy(name, settings));
    let named = |problem| format!("{path}: {problem}");
    Some(loaded.map_err(named).map(|policy| PolicySpec::foreign(text.into(), Arc::new(policy))))
}
