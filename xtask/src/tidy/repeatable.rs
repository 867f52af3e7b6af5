//! Equal inputs, settings and seeds give equal results: the laboratory asks neither the day, nor
//! the machine, nor chance.
//!
//! Sealed crates are held to more (`bans`). The crates here may open files and use threads; what
//! they compute may not depend on them.

use super::{Finding, Source, bans};

const RULE: &str = "repeatable";

/// Crates whose results are compared between machines.
const LABORATORY: [&str; 5] = ["charts", "experiments", "recording", "sim", "trace"];

/// Words that bring in what is different elsewhere, and what to do.
const WORDS: [(&str, &str); 7] = [
    ("SystemTime", "take moments from the trace, or as an argument"),
    ("Instant", "results are in virtual time; what a run costs is measured in one file only"),
    ("RandomState", "name a fixed hasher"),
    ("thread_rng", "take a seed"),
    ("ThreadId", "results do not know which thread made them"),
    ("available_parallelism", "results do not know how many cores there are"),
    ("current_num_threads", "results do not know how many threads there are"),
];

/// Words that some files may use: one measures what a run costs, which is told beside its results,
/// and two spread runs and jobs over the cores.
const EXCEPT: [(&str, &str); 3] = [
    ("Instant", "crates/sim/src/processor.rs"),
    ("available_parallelism", "crates/sim/src/lab/run.rs"),
    ("available_parallelism", "crates/sim/src/sweep/folder.rs"),
];

pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    if !LABORATORY.contains(&source.room()) || source.is_test() || source.is_program() {
        return Vec::new();
    }
    let mut findings = bans::maps(source, RULE);
    for (word, instead) in WORDS {
        if EXCEPT.contains(&(word, source.path)) {
            continue;
        }
        findings.extend(source.words(word).map(|at| {
            let message = format!("the laboratory has no `{word}`: {instead}");
            Finding::new(source.path, source.line_of(at), RULE, message)
        }));
    }
    findings
}

#[cfg(test)]
mod tests;
