//! One good and one bad test for each rule about tests.

use super::check;
use crate::tidy::Source;

fn complaints(path: &str, text: &str) -> Vec<String> {
    check(&Source::read(path, text)).iter().map(|f| f.to_string()).collect()
}

const TESTS: &str = "crates/policy/src/lru/tests.rs";

#[test]
fn a_test_that_claims_something_is_tidy() {
    let text = "#[test]\nfn no_cache_exceeds_its_capacity() { sleeper(); }\nfn test_bed() {}\n";
    assert_eq!(complaints(TESTS, text), [""; 0]);
    assert_eq!(complaints("crates/cli/tests/lab/cache.rs", text), [""; 0]);
}

#[test]
fn names_that_claim_nothing_are_found() {
    for name in ["test_lru", "works"] {
        let found = complaints(TESTS, &format!("\n#[test]\nfn {name}() {{}}"));
        assert_eq!(found.len(), 1, "{name}");
        assert!(found[0].contains(&format!("tests.rs:3: `{name}` claims nothing")), "{found:?}");
    }
}

#[test]
fn a_test_file_without_a_test_is_found() {
    let found = complaints(TESTS, "//! Of one list, which is not written yet.\nfn f() {}\n");
    assert!(found.len() == 1 && found[0].contains("holds no test"), "{found:?}");
    assert_eq!(complaints(TESTS, "mod contract;\n"), [""; 0]);
    assert_eq!(complaints("crates/policy/src/lru/tests/bed.rs", "fn f() {}"), [""; 0]);
}

#[test]
fn a_test_beside_the_code_is_found() {
    let found = complaints("crates/policy/src/lru.rs", "#[test]\nfn lru_keeps_the_newest() {}");
    assert!(found.len() == 1 && found[0].contains("move it to `tests.rs`"), "{found:?}");
}

#[test]
fn switched_off_panicking_and_sleeping_tests_are_found() {
    for (text, expected) in [
        ("#[test]\n#[ignore]\nfn a_b() {}", "#[ignore]"),
        ("#[test]\n#[ignore = \"slow\"]\nfn a_b() {}", "#[ignore]"),
        ("#[test]\n#[should_panic(expected = \"x\")]\nfn a_b() {}", "#[should_panic]"),
        ("#[test]\nfn a_b() { std::thread::sleep(SECOND); }", "do not sleep"),
    ] {
        let found = complaints(TESTS, text);
        assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}");
    }
}
