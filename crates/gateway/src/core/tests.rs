//! A connection that comes about while its end is stopping.

use super::*;
use crate::keys::make;
use std::collections::VecDeque;
use std::task::{Context, Waker};
use thermocline_wire::{Config, Event, Session};

/// A core with keys of its own, in a folder that goes with what is returned.
fn core() -> (Arc<Core>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for name in ["own", "other"] {
        make(&file(name)).unwrap();
    }
    let keys = KeyFiles { key: file("own.key"), peers: vec![file("other.pub")] };
    (Arc::new(Core::new(&Common::new(keys), Role::Acceptor).unwrap()), folder)
}

/// First words to the other end of a new connection: that it closes, or nothing of the kind.
fn told(core: &Arc<Core>) -> Option<String> {
    let hub = Hub::new(core.began, None);
    let cache = Cache::new(Bytes::from_mib(1), [1; 16], 1);
    let end = core.end(Role::Acceptor, cache, hub.now()).unwrap();
    let key = Fingerprint::of(&[0; 8].as_slice().into());
    let number = core.begin(&hub, end, "somebody".to_string(), key);
    let mut out = VecDeque::new();
    hub.work(number, &mut out, 1 << 20, &Context::from_waker(Waker::noop()));
    let mut config = Config::new(Role::Connector, [2; 16]);
    config.parameters = [&[1_u8][..], &[0; 16]].concat().into();
    let mut peer = Session::new(config, Nanos(0)).unwrap();
    for part in out {
        peer.receive(Nanos(0), &part).unwrap();
    }
    std::iter::from_fn(|| peer.next_event()).find_map(|event| match event {
        Event::Closing { reason, .. } => Some(reason),
        _ => None,
    })
}

#[test]
fn a_connection_that_comes_about_while_an_end_is_stopping_is_told_so() {
    let (core, _folder) = core();
    assert_eq!(told(&core), None);
    core.stop();
    assert_eq!(told(&core).as_deref(), Some(STOPPING));
}
