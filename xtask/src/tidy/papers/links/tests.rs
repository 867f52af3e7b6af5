//! Links to files are followed from where they stand; all else is left alone.

use super::check;

fn dangling(path: &str, text: &str) -> Vec<(usize, String)> {
    let exists = |file: &str| ["README.md", "docs/glossary.md", "docs"].contains(&file);
    check(path, text, exists).into_iter().map(|f| (f.line, f.message)).collect()
}

#[test]
fn links_that_lead_to_a_file_or_away_are_tidy() {
    let text = "\
[a](glossary.md#line), [b](../README.md) [c](https://example.org/x) [d](#here) [e](./)
`[f](missing.md)`
```
[g](missing.md)
```
";
    assert_eq!(dangling("docs/x.md", text), []);
}

#[test]
fn a_link_to_nothing_is_found_with_its_line() {
    let text = "one\n[a](README.md), ![p](../../up.svg)\n<img src=\"gone.svg\">\n";
    let found = dangling("docs/x.md", text);
    assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 2, 3]);
    assert!(
        found[0].1.contains("`README.md`"),
        "relative to the paper, not to the root: {found:?}"
    );
}
