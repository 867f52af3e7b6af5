//! `cargo xtask expectations NAME`: what an experiment was expected to show, commit by commit.
//!
//! 1. `git log` names the commits that touched `experiments/NAME/experiment.toml`, oldest first.
//! 2. Of each version the expectations are read: every table in an array `expect`, at the top or in
//!    a panel, as one line with the panel's title.
//! 3. What a commit added and took away is printed; a commit that changed none is only counted.
//!
//! An expectation that changed after a result was known is seen by this. It judges nothing.

#[cfg(test)]
mod tests;

use crate::{Failure, workspace};
use std::fmt::Write;
use std::process::Command;
use toml::{Table, Value};

/// Parts of a commit that are told.
struct Commit {
    hash: String,
    date: String,
    subject: String,
}

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let [name] = arguments else {
        return Err(Failure::Usage("expectations takes the name of an experiment".to_string()));
    };
    let path = format!("experiments/{name}/experiment.toml");
    let commits = commits(&path)?;
    if commits.is_empty() {
        return Err(Failure::Failed(format!("{path}: no commit has it")));
    }
    let versions: Vec<(Commit, Vec<String>)> = commits
        .into_iter()
        .map(|commit| {
            // A commit that took the file away has none.
            let text = git(&["show", &format!("{}:{path}", commit.hash)]).unwrap_or_default();
            let expected = expected(&text);
            (commit, expected)
        })
        .collect();
    print!("{}", history(&versions));
    Ok(())
}

/// The commits that touched a file, oldest first.
fn commits(path: &str) -> Result<Vec<Commit>, Failure> {
    let form = "--format=%h%x09%ad%x09%s";
    let log = git(&["log", "--reverse", "--date=iso", form, "--", path])?;
    let commit = |line: &str| {
        let mut parts = line.splitn(3, '\t').map(str::to_string);
        Some(Commit { hash: parts.next()?, date: parts.next()?, subject: parts.next()? })
    };
    Ok(log.lines().filter_map(commit).collect())
}

fn git(arguments: &[&str]) -> Result<String, Failure> {
    let output = Command::new("git").args(arguments).current_dir(workspace::root()).output();
    let output = output.map_err(|error| format!("git does not start: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Failure::Failed(String::from_utf8_lossy(&output.stderr).trim().to_string()))
}

/// Every expectation of a description, in its order.
fn expected(text: &str) -> Vec<String> {
    let Ok(description) = text.parse::<Table>() else {
        return vec!["(this version cannot be read)".to_string()];
    };
    let mut found = Vec::new();
    collect(&description, "", &mut found);
    found
}

/// The expectations of a table and of the tables below it; `title` is the panel's.
fn collect(table: &Table, title: &str, found: &mut Vec<String>) {
    let name = |key| table.get(key).and_then(Value::as_str);
    let title = name("title").or(name("name")).unwrap_or(title);
    for (key, value) in table {
        let Value::Array(values) = value else { continue };
        for table in values.iter().filter_map(Value::as_table) {
            if key == "expect" {
                found.push(format!("{title}: {}", words(table)));
            } else {
                collect(table, title, found);
            }
        }
    }
}

/// A table in one line, its kind first.
fn words(table: &Table) -> String {
    let kind = table.get("kind").and_then(Value::as_str).unwrap_or("?");
    let others = table.iter().filter(|(key, _)| *key != "kind");
    others.fold(kind.to_string(), |words, (key, value)| format!("{words}, {key} {value}"))
}

/// The history of versions: lines that each added and took away.
fn history(versions: &[(Commit, Vec<String>)]) -> String {
    let mut out = String::new();
    let mut before: &[String] = &[];
    let mut same = 0;
    for (commit, now) in versions {
        if now == before {
            same += 1;
            continue;
        }
        let Commit { hash, date, subject } = commit;
        writeln!(out, "{hash} {date} {subject}").expect("a String takes every text");
        let gone = before.iter().filter(|line| !now.contains(line)).map(|line| ('-', line));
        let come = now.iter().filter(|line| !before.contains(line)).map(|line| ('+', line));
        for (sign, line) in gone.chain(come) {
            writeln!(out, "  {sign} {line}").expect("a String takes every text");
        }
        before = now;
    }
    writeln!(out, "\n{} expectations now; {same} commits changed none.", before.len())
        .expect("a String takes every text");
    out
}
