//! A function that changes state owes a check; others do not.

use super::{Excess, excesses, unchecked};
use crate::tidy::Source;

const LINES: &str = "\n a();\n b();\n c();\n d();\n";

fn names(text: &str) -> Vec<String> {
    let source = Source::read("crates/volume/src/a.rs", text);
    unchecked(&source).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn functions_that_take_mut_and_check_nothing_owe() {
    for parameters in [
        "&mut self",
        "&'a mut self, b: u8",
        "map: &mut Map, f: impl Fn(u8)",
        "a: Option<&mut Map>",
        "out: &mut Vec<(u8, u8)>",
    ] {
        assert_eq!(names(&format!("fn f({parameters}) {{{LINES}}}")), ["f"], "{parameters}");
    }
    assert_eq!(names(&format!("fn f<F: Fn(&mut A) -> B>(a: &mut A) -> C {{{LINES}}}")), ["f"]);
}

#[test]
fn functions_that_change_nothing_or_are_short_owe_nothing() {
    for parameters in [
        "&self",
        "mut self",
        "change: impl FnMut(&mut Map)",
        "visit: &mut dyn FnMut(u8)",
        "visit: &mut impl FnMut(u8)",
        "&self, f: &mut fmt::Formatter<'_>",
        "reader: &mut Reader<'_>, version: u16",
    ] {
        let none = [""; 0];
        assert_eq!(names(&format!("fn f({parameters}) {{{LINES}}}")), none, "{parameters}");
    }
    assert_eq!(names(&format!("fn f<F: Fn(&mut A)>(a: A) -> &mut C {{{LINES}}}")), [""; 0]);
    assert_eq!(names("fn f(&mut self) {\n a();\n\n // Why.\n b();\n c();\n}"), [""; 0]);
    assert_eq!(names("trait T { fn f(&mut self); }"), [""; 0]);
}

#[test]
fn a_check_is_an_assertion_or_a_call_of_one_of_ours() {
    for check in [
        "assert!(a);",
        "assert_eq!(a, b);",
        "debug_assert_ne!(a, b);",
        "self.check_invariants();",
        "self.assert_whole(a);",
    ] {
        assert_eq!(names(&format!("fn f(&mut self) {{{LINES} {check}\n}}")), [""; 0], "{check}");
    }
    for none in [
        "unreachable!();",
        "a.expect(\"a\");",
        "// assert!(a);",
        "let t = \"assert!(a)\";",
        "my_assert!(a);",
        "self.reassert_(a);",
        "let assert_ = 1;",
    ] {
        assert_eq!(names(&format!("fn f(&mut self) {{{LINES} {none}\n}}")), ["f"], "{none}");
    }
}

#[test]
fn three_crates_have_a_count_each_and_tests_none() {
    let text = format!("fn f(&mut self) {{{LINES}}}\nfn g(&mut self) {{{LINES}}}");
    let found = |path| -> Vec<Excess> { excesses(&[Source::read(path, &text)]) };
    let volume = found("crates/volume/src/moves/copying.rs");
    assert_eq!((volume[0].place.as_str(), volume[0].count), ("volume::assertions", 2));
    assert!(volume[0].instead.contains("f (crates/volume/src/moves/copying.rs:1)"));
    for path in [
        "crates/volume/src/moves/tests.rs",
        "crates/volume/tests/simulation/run.rs",
        "crates/policy/src/cache/lru.rs",
    ] {
        assert_eq!(found(path), [], "{path}");
    }
}
