//! Links in Markdown to headings lead to a heading.
//!
//! A heading's anchor is made by the rules that GitHub and mdBook share: letters in lower case,
//! digits, `_` and `-` stay, a space becomes `-`, all else goes. The second heading of one name
//! gets `-1` behind it, the third `-2`. Links into files that are no pages, such as `main.rs#L1`,
//! are not followed.

use super::super::Finding;
use super::links;
use crate::workspace::TextFile;
use std::collections::BTreeMap;

const RULE: &str = "links";

/// Finds links in `pages` whose page is there, and whose heading is not.
pub(super) fn check(pages: &[&TextFile]) -> Vec<Finding> {
    let anchors: BTreeMap<&str, Vec<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let mut findings = Vec::new();
    for page in pages {
        for (line, target) in links::of_page(&page.text) {
            let Some((file, anchor)) = target.split_once('#') else { continue };
            let path = match file {
                "" => Some(page.path.clone()),
                file => links::resolve(&page.path, file),
            };
            let known = path.as_deref().and_then(|path| anchors.get(path));
            if known.is_some_and(|known| !known.iter().any(|one| one == anchor)) {
                let message = format!("`{target}` leads to no heading");
                findings.push(Finding::new(&page.path, line, RULE, message));
            }
        }
    }
    findings
}

/// Anchors of a page's headings, in their order.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (_, line) in links::prose(text) {
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        if level == 0 || level > 6 || !heading.starts_with(' ') {
            continue;
        }
        let slug = slug(&shown(heading.trim()));
        let before = seen.entry(slug.clone()).or_default();
        found.push(match *before {
            0 => slug,
            count => format!("{slug}-{count}"),
        });
        *before += 1;
    }
    found
}

/// The text of a heading as it is shown: of a link its words.
fn shown(heading: &str) -> String {
    let mut shown = String::new();
    let mut rest = heading;
    while let Some((before, behind)) = rest.split_once("](") {
        shown.push_str(before);
        rest = behind.split_once(')').map_or("", |(_, behind)| behind);
    }
    shown + rest
}

fn slug(text: &str) -> String {
    let letters = text.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() || letter == '_' || letter == '-' => Some(letter),
        _ => None,
    });
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests;
