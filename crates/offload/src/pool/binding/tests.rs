//! Bounds of what a tenant may ask for.

use super::{FUNCTION, KEYS_MAX, may_bind, wanted};
use crate::api::Request;
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

/// One tenant could bind every slot.
#[test]
fn a_tenant_has_as_many_slots_as_it_may() {
    let request = |tenant: &str, slot| Request {
        uuid: String::new(),
        tenant: tenant.to_string(),
        profile: "p".to_string(),
        group: 0,
        function: "nat".to_string(),
        state: "Initial".to_string(),
        slot,
        hostname: None,
        device_rp_uuid: None,
        instance_uuid: None,
    };
    let requests = [request("a", Some(0)), request("a", None), request("b", Some(1))];
    assert_eq!(may_bind(&requests, "a", 2), Ok(()));
    let refused = may_bind(&requests, "a", 1).unwrap_err();
    assert_eq!(refused.status, 409);
    let text = "requests of `a` have 1 slots, and may have 1 (its `slots-max`); unbind one first";
    assert_eq!(refused.message, text);
    assert!(may_bind(&requests, "c", 0).is_err());
}
