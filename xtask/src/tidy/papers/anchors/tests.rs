//! Anchors are those that GitHub and mdBook make; links to others are found.

use super::{anchors, check};
use crate::workspace::TextFile;

fn page(path: &str, text: &str) -> TextFile {
    TextFile { path: path.to_string(), text: text.to_string() }
}

fn dangling(pages: &[TextFile]) -> Vec<String> {
    check(&pages.iter().collect::<Vec<_>>()).iter().map(ToString::to_string).collect()
}

#[test]
fn headings_have_the_anchors_of_github_and_mdbook() {
    let text = "\
# A block cache in front of a slow pool
## Hints: facts about data, *before* it is used
### `trace stat` and max_size
## Why? 10 % – über [the format](x.md) C++
## Same
```
# not a heading
```
## Same
#no-heading
## Same
";
    let expected = [
        "a-block-cache-in-front-of-a-slow-pool",
        "hints-facts-about-data-before-it-is-used",
        "trace-stat-and-max_size",
        "why-10---über-the-format-c",
        "same",
        "same-1",
        "same-2",
    ];
    assert_eq!(anchors(text), expected);
}

#[test]
fn links_to_headings_are_tidy() {
    let pages = [
        page("README.md", "# Top\n[a](docs/up.md#one-step) [b](#top) [c](src/main.rs#L1)\n"),
        page("docs/up.md", "## One step\n[up](../README.md#top) [gone](none.md#x)\n"),
    ];
    assert_eq!(dangling(&pages), [""; 0], "a file that is not there is another rule's");
}

#[test]
fn a_link_to_no_heading_is_found_with_its_line() {
    let pages = [
        page("README.md", "# Top\n\n[a](docs/up.md#two-steps), `[b](#none)`, [c](#Top)\n"),
        page("docs/up.md", "## One step\n"),
    ];
    let found = dangling(&pages);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("README.md:3: `docs/up.md#two-steps` leads to no heading"));
    assert!(found[1].contains("`#Top` leads to no heading"), "{found:?}");
}
