//! A guarded lint can be switched off only where the rule makes room.

use super::check;
use crate::tidy::{LayerTable, Source};

fn complaints(path: &str, text: &str) -> Vec<String> {
    let table = LayerTable::parse(
        "| layer | crate | may depend on | outside libraries | unsafe |\n|---|\n\
         | 0 | units | nothing | none | src/prefetch.rs |",
    )
    .unwrap();
    check(&Source::read(path, text), &table).iter().map(|f| f.to_string()).collect()
}

#[test]
fn doors_that_the_rules_make_are_open() {
    for (path, text) in [
        ("crates/units/src/prefetch.rs", "#[allow(unsafe_code)]"),
        ("crates/cli/src/error.rs", "#[allow(clippy::print_stderr)]"),
        ("crates/sim/examples/replay.rs", "#![allow(clippy::print_stdout)]"),
        ("crates/sim/src/replay/tests.rs", "#![allow(clippy::print_stderr)]"),
        ("crates/trace/src/lib.rs", "#![cfg_attr(test, allow(clippy::disallowed_methods))]"),
        ("crates/cli/tests/lab.rs", "#![allow(clippy::unwrap_used)]"),
        ("crates/sim/src/lib.rs", "#[allow(clippy::too_many_lines)]"),
        ("crates/sim/src/lib.rs", "x.expect(dead_code); allow(dead_code)"),
    ] {
        assert_eq!(complaints(path, text), [""; 0], "{path}: {text}");
    }
}

#[test]
fn every_other_door_is_shut() {
    for (path, text) in [
        ("crates/units/src/rng.rs", "#[allow(unsafe_code)]"),
        ("crates/sim/src/lib.rs", "#![allow(clippy::print_stdout)]"),
        ("crates/policy/src/lib.rs", "#[allow(\n    clippy::all,\n    clippy::unwrap_used\n)]"),
        ("crates/policy/src/lib.rs", "#[expect(dead_code)]"),
        (
            "crates/trace/src/lib.rs",
            "#[cfg_attr(feature = \"x\", allow(clippy::disallowed_types))]",
        ),
        ("crates/units/src/tests.rs", "#[allow(missing_docs)]"),
    ] {
        let found = complaints(path, text);
        assert_eq!(found.len(), 1, "{path}: {text}: {found:?}");
        assert!(found[0].contains("may not be allowed here: "), "{found:?}");
    }
}
