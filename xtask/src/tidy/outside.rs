//! Crates that read bytes from outside deny what panics on them: indexing, and `expect`.
//!
//! The crate as a whole denies, so that a new module does too. Modules that read nothing from
//! outside are listed here, and only they may allow it again. A `format.rs` in another crate is the
//! business of [`super::layouts`].

use super::source::{closing, leading_word};
use super::{Finding, Source};

const RULE: &str = "outside";

/// The lints, as the attribute names them.
pub(super) const DENIED: &str = "clippy::indexing_slicing, clippy::expect_used";

/// The crates, each with the modules that may allow what it denies.
const READERS: [(&str, &[&str]); 3] = [
    ("fs", &["tests"]),
    ("nbd", &["tests"]),
    (
        "trace",
        &["tests", "fixture", "filter", "merge", "packer", "stat", "synth", "write", "writer"],
    ),
];

/// Finds such a crate that does not deny, and each place where it allows what it may not.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let inside = source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
    let Some((room, file)) = inside else { return Vec::new() };
    let Some((_, modules)) = READERS.iter().find(|(reader, _)| *reader == room) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let denies = format!("#![deny({DENIED})]");
    if file == "lib.rs" && !source.code.contains(&denies) {
        let message = format!("write `{denies}`: bytes from outside never panic");
        findings.push(Finding::new(source.path, 1, RULE, message));
    }
    let levels = ["allow", "expect", "warn"].into_iter().flat_map(|level| source.words(level));
    for at in levels.filter(|at| !source.is_test() && opens(&source.code, *at, modules)) {
        let message = format!(
            "`{room}` reads bytes from outside: write `get`, `first_chunk` or a pattern; modules \
             that read none are listed in {}",
            file!()
        );
        findings.push(Finding::new(source.path, source.line_of(at), RULE, message));
    }
    findings
}

/// True if the word at `at` begins a list of one of the lints, before anything but one of
/// `modules`.
fn opens(code: &str, at: usize, modules: &[&str]) -> bool {
    let open = at + leading_word(&code[at..]).len();
    let list = code[open..].starts_with('(').then(|| closing(code.as_bytes(), open)).flatten();
    let Some(close) = list else { return false };
    let lists = |lint: &str| code[open..close].contains(lint);
    let whole_file = code[..at].trim_end().ends_with("#![");
    let may = !whole_file && modules.contains(&module_behind(&code[close..]));
    DENIED.split(", ").any(lists) && !may
}

/// The module that is declared behind an attribute's list; empty where it is something else.
fn module_behind(code: &str) -> &str {
    let declared = code.strip_prefix(")]").map_or("", str::trim_start);
    let declared = declared.strip_prefix("pub ").unwrap_or(declared);
    declared.strip_prefix("mod ").map_or("", leading_word)
}

#[cfg(test)]
mod tests;
