//! Files that a row names are found below `crates/`, beside each other, and in the crate.

use super::check;

const FILES: [&str; 4] = [
    "crates/volume/src/copies.rs",
    "crates/volume/src/pools/ranks.rs",
    "crates/policy/src/cache",
    "crates/volume/src/journal/commit.rs",
];

fn missing(row: &str) -> Vec<String> {
    let text = format!("a `gone.rs`\n| question | where |\n|---|---|\n{row}\n\nb `gone.rs`\n");
    let findings = check("ARCHITECTURE.md", &text, |path| FILES.contains(&path));
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn files_that_are_there_are_no_findings() {
    for row in [
        "| a | `volume/src/copies.rs`: `leave`; order `pools/ranks.rs` |",
        "| a | `policy/src/cache/`, one file per policy |",
        "| a | `volume/src/pools/ranks.rs`, then `copies.rs` and `journal/commit.rs` |",
        "| which `x.y`? | `volume/src/copies.rs` |",
    ] {
        assert_eq!(missing(row), Vec::<String>::new(), "{row}");
    }
}

#[test]
fn files_that_are_gone_are_told_with_their_line() {
    let found = missing("| a | `volume/src/copies.rs`; order `rank.rs`; `volume/src/x/` |");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("ARCHITECTURE.md:4: `rank.rs` is no file"), "{found:?}");
}
