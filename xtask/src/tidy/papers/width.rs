//! Prose of the pages that people read in an editor is as wide as the code.
//!
//! Tables, code blocks and headings keep their width, and so does a line without a space at which
//! it could be broken, such as a long link.

use super::super::Finding;
use super::super::shape::{WIDTH_MAX, too_wide};
use super::links;

/// Pages, and folders of pages, whose width is looked at.
const PAGES: [&str; 7] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "KNOWN_ISSUES.md",
    "README.md",
    "docs/README.md",
    "docs/glossary.md",
    "docs/guides/",
];

/// Finds lines of prose that are too wide and can be broken.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    if !PAGES.iter().any(|page| path == *page || (page.ends_with('/') && path.starts_with(page))) {
        return Vec::new();
    }
    let wide = links::prose(text).filter(|(_, line)| is_too_wide(line));
    wide.map(|(number, line)| too_wide(path, number, line)).collect()
}

fn is_too_wide(line: &str) -> bool {
    let prose = line.trim_start();
    if prose.starts_with(['|', '#']) || line.chars().count() <= WIDTH_MAX {
        return false;
    }
    let indent = line.len() - prose.len();
    let marker = if prose.starts_with("- ") { "- ".len() } else { 0 };
    let breaks = line.char_indices().take(WIDTH_MAX + 1);
    breaks.skip_while(|(at, _)| *at < indent + marker).any(|(_, letter)| letter == ' ')
}

#[cfg(test)]
mod tests;
