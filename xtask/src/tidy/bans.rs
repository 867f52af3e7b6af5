//! Limits of sealed crates: what they may take from `std`, and what they may not do at all.
//!
//! A crate of layers 0 to 2 that does not link the C library is sealed: it decides, or it is a
//! machine that is told events. Clippy bans types, functions and macros by their path
//! (`clippy.toml` of those crates); this rule is a list of what is allowed of `std`, so that a
//! module nobody thought of is refused too. It also bans what clippy cannot name: other names for
//! `std`, hash maps with their randomly seeded hasher, the environment at build time, `async`.
//! Tests and examples may open traces and read the environment.

use super::source::{closing, leading_word};
use super::{Finding, LayerTable, Source};

const RULE: &str = "bans";

/// Roots whose modules are judged. `core` and `alloc` are parts of `std`.
const ROOTS: [&str; 3] = ["std", "core", "alloc"];

/// Modules that compute only: any name in them may be used.
const FREE: [&str; 27] = [
    "any",
    "array",
    "ascii",
    "borrow",
    "boxed",
    "cell",
    "char",
    "cmp",
    "collections",
    "convert",
    "default",
    "error",
    "f64",
    "fmt",
    "hash",
    "hint",
    "iter",
    "marker",
    "mem",
    "num",
    "ops",
    "option",
    "rc",
    "result",
    "slice",
    "str",
    "string",
];

/// Modules of which some names may be used: those that a caller hands in, or that only compute.
const PARTLY_FREE: [(&str, &[&str]); 5] = [
    (
        "io",
        &[
            "self",
            "BufRead",
            "BufReader",
            "BufWriter",
            "Cursor",
            "Error",
            "ErrorKind",
            "Read",
            "Result",
            "Seek",
            "SeekFrom",
            "Write",
        ],
    ),
    ("net", &["IpAddr", "Ipv4Addr", "Ipv6Addr"]),
    ("sync", &["Arc", "LazyLock", "OnceLock", "Weak", "atomic"]),
    ("time", &["Duration"]),
    ("vec", &["self", "Vec", "IntoIter", "Drain"]),
];

/// Modules that only files with `unsafe` may use.
const WITH_UNSAFE: [&str; 2] = ["arch", "ptr"];

/// Advice in place of the modules that come to mind first.
const INSTEAD: [(&str, &str); 10] = [
    ("fs", "take `impl Read`, `BufRead` or `Write` from the caller; `cli` opens files"),
    ("path", "take `impl Read`, `BufRead` or `Write` from the caller; `cli` opens files"),
    ("io", "take `impl Read`, `BufRead` or `Write` from the caller"),
    ("net", "take `impl Read` or `Write` from the caller"),
    ("os", "take what it offers as an argument"),
    ("thread", "stay single-threaded and `Send`; `sim` spreads work over the cores"),
    ("sync", "stay single-threaded; `Arc` and atomics are allowed"),
    ("env", "take a setting or an argument"),
    ("process", "return a typed error; only `cli` ends the process"),
    ("time", "take `now: Nanos` as an argument"),
];

/// Words that reach the standard streams or the environment by whatever path, and what to do.
const WORDS: [(&str, &str); 6] = [
    ("thread_local", "keep it in the value that needs it"),
    ("stdin", "take `impl Read` from the caller"),
    ("stdout", "take `impl Write` from the caller"),
    ("stderr", "return a typed error; `cli` prints"),
    ("option_env", "take a setting or an argument"),
    ("env", "take a setting or an argument"),
];

/// Beginning of what a package's own manifest says, which is the same for everybody who builds it.
const OF_THE_PACKAGE: &str = "env!(\"CARGO_PKG_";

/// Uses that tests plant and count by, which no result depends on.
const MAY_BE_THREAD_LOCAL: [&str; 2] =
    ["crates/units/src/mutants.rs", "crates/units/src/situations.rs"];

/// Maps, with how many type parameters they have when the hasher is named.
const MAPS: [(&str, usize); 2] = [("HashMap", 3), ("HashSet", 2)];

/// Functions of such maps that name the hasher.
const HASHED: [&str; 2] = ["with_hasher", "with_capacity_and_hasher"];

pub(super) fn check(source: &Source, table: &LayerTable) -> Vec<Finding> {
    if source.is_test() || source.is_program() || !table.is_sealed(source.room()) {
        return Vec::new();
    }
    let mut findings = modules(source, table);
    findings.extend(other_names(source));
    findings.extend(words(source));
    findings.extend(maps(source, RULE));
    let asyncs = source.words("async").chain(source.words("await"));
    findings.extend(asyncs.map(|at| {
        let message = "sealed crates have no async: write a state machine that is told events";
        Finding::new(source.path, source.line_of(at), RULE, message)
    }));
    findings
}

fn modules(source: &Source, table: &LayerTable) -> Vec<Finding> {
    let may_be_unsafe = table.may_be_unsafe(source.path);
    let mut findings = Vec::new();
    for (at, path) in paths_in_std(source) {
        let (module, name) = path.split_once("::").unwrap_or((&path, "self"));
        let some = PARTLY_FREE.iter().find(|(partly, _)| *partly == module);
        let is_free = FREE.contains(&module)
            || some.is_some_and(|(_, names)| names.contains(&name))
            || (may_be_unsafe && WITH_UNSAFE.contains(&module));
        if !is_free {
            let instead = INSTEAD.iter().find(|(named, _)| *named == module);
            let instead = instead.map_or("take what it offers as an argument", |(_, text)| text);
            let what = if some.is_some() { path.as_str() } else { module };
            let message = format!("sealed crates have no `std::{what}`: {instead}");
            findings.push(Finding::new(source.path, source.line_of(at), RULE, message));
        }
    }
    findings
}

/// Renaming a root or a map would hide it from the other rules.
fn other_names(source: &Source) -> Vec<Finding> {
    let renamed = |at: usize, word: &str| {
        let rest = source.code[at + word.len()..].trim_start();
        rest.strip_prefix("as").is_some_and(|r| r.starts_with(char::is_whitespace))
    };
    let names = ROOTS.into_iter().chain(MAPS.map(|(map, _)| map));
    let mut findings = Vec::new();
    for name in names {
        for at in source.words(name).filter(|at| renamed(*at, name)) {
            let message = format!("`{name}` keeps its name here, so that its use can be seen");
            findings.push(Finding::new(source.path, source.line_of(at), RULE, message));
        }
    }
    findings
}

fn words(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (word, instead) in WORDS {
        let is_macro = word.contains("env") || word == "thread_local";
        for at in source.words(word) {
            let after = &source.code[at + word.len()..];
            let is_of_package = source.text[at..].starts_with(OF_THE_PACKAGE)
                || MAY_BE_THREAD_LOCAL.contains(&source.path);
            if is_macro && (!after.starts_with('!') || is_of_package) {
                continue;
            }
            let message = format!("sealed crates do not use `{word}`: {instead}");
            findings.push(Finding::new(source.path, source.line_of(at), RULE, message));
        }
    }
    findings
}

/// The first two names that follow `std::` (one where there is no second), each use of a tree such
/// as `use std::{a, b::{c, d}}` apart, with its place.
fn paths_in_std(source: &Source) -> Vec<(usize, String)> {
    let mut paths = Vec::new();
    for root in ROOTS {
        for at in source.words(root) {
            let after = at + root.len();
            if source.code[after..].starts_with("::") {
                tree(&source.code, after + 2, "", &mut paths);
            }
        }
    }
    paths
}

/// Adds the paths of the use tree at `from`, which stands below the module `above`.
fn tree(code: &str, from: usize, above: &str, paths: &mut Vec<(usize, String)>) {
    let rest = &code[from..];
    if rest.starts_with('{') {
        let end = closing(code.as_bytes(), from).unwrap_or(code.len());
        for (offset, part) in parts(&code[from + 1..end]) {
            let blank = part.len() - part.trim_start().len();
            tree(code, from + 1 + offset + blank, above, paths);
        }
        return;
    }
    let name = if rest.starts_with('*') { "*" } else { leading_word(rest) };
    if !above.is_empty() {
        paths.push((from, format!("{above}::{name}")));
        return;
    }
    match rest[name.len()..].strip_prefix("::") {
        Some(_) => tree(code, from + name.len() + 2, name, paths),
        None => paths.push((from, name.to_string())),
    }
}

/// Maps with a randomly seeded hasher, as findings of `rule`.
pub(super) fn maps(source: &Source, rule: &'static str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (map, parameters) in MAPS {
        for at in source.words(map) {
            let rest = &source.code[at + map.len()..];
            let is_seeded = match rest.trim_start_matches("::").strip_prefix('<') {
                Some(generics) => parts(angle_group(generics)).len() < parameters,
                None => rest
                    .strip_prefix("::")
                    .is_some_and(|function| !HASHED.contains(&leading_word(function))),
            };
            if is_seeded {
                let message = format!(
                    "`{map}` with its default hasher iterates at random: use a BTree, a dense \
                     `Vec`, or name a fixed hasher and never depend on the order"
                );
                findings.push(Finding::new(source.path, source.line_of(at), rule, message));
            }
        }
    }
    findings
}

/// Up to the `>` that closes a group whose `<` has been read.
fn angle_group(text: &str) -> &str {
    let mut depth = 1;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
        before = c;
    }
    text
}

/// The parts between commas that lie in no bracket of any kind, each with its offset.
fn parts(text: &str) -> Vec<(usize, &str)> {
    let mut depth = 0;
    let mut start = 0;
    let mut found = Vec::new();
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push((start, &text[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        found.push((start, &text[start..]));
    }
    found
}

#[cfg(test)]
mod tests;
