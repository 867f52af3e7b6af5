//! Addresses that count as one client, and connections beyond its limit.

use super::*;

#[test]
fn a_client_has_its_number_and_others_have_theirs() {
    let crowd = Arc::<Crowd>::default();
    let v4: IpAddr = "10.0.0.1".parse().unwrap();
    let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
    let first = crowd.join(v4, 2).unwrap();
    let second = crowd.join(mapped, 2).unwrap();
    assert!(crowd.join(v4, 2).is_none(), "an address is the same in both notations");
    assert!(crowd.join("10.0.0.2".parse().unwrap(), 2).is_some());
    drop(first);
    let third = crowd.join(v4, 2).unwrap();
    drop((second, third));
    assert!(crowd.clients.lock().unwrap().is_empty(), "who has gone costs nothing");
}

#[test]
fn a_network_of_ipv6_is_one_client() {
    let crowd = Arc::<Crowd>::default();
    let _one = crowd.join("2001:db8:1:2::1".parse().unwrap(), 1).unwrap();
    assert!(crowd.join("2001:db8:1:2:ffff::9".parse().unwrap(), 1).is_none());
    assert!(crowd.join("2001:db8:1:3::1".parse().unwrap(), 1).is_some());
}
