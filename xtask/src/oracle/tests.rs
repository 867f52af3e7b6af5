//! Differences that pass, and the sizes that are meant.

use super::{Count, POLICIES, Verdict, compare, parse_sizes};
use serde_json::json;

fn is_wrong(policy: &'static str, size: u64, ours: u64, theirs: u64) -> bool {
    matches!(Count { policy, size, ours, theirs }.verdict(), Verdict::Wrong)
}

#[test]
fn one_miss_too_many_is_wrong_where_counts_must_agree() {
    for policy in POLICIES.into_iter().filter(|policy| *policy != "w-tiny-lfu") {
        assert!(!is_wrong(policy, 1000, 5000, 5000), "{policy}");
        assert!(is_wrong(policy, 1000, 5001, 5000), "{policy}");
    }
}

#[test]
fn known_differences_pass_only_where_they_can_occur() {
    assert!(!is_wrong("w-tiny-lfu", 1000, 5001, 5000));
    assert!(!is_wrong("s3-fifo", 19, 10, 5000));
    assert!(is_wrong("s3-fifo", 20, 10, 5000));
    assert!(!is_wrong("lirs", 1000, 4999, 5000), "a line lingered");
    assert!(is_wrong("lirs", 1000, 4900, 5000), "that many cannot");
    assert!(is_wrong("lru", 1000, 4999, 5000));
}

#[test]
fn sizes_are_objects_or_percentages() {
    assert_eq!(parse_sizes("100, 10%,0.1%", 48_974).ok(), Some(vec![100, 4897, 48]));
    for text in ["", "0", "0.0001%", "ten", "5e3", "100,"] {
        assert!(parse_sizes(text, 48_974).is_err(), "{text}");
    }
}

#[test]
fn a_count_that_is_missing_is_an_error_and_not_a_match() {
    let row = |policy: &str| json!({"policy": policy, "capacity_units": 7, "line_misses": 3});
    let all = json!({"rows": POLICIES.map(row)});
    let misses: serde_json::Map<_, _> =
        POLICIES.iter().map(|policy| (policy.to_string(), json!([3]))).collect();
    let theirs = json!({ "misses": misses });
    assert_eq!(compare(&[7], &all, &theirs).ok().map(|counts| counts.len()), Some(POLICIES.len()));
    assert!(compare(&[8], &all, &theirs).is_err());
    assert!(compare(&[7], &json!({"rows": []}), &theirs).is_err());
    assert!(compare(&[7], &all, &json!({"misses": {}})).is_err());
}
