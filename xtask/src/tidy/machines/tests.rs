//! An object in many files, and files in a circle, are found in machines only.

use super::{calls, excesses, largest_circle, spread};
use crate::tidy::{LayerTable, Source};

fn table() -> LayerTable {
    LayerTable::parse(
        "| layer | crate | may depend on | outside libraries | unsafe |\n|---|\n\
         | 1 | policy | nothing | none | none |\n| 2 | volume | policy | none | none |",
    )
    .unwrap()
}

fn files<'a>(room: &str, texts: &[&'a str]) -> Vec<(String, &'a str)> {
    let paths = (0..texts.len()).map(|i| format!("crates/{room}/src/f{i}.rs"));
    paths.zip(texts.iter().copied()).collect()
}

#[test]
fn a_type_with_an_impl_in_four_files_is_found() {
    let texts = [
        "impl Group { fn a() {} }",
        "impl Group {\n fn b() {} }\nimpl Group { fn bb() {} }",
        "impl<'a, T: Iterator<Item = u8>> Group<'a, T> { fn c() {} }",
        "impl Group { fn d() {} }",
        "impl Device for Group { fn e() {} } fn f() -> impl Iterator { g }\n\
         fn g(a: impl Group) {}",
    ];
    let files = files("volume", &texts);
    let sources: Vec<Source> = files.iter().map(|(p, t)| Source::read(p, t)).collect();
    assert_eq!(spread(&sources.iter().collect::<Vec<_>>())["Group"], 4);
    let found = excesses(&sources, &table());
    assert_eq!((found[0].place.as_str(), found[0].count), ("volume::impl Group", 4));
    assert_eq!(excesses(&sources[1..], &table()), []);
}

#[test]
fn files_that_call_each_other_in_a_circle_are_counted() {
    let texts = [
        "fn a(&self) { self.b() }",
        "fn b(&self) { Self::c(self) }",
        "fn c(&self) { self.d(); }",
        "fn d(&self) { self.a(); self.e() }",
        "fn e(&self) { self.new() } fn new() {}",
        "fn new() { }",
    ];
    let files = files("volume", &texts);
    let sources: Vec<Source> = files.iter().map(|(p, t)| Source::read(p, t)).collect();
    assert_eq!(largest_circle(&calls(&sources.iter().collect::<Vec<_>>())).len(), 4);
    let found = excesses(&sources, &table());
    assert_eq!((found[0].place.as_str(), found[0].count), ("volume::circle", 4));
}

#[test]
fn names_of_the_standard_library_make_no_circle() {
    let texts = ["fn find(&self) { self.b() }", "fn b(&self) { list.iter().find(c) }"];
    let files = files("volume", &texts);
    let sources: Vec<Source> = files.iter().map(|(p, t)| Source::read(p, t)).collect();
    assert_eq!(largest_circle(&calls(&sources.iter().collect::<Vec<_>>())).len(), 0);
}

#[test]
fn crates_that_are_no_machines_are_free() {
    let texts = ["impl A { }"; 5];
    let files = files("policy", &texts);
    let sources: Vec<Source> = files.iter().map(|(p, t)| Source::read(p, t)).collect();
    assert_eq!(excesses(&sources, &table()), []);
}
