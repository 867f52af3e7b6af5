//! `unsafe` is found as a word of code, in files that are not listed.

use super::check;
use crate::tidy::{LayerTable, Source};

fn lines(path: &str, text: &str) -> Vec<usize> {
    let table = LayerTable::parse(
        "| layer | crate | may depend on | outside libraries | unsafe |\n|---|\n\
         | 0 | units | nothing | none | src/prefetch.rs |",
    )
    .unwrap();
    check(&Source::read(path, text), &table).iter().map(|f| f.line).collect()
}

#[test]
fn unsafe_code_in_an_unlisted_file_is_found() {
    let text = "// unsafe\nfn f() {\n    unsafe { g() }\n}\n";
    assert_eq!(lines("crates/units/src/rng.rs", text), [3]);
}

#[test]
fn listed_files_comments_and_lint_names_are_no_findings() {
    let text = "// unsafe\n#![deny(unsafe_code)]\nlet s = \"unsafe\";";
    assert_eq!(lines("crates/units/src/rng.rs", text), [0; 0]);
    assert_eq!(lines("crates/units/src/prefetch.rs", "unsafe {}"), [0; 0]);
}
