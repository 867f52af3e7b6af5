//! Bounds of what a tenant may ask for.

use super::{FUNCTION, KEYS_MAX, wanted};
use std::collections::BTreeMap;

/// Groups of a profile are kept for all to pay for, and had no bound.
#[test]
fn a_group_has_few_keys_and_short_values() {
    let pair = |key: &str, value: &str| (key.to_string(), value.to_string());
    let mut group: BTreeMap<_, _> =
        [pair(FUNCTION, "nat"), pair("resources:FPGA", "2")].into_iter().collect();
    assert_eq!(wanted(&group), Ok(("nat".to_string(), 2)));
    for at in 2..KEYS_MAX {
        group.insert(format!("trait:{at}"), "required".to_string());
    }
    assert!(wanted(&group).is_ok());
    group.insert("trait:one-more".to_string(), "required".to_string());
    assert!(wanted(&group).is_err());
    for (key, value) in
        [("trait:x".to_string(), "x".repeat(256)), ("trait:".repeat(50), "x".into())]
    {
        let mut group: BTreeMap<_, _> =
            [pair(FUNCTION, "nat"), pair("resources:FPGA", "2")].into_iter().collect();
        group.insert(key, value);
        assert!(wanted(&group).is_err());
    }
}
