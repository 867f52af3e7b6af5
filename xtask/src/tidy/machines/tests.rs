//! An object in many files, and files in a circle, are found in machines only.

use super::{calls, excesses, imports, largest_circle, spread};
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

#[test]
fn files_that_import_from_each_other_in_a_circle_are_counted() {
    let files = [
        ("crates/volume/src/lib.rs", "mod a; pub use a::A; pub use b::{B, c::C};"),
        ("crates/volume/src/a.rs", "use crate::b::{self, c::{C, D as E}};\nuse std::fmt;"),
        ("crates/volume/src/b.rs", "pub(crate) mod c;\nuse c::C;"),
        ("crates/volume/src/b/c.rs", "use super::B;\nuse thermocline_policy::a::A;"),
        ("crates/volume/src/d.rs", "pub(in crate::a) fn f() -> crate::e::E { g }"),
        ("crates/volume/src/e.rs", "use crate::d;"),
    ];
    let sources: Vec<Source> = files.iter().map(|(p, t)| Source::read(p, t)).collect();
    let edges = imports(&sources.iter().collect::<Vec<_>>());
    let edges: Vec<Vec<usize>> = edges.into_iter().map(|set| set.into_iter().collect()).collect();
    assert_eq!(edges[1..], [vec![2, 3], vec![3], vec![2], vec![5], vec![4]]);
    let mut files = files.map(|(path, text)| (path, text.to_string()));
    files[2].1 += "\nuse crate::a::A;";
    files[5].1 += "\nuse crate::a;";
    files[3].1 += "\nuse crate::e;";
    let sources: Vec<Source> = files.iter().map(|(p, t)| Source::read(p, t)).collect();
    let found = excesses(&sources, &table());
    assert_eq!((found[0].place.as_str(), found[0].count), ("volume::imports", 5));
}
