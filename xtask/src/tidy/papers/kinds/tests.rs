//! A folder with entries needs a row, and a row needs a folder with entries.

use super::check;
use crate::tidy::Source;

const TABLE: &str = "\
Text.

| kind | folder | implement |
|---|---|---|
| placement | `crates/policy/src/placement/` | `Placement` |
| cache partition | `crates/policy/src/cache/partition/` | `Sharing` |

| kind | folder |
";

fn findings(table: &str, paths: &[&str]) -> Vec<String> {
    let text = "pub(crate) const ENTRIES: &[Entry] = &[];";
    let sources: Vec<Source> = paths.iter().map(|path| Source::read(path, text)).collect();
    check(table, &sources).iter().map(ToString::to_string).collect()
}

#[test]
fn a_table_of_all_folders_is_tidy() {
    let paths = [
        "crates/policy/src/cache/mod.rs",
        "crates/policy/src/cache/sets.rs",
        "crates/policy/src/placement/mod.rs",
        "crates/sim/src/lists/mod.rs",
    ];
    assert_eq!(findings(TABLE, &paths), [""; 0]);
}

#[test]
fn a_folder_without_a_row_is_found() {
    let found =
        findings(TABLE, &["crates/policy/src/placement/mod.rs", "crates/policy/src/lookup/mod.rs"]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("CONTRIBUTING.md:3: "), "{found:?}");
    assert!(found[0].contains("no row for `crates/policy/src/lookup/`"), "{found:?}");
}

#[test]
fn a_row_without_a_list_is_found_with_its_line() {
    let found = findings(TABLE, &[]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("CONTRIBUTING.md:5: "), "{found:?}");
    assert!(found[0].contains("`crates/policy/src/placement/` has no list"), "{found:?}");
}

#[test]
fn a_page_without_the_table_is_found() {
    assert!(findings("Text.\n", &[])[0].contains("no table begins with"));
}
