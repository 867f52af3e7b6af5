//! Functions that change state check what they rely on, and what they leave.
//!
//! Counted are functions of three crates, outside tests, that
//! 1. take `&mut`, as `self` or as a parameter. A closure is not state, nor is the formatter of
//!    `fmt`, nor a `Reader`, the cursor of a decoder: what it reads is input, and an error where it
//!    is wrong. These are left out, as is what a parameter's own parameters take;
//! 2. have more than three lines of code in their body, its braces not counted;
//! 3. have no check in their body. A check is `assert!`, `assert_eq!`, `assert_ne!`, their `debug_`
//!    forms, or a call of a function of our own that checks: `check_invariants`, or a name that
//!    begins with `assert_`. `unreachable!` and `expect` are none: they say what to do where code
//!    has no answer, and check nothing on the way past them.
//!
//! A check of which nobody has seen that it fails is filler, and no text shows that:
//! docs/testing/assertions.md has the violations that were planted. Each crate has a count in the
//! ratchet that may only shrink. `xtask/bench/house.py` counts by the same rule.

use super::source::{closing, leading_word};
use super::{Source, shape::Excess};
use std::collections::BTreeMap;

/// Crates whose state machines are held to it.
const CRATES: [&str; 3] = ["balancer", "blockcache", "volume"];

/// Lines of a body that need no check.
const FREE_LINES: usize = 3;

const MACROS: [&str; 6] =
    ["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne"];

/// Names, with their lines, of the functions of `source` that change state and check nothing.
fn unchecked(source: &Source) -> Vec<(String, usize)> {
    let functions = source.functions();
    let bodies = functions.iter().filter_map(|function| {
        let (parameters, body) = parts(&source.code, function.start)?;
        let is_long = body.lines().filter(|line| !line.trim().is_empty()).count() > FREE_LINES;
        let owes = is_long && changes_state(parameters) && checks(body) == 0;
        owes.then(|| (function.name.to_string(), function.line))
    });
    bodies.collect()
}

/// The parameters and the body of the function whose `fn` is at `start`, without their brackets.
fn parts(code: &str, start: usize) -> Option<(&str, &str)> {
    let open = parameters_at(code, start)?;
    let close = closing(code.as_bytes(), open)?;
    let body = close + code[close..].find('{')?;
    let end = closing(code.as_bytes(), body)?;
    Some((&code[open + 1..close], &code[body + 1..end]))
}

/// The bracket before the first parameter: generics may have brackets of their own.
fn parameters_at(code: &str, start: usize) -> Option<usize> {
    let mut depth = 0;
    let mut before = ' ';
    for (at, c) in code[start..].char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            '(' if depth == 0 => return Some(start + at),
            _ => {}
        }
        before = c;
    }
    None
}

/// True if a parameter is a `&mut` of something that holds state.
fn changes_state(parameters: &str) -> bool {
    let mut depth = 0;
    for (at, c) in parameters.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '&' if depth == 0 && taken(&parameters[at + 1..]).is_some_and(is_state) => return true,
            _ => {}
        }
    }
    false
}

/// The type behind `&mut` or `&'a mut`; `rest` is what follows the `&`.
fn taken(rest: &str) -> Option<&str> {
    let rest = match rest.strip_prefix('\'') {
        Some(lifetime) => lifetime[leading_word(lifetime).len()..].trim_start(),
        None => rest,
    };
    rest.strip_prefix("mut ")
}

fn is_state(taken: &str) -> bool {
    let closure = |kind: &str| {
        let bound = taken.strip_prefix(kind).map(leading_word);
        bound.is_some_and(|bound| matches!(bound, "Fn" | "FnMut" | "FnOnce"))
    };
    let cursor = ["fmt::Formatter", "Reader"].iter().any(|kind| taken.starts_with(kind));
    !closure("dyn ") && !closure("impl ") && !cursor
}

/// Number of checks in a body.
fn checks(body: &str) -> usize {
    let starts = body.char_indices().filter(|(at, c)| {
        let before = body[..*at].chars().next_back();
        c.is_alphabetic() && !before.is_some_and(|b| b.is_alphanumeric() || b == '_')
    });
    let is_check = |(at, _): &(usize, char)| {
        let word = leading_word(&body[*at..]);
        let after = &body[at + word.len()..];
        match after.chars().next() {
            Some('!') => MACROS.contains(&word),
            Some('(') => word == "check_invariants" || word.starts_with("assert_"),
            _ => false,
        }
    };
    starts.filter(is_check).count()
}

/// Debts of each crate, for the ratchet.
pub(super) fn excesses(sources: &[Source]) -> Vec<Excess> {
    let mut owing: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources {
        let is_code = source.path.contains("/src/") && !source.is_test();
        if is_code && CRATES.contains(&source.room()) {
            let places = unchecked(source).into_iter();
            let places = places.map(|(name, line)| format!("{name} ({}:{line})", source.path));
            owing.entry(source.room()).or_default().extend(places);
        }
    }
    let owing = owing.into_iter().filter(|(_, places)| !places.is_empty());
    owing
        .map(|(room, places)| Excess {
            place: format!("{room}::assertions"),
            path: format!("crates/{room}"),
            line: 0,
            count: places.len(),
            max: 0,
            unit: "functions that change state and check nothing",
            instead: format!("assert what holds before or after: {}", places.join(", ")),
        })
        .collect()
}

#[cfg(test)]
mod tests;
