//! Links in Markdown to files of the checkout must lead to a file.
//!
//! Links to other sites and to headings are not followed; code blocks and inline code hold no
//! links.

use super::Finding;

pub(super) fn check(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            for target in targets(line) {
                let dangling = resolve(path, &target).is_none_or(|file| !exists(&file));
                if dangling {
                    let message = format!("`{target}` leads to no file");
                    findings.push(Finding::new(path, index + 1, "links", message));
                }
            }
        }
    }
    findings
}

/// Targets of `[text](target)` and `src="target"` that name a file, without their `#heading`.
pub(crate) fn targets(line: &str) -> Vec<String> {
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
        .map(|t| t.split([' ', '#']).next().unwrap_or_default().to_string())
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
