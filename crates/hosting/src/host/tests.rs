//! An agent whose store is the test, one step at a time. Nobody connects to its socket.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::line::WAITING_BYTES_MAX;
use std::collections::VecDeque;
use std::path::PathBuf;
use thermocline_hostcache::{Link, MemoryStore, Protocol, Server, ServerSettings};
use thermocline_units::Bytes;
use thermocline_wire::{Config, Role};

const HOST: HostId = HostId(7);
const MIB: usize = 1 << 20;
/// Mebibytes that are written.
const WRITES: u32 = 96;

fn agent(nbd: PathBuf) -> HostAgent {
    let config = HostConfig {
        host: HOST,
        store: "127.0.0.1:1".parse().unwrap(),
        volumes: vec!["vm".to_string()],
        nbd,
        nbd_tcp: None,
        listen: None,
        peers: Vec::new(),
        keys: None,
        protocol: Protocol::named("manifest").unwrap(),
        lookup: "by-load".to_string(),
        cache: Bytes::from_mib(1),
        policy: "lru".to_string(),
        flash_policy: "lru".to_string(),
        limits: crate::Limits::default(),
    };
    HostAgent::start(config, None, Notes::new(|_| {})).unwrap()
}

/// A store, and the connection with it.
struct Store {
    server: Server,
    store: MemoryStore,
    link: Link,
    line: Rc<Line>,
}

impl Store {
    fn new() -> Store {
        let mut store = MemoryStore::default();
        store.create("vm", WRITES * 256, 0);
        let mut server = Server::new(ServerSettings::new(hash_of, 1, 1), Nanos(0)).unwrap();
        server.joined(HOST, 1).unwrap();
        let config = |role| Config::new(role, [role as u8 + 1; 16]);
        let protocol = Protocol::named("manifest").unwrap();
        let link = Link::new(config(Role::Acceptor), protocol, HostId(0), Nanos(0)).unwrap();
        let ours = Link::new(config(Role::Connector), protocol, HOST, Nanos(0)).unwrap();
        Store { server, store, link, line: Line::new(ours) }
    }

    /// Bytes go both ways until there are none; what the agent said is answered.
    fn carry(&mut self, core: &Rc<RefCell<Core>>) {
        loop {
            let out = self.line.take_out(Nanos(1)).unwrap();
            self.link.receive(Nanos(1), &out).unwrap();
            while let Some(message) = self.link.next_message::<ToServer>().unwrap() {
                self.server.hear(Nanos(1), HOST, message).unwrap();
            }
            while let Some((op, request)) = self.server.next_store_request() {
                let answer = self.store.perform(request);
                self.server.stored(Nanos(1), op, answer);
            }
            while let Some((_, message)) = self.server.next_message() {
                self.link.send(&message).unwrap();
            }
            let mut back = VecDeque::new();
            let count = self.link.transmit(Nanos(1), &mut back, MIB);
            back.iter().for_each(|bytes| self.line.take_in(Nanos(1), bytes).unwrap());
            let mut core = core.borrow_mut();
            let now = core.clock.now();
            while let Some(message) = self.line.next_message::<ToAgent>().unwrap() {
                core.note_answer(&message);
                core.agent.hear(now, message).unwrap();
            }
            core.turn();
            self.check();
            if count + out.len() == 0 {
                return;
            }
        }
    }

    /// Checks that the connection goes on, and that little waits for the store.
    fn check(&self) {
        assert_eq!(self.line.why(), None);
        let mut waits = 0;
        self.line.has_room(|queued| {
            waits = queued;
            true
        });
        assert!(waits <= WAITING_BYTES_MAX + 2 * MIB, "{waits} bytes wait");
    }
}

/// An agent that has its volume, in a folder of its own.
fn attached(name: &str) -> (PathBuf, Rc<RefCell<Core>>, Store, VolumeKey) {
    let folder = std::env::temp_dir().join(format!("thermocline-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let core = agent(folder.join("nbd")).core.clone();
    let mut store = Store::new();
    store.line.take_out(Nanos(1)).map(|out| store.link.receive(Nanos(1), &out)).unwrap().unwrap();
    let mut back = VecDeque::new();
    store.link.transmit(Nanos(1), &mut back, MIB);
    back.iter().for_each(|bytes| store.line.take_in(Nanos(1), bytes).unwrap());
    core.borrow_mut().store_found(store.line.clone());
    store.carry(&core);
    let key = core.borrow().volumes.key("vm").unwrap();
    assert!(core.borrow().agent.fence(key) > 0, "it is attached");
    (folder, core, store, key)
}

/// True if who waits for the clock was woken since this was asked last.
fn was_woken(core: &Rc<RefCell<Core>>) -> bool {
    let wakeup = core.borrow().wakeup.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let glance = Duration::from_millis(1);
    runtime.block_on(async { tokio::time::timeout(glance, wakeup.notified()).await.is_ok() })
}

/// A host that does not send what it was to send was given up only when the clock was looked at for
/// another reason, up to a second later.
#[test]
fn who_waits_for_the_clock_hears_of_what_is_due_earlier() {
    let (folder, core, store, key) = attached("clock");
    let lease = core.borrow_mut().tick().unwrap();
    was_woken(&core);
    let now = core.borrow().clock.now();
    core.borrow_mut().agent.read(now, key, 5, 1).unwrap();
    core.borrow_mut().turn();
    assert!(!was_woken(&core), "nothing is due earlier");
    // The server says that another host sends the block, which it does not.
    let id = thermocline_hostcache::ContentId(1 << 32 | 1 << 16);
    let item = thermocline_hostcache::ReadItem::Deferred(id, [7; 32], HostId(9), 1);
    let out = store.line.take_out(Nanos(1)).unwrap();
    let mut server = store.link;
    server.receive(Nanos(1), &out).unwrap();
    let Some(ToServer::Read { request, .. }) = server.next_message::<ToServer>().unwrap() else {
        panic!("a read was asked")
    };
    let message = ToAgent::Blocks { request, version: 1, items: vec![item] };
    core.borrow_mut().agent.hear(now, message).unwrap();
    core.borrow_mut().turn();
    assert!(was_woken(&core), "the block is due before the lease");
    let due = core.borrow_mut().tick().unwrap();
    assert!(due < lease && due <= Nanos(now.0 + 100_000_000), "{due} {lease}");
    was_woken(&core);
    core.borrow_mut().turn();
    assert!(!was_woken(&core), "it is waited for already");
    let _ = std::fs::remove_dir_all(&folder);
}

/// More than 64 MiB of writes waited for a store that was slow for a moment: the connection was
/// ended, and again when all of them were sent again.
#[test]
fn an_agent_says_what_its_connection_has_room_for() {
    let (folder, core, mut store, key) = attached("agent");
    for at in 0..WRITES {
        // Each block has other content.
        let blocks = (0..256).map(|block| at * 256 + block + 1);
        let data: Vec<u8> = blocks.flat_map(|block| block.to_le_bytes().repeat(1024)).collect();
        let offset = Bytes::from_mib(u64::from(at));
        let payload = data.into();
        let action = Action::Write { offset, payload, fua: false };
        let mut core = core.borrow_mut();
        let now = core.clock.now();
        let Core { guests, agent, .. } = &mut *core;
        guests.begin(agent, now, Who::Client(1, Cookie::default()), key, action);
        core.turn();
        store.check();
    }
    store.carry(&core);
    assert_eq!(core.borrow().agent.outstanding(), 0, "all are answered");
    let _ = std::fs::remove_dir_all(&folder);
}
