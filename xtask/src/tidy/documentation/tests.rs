//! Comments that ask or say nothing are found, each once, and headings that run into their text.

use super::{check, excesses};
use crate::tidy::Source;

fn lines(text: &str) -> Vec<usize> {
    let findings = check(&Source::read("crates/volume/src/a.rs", text));
    findings.iter().map(|finding| finding.line).collect()
}

#[test]
fn a_comment_that_opens_with_a_question_is_found_once() {
    let text = "/// Whether it is full.\n///\n/// What else.\nfn f() {}\n\n\
                /// See the module. State: 2 B.\nfn g() {}\n";
    assert_eq!(lines(text), [1, 6]);
}

#[test]
fn a_head_of_a_module_that_opens_with_a_question_is_found_once() {
    let text = "//! Where things lie.\n//!\n//! What else.\n\nmod inner {\n    //! Who waits.\n}";
    assert_eq!(lines(text), [1, 6]);
    assert_eq!(lines("#![no_std]\n//! How it is done.\n/// True if so.\n"), [2]);
    assert_eq!(lines("//! Layout of a pool.\n/// Why so.\n"), [2]);
}

#[test]
fn comments_that_open_with_the_rest_of_a_sentence_are_counted_by_crate() {
    let sources = [
        ("crates/sim/src/a.rs", "/// Of the pool.\n/// It is full.\nfn f() {}\n/// By slot.\n"),
        ("crates/sim/src/b.rs", "//! So many.\n\n/// `None` where there is none.\nfn g() {}\n"),
        ("crates/units/src/a.rs", "/// Ofttimes.\n/// As said.\n// It is code.\nfn h() {}\n"),
    ];
    let sources = sources.map(|(path, text)| Source::read(path, text));
    let found = excesses(&sources);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].place.as_str(), found[0].count), ("sim::documentation", 3));
    let places = "crates/sim/src/a.rs:1, crates/sim/src/a.rs:4, crates/sim/src/b.rs:1";
    assert!(found[0].instead.ends_with(places), "{found:?}");
}

#[test]
fn descriptions_strings_and_plain_comments_are_passed_over() {
    let text = "//! Layout of a pool.\n//! What is not in it.\n/// True if it is full.\n// Why.\n\
                let s = \"\n/// What\n//! What\n\";\n/// Whatever comes.\nfn f() {}\n";
    assert!(lines(text).is_empty());
}

#[test]
fn text_behind_a_heading_is_found() {
    let text = "/// Opens it.\n///\n/// # Errors When it is not there.\nfn f() {}\n";
    assert_eq!(lines(text), [3]);
    let alone = "/// Opens it.\n///\n/// # Errors\n/// When it is not there.\n///\n/// # Panics\n";
    assert!(lines(alone).is_empty());
    assert!(lines("let s = \"\n/// # Errors When\n\";\n/// # Errorsome\n").is_empty());
}
