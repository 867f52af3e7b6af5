//! The gate reads its test runner right, and chooses the steps it was asked for.

use super::report::{Row, Tests, summary};
use super::{Passed, STEPS, choose};
use crate::Failure;
use std::time::Duration;

const RUNNER: &str = "\
running 2 tests
test a ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
---- b stdout ----
SKIPPED: ../shared/traces is not here
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: FAILED. 40 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.2s
";

fn read(text: &str) -> Tests {
    let mut tests = Tests::default();
    text.lines().for_each(|line| {
        tests.line(line);
    });
    tests
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(String::from).collect()
}

#[test]
fn closing_lines_skips_and_counts_of_the_runner_are_kept() {
    let tests = read(RUNNER);
    assert_eq!(tests.passed, 42);
    assert_eq!(tests.closing.len(), 2, "binaries without tests say nothing");
    assert_eq!(tests.skipped, ["SKIPPED: ../shared/traces is not here"]);
}

#[test]
fn the_second_list_of_passed_tests_is_left_out_and_what_they_said_is_shown() {
    let text = "test a::b ... ok\n\nsuccesses:\n\n---- a::b stdout ----\nSKIPPED: no traces\n\n\n\
                successes:\n    a::b\n\ntest result: ok. 1 passed; 0 failed;\n    a::b\n";
    let mut tests = Tests::default();
    let shown: Vec<_> = text.lines().filter(|line| tests.line(line)).collect();
    assert_eq!(
        shown,
        [
            "test a::b ... ok",
            "---- a::b stdout ----",
            "SKIPPED: no traces",
            "test result: ok. 1 passed; 0 failed;",
            "    a::b",
        ]
    );
}

#[test]
fn the_summary_repeats_failures_warnings_and_closing_lines() {
    let tests = read(RUNNER);
    let passed = Passed { detail: tests.detail(), warnings: tests.skipped, closing: tests.closing };
    let second = Duration::from_secs(1);
    let rows = [
        Row { name: "test", elapsed: second, result: Ok(passed) },
        Row { name: "doc", elapsed: second, result: Err("broken link".to_string()) },
    ];
    let text = summary(&rows, 2 * second);
    for expected in [
        "test     ok         1.0 s  42 passed in 2 binaries, 1 skipped",
        "doc      FAILED     1.0 s  broken link",
        "warning: SKIPPED: ../shared/traces is not here",
        "test result: ok. 2 passed",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing in:\n{text}");
    }
}

#[test]
fn steps_are_chosen_by_name_and_unknown_ones_refused() {
    assert_eq!(choose(&[]).unwrap().len(), STEPS.len());
    let fast = choose(&words("--fast")).unwrap();
    assert!(!fast.is_empty() && fast.len() < STEPS.len());
    let named: Vec<_> = choose(&words("deny fmt")).unwrap().iter().map(|s| s.name).collect();
    assert_eq!(named, ["deny", "fmt"]);
    let Err(Failure::Usage(message)) = choose(&words("fmt tset")) else { panic!("accepted") };
    assert!(message.contains("`tset`") && message.contains("clippy"), "{message}");
}
