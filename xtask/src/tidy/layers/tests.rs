//! The table is read exactly, and every way to break it is found.

use super::{BANNED, LayerTable};
use crate::workspace::Package;

const TABLE: &str = "\
# Map

| layer | crate | may depend on | outside libraries | unsafe |
|---|---|---|---|---|
| 0 | units | nothing | thiserror | src/prefetch.rs |
| 1 | policy | units | thiserror | none |
| 3 | sim | units, policy | any | none |

| layer | crate |
";

fn package(room: &str, rooms: &[&str], libraries: &[&str]) -> Package {
    let own = |list: &[&str]| list.iter().map(|s| s.to_string()).collect();
    Package {
        room: room.to_string(),
        rooms: own(rooms),
        rooms_built_on: own(rooms),
        libraries: own(libraries),
    }
}

fn workspace() -> Vec<Package> {
    vec![
        package("units", &[], &["thiserror"]),
        package("policy", &["units"], &["thiserror"]),
        package("sim", &["units", "policy"], &["rayon"]),
    ]
}

fn complaints(table: &str, packages: &[Package]) -> String {
    let table = LayerTable::parse(table).unwrap();
    table.compare(packages).iter().map(|f| format!("{f}\n")).collect()
}

#[test]
fn a_workspace_that_obeys_its_table_is_tidy() {
    assert_eq!(complaints(TABLE, &workspace()), "");
}

#[test]
fn an_arrow_upward_is_found() {
    let mut packages = workspace();
    packages[1] = package("policy", &["units", "sim"], &[]);
    let text = complaints(TABLE, &packages);
    assert!(text.contains("crates/policy/Cargo.toml: `policy` depends on `sim`"), "{text}");
}

#[test]
fn a_library_that_a_decision_crate_does_not_name_is_found() {
    let mut packages = workspace();
    packages[1] = package("policy", &["units"], &["rand"]);
    let text = complaints(TABLE, &packages);
    assert!(text.contains("the library `rand`"), "{text}");
}

#[test]
fn crates_without_rows_and_rows_without_crates_are_found() {
    let mut packages = workspace();
    packages[2].room = "volume".to_string();
    let text = complaints(TABLE, &packages);
    assert!(text.contains("crate `volume` has no row"), "{text}");
    assert!(text.contains("ARCHITECTURE.md:7: there is no crate `sim`"), "{text}");
}

#[test]
fn a_crate_for_tests_is_not_built_on_and_not_sealed() {
    let table = TABLE.replace(
        "| 3 | sim | units, policy",
        "| 1 | seeds | units | none | none |\n| 3 | sim | units, policy, seeds",
    );
    let mut packages = workspace();
    packages.push(package("seeds", &["units"], &[]));
    packages[2] = package("sim", &["seeds"], &[]);
    let text = complaints(&table, &packages);
    assert!(text.contains("`sim` is built on `seeds`, which is for tests"), "{text}");
    packages[2].rooms_built_on.clear();
    assert_eq!(complaints(&table, &packages), "");
    let table = LayerTable::parse(&table).unwrap();
    assert!(!table.is_sealed("seeds") && table.is_sealed("policy"));
}

#[test]
fn a_table_that_contradicts_its_layers_is_found() {
    let table = TABLE.replace("| 1 | policy | units |", "| 1 | policy | units, sim |");
    let text = complaints(&table, &workspace());
    assert!(text.contains("`policy` may not depend on `sim`"), "{text}");
}

#[test]
fn a_missing_or_broken_table_is_an_error_with_its_line() {
    assert!(LayerTable::parse("# nothing").unwrap_err().contains("no table"));
    let broken = TABLE.replace("| 1 | policy", "| one | policy");
    assert!(LayerTable::parse(&broken).unwrap_err().contains("ARCHITECTURE.md:6: the layer"));
}

#[test]
fn sealed_crates_must_carry_one_list_of_bans() {
    let machines =
        "| 2 | volume | units | none | none |\n| 2 | preload | units | libc | none |\n| 3";
    let table = LayerTable::parse(&TABLE.replace("| 3", machines)).unwrap();
    let same: String = BANNED.map(|path| format!("\"{path}\"\n")).concat();
    assert!(table.sealed_crates_share_bans(|_| Some(same.as_str())).is_empty());
    let findings = table.sealed_crates_share_bans(|path| {
        Some(if path.contains("policy") { "other" } else { same.as_str() })
    });
    assert_eq!(findings[0].path, "crates/policy/clippy.toml");
    // A list that was deleted is found, that of a machine too; `preload` needs none.
    let deleted = |path: &str| (!path.contains("volume")).then_some(same.as_str());
    let findings = table.sealed_crates_share_bans(deleted);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].path, "crates/volume/clippy.toml");
    assert_eq!(table.sealed_crates_share_bans(|_| None).len(), 3 + BANNED.len());
    // Lists that were all emptied alike are found.
    assert_eq!(table.sealed_crates_share_bans(|_| Some("")).len(), BANNED.len());
}
