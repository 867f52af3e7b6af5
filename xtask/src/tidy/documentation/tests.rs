//! Comments that ask or say nothing are counted, by crate.

use super::{excesses, owed};
use crate::tidy::Source;

#[test]
fn a_comment_that_opens_with_a_question_is_owed_once() {
    let text = "/// Whether it is full.\n///\n/// What else.\nfn f() {}\n\n\
                /// See the module.\nfn g() {}\n";
    assert_eq!(owed(&Source::read("crates/volume/src/a.rs", text)), 2);
}

#[test]
fn descriptions_strings_and_module_heads_owe_nothing() {
    let text = "//! What this is.\n/// True if it is full.\n// Why so.\nlet s = \"\n/// What\n\";\n\
                /// Whatever comes.\nfn f() {}\n";
    assert_eq!(owed(&Source::read("crates/volume/src/a.rs", text)), 0);
}

#[test]
fn debts_are_added_up_by_crate() {
    let text = "/// Who asks.\nfn f() {}\n";
    let paths = ["crates/volume/src/a.rs", "crates/volume/src/b.rs", "crates/wire/src/a.rs"];
    let sources = paths.map(|path| Source::read(path, text));
    let found = excesses(&sources);
    let owed: Vec<_> = found.iter().map(|e| (e.place.as_str(), e.count)).collect();
    assert_eq!(owed, [("volume::documentation", 2), ("wire::documentation", 1)]);
}
