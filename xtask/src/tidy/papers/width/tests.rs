//! Prose that could be broken is found; what cannot be broken is left alone.

use super::check;

fn lines(path: &str, text: &str) -> Vec<usize> {
    check(path, text).iter().map(|finding| finding.line).collect()
}

#[test]
fn wide_prose_is_found_where_it_could_be_broken() {
    let wide = "word ".repeat(21);
    let text = format!("short\n{wide}\n- {wide}\n");
    assert_eq!(lines("docs/guides/up.md", &text), [2, 3]);
    assert_eq!(lines("README.md", &text), [2, 3]);
    assert_eq!(lines("docs/results/speed.md", &text), [0; 0]);
}

#[test]
fn characters_count_and_not_bytes() {
    let text = "ä ".repeat(50);
    assert_eq!(lines("README.md", text.trim_end()), [0; 0]);
    assert_eq!(lines("README.md", &text.replace("ä ", "ä  ")), [1]);
}

#[test]
fn tables_code_headings_and_links_keep_their_width() {
    let wide = "word ".repeat(21);
    let link = format!("[a](https://example.org/{})", "x".repeat(100));
    let text = format!("| {wide} |\n```\n{wide}\n```\n# {wide}\n{link}\n  - {link}, then\n");
    assert_eq!(lines("docs/guides/up.md", &text), [0; 0]);
}
