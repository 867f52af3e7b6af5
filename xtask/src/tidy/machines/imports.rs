//! Imports of files of one crate from each other: `use` declarations, and paths that begin with
//! `crate::`.
//!
//! A file that names a type of another one depends on it, whoever calls whom. An import of a module
//! counts for the file of the longest path that there is. A crate's `lib.rs` re-exports, and counts
//! for nothing.

use crate::tidy::Source;
use std::collections::{BTreeMap, BTreeSet};

/// For each file, the files that it imports from.
pub(super) fn imports(sources: &[&Source]) -> Vec<BTreeSet<usize>> {
    let modules: BTreeMap<Vec<&str>, usize> =
        sources.iter().enumerate().map(|(file, source)| (module(source.path), file)).collect();
    let imported = |file: usize, source: &Source| {
        let own = module(source.path);
        let paths = uses(&source.code).into_iter().chain(crate_paths(&source.code));
        let files = paths.filter_map(|path| resolve(&own, &path, &modules));
        files.filter(|other| *other != file).collect()
    };
    sources.iter().enumerate().map(|(file, source)| imported(file, source)).collect()
}

/// Path of the module of a file, within its crate.
fn module(path: &str) -> Vec<&str> {
    let inside = path.split_once("/src/").map_or(path, |(_, inside)| inside);
    let inside = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    if inside == "lib" { Vec::new() } else { inside.split('/').collect() }
}

/// The file that a path within a module names; `None`: it is another crate's, or the crate's root.
fn resolve(own: &[&str], path: &[String], modules: &BTreeMap<Vec<&str>, usize>) -> Option<usize> {
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    let full: Vec<&str> = match *words.first()? {
        "crate" => words[1..].to_vec(),
        "self" => own.iter().chain(&words[1..]).copied().collect(),
        "super" => {
            let up = words.iter().take_while(|word| **word == "super").count();
            let above = &own[..own.len().checked_sub(up)?];
            above.iter().chain(&words[up..]).copied().collect()
        }
        _ => own.iter().chain(&words).copied().collect(),
    };
    // A module of one's own is named from where one is: what is not there is another crate.
    let least = if words[0] == "crate" || words[0] == "super" { 1 } else { own.len() + 1 };
    (least..=full.len()).rev().find_map(|length| modules.get(&full[..length]).copied())
}

/// Paths of `use` declarations, each brace opened.
fn uses(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let starts = code[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || c == ')');
        if let Some(end) = code[at..].find(';').filter(|_| starts) {
            expand(&[], &code[at + "use ".len()..at + end], &mut paths);
        }
    }
    paths
}

/// Appends the paths of a `use` tree below a prefix.
fn expand(prefix: &[String], tree: &str, paths: &mut Vec<Vec<String>>) {
    let mut depth = 0;
    let parts = tree.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    for part in parts.map(str::trim).filter(|part| !part.is_empty()) {
        let (head, rest) = match part.split_once('{') {
            Some((head, rest)) => (head, rest.rsplit_once('}').map(|(inside, _)| inside)),
            None => (part.split(" as ").next().unwrap_or(part), None),
        };
        let words = head.split("::").map(str::trim).filter(|word| !word.is_empty());
        let path: Vec<String> = prefix.iter().cloned().chain(words.map(str::to_string)).collect();
        match rest {
            Some(inside) => expand(&path, inside, paths),
            None => paths.push(path),
        }
    }
}

/// Paths that begin with `crate::` outside of `use` declarations and visibilities.
fn crate_paths(code: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let before = code[..at].trim_end();
        if before.ends_with("use") || before.ends_with("(in") {
            continue;
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let end = code[at..].find(|c| !is_word(c)).map_or(code.len(), |end| at + end);
        let words = code[at..end].split("::").filter(|word| !word.is_empty());
        paths.push(words.map(str::to_string).collect());
    }
    paths
}
