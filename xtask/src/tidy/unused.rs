//! Functions and constants that a crate makes public are named outside of it.
//!
//! The compiler finds what nobody in a crate uses only if it is not public. In the crates of
//! [`ROOMS`] each `pub fn` and `pub const` at module level therefore has its word in another
//! crate, or in a test, example or benchmark beside the crate; else it is `pub(crate)`. Words are
//! compared, not paths, so a name that many crates have is never found. Not judged are types, which
//! signatures may need, and what stands within `impl` blocks or inline modules. Exceptions are in
//! the ratchet.

use super::source::{is_word, leading_word};
use super::{Source, shape::Excess};
use std::collections::BTreeSet;

/// The crates that are judged.
const ROOMS: [&str; 5] = ["engine", "functions", "hostcache", "policy", "sim"];

/// Beginnings of lines that make something public.
const PUBLIC: [&str; 4] = ["pub fn ", "pub const fn ", "pub const ", "pub unsafe fn "];

/// Public functions and constants that no other crate names.
pub(super) fn excesses(sources: &[Source<'_>]) -> Vec<Excess> {
    ROOMS.iter().flat_map(|room| of_room(room, sources)).collect()
}

fn of_room(room: &str, sources: &[Source<'_>]) -> Vec<Excess> {
    let inside = format!("crates/{room}/src/");
    let is_inside = |source: &&Source<'_>| source.path.starts_with(&inside);
    let outside = sources.iter().filter(|source| !is_inside(source));
    let named: BTreeSet<&str> = outside.flat_map(|source| words(&source.code)).collect();
    let mut found = Vec::new();
    for source in sources.iter().filter(is_inside).filter(|source| !source.is_test()) {
        let lines = source.code.lines().enumerate();
        let public = lines.filter_map(|(i, line)| Some((i + 1, public_name(line)?)));
        found.extend(public.filter(|(_, name)| !named.contains(name)).map(|(line, name)| Excess {
            place: format!("{}::{name}", source.path),
            path: source.path.to_string(),
            line,
            count: 1,
            max: 0,
            unit: "public name that no other crate has",
            instead: "make it `pub(crate)`, or delete it if only tests use it".to_string(),
        }));
    }
    found
}

/// The name of the function or constant that a line at module level makes public.
fn public_name(line: &str) -> Option<&str> {
    let rest = PUBLIC.iter().find_map(|beginning| line.strip_prefix(beginning))?;
    let name = leading_word(rest);
    (!name.is_empty() && name != "fn").then_some(name)
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_ascii() || !is_word(c as u8)).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests;
