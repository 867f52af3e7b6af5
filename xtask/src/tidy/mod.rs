//! `cargo xtask tidy`: the house rules that neither the compiler nor clippy checks.
//!
//! Reads text, compiles nothing, and takes under a second. Each rule is one file: it gets what it
//! judges as plain values and returns findings, so that its tests are small strings. What clippy
//! can name by type or path is banned in `clippy.toml` instead; tidy guards the ways around it.

mod allows;
mod assertions;
mod bans;
mod citations;
mod claims;
mod copies;
mod documentation;
mod floors;
mod layouts;
mod machines;
mod outside;
mod papers;
mod ratchet;
mod repeatable;
mod shape;
mod source;
mod unsafety;
mod unused;

use crate::{Failure, no_arguments, workspace};
use floors::FloorTable;
pub(crate) use papers::links;
use source::Source;
use std::fmt;

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// From 1; 0 where the file as a whole is meant.
    line: usize,
    rule: &'static str,
    /// The fault, and what to do instead.
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Finding {
        Finding { path: path.to_string(), line, rule, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {} [{}]", self.path, self.message, self.rule),
            line => write!(f, "{}:{line}: {} [{}]", self.path, self.message, self.rule),
        }
    }
}

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    no_arguments(arguments)?;
    println!("{}", check()?);
    Ok(())
}

/// Applies every rule to the checkout; prints what is broken, returns what was looked at.
pub(crate) fn check() -> Result<String, Failure> {
    let rust = workspace::files(&[".rs"])?;
    let papers = workspace::files(&[".md", "clippy.toml", "LICENSE", ".svg", ".toml", ".txt"])?;
    let text_of = |path: &str| papers.iter().find(|f| f.path == path).map(|f| f.text.as_str());
    let table = FloorTable::parse(text_of(floors::PATH).unwrap_or_default())?;
    let sources: Vec<Source> = rust.iter().map(|f| Source::read(&f.path, &f.text)).collect();

    let listed = text_of(citations::PATH).unwrap_or_default();

    let mut findings = table.compare(&workspace::packages()?);
    findings.extend(table.sealed_crates_share_bans(text_of));
    let mut excesses = Vec::new();
    for source in &sources {
        findings.extend(shape::head(source));
        findings.extend(shape::width(source));
        findings.extend(shape::name(source));
        excesses.extend(shape::excesses(source));
        findings.extend(bans::check(source, &table));
        findings.extend(allows::check(source, &table));
        findings.extend(unsafety::check(source, &table));
        findings.extend(documentation::check(source));
        findings.extend(claims::check(source));
        findings.extend(repeatable::check(source));
        findings.extend(layouts::check(source, text_of));
        findings.extend(layouts::elsewhere(source));
        findings.extend(outside::check(source));
        findings.extend(citations::check(source.path, source.text, listed));
    }
    findings.extend(papers.iter().flat_map(|f| citations::check(&f.path, &f.text, listed)));
    findings.extend(copies::check(&sources));
    excesses.extend(assertions::excesses(&sources));
    excesses.extend(machines::excesses(&sources, &table));
    excesses.extend(unused::excesses(&sources));
    excesses.extend(documentation::excesses(&sources));
    findings.extend(ratchet::compare(text_of(ratchet::PATH).unwrap_or_default(), &excesses)?);
    findings.extend(papers::check(&papers, |path| workspace::root().join(path).exists()));

    findings.sort();
    findings.iter().for_each(|finding| println!("{finding}"));
    if findings.is_empty() {
        return Ok(format!("{} sources and {} papers are tidy", sources.len(), papers.len()));
    }
    Err(Failure::Failed(format!("tidy found {} broken rules", findings.len())))
}
