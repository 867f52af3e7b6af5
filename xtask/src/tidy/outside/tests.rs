//! Crates and modules that read bytes from outside, and what they may not allow.

use super::check;
use crate::tidy::Source;

const DENY: &str = "#![deny(clippy::indexing_slicing, clippy::expect_used)]\n";
const ALLOW: &str = "#[allow(clippy::indexing_slicing, clippy::expect_used)]";

fn found(path: &str, code: &str) -> Vec<String> {
    check(&Source::read(path, code)).iter().map(|finding| finding.to_string()).collect()
}

#[test]
fn a_crate_that_denies_and_allows_its_tests_is_fine() {
    let tests = format!("{DENY}#[cfg(test)]\n{ALLOW} // Their bytes are their own.\nmod tests;\n");
    for room in ["fs", "nbd", "trace"] {
        assert_eq!(found(&format!("crates/{room}/src/lib.rs"), &tests), [""; 0]);
    }
    let writer = format!("{ALLOW}\npub mod synth;\n{ALLOW}\nmod writer;\n");
    assert_eq!(found("crates/trace/src/native/mod.rs", &writer), [""; 0]);
    assert_eq!(found("crates/trace/src/lib/tests.rs", &format!("{ALLOW}\nfn f() {{}}")), [""; 0]);
    assert_eq!(found("crates/trace/src/open.rs", "x.expect(\"y\"); // #[allow(x)]\n"), [""; 0]);
    assert_eq!(found("crates/sim/src/lib.rs", "mod replay;\n"), [""; 0], "no reader");
}

#[test]
fn a_crate_that_denies_nothing_is_told() {
    for lib in ["mod a;\n", "// #![deny(clippy::indexing_slicing, clippy::expect_used)]\n"] {
        let told = found("crates/nbd/src/lib.rs", lib);
        assert!(told.len() == 1 && told[0].contains("never panic"), "{lib}: {told:?}");
    }
    let half = DENY.replace(", clippy::expect_used", "");
    assert_eq!(found("crates/trace/src/lib.rs", &half).len(), 1);
}

#[test]
fn a_module_of_another_crate_that_reads_bytes_denies_at_its_head() {
    for module in ["accel/src/nsh", "gateway/src/socks5", "offload/src/side"] {
        let path = format!("crates/{module}.rs");
        let told = found(&path, "//! Head.\n");
        assert!(told.len() == 1 && told[0].contains("never panic"), "{module}: {told:?}");
        let tests = format!("//! Head.\n{DENY}\n#[cfg(test)]\n{ALLOW}\nmod tests;\n");
        assert_eq!(found(&path, &tests), [""; 0]);
        assert_eq!(found(&path, &format!("{DENY}{ALLOW}\nfn f() {{}}\n")).len(), 1);
    }
    let packets = "crates/functions/src/packet";
    assert_eq!(found(&format!("{packets}/mod.rs"), "mod edit;\n").len(), 1);
    assert_eq!(found(&format!("{packets}/edit.rs"), "fn f() {}\n"), [""; 0]);
    assert_eq!(found(&format!("{packets}/edit.rs"), &format!("{ALLOW}\nfn f() {{}}\n")).len(), 1);
    assert_eq!(found("crates/functions/src/function.rs", "fn f() {}\n"), [""; 0], "no reader");
}

#[test]
fn what_is_allowed_elsewhere_is_told() {
    for code in [
        format!("{ALLOW}\nmod formats;\n"),
        format!("{ALLOW}\nfn writer() {{}}\n"),
        "//! Head.\n\n#![allow(clippy::indexing_slicing)]\nmod writer;\n".to_string(),
        "#[expect(clippy::expect_used, reason = \"never empty\")]\nfn f() {}\n".to_string(),
        "#![warn(\n    clippy::all,\n    clippy::expect_used\n)]\n".to_string(),
        "#[cfg_attr(unix, allow(clippy::expect_used))]\nfn f() {}\n".to_string(),
    ] {
        let told = found("crates/trace/src/formats/msr.rs", &code);
        assert!(told.len() == 1 && told[0].contains("`first_chunk`"), "{code}: {told:?}");
    }
    assert_eq!(found("crates/nbd/src/lib.rs", &format!("{DENY}{ALLOW}\nmod writer;\n")).len(), 1);
}
