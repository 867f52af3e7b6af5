//! A layout without a page, and a page that lags behind, are found.

use super::check;
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
