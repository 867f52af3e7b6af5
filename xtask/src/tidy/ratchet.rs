//! The ratchet: what there is still too much of, such as lines of a function or files of a type, in
//! a list that may only shrink.
//!
//! An entry is a debt of exactly so many. Growth is a finding; so is shrinkage until the
//! entry is lowered, and a debt that was paid until its entry is deleted. Nothing here writes the
//! list: it is edited by hand, in the open.

use super::{Finding, shape::Excess};

pub(super) const PATH: &str = "xtask/ratchet.txt";

const RULE: &str = "ratchet";

struct Debt<'a> {
    /// Line in the list, from 1.
    line: usize,
    place: &'a str,
    count: usize,
}

/// The list (`COUNT PLACE` a line, `#` comments) against what is too long now.
pub(super) fn compare(list: &str, excesses: &[Excess]) -> Result<Vec<Finding>, String> {
    let debts = parse(list)?;
    let mut findings = Vec::new();
    for excess in excesses {
        let Excess { place, path, line, count, max, unit, instead } = excess;
        let message = match debts.iter().find(|d| d.place == place) {
            None => format!("{count} {unit}, at most {max}: {instead}"),
            Some(debt) if debt.count < *count => {
                format!("{count} {unit}, {PATH} allows {}: it may only shrink", debt.count)
            }
            Some(_) => continue,
        };
        findings.push(Finding::new(path, *line, RULE, format!("{place}: {message}")));
    }
    for Debt { line, place, count } in debts {
        let message = match excesses.iter().find(|e| e.place == place) {
            None => format!("{place} is within its bound now: delete this entry"),
            Some(excess) if excess.count < count => {
                format!("{place} has shrunk: lower this entry to {}", excess.count)
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
                .and_then(|(count, place)| Some((count.parse().ok()?, place.trim())))
                .map(|(count, place)| Debt { line, place, count })
                .ok_or_else(|| format!("{PATH}:{line}: `{text}` is not `COUNT PLACE`"))
        })
        .collect()
}

#[cfg(test)]
mod tests;
