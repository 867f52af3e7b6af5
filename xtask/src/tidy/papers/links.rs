//! Links in Markdown to files of the checkout must lead to a file.
//!
//! Links to other sites are not followed; those to headings are `anchors`'. Code blocks and inline
//! code hold no links.

use super::Finding;

pub(super) fn check(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in of_page(text) {
        let file = file_of(&target);
        let dangling = resolve(path, file).is_none_or(|file| !exists(&file));
        if !file.is_empty() && dangling {
            let message = format!("`{file}` leads to no file");
            findings.push(Finding::new(path, line, "links", message));
        }
    }
    findings
}

/// Lines of a page outside of code blocks, with their numbers.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_fence = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_fence ^= is_fence;
        (!is_fence && !in_fence).then_some((index + 1, line))
    })
}

/// Targets of a page's links that stay in the checkout, each with its line.
pub(super) fn of_page(text: &str) -> impl Iterator<Item = (usize, String)> {
    prose(text).flat_map(|(number, line)| {
        let found = all_targets(line).into_iter();
        found.map(move |target| (number, target)).collect::<Vec<_>>()
    })
}

/// Targets of `[text](target)` and `src="target"` that name a file, without their `#heading`.
pub(crate) fn targets(line: &str) -> Vec<String> {
    let all = all_targets(line).into_iter();
    all.map(|target| file_of(&target).to_string()).filter(|file| !file.is_empty()).collect()
}

fn file_of(target: &str) -> &str {
    target.split('#').next().unwrap_or_default()
}

/// Targets of `[text](target)` and `src="target"` that are no other site's, with their `#heading`.
fn all_targets(line: &str) -> Vec<String> {
    // Every second part lies between backticks.
    let plain: String = line.split('`').step_by(2).collect();
    let between = |open: &'static str, close: char| {
        let starts = plain.match_indices(open).map(move |(at, _)| at + open.len());
        let ends = starts.filter_map(|s| Some(&plain[s..s + plain[s..].find(close)?]));
        ends.map(str::to_string).collect::<Vec<_>>()
    };
    let mut found = between("](", ')');
    found.extend(between("src=\"", '"'));
    found
        .iter()
        .map(|t| t.split(' ').next().unwrap_or_default().to_string())
        .filter(|t| !t.is_empty() && !t.contains("://") && !t.starts_with("mailto:"))
        .collect()
}

/// The path below the root that `target` means in the paper at `path`; `None` above the root.
pub(crate) fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests;
