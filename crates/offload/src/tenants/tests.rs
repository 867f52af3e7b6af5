//! Answers come to the share that the NAT of the question belongs to.

use super::{Tenants, is_within};
use crate::config::TenantConfig;
use std::net::Ipv4Addr;
use thermocline_accel::{FlowKey, Way};
use thermocline_functions::Side;
use thermocline_functions::packet::build;

fn tenants() -> Tenants {
    let tenant = |name: &str, network: [u8; 4], external: [u8; 4]| TenantConfig {
        name: name.to_string(),
        networks: vec![(Ipv4Addr::from(network), 24)],
        external: vec![Ipv4Addr::from(external)],
        chain: Vec::new(),
        token: None,
        slots_max: 64,
    };
    let tenants = vec![
        tenant("a", [10, 0, 0, 0], [192, 0, 2, 1]),
        tenant("b", [10, 0, 1, 0], [192, 0, 2, 2]),
    ];
    Tenants { tenants, shares: 16 }
}

#[test]
fn ports_of_shares_do_not_meet_and_lead_back() {
    let tenants = tenants();
    let mut last = 1023;
    for share in 0..16 {
        let (from, to) = tenants.ports(FlowKey(share));
        assert_eq!(u32::from(from), last + 1);
        for port in [from, to] {
            assert_eq!(tenants.share_of_port(port), Some(FlowKey(share)));
        }
        last = u32::from(to);
    }
    assert_eq!((tenants.share_of_port(1023), last), (None, 65_535));
}

#[test]
fn packets_know_their_tenant_from_both_sides() {
    let tenants = tenants();
    let (host, server) = (Ipv4Addr::new(10, 0, 1, 9), Ipv4Addr::new(198, 51, 100, 1));
    let out = build::udp(((host.into(), 5000), (server.into(), 53)), b"?");
    let ((group, key), way) = tenants.classify(Side::Inside, &out).unwrap();
    assert_eq!((group, way), (tenants.find("b").unwrap(), Way::Forth));
    let port = tenants.ports(key).0;
    let external = Ipv4Addr::new(192, 0, 2, 2);
    let back = build::udp(((server.into(), 53), (external.into(), port)), b"!");
    assert_eq!(tenants.classify(Side::Outside, &back), Some(((group, key), Way::Back)));
    let stranger = build::udp(((server.into(), 53), (server.into(), port)), b"!");
    assert_eq!(tenants.classify(Side::Outside, &stranger), None);
    assert_eq!(tenants.classify(Side::Inside, &stranger), None);
    assert!(is_within(host, (Ipv4Addr::new(0, 0, 0, 0), 0)));
}
