//! Bans bite in decision crates, in every way of writing them, and nowhere else.

use super::check;
use crate::tidy::{FloorTable, Source};

fn complaints(path: &str, text: &str) -> Vec<String> {
    let table = FloorTable::parse(
        "| floor | crate | may stand on | outside libraries | unsafe |\n|---|\n\
         | 1 | policy | nothing | none | none |\n| 3 | sim | policy | any | none |",
    )
    .unwrap();
    check(&Source::read(path, text), &table).iter().map(|f| f.to_string()).collect()
}

const POLICY: &str = "crates/policy/src/lru.rs";

#[test]
fn harmless_code_is_tidy() {
    let text = "
use std::{collections::BTreeMap, fmt, sync::Arc};
use std::io::{Read, Write};
fn f(map: &HashMap<u32, (u8, u8), FixedState>, set: HashSet<Vec<u8>, S>) {}
// std::fs::read, HashMap<u32, u32>
let text = \"std::env::var\";
let environment = standard::fs();
";
    assert_eq!(complaints(POLICY, text), [""; 0]);
}

#[test]
fn every_way_to_a_banned_module_is_found_with_its_replacement() {
    for (text, module) in [
        ("use std::fs;", "std::fs"),
        ("\nlet x = std::env::var(\"A\");", "std::env"),
        ("use std::{fmt, thread};", "std::thread"),
        ("use std::{fmt::{self, Write}, net::TcpStream, io};", "std::net"),
        ("::std::process::exit(1)", "std::process"),
    ] {
        let found = complaints(POLICY, text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].contains(module) && found[0].contains(": "), "{found:?}");
    }
}

#[test]
fn maps_with_the_default_hasher_are_found() {
    for text in [
        "let m: HashMap<u32, u32>;",
        "HashSet<(u8, u8)>",
        "collect::<HashMap<_, _>>()",
        "HashMap::<u32, HashMap<u8, u8, S>>::default()",
        "x: HashMap<u32, fn(u8, u8) -> u8>,",
    ] {
        assert_eq!(complaints(POLICY, text).len(), 1, "{text}");
    }
}

#[test]
fn async_is_found() {
    let found = complaints(POLICY, "\nasync fn f() { g().await }");
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("crates/policy/src/lru.rs:2: "), "{found:?}");
}

#[test]
fn other_crates_and_tests_are_free() {
    let text = "use std::fs; let x: HashMap<u8, u8>; async {}";
    assert_eq!(complaints("crates/sim/src/lib.rs", text), [""; 0]);
    assert_eq!(complaints("crates/policy/src/lru/tests.rs", text), [""; 0]);
    assert_eq!(complaints("crates/policy/examples/replay.rs", text), [""; 0]);
    assert_eq!(complaints(POLICY, text).len(), 3);
}
