//! Expectations are read from any kind of description; those that changed are told, others are not.

use super::{Commit, expected, history};

const FIRST: &str = r#"
title = "Top"
[[expect]]
kind = "least"
percent = 50.0
[[panel]]
title = "Figure 5"
columns = [{ name = "none" }]
expect = [{ kind = "near-best", row = "K = 1", columns = ["none"] }]
"#;

fn version(hash: &str, text: &str) -> (Commit, Vec<String>) {
    let (date, subject) = ("2026-11-20".to_string(), format!("subject of {hash}"));
    (Commit { hash: hash.to_string(), date, subject }, expected(text))
}

#[test]
fn expectations_are_read_with_the_title_of_their_panel() {
    let found = expected(FIRST);
    let of = |part: &str| found.iter().any(|line| line.contains(part));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(of("Top: least, percent 50.0"), "{found:?}");
    assert!(of(r#"Figure 5: near-best, columns ["none"], row "K = 1""#), "{found:?}");
}

#[test]
fn a_changed_expectation_is_told_with_its_commit_and_an_unchanged_one_is_not() {
    let changed = FIRST.replace("K = 1", "K = 3");
    let versions = [
        version("aaa", FIRST),
        version("bbb", &format!("# words\n{FIRST}")),
        version("ccc", &changed),
    ];
    let told = history(&versions);
    let after: Vec<&str> = told.split("ccc ").nth(1).unwrap().lines().collect();
    assert!(!told.contains("bbb"), "{told}");
    assert!(after[1].starts_with("  - Figure 5") && after[1].contains("K = 1"), "{told}");
    assert!(after[2].starts_with("  + Figure 5") && after[2].contains("K = 3"), "{told}");
    assert!(told.ends_with("2 expectations now; 1 commits changed none.\n"), "{told}");
}

#[test]
fn a_version_that_is_no_toml_is_said_to_be_none() {
    assert_eq!(expected("title = "), ["(this version cannot be read)"]);
}
