//! Comments that ask or say nothing are found, each once, and headings that run into their text.

use super::check;
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
fn a_comment_that_opens_with_the_rest_of_a_sentence_is_found() {
    let text = "/// Of the pool.\n/// It is full.\nfn f() {}\n/// By slot.\nfn g() {}\n\
                /// `None` where there is none.\nfn h() {}\n/// Ofttimes.\n// It is code.\n";
    assert_eq!(lines(text), [1, 4]);
    assert_eq!(lines("//! So many.\n\n/// As said.\n"), [1, 3]);
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
