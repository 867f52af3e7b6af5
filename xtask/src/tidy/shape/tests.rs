//! One good and one bad file for each rule of shape.

use super::{Source, excesses, head, name, width};

#[test]
fn a_file_without_a_head_is_found() {
    let good = "//! Bytes, printed in IEC units and parsed from them.\nfn f() {}\n";
    assert_eq!(head(&Source::read("x.rs", good)), None);
    let after_attribute = format!("#![no_main]\n{good}");
    assert_eq!(head(&Source::read("x.rs", &after_attribute)), None);
    for bad in ["", "fn f() {}\n", "//!\n", "//! Tests.\n", "// Bytes, printed in IEC units.\n"] {
        assert!(head(&Source::read("x.rs", bad)).is_some(), "{bad:?}");
    }
}

#[test]
fn a_line_over_a_hundred_characters_is_found_unless_it_is_text() {
    let long = "é".repeat(101);
    for good in [
        "é".repeat(100),
        format!("let x = \"\n{long}\n\";"),
        format!("// https://example.org/{long}"),
        format!("let x = f(\"{long}\");"),
    ] {
        assert_eq!(width(&Source::read("x.rs", &good)), [], "{good}");
    }
    let bad = format!("fn f() {{}}\n// {long}\n");
    let findings = width(&Source::read("x.rs", &bad));
    assert_eq!((findings.len(), findings[0].line), (1, 2));
    let after_code = format!("let x = \"a\"; // {long}\n");
    assert_eq!(width(&Source::read("x.rs", &after_code)).len(), 1);
}

#[test]
fn a_name_that_says_nothing_is_found() {
    assert_eq!(name(&Source::read("crates/policy/src/cache/links.rs", "")), None);
    for bad in ["crates/policy/src/utils.rs", "crates/trace/src/common/mod.rs"] {
        assert!(name(&Source::read(bad, "")).is_some(), "{bad}");
    }
}

#[test]
fn files_and_functions_are_measured_to_the_line() {
    let function = |lines: usize| format!("fn long() {{\n{}}}\n", "x();\n".repeat(lines - 2));
    assert_eq!(excesses(&Source::read("x.rs", &function(70))), []);
    let text = function(71);
    let found = excesses(&Source::read("x.rs", &text));
    assert_eq!((found[0].place.as_str(), found[0].count), ("x.rs::long", 71));
    let file = |lines| "//\n".repeat(lines);
    assert_eq!(excesses(&Source::read("x.rs", &file(800))), []);
    assert_eq!(excesses(&Source::read("x.rs", &file(801)))[0].place, "x.rs");
}
