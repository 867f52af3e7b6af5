//! Bans bite in sealed crates, in every way of writing them, and nowhere else.

use super::check;
use crate::tidy::{LayerTable, Source};

fn complaints(path: &str, text: &str) -> Vec<String> {
    let table = LayerTable::parse(
        "| layer | crate | may depend on | outside libraries | unsafe |\n|---|\n\
         | 1 | policy | nothing | none | src/fast.rs |\n\
         | 2 | blockcache | policy | none | none |\n\
         | 2 | preload | nothing | libc | src/lib.rs |\n| 3 | sim | policy | any | none |",
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
let version = env!(\"CARGO_PKG_VERSION\");
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
    assert_eq!(complaints("crates/preload/src/lib.rs", text), [""; 0]);
    assert_eq!(complaints("crates/policy/src/lru/tests.rs", text), [""; 0]);
    assert_eq!(complaints("crates/policy/examples/replay.rs", text), [""; 0]);
    assert_eq!(complaints(POLICY, text).len(), 3);
}

/// Each of these was planted in a sealed crate once, and the list of forbidden modules that stood
/// here before did not notice it.
#[test]
fn what_was_planted_and_not_noticed_is_found() {
    for (text, part) in [
        ("std::os::unix::net::UnixStream::connect(p)", "std::os"),
        ("use std::path::Path; fn f(p: &Path) -> bool { p.exists() }", "std::path"),
        ("for entry in std::path::Path::new(p).read_dir()? {}", "std::path"),
        ("std::io::stdin().read_line(&mut line)", "std::io::stdin"),
        ("writeln!(std::io::stderr(), \"x\")", "std::io::stderr"),
        ("use std::io; fn f() { io::stderr(); }", "`stderr`"),
        ("use std::io::*;", "std::io::*"),
        ("let m = HashMap::from([(1, 2)]);", "default hasher"),
        ("let m: M = HashSet::from_iter(x);", "default hasher"),
        ("use std::collections::HashMap as Map;", "keeps its name"),
        ("use std as s;", "keeps its name"),
        ("extern crate std as s;", "keeps its name"),
        ("use core as c;", "keeps its name"),
        ("option_env!(\"HOME\")", "`option_env`"),
        ("thread_local! { static N: u8 = 0 }", "`thread_local`"),
        ("env!(\"HOME\")", "`env`"),
        ("std::time::Instant::now()", "std::time::Instant"),
        ("use std::{time::{Duration, SystemTime}, fmt};", "std::time::SystemTime"),
        ("std::thread::spawn(f)", "std::thread"),
        ("use std::sync::{Arc, Mutex};", "std::sync::Mutex"),
        ("core::arch::x86_64::_rdtsc()", "std::arch"),
        ("use std::ffi::CString;", "std::ffi"),
    ] {
        for path in [POLICY, "crates/blockcache/src/cache.rs"] {
            let found = complaints(path, text).join("\n");
            assert!(found.contains(part), "{path}: {text}: {found}");
        }
    }
}

#[test]
fn intrinsics_stand_where_unsafe_code_may() {
    let text = "use std::arch::x86_64::*;";
    assert_eq!(complaints("crates/policy/src/fast.rs", text), [""; 0]);
    assert_eq!(complaints(POLICY, text).len(), 1);
}
