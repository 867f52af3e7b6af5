//! One address does not take all places.

use super::*;

#[test]
fn one_address_leaves_places_for_others_and_gives_its_own_back() {
    let strangers = Strangers::new(64);
    let from = |last| IpAddr::from([10, 0, 0, last]);
    let one: Vec<_> = (0..100).filter_map(|_| strangers.let_wait(from(1))).collect();
    assert_eq!(one.len(), 8);
    let others: Vec<_> = (2..100).filter_map(|last| strangers.let_wait(from(last))).collect();
    assert_eq!(others.len(), 56, "64 in all");
    drop(others);
    assert!(strangers.let_wait(from(1)).is_none());
    drop(one);
    assert!(strangers.let_wait(from(1)).is_some());
    assert!(strangers.lock().is_empty(), "nothing is kept of who went");
}
