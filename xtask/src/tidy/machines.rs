//! Machines are made of parts: an object that is spread over many files, or files that all call
//! each other, are one part whatever its pages are called.
//!
//! Three measures for each crate of layer 2. First, in how many files a type has an `impl` block of
//! its own. Second, the size of the largest set of files that reach each other by calls of
//! functions whose name is unique in the crate and is none of the standard library's. Calls are
//! found by name, so this is an estimate from below. Third, the size of the largest set of files
//! that reach each other by imports. Old code may owe; what it owes stands in the ratchet, and may
//! only shrink.

mod imports;

use self::imports::imports;
use super::source::leading_word;
use super::{LayerTable, Source, shape::Excess};
use std::collections::{BTreeMap, BTreeSet};

/// Names that types of the standard library have too: a call of one says nothing of who is called.
const COMMON_NAMES: [&str; 25] = [
    "clone",
    "contains",
    "count",
    "default",
    "deref",
    "deref_mut",
    "drain",
    "drop",
    "entry",
    "extend",
    "find",
    "first",
    "get",
    "get_mut",
    "insert",
    "is_empty",
    "iter",
    "iter_mut",
    "last",
    "len",
    "next",
    "pop",
    "push",
    "remove",
    "replace",
];

/// Files in which one type may have its own `impl` blocks.
const FILES_MAX: usize = 3;

/// Files that may reach each other in a circle.
const CIRCLE_MAX: usize = 3;

/// The measures that are over their limits.
pub(super) fn excesses(sources: &[Source], table: &LayerTable) -> Vec<Excess> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        let is_code = source.path.contains("/src/") && !source.is_test();
        if is_code && table.is_machine(source.room()) {
            crates.entry(source.room()).or_default().push(source);
        }
    }
    let mut found = Vec::new();
    for (room, sources) in crates {
        let over = |what: &str, count, max, unit, instead: &str| Excess {
            place: format!("{room}::{what}"),
            path: format!("crates/{room}"),
            line: 0,
            count,
            max,
            unit,
            instead: instead.to_string(),
        };
        for (name, files) in spread(&sources).into_iter().filter(|(_, n)| *n > FILES_MAX) {
            let instead = "give parts of it structs of their own";
            found.push(over(&format!("impl {name}"), files, FILES_MAX, "files", instead));
        }
        let circles = [
            ("circle", calls(&sources), "let parts answer with effects instead of calling back"),
            ("imports", imports(&sources), "put types below all files that name them"),
        ];
        for (what, edges, instead) in circles {
            let circle = largest_circle(&edges);
            if circle.len() > CIRCLE_MAX {
                let names: Vec<&str> = circle.iter().map(|&file| sources[file].path).collect();
                let instead = format!("{instead}: {}", names.join(", "));
                found.push(over(what, circle.len(), CIRCLE_MAX, "files", &instead));
            }
        }
    }
    found
}

/// Number of files with an `impl` block of its own, by type.
fn spread(sources: &[&Source]) -> BTreeMap<String, usize> {
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    for source in sources {
        let types: BTreeSet<&str> = source.words("impl").filter_map(|at| own(source, at)).collect();
        for name in types {
            *files.entry(name.to_string()).or_default() += 1;
        }
    }
    files
}

/// The type of an `impl` block that is no trait's.
fn own<'a>(source: &'a Source, at: usize) -> Option<&'a str> {
    let before = source.code[..at].trim_end();
    if !before.is_empty() && !before.ends_with(['}', ';', ']', '{']) {
        return None; // A type `impl Trait`.
    }
    let rest = &source.code[at + "impl".len()..];
    let head = &rest[..rest.find('{')?];
    let head = match head.strip_prefix('<') {
        Some(generics) => {
            let end = closing_angle(generics)?;
            &generics[end + 1..]
        }
        None => head,
    };
    let is_block = head.starts_with(' ') && !head.contains(" for ") && !head.contains([';', ')']);
    let name = leading_word(head.trim_start());
    (is_block && name.starts_with(char::is_uppercase)).then_some(name)
}

fn closing_angle(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

/// For each file, the files whose functions it calls.
fn calls(sources: &[&Source]) -> Vec<BTreeSet<usize>> {
    let mut home: BTreeMap<&str, Option<usize>> = BTreeMap::new();
    for (file, source) in sources.iter().enumerate() {
        for function in source.functions() {
            let name = &source.code[function.start + 2..];
            let name = leading_word(name.trim_start());
            if COMMON_NAMES.contains(&name) {
                continue;
            }
            home.entry(name).and_modify(|h| *h = h.filter(|h| *h == file)).or_insert(Some(file));
        }
    }
    let called = |file: usize, source: &Source| {
        let code = &source.code;
        let names = code.match_indices(['.', ':']).filter_map(|(at, _)| {
            let name = leading_word(&code[at + 1..]);
            let is_call = !name.is_empty() && code[at + 1 + name.len()..].starts_with('(');
            let home = home.get(name).filter(|_| is_call)?;
            home.filter(|home| *home != file)
        });
        names.collect()
    };
    sources.iter().enumerate().map(|(file, source)| called(file, source)).collect()
}

/// The largest set of files that all reach each other; empty without any circle.
fn largest_circle(calls: &[BTreeSet<usize>]) -> Vec<usize> {
    let reach: Vec<BTreeSet<usize>> = (0..calls.len())
        .map(|from| {
            let mut reached = BTreeSet::new();
            let mut next: Vec<usize> = calls[from].iter().copied().collect();
            while let Some(file) = next.pop() {
                if reached.insert(file) {
                    next.extend(&calls[file]);
                }
            }
            reached
        })
        .collect();
    let circle = |file: usize| -> Vec<usize> {
        let both = reach[file].iter().copied().filter(|&other| reach[other].contains(&file));
        if reach[file].contains(&file) { both.collect() } else { Vec::new() }
    };
    (0..calls.len()).map(circle).max_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests;
