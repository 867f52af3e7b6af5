//! The ratchet: files and functions that are still too long, with how long, in a list that may only
//! shrink.
//!
//! An entry is a debt of exactly so many lines. Growth is a finding; so is shrinkage until the
//! entry is lowered, and a debt that was paid until its entry is deleted. Nothing here writes the
//! list: it is edited by hand, in the open.

use super::{Finding, shape::Excess};

pub(super) const PATH: &str = "xtask/ratchet.txt";

const RULE: &str = "ratchet";

struct Debt<'a> {
    /// Line in the list, from 1.
    line: usize,
    place: &'a str,
    lines: usize,
}

/// The list (`LINES PLACE` a line, `#` comments) against what is too long now.
pub(super) fn compare(list: &str, excesses: &[Excess]) -> Result<Vec<Finding>, String> {
    let debts = parse(list)?;
    let mut findings = Vec::new();
    for excess in excesses {
        let Excess { place, path, line, lines, lines_max } = excess;
        let message = match debts.iter().find(|d| d.place == place) {
            None => format!("{lines} lines, at most {lines_max}: split it along its ideas"),
            Some(debt) if debt.lines < *lines => {
                format!("{lines} lines, {PATH} allows {}: it may only shrink", debt.lines)
            }
            Some(_) => continue,
        };
        findings.push(Finding::new(path, *line, RULE, format!("{place}: {message}")));
    }
    for Debt { line, place, lines } in debts {
        let message = match excesses.iter().find(|e| e.place == place) {
            None => format!("{place} is short enough now: delete this entry"),
            Some(excess) if excess.lines < lines => {
                format!("{place} has shrunk: lower this entry to {}", excess.lines)
            }
            Some(_) => continue,
        };
        findings.push(Finding::new(PATH, line, RULE, message));
    }
    Ok(findings)
}

fn parse(list: &str) -> Result<Vec<Debt<'_>>, String> {
    let numbered = list.lines().enumerate().map(|(i, text)| (i + 1, text.trim()));
    numbered
        .filter(|(_, text)| !text.is_empty() && !text.starts_with('#'))
        .map(|(line, text)| {
            text.split_once(' ')
                .and_then(|(lines, place)| Some((lines.parse().ok()?, place.trim())))
                .map(|(lines, place)| Debt { line, place, lines })
                .ok_or_else(|| format!("{PATH}:{line}: `{text}` is not `LINES PLACE`"))
        })
        .collect()
}

#[cfg(test)]
mod tests;
