//! Layouts of bytes are drawn: each `format.rs` names its page in docs/formats, and the page knows
//! the file's magic numbers and the version that it writes. Its bytes come from outside, so it
//! denies what panics on them: indexing, and `expect`.
//!
//! Files called `format.rs` that encode no numbers are no layouts, and not looked at.

use super::outside::DENIED;
use super::{Finding, Source};

const RULE: &str = "layouts";
const PAGES: &str = "docs/formats/";

/// Finds layouts without a page, and pages that lag behind; `page` gives the text of a paper.
pub(super) fn check<'a>(
    source: &Source,
    page: impl Fn(&str) -> Option<&'a str>,
) -> Option<Finding> {
    let is_layout = source.path.ends_with("/format.rs")
        && ["_le_bytes", "_be_bytes", "put_u"].iter().any(|word| source.text.contains(word));
    if !is_layout {
        return None;
    }
    let denies = format!("#![deny({DENIED})]");
    let found = |message: String| Some(Finding::new(source.path, 1, RULE, message));
    if !source.text.contains(&denies) {
        return found(format!("write `{denies}`: bytes from outside never panic"));
    }
    let head = source.text.lines().take_while(|line| line.starts_with("//!"));
    let Some(name) = head.into_iter().find_map(page_in) else {
        return found(format!("names no page: draw the layout in `{PAGES}`, and say where"));
    };
    let Some(text) = page(name) else {
        return found(format!("`{name}` is not there: draw the layout"));
    };
    let lacking: Vec<&str> = magics(source.text).filter(|magic| !text.contains(magic)).collect();
    if let Some(magic) = lacking.first() {
        return found(format!("`{name}` does not know `{magic}`: draw what has it"));
    }
    match version(source.text).filter(|version| !tells(text, version)) {
        Some(version) => found(format!("`{name}` does not tell of version {version}")),
        None => None,
    }
}

/// The page that a line of the head names.
fn page_in(line: &str) -> Option<&str> {
    let at = line.find(PAGES)?;
    let name = &line[at..];
    Some(&name[..name.find(".md")? + ".md".len()])
}

/// Magic numbers: byte strings of four to eight capital letters.
fn magics(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("b\"").filter_map(|(at, open)| {
        let rest = &text[at + open.len()..];
        let magic = &rest[..rest.find('"')?];
        let letters = magic.bytes().all(|byte| byte.is_ascii_uppercase());
        (letters && (4..=8).contains(&magic.len())).then_some(magic)
    })
}

/// The version that is written: the constant `VERSION` or `VERSION_MAX`.
fn version(text: &str) -> Option<&str> {
    let constant = ["const VERSION: ", "const VERSION_MAX: "];
    let at = constant.iter().find_map(|constant| text.find(constant))?;
    let value = text[at..].split_once("= ")?.1;
    Some(&value[..value.find(';')?])
}

/// True if a line speaks of this version or layout.
fn tells(page: &str, version: &str) -> bool {
    page.lines().any(|line| {
        let lower = line.to_lowercase();
        let after = ["version", "layout"].iter().filter_map(|word| lower.find(word)).min();
        let words = after.map_or("", |at| &lower[at..]);
        words.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == version)
    })
}

#[cfg(test)]
mod tests;
