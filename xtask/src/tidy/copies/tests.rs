//! Planted copies are found, likenesses are not.

use super::{RUN, check};
use crate::tidy::Source;

/// A function of so many lines that no other text has.
fn function(name: &str, lines: usize) -> String {
    let lines = (0..lines).map(|n| format!("    total += weights[{n}] * {name}[{n}];\n"));
    format!("fn weigh_{name}() {{\n{}}}\n", lines.collect::<String>())
}

fn complaints(files: &[(&str, &str)]) -> Vec<String> {
    let sources: Vec<Source<'_>> = files.iter().map(|(p, text)| Source::read(p, text)).collect();
    check(&sources).iter().map(ToString::to_string).collect()
}

#[test]
fn a_decision_that_was_copied_is_found_where_it_stands_again() {
    let one = function("a", RUN);
    let copied = format!("//! Another file.\n\n// Copied, and spaced in another way.\n{}", {
        one.replace("    total", "        total").replace(" * ", "  *  ")
    });
    let found = complaints(&[("crates/volume/src/a.rs", &one), ("crates/sim/src/b.rs", &copied)]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("crates/sim/src/b.rs:4:"), "{found:?}");
    assert!(found[0].contains("crates/volume/src/a.rs:1 too"), "{found:?}");
}

#[test]
fn shorter_likenesses_tests_and_one_file_that_repeats_itself_are_left_alone() {
    let short = function("a", RUN - 3);
    let long = function("b", RUN);
    let twice = format!("{long}{long}");
    let imports: String = (0..30).map(|n| format!("use crate::part{n};\n")).collect();
    for files in [
        [("crates/a/src/a.rs", &short), ("crates/b/src/b.rs", &short)],
        [("crates/a/src/a.rs", &long), ("crates/a/src/tests.rs", &long)],
        [("crates/a/src/a.rs", &long), ("crates/a/tests/it.rs", &long)],
        [("crates/a/src/a.rs", &twice), ("crates/b/src/b.rs", &short)],
        [("crates/a/src/a.rs", &imports), ("crates/b/src/b.rs", &imports)],
    ] {
        let files = files.map(|(path, text)| (path, text.as_str()));
        assert_eq!(complaints(&files), [""; 0], "{files:?}");
    }
}
