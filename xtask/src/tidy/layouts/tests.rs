//! A layout without a page, and a page that lags behind, are found.

use super::{ELSEWHERE, check, elsewhere};
use crate::tidy::Source;

const CODE: &str = "//! The bytes. Drawn in `docs/formats/x.md`.\n\n\
                    #![deny(clippy::indexing_slicing, clippy::expect_used)]\n\
                    const MAGIC: &[u8] = b\"TCXX\";\n\
                    pub const VERSION: u16 = 3;\nfn f(n: u16) { n.to_le_bytes(); }\n";

fn found(code: &str, page: Option<&str>) -> Option<String> {
    let source = Source::read("crates/x/src/format.rs", code);
    let page = |name: &str| page.filter(|_| name == "docs/formats/x.md");
    check(&source, page).map(|finding| finding.to_string())
}

#[test]
fn a_page_that_knows_magic_and_version_is_enough() {
    assert_eq!(found(CODE, Some("| 0 | `TCXX` |\nLayout 2 had none; layout 3 has.")), None);
    let words = "//! Numbers in words.\nfn f() -> String { format!(\"1\") }\n";
    assert_eq!(found(words, None), None, "no layout");
}

#[test]
fn pages_that_are_missing_or_old_are_told() {
    let message = |code, page| found(code, page).unwrap_or_default();
    let nowhere = CODE.replace(" Drawn in `docs/formats/x.md`.", "");
    let careless = CODE.replace("clippy::expect_used", "clippy::all");
    assert!(message(&careless, Some("TCXX, version 3")).contains("never panic"));
    assert!(message(&nowhere, Some("TCXX, version 3")).contains("names no page"));
    assert!(message(CODE, None).contains("is not there"));
    assert!(message(CODE, Some("version 3")).contains("does not know `TCXX`"));
    assert!(message(CODE, Some("TCXX, version 2 of 33")).contains("version 3"));
}

#[test]
fn a_part_of_a_layout_names_its_page_too() {
    let found = |code: &str| {
        let source = Source::read("crates/x/src/format/part.rs", code);
        check(&source, |_| None).map(|finding| finding.to_string()).unwrap_or_default()
    };
    let lenient = CODE.replace("clippy::expect_used", "clippy::all");
    assert!(found(&lenient).contains("is not there"), "the module above denies");
    assert!(found("fn f(n: u16) { n.to_le_bytes(); }\n").contains("names no page"));
}

#[test]
fn numbers_that_become_bytes_elsewhere_are_told() {
    let line = |path: &str, code: &str| elsewhere(&Source::read(path, code)).map(|f| f.line);
    for word in ["n.to_le_bytes()", "u16::from_le_bytes(n)", "n.to_be_bytes()", "from_be_bytes(n)"]
    {
        let code = format!("//! Bytes.\nfn f() {{ {word} }}\n");
        assert_eq!(line("crates/x/src/lib.rs", &code), Some(2), "{word}");
        assert_eq!(line("crates/x/src/a/format.rs", &code), None);
        assert_eq!(line("crates/x/src/format/part.rs", &code), None);
        assert_eq!(line("crates/x/src/tests.rs", &code), None);
        assert_eq!(line("crates/x/examples/speed.rs", &code), None);
    }
    let words = "//! Of `to_le_bytes`.\nfn to_le_bytes_of() {}\n";
    assert_eq!(line("crates/x/src/lib.rs", words), None);
}

#[test]
fn exceptions_have_a_reason_and_are_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for (path, reason) in ELSEWHERE {
        assert!(root.join(path).exists() && !reason.is_empty(), "{path}");
    }
}
