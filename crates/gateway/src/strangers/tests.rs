//! No stranger takes all places, however many addresses he has.

use super::*;

fn from(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

#[test]
fn one_address_leaves_places_for_others_and_gives_its_own_back() {
    let (strangers, now) = (Strangers::new(64), Instant::now());
    let one: Vec<_> = (0..100).filter_map(|_| strangers.let_wait(from(1), now)).collect();
    assert_eq!(one.len(), 8);
    let others: Vec<_> = (2..100).filter_map(|last| strangers.let_wait(from(last), now)).collect();
    assert_eq!(others.len(), 56, "64 in all");
    drop(others);
    assert!(strangers.let_wait(from(1), now).is_none());
    drop(one);
    assert!(strangers.let_wait(from(1), now).is_some());
    assert!(strangers.lock().waiting.is_empty(), "nothing is kept of who went");
}

#[test]
fn a_network_of_ipv6_is_one_address() {
    let (strangers, now) = (Strangers::new(64), Instant::now());
    let of = |host: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, host]);
    let all: Vec<_> = (0..100).filter_map(|host| strangers.let_wait(of(host), now)).collect();
    assert_eq!(all.len(), 8);
    let other = IpAddr::from([0x2001, 0xdb8, 0, 2, 0, 0, 0, 1]);
    assert!(strangers.let_wait(other, now).is_some());
}

#[test]
fn many_addresses_keep_nobody_out_for_longer_than_a_handshake() {
    let (strangers, now) = (Strangers::new(64), Instant::now());
    strangers.let_wait(from(200), now).unwrap().is_known();
    let silent: Vec<_> = (0..100).filter_map(|last| strangers.let_wait(from(last), now)).collect();
    assert_eq!(silent.len(), 64, "all places are taken");
    assert!(strangers.let_wait(from(150), now).is_none(), "who came first has time");
    let known: Vec<_> = (0..100).filter_map(|_| strangers.let_wait(from(200), now)).collect();
    assert_eq!(known.len(), 8, "who has shown a key has places beside them");
    let late = now + GRACE;
    assert!(strangers.let_wait(from(150), late).is_some(), "the oldest has gone");
    assert_eq!(strangers.lock().waiting.front().map(|waiting| waiting.number), Some(2));
}

#[test]
fn who_has_to_go_is_told() {
    let (strangers, now) = (Strangers::new(1), Instant::now());
    let first = strangers.let_wait(from(1), now).unwrap();
    let _second = strangers.let_wait(from(2), now + GRACE).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(first.must_go());
    drop(first);
    assert_eq!(strangers.lock().waiting.len(), 1, "the place is the second one's");
}
