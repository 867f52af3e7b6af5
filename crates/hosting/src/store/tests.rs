//! A storage server on a file, whose hosts are the test, one step at a time. Nobody connects to its
//! socket.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::line::WAITING_BYTES_MAX;
use std::cell::RefMut;
use std::collections::VecDeque;
use std::path::PathBuf;
use thermocline_content::{Domain, Quotas};
use thermocline_hostcache::{How, ToAgent};
use thermocline_ports::Payload;
use thermocline_ports_os::{Disk, OpenOptions};

const HOST: HostId = HostId(7);
const LEASE: Nanos = Nanos::from_secs(10);

/// A file that goes with the test.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct Scene {
    server: StoreServer,
    place: Place,
}

impl Scene {
    /// A store with the volume `vm` of 8 MiB.
    fn new(test: &str) -> Scene {
        let name = format!("thermocline-{}-{test}.img", std::process::id());
        let place = Place(std::env::temp_dir().join(name));
        let options = OpenOptions { create: Some(Bytes::from_mib(64)), ..OpenOptions::default() };
        let disk = Disk::open(&place.0, options, None).unwrap();
        make_store(Box::new(disk), Scene::settings(), 3).unwrap();
        let scene = Scene { server: Scene::start(&place, LEASE), place };
        scene.create("vm");
        scene
    }

    fn settings() -> Settings {
        Settings { segment: Bytes::from_mib(1), journal_blocks: 64, ..Settings::default() }
    }

    fn start(place: &Place, lease: Nanos) -> StoreServer {
        let disk = Disk::open(&place.0, OpenOptions::default(), None).unwrap();
        let config = StoreConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            keys: None,
            hosts: BTreeMap::new(),
            protocol: Protocol::named("manifest").unwrap(),
            lookup: "by-load".to_string(),
            link_bytes_per_s: 125_000_000,
            memory: Bytes::from_mib(1),
            lease,
            limits: crate::Limits::default(),
        };
        StoreServer::start(config, Box::new(disk), Scene::settings(), Notes::new(|_| {})).unwrap()
    }

    fn restart(self) -> Scene {
        let Scene { server, place } = self;
        drop(server);
        Scene { server: Scene::start(&place, LEASE), place }
    }

    fn core(&self) -> RefMut<'_, Core> {
        self.server.core.borrow_mut()
    }

    /// Carries on until the device has nothing to do.
    fn settle(&self) {
        let mut core = self.core();
        core.turn();
        while core.server.outstanding() > 0 || !core.backing.store().is_quiet() {
            core.backing.store_mut().device_mut().wait().unwrap();
            core.turn();
        }
    }

    fn order(&self, action: Action) -> Completed {
        let (told, mut answer) = oneshot::channel();
        self.core().order(action, told);
        self.settle();
        answer.try_recv().unwrap().unwrap()
    }

    fn create(&self, name: &str) {
        let (name, size) = (name.to_string(), Bytes::from_mib(8));
        self.order(Action::Create { name, size, domain: Domain(0), quotas: Quotas::default() });
    }

    /// Fills a mebibyte of a volume as administrators do.
    fn fill(&self, name: &str, mebibyte: u64) -> Result<Completed, Refused> {
        let volume = self.core().new_volume(name)?.id;
        let blocks = (0..256_u32).map(|at| mebibyte as u32 * 256 + at + 1);
        let data: Vec<u8> = blocks.flat_map(|at| at.to_le_bytes().repeat(1024)).collect();
        let (offset, data) = (Bytes::from_mib(mebibyte), Payload::from(data));
        Ok(self.order(Action::Write { volume, offset, data, fua: false }))
    }

    /// A host that comes in.
    fn host(&self) -> Peer {
        let config = |role| Config::new(role, [role as u8 + 1; 16]);
        let protocol = Protocol::named("manifest").unwrap();
        let ours = Link::new(config(Role::Acceptor), protocol, STORE, Nanos(0)).unwrap();
        let link = Link::new(config(Role::Connector), protocol, HOST, Nanos(0)).unwrap();
        let (line, heard) = (Line::new(ours), VecDeque::new());
        let mut peer = Peer { link, line, joined: (HOST, 0), heard };
        peer.carry();
        let from = self.server.address();
        peer.joined.1 = self.core().let_in(HOST, &peer.line, from).unwrap();
        peer
    }
}

/// A host, as the store sees it.
struct Peer {
    link: Link,
    line: Rc<Line>,
    joined: (HostId, u64),
    heard: VecDeque<ToAgent>,
}

impl Peer {
    /// Brings the store everything that the host has to say; its bytes.
    fn speak(&mut self) -> usize {
        let mut out = VecDeque::new();
        let bytes = self.link.transmit(Nanos(1), &mut out, 1 << 20);
        out.iter().for_each(|bytes| self.line.take_in(Nanos(1), bytes).unwrap());
        bytes
    }

    /// Bytes go both ways until there are none.
    fn carry(&mut self) {
        loop {
            let out = self.line.take_out(Nanos(1)).unwrap();
            self.link.receive(Nanos(1), &out).unwrap();
            while let Some(message) = self.link.next_message().unwrap() {
                self.heard.push_back(message);
            }
            if self.speak() + out.len() == 0 {
                return;
            }
        }
    }

    /// Says something, and returns what is answered.
    fn ask(&mut self, scene: &Scene, message: &ToServer) -> Option<ToAgent> {
        self.link.send(message).unwrap();
        self.carry();
        scene.core().hear(self.joined).unwrap();
        scene.settle();
        self.carry();
        self.heard.pop_front()
    }

    fn attach(&mut self, scene: &Scene, fence: u64) -> ToAgent {
        let attach = ToServer::Attach { request: 1, volume: "vm".to_string(), fence };
        self.ask(scene, &attach).unwrap()
    }
}

/// A host came in anew, and what its earlier connection still brought was carried out for it: a
/// write that the new session had overtaken undid one that was durable.
#[test]
fn a_connection_whose_host_has_another_one_is_ended_and_not_heard() {
    let scene = Scene::new("superseded");
    let (mut former, mut latter) = (scene.host(), scene.host());
    assert!(former.line.why().unwrap().contains("came in anew"));
    assert!(matches!(latter.attach(&scene, 0), ToAgent::Attached { fence: 1, .. }));
    former.link.send(&ToServer::Renew { request: 8 }).unwrap();
    former.carry();
    let why = scene.core().hear(former.joined).unwrap_err();
    assert!(why.contains("has another connection"), "{why}");
    // Its end does not end the other one.
    scene.core().leave(HOST, former.joined.1, "it is over");
    let renewed = latter.ask(&scene, &ToServer::Renew { request: 9 });
    assert_eq!(renewed, Some(ToAgent::Renewed { request: 9 }));
}

/// More than 64 MiB of answers waited for a host, whose connection was ended. It asked again.
#[test]
fn a_host_that_reads_much_is_heard_when_there_is_room() {
    const READS: u32 = 80;
    let scene = Scene::new("reads");
    (0..8).for_each(|mebibyte| drop(scene.fill("vm", mebibyte).unwrap()));
    let mut host = scene.host();
    let ToAgent::Attached { volume, .. } = host.attach(&scene, 0) else { panic!() };
    for request in 0..READS {
        let (block, how) = (request % 8 * 256, How::Bytes);
        host.link.send(&ToServer::Read { request, volume, block, count: 256, how }).unwrap();
    }
    // The host says all of it, and takes nothing.
    while host.speak() > 0 {}
    let (mut answers, mut rounds) = (Vec::new(), 0);
    while answers.len() < READS as usize {
        scene.core().hear(host.joined).unwrap();
        scene.settle();
        assert_eq!(host.line.why(), None);
        let mut most = 0;
        assert!(host.line.has_room(|queued| {
            most = queued;
            true
        }));
        assert!(most <= WAITING_BYTES_MAX + (2 << 20), "{most} bytes wait");
        host.carry();
        for answer in host.heard.drain(..) {
            let ToAgent::Blocks { request, .. } = answer else { panic!("{answer:?}") };
            answers.push(request);
        }
        rounds += 1;
        assert!(rounds < 40, "{answers:?}");
    }
    answers.sort_unstable();
    assert_eq!(answers, (0..READS).collect::<Vec<_>>());
    assert!(rounds > 5, "{rounds}");
}

#[test]
fn a_volume_that_a_host_has_had_is_not_filled() {
    let scene = Scene::new("fill");
    scene.fill("vm", 0).unwrap();
    let mut host = scene.host();
    let ToAgent::Attached { volume, fence, .. } = host.attach(&scene, 0) else { panic!() };
    let refused = scene.fill("vm", 1).unwrap_err();
    assert!(refused.message.contains("host 7 has `vm`"), "{}", refused.message);
    // Given back, it may be deleted; but a host that was cut off may still have its map.
    host.ask(&scene, &ToServer::Release { volume, fence, to: None });
    assert!(scene.core().free_volume("vm").is_ok());
    let refused = scene.fill("vm", 1).unwrap_err();
    assert!(refused.message.contains("make a new volume"), "{}", refused.message);
    scene.create("other");
    scene.fill("other", 1).unwrap();
}

#[test]
fn a_volume_of_a_living_host_is_not_deleted_after_a_restart() {
    let scene = Scene::new("restart");
    let mut host = scene.host();
    assert!(matches!(host.attach(&scene, 0), ToAgent::Attached { fence: 1, .. }));
    scene.create("other");
    let scene = scene.restart();
    let refused = scene.core().free_volume("vm").unwrap_err();
    assert!(refused.message.contains("host 7 has `vm`"), "{}", refused.message);
    assert!(scene.core().free_volume("other").is_ok(), "no host has had it");
    // As if nothing had been done for eleven seconds: hosts could not come back in them.
    let began_before = |seconds| {
        Clock(Instant::now().checked_sub(std::time::Duration::from_secs(seconds)).unwrap())
    };
    scene.core().seen = Nanos(0);
    scene.core().clock = began_before(11);
    assert!(scene.core().free_volume("vm").is_err(), "they count for no lease");
    scene.core().clock = began_before(24);
    scene.core().seen = Nanos::from_secs(24);
    assert!(scene.core().free_volume("vm").is_ok());
}

/// Everything that a host had sent was carried out at once, while others missed their leases.
#[test]
fn a_host_that_says_much_is_heard_in_turns() {
    let scene = Scene::new("turns");
    let mut host = scene.host();
    for request in 0..100 {
        let attach = ToServer::Attach { request, volume: "nobody".to_string(), fence: 0 };
        host.link.send(&attach).unwrap();
    }
    host.carry();
    let mut answered = |scene: &Scene| {
        scene.core().hear(host.joined).unwrap();
        scene.settle();
        host.carry();
        std::mem::take(&mut host.heard).len()
    };
    assert_eq!((answered(&scene), answered(&scene)), (MESSAGES_AT_ONCE, 100 - MESSAGES_AT_ONCE));
}
