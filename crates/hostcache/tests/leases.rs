//! A server alone, whose hosts and store are the test: who may use a volume, after a restart, after
//! a deletion and after the server did nothing for a while.

#![allow(clippy::unwrap_used)]

use thermocline_hostcache::{
    BLOCK_BYTES, HostId, How, MemoryStore, Protocol, Server, ServerError, ServerSettings,
    StoreAnswer, StoreRequest, ToAgent, ToServer, VolumeInfo, Why, WriteItem,
};
use thermocline_units::Nanos;

const ONE: HostId = HostId(1);
const TWO: HostId = HostId(2);

fn secs(seconds: u64) -> Nanos {
    Nanos::from_secs(seconds)
}

/// A server on a store with volume 1, `guest`, and its hosts.
struct Scene {
    server: Server,
    store: MemoryStore,
    now: Nanos,
}

impl Scene {
    fn new(lease: Nanos) -> Scene {
        let mut store = MemoryStore::default();
        store.create("guest", 64, 0);
        let server = Scene::server(lease, Nanos(0), 1);
        let mut scene = Scene { server, store, now: Nanos(0) };
        scene.join();
        scene
    }

    fn server(lease: Nanos, now: Nanos, run: u16) -> Server {
        let hash_of = |bytes: &[u8]| [bytes[0]; 32];
        let settings = ServerSettings { lease, ..ServerSettings::new(hash_of, run, 7) };
        Server::new(settings, now).unwrap()
    }

    fn join(&mut self) {
        [ONE, TWO].into_iter().for_each(|host| self.server.joined(host, 1).unwrap());
    }

    /// The server ends, and another one begins, with leases of another duration.
    fn restart(&mut self, lease: Nanos, run: u16) {
        self.server = Scene::server(lease, self.now, run);
        self.join();
    }

    /// Says a message; what is said then.
    fn say(&mut self, host: HostId, message: ToServer) -> Vec<(HostId, ToAgent)> {
        self.server.hear(self.now, host, message).unwrap();
        self.answers()
    }

    fn answers(&mut self) -> Vec<(HostId, ToAgent)> {
        while let Some((op, request)) = self.server.next_store_request() {
            let answer = self.store.perform(request);
            self.server.stored(self.now, op, answer);
        }
        std::iter::from_fn(|| self.server.next_message()).collect()
    }

    /// Attaches the volume; its fencing number and the lease, or why not.
    fn attach(&mut self, host: HostId, fence: u64) -> Result<(u64, Nanos), Why> {
        let attach = ToServer::Attach { request: 1, volume: "guest".to_string(), fence };
        match self.say(host, attach).pop() {
            Some((_, ToAgent::Attached { fence, lease, .. })) => Ok((fence, Nanos(lease))),
            Some((_, ToAgent::Refused { why, .. })) => Err(why),
            other => panic!("{other:?}"),
        }
    }

    fn info(&mut self) -> VolumeInfo {
        match self.store.perform(StoreRequest::Open { name: "guest".to_string() }) {
            StoreAnswer::Volume(Some(info)) => info,
            other => panic!("{other:?}"),
        }
    }

    /// The host under whose lease the volume is.
    fn holder(&mut self) -> Option<HostId> {
        let info = self.info();
        self.server.lease(self.now, &info).map(|lease| lease.holder)
    }
}

/// A store that had just started let an administrator delete a volume whose host was alive.
#[test]
fn a_lease_of_an_earlier_run_keeps_a_volume_from_being_deleted() {
    let mut scene = Scene::new(secs(10));
    assert_eq!(scene.holder(), None, "nobody has ever had it");
    scene.attach(ONE, 0).unwrap();
    scene.now = secs(5);
    scene.restart(secs(10), 2);
    assert_eq!(scene.holder(), Some(ONE));
    scene.now = secs(14);
    assert_eq!(scene.holder(), Some(ONE));
    scene.now = secs(15);
    assert_eq!(scene.holder(), None);
    // What is given back in this run is free at once.
    let (fence, _) = scene.attach(ONE, 1).unwrap();
    assert_eq!(scene.holder(), Some(ONE));
    scene.say(ONE, ToServer::Release { volume: 1, fence, to: None });
    assert_eq!(scene.holder(), None);
}

/// The server was started again with a shorter lease, and gave the volume to another host while the
/// first one still believed in its longer lease.
#[test]
fn a_longer_lease_of_an_earlier_run_is_waited_for() {
    let mut scene = Scene::new(secs(60));
    assert_eq!(scene.attach(ONE, 0), Ok((1, secs(60))));
    scene.now = secs(10);
    scene.restart(secs(1), 2);
    scene.now = secs(69);
    assert_eq!(scene.attach(TWO, 0), Err(Why::InUse));
    assert_eq!(scene.holder(), Some(ONE));
    scene.now = secs(70);
    assert_eq!(scene.attach(TWO, 0), Ok((2, secs(1))));
}

#[test]
fn a_host_that_comes_back_gets_no_longer_lease_than_is_kept_with_its_number() {
    let mut scene = Scene::new(secs(2));
    scene.attach(ONE, 0).unwrap();
    scene.restart(secs(60), 2);
    assert_eq!(scene.attach(ONE, 1), Ok((1, secs(2))), "a start after this one waits two seconds");
    scene.restart(secs(1), 3);
    assert_eq!(scene.attach(ONE, 1), Ok((1, secs(1))));
    // The next number is kept with the present duration.
    scene.now = secs(9);
    assert_eq!(scene.attach(TWO, 0), Ok((2, secs(1))));
}

/// Its host was not told that a volume was deleted, and a renewal let it go on with it.
#[test]
fn a_host_is_told_that_its_volume_was_deleted_and_cannot_renew_it() {
    let mut scene = Scene::new(secs(2));
    scene.attach(ONE, 0).unwrap();
    scene.now = secs(3);
    assert_eq!(scene.holder(), None, "the lease is over");
    scene.server.forget(scene.now, 1);
    scene.store.delete(1);
    assert_eq!(scene.answers(), [(ONE, ToAgent::Lost { volume: 1 })]);
    let refused = ToAgent::Refused { request: 4, why: Why::Fenced };
    assert_eq!(scene.say(ONE, ToServer::Renew { request: 4 }), [(ONE, refused)]);
    assert_eq!(scene.attach(ONE, 1), Err(Why::NoVolume));
}

/// The store had found a volume for a host, and the volume was deleted before that was told: the
/// host came back with its number, and went on with a volume that was not there.
#[test]
fn a_volume_that_is_deleted_while_it_is_opened_is_not_granted() {
    let mut scene = Scene::new(secs(2));
    scene.attach(ONE, 0).unwrap();
    scene.restart(secs(2), 2);
    scene.now = secs(9);
    let attach = ToServer::Attach { request: 1, volume: "guest".to_string(), fence: 1 };
    scene.server.hear(scene.now, ONE, attach).unwrap();
    let (op, request) = scene.server.next_store_request().unwrap();
    let found = scene.store.perform(request);
    assert_eq!(scene.holder(), None);
    scene.server.forget(scene.now, 1);
    scene.store.delete(1);
    scene.server.stored(scene.now, op, found);
    let refused = ToAgent::Refused { request: 1, why: Why::NoVolume };
    assert_eq!(scene.answers(), [(ONE, refused)]);
}

#[test]
fn a_volume_that_is_deleted_while_it_is_granted_is_refused() {
    let mut scene = Scene::new(secs(2));
    let attach = ToServer::Attach { request: 1, volume: "guest".to_string(), fence: 0 };
    scene.server.hear(scene.now, ONE, attach).unwrap();
    let (op, request) = scene.server.next_store_request().unwrap();
    scene.server.stored(scene.now, op, scene.store.perform(request));
    let (op, request) = scene.server.next_store_request().unwrap();
    assert!(matches!(request, StoreRequest::Fence { .. }));
    scene.server.forget(scene.now, 1);
    scene.server.stored(scene.now, op, scene.store.perform(request));
    let refused = ToAgent::Refused { request: 1, why: Why::NoVolume };
    assert_eq!(scene.answers(), [(ONE, refused)]);
    assert_eq!(scene.server.outstanding(), 0);
}

/// The server counted its volumes for longer than a lease. Then it heard a host that waited for a
/// volume before the renewal of the host that had it.
#[test]
fn a_server_that_stood_still_takes_nobodys_lease() {
    let mut scene = Scene::new(secs(2));
    scene.attach(ONE, 0).unwrap();
    scene.now = secs(7);
    scene.server.stood_still(secs(6));
    assert_eq!(scene.attach(TWO, 0), Err(Why::InUse));
    scene.now = secs(8);
    assert_eq!(scene.attach(TWO, 0), Ok((2, secs(2))), "it ends nevertheless");
    // The same for what an earlier run granted.
    scene.restart(secs(2), 2);
    scene.now = secs(13);
    scene.server.stood_still(secs(4));
    assert_eq!(scene.attach(ONE, 0), Err(Why::InUse));
}

/// A read by hashes in a protocol without hashes was a panic, when the blocks had content.
#[test]
fn hashes_are_answered_or_refused_in_every_protocol() {
    for (name, protocol) in Protocol::ALL {
        let mut scene = Scene::new(secs(2));
        let hash_of = |bytes: &[u8]| [bytes[0]; 32];
        let mut settings = ServerSettings::new(hash_of, 1, 7);
        settings.protocol = protocol;
        scene.server = Server::new(settings, scene.now).unwrap();
        scene.join();
        scene.attach(ONE, 0).unwrap();
        let items = vec![WriteItem::Data(vec![3; BLOCK_BYTES].into()), WriteItem::Zero];
        let write =
            ToServer::Write { request: 2, volume: 1, fence: 1, block: 0, fua: false, items };
        scene.say(ONE, write);
        for how in [How::Usual, How::Hashes, How::Bytes] {
            let read = ToServer::Read { request: 3, volume: 1, block: 0, count: 4, how };
            let heard = scene.server.hear(scene.now, ONE, read);
            if how == How::Hashes && !protocol.names {
                assert_eq!(heard, Err(ServerError::NoNames), "{name}");
                continue;
            }
            heard.unwrap();
            let answers = scene.answers();
            assert!(matches!(answers[..], [(_, ToAgent::Blocks { .. })]), "{name} {how:?}");
        }
    }
}

/// Thousands of requests were under way with a mebibyte each.
#[test]
fn requests_under_way_and_what_waits_for_a_host_are_bounded_in_bytes() {
    let mut scene = Scene::new(secs(2));
    scene.attach(ONE, 0).unwrap();
    let most = 8 << 20;
    assert!(scene.server.has_room(ONE, most) && !scene.server.has_room(ONE, most + 1));
    let items = vec![WriteItem::Data(vec![3; BLOCK_BYTES].into()); 64];
    let write = ToServer::Write { request: 2, volume: 1, fence: 1, block: 0, fua: false, items };
    let mut heard = 0;
    while scene.server.has_room(ONE, 0) {
        scene.server.hear(scene.now, ONE, write.clone()).unwrap();
        heard += 1;
    }
    assert_eq!(heard, 32, "of 256 KiB each, and a little more");
    assert!(scene.server.has_room(TWO, 0));
    scene.answers();
    assert!(scene.server.has_room(ONE, most), "all are answered");
    // A read counts with what it answers.
    let read = ToServer::Read { request: 3, volume: 1, block: 0, count: 64, how: How::Bytes };
    scene.server.hear(scene.now, ONE, read).unwrap();
    assert!(!scene.server.has_room(ONE, most - 64 * BLOCK_BYTES));
    scene.server.left(ONE);
    scene.server.joined(ONE, 1).unwrap();
    assert!(scene.server.has_room(ONE, most), "what an earlier connection asked is not its own");
    scene.answers();
    assert!(scene.server.has_room(ONE, most));
}
