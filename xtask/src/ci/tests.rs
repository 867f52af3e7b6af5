//! The gate reads its test runner right, and chooses the steps it was asked for.

use super::report::{Row, Tests, summary};
use super::{Passed, STEPS, choose, room};
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
fn of_what_passed_tests_said_only_that_they_were_skipped_is_shown() {
    let text = "test a::b ... ok\n\nsuccesses:\n\n---- a::b stdout ----\nSKIPPED: no traces\n\
                thread panicked, as it should\n\nsuccesses:\n    a::b\n\n\
                test result: ok. 1 passed; 0 failed;\nwarning: more\n";
    let mut tests = Tests::default();
    let shown: Vec<_> = text.lines().filter(|line| tests.line(line)).collect();
    assert_eq!(
        shown,
        [
            "test a::b ... ok",
            "SKIPPED: no traces",
            "test result: ok. 1 passed; 0 failed;",
            "warning: more",
        ]
    );
    assert!(tests.failed.is_empty());
}

#[test]
fn what_failed_tests_said_ends_the_summary() {
    let long = (0..100).map(|line| format!("line {line}\n")).collect::<String>();
    let text = format!(
        "test a::b ... FAILED\n\nsuccesses:\n\n---- c stdout ----\nnot this\n\nsuccesses:\n    c\n\n\
         failures:\n\n---- a::b stdout ----\nbecause\n\n---- d stdout ----\n{long}\n\
         failures:\n    a::b\n    d\n\ntest result: FAILED. 1 passed; 2 failed;\n"
    );
    let mut tests = Tests::default();
    let shown: Vec<_> = text.lines().filter(|line| tests.line(line)).collect();
    assert!(shown.contains(&"because") && !shown.contains(&"not this"), "{shown:?}");
    let row = |result| Row { name: "test", elapsed: Duration::from_secs(1), result };
    let said = summary(&[row(Err(format!("failed: {}", tests.failures())))], Duration::ZERO);
    let end = said.split_once("failed: a::b, d\n").expect("the table names them").1;
    for expected in ["---- a::b\nbecause\n---- d\nline 0\n", "line 14\n[", "line 99\n"] {
        assert!(end.contains(expected), "{expected:?} is missing in:\n{said}");
    }
    assert!(!end.contains("line 50\n") && !end.contains("not this"), "{said}");
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

#[test]
fn df_tells_the_free_space() {
    let table = "Filesystem     1024-blocks     Used Available Capacity Mounted on\n\
                 /dev/vda         263174212 31952996  63512812      34% /\n";
    assert_eq!(room::available(table), Some(63_512_812 << 10));
    assert_eq!(room::available("df: no such file\n"), None);
}

#[test]
fn too_little_space_is_told_with_what_is_needed() {
    assert_eq!(room::short_of(5 << 30, 5 << 30), None);
    let words = room::short_of((5 << 30) - 1, 5 << 30).unwrap();
    assert!(words.starts_with("4 GiB are free") && words.contains("need 5 GiB"), "{words}");
}
