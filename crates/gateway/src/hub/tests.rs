//! Last message of an end, to an end that breaks the protocol.

use super::*;
use thermocline_tunnel::Settings;
use thermocline_units::Bytes as Size;
use thermocline_wire::{Config, Event, Role, Session};

fn cache() -> Cache {
    Cache::new(Size::from_mib(1), [1; 16], 1)
}

/// Bytes that a session sends now.
fn sent(session: &mut Session) -> Vec<u8> {
    let mut out = VecDeque::new();
    session.transmit(Nanos(0), &mut out, 1 << 20);
    out.into_iter().flatten().collect()
}

#[test]
fn an_end_that_breaks_the_tunnels_format_is_told_so() {
    let hub = Hub::new(Instant::now(), None);
    let clock = Box::new(|| Nanos(0));
    let end = End::new(Settings::new(Role::Acceptor, 1), cache(), clock, Nanos(0)).unwrap();
    let key = Fingerprint::of(&[0; 8].as_slice().into());
    let number = hub.install(end, "somebody".to_string(), key);
    // It speaks the connection's frames rightly, and says nonsense in them.
    let mut config = Config::new(Role::Connector, [2; 16]);
    config.parameters = [&[1_u8][..], &[0; 16]].concat().into();
    let mut peer = Session::new(config, Nanos(0)).unwrap();
    let waker = Waker::noop();
    let mut out = VecDeque::new();
    hub.receive(number, &sent(&mut peer));
    hub.work(number, &mut out, 1 << 20, &Context::from_waker(waker));
    for part in out.drain(..) {
        peer.receive(Nanos(0), &part).unwrap();
    }
    peer.open(b"the first stream has no header").unwrap();
    hub.receive(number, &sent(&mut peer));
    let work = hub.work(number, &mut out, 1 << 20, &Context::from_waker(waker));
    assert!(matches!(work, Work::Failed(why) if why.contains("the first stream")));
    for part in out.drain(..) {
        peer.receive(Nanos(0), &part).unwrap();
    }
    let told = std::iter::from_fn(|| peer.next_event());
    let told = told.filter_map(|event| match event {
        Event::Closing { reason, .. } => Some(reason),
        _ => None,
    });
    let told: Vec<String> = told.collect();
    assert!(told.len() == 1 && told[0].contains("broke the protocol"), "{told:?}");
}

#[test]
fn a_disk_that_fails_ends_the_connection_once() {
    let hub = Hub::new(Instant::now(), None);
    let mut kept = Some(cache().with_disk(Size::from_mib(1)));
    let mut connect = || {
        let (cache, clock) = (kept.take().unwrap(), Box::new(|| Nanos(0)));
        let end = End::new(Settings::new(Role::Acceptor, 1), cache, clock, Nanos(0)).unwrap();
        let key = Fingerprint::of(&[0; 8].as_slice().into());
        let number = hub.install(end, "somebody".to_string(), key);
        hub.disk_done(DiskDone::Written { is_written: false });
        let mut out = VecDeque::new();
        let work = hub.work(number, &mut out, 1 << 20, &Context::from_waker(Waker::noop()));
        kept = hub.remove(number);
        work
    };
    assert!(matches!(connect(), Work::Failed(why) if why.contains("the disk failed")));
    assert!(matches!(connect(), Work::Send { .. }), "it goes on without the disk");
}
