//! A debt may neither grow nor be forgotten.

use super::compare;
use crate::tidy::shape::Excess;

fn excess(place: &str, count: usize) -> Excess {
    let path = "a.rs".to_string();
    let (unit, instead) = ("lines", "split it");
    Excess {
        place: place.to_string(),
        path,
        line: 7,
        count,
        max: 70,
        unit,
        instead: instead.to_string(),
    }
}

fn complaints(list: &str, excesses: &[Excess]) -> String {
    compare(list, excesses).unwrap().iter().map(|f| format!("{f}\n")).collect()
}

#[test]
fn a_debt_of_exactly_its_size_is_tolerated() {
    assert_eq!(complaints("# debts\n\n90 a.rs::f\n", &[excess("a.rs::f", 90)]), "");
}

#[test]
fn a_new_or_grown_excess_is_found_where_it_is() {
    let text = complaints("", &[excess("a.rs::f", 71)]);
    assert!(text.starts_with("a.rs:7: a.rs::f: 71 lines, at most 70"), "{text}");
    let text = complaints("90 a.rs::f", &[excess("a.rs::f", 91)]);
    assert!(text.contains("may only shrink"), "{text}");
}

#[test]
fn a_shrunk_or_paid_debt_must_leave_the_list() {
    let text = complaints("# x\n90 a.rs::f", &[excess("a.rs::f", 80)]);
    assert!(text.starts_with("xtask/ratchet.txt:2: ") && text.contains("to 80"), "{text}");
    let text = complaints("90 a.rs::f", &[]);
    assert!(text.contains("delete this entry"), "{text}");
}

#[test]
fn a_broken_list_is_an_error_with_its_line() {
    assert!(compare("90 a.rs\nmany b.rs", &[]).unwrap_err().contains("ratchet.txt:2"));
}
