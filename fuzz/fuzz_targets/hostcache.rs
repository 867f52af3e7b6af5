//! Other machines of a host cache say anything: bytes on a connection, or messages that have the
//! layout to a server, to an agent and between agents.
//!
//! The first byte decides which; the rest is cut into messages: kind, length, body.
#![no_main]

use bytes::Bytes;
use thermocline_hostcache::{
    Agent, AgentSettings, Event, Hash, HostId, Link, MemoryStore, Message, Protocol, Server,
    ServerSettings, ToAgent, ToPeer, ToServer,
};
use thermocline_units::Nanos;
use thermocline_wire::{Config, Role};

const NOW: Nanos = Nanos(1);
const BLOCKS: u32 = 64;

fn hash_of(bytes: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash[0] = bytes.first().copied().unwrap_or(0);
    hash
}

/// Lets the store do what the server asks of it; what the server says goes nowhere.
fn answer(server: &mut Server, store: &mut MemoryStore) {
    while let Some((op, request)) = server.next_store_request() {
        server.stored(NOW, op, store.perform(request));
    }
    while server.next_message().is_some() {}
}

fn server(data: &[u8]) {
    let mut store = MemoryStore::default();
    let base = store.create("image", BLOCKS, 0);
    store.clone_of(base, "a");
    let mut settings = ServerSettings::new(hash_of, 1, 1);
    (settings.places_min, settings.memory_blocks) = (4, 2);
    let mut server = Server::new(settings, NOW).expect("the settings fit");
    for host in 1..3 {
        server.joined(HostId(host), 1).expect("few hosts");
    }
    let attach = ToServer::Attach { request: 1, volume: "a".to_string(), fence: 0 };
    server.hear(NOW, HostId(1), attach).expect("it is right");
    answer(&mut server, &mut store);
    each(data, |at, kind, body| {
        if let Ok(message) = ToServer::read(kind, &body)
            && server.hear(NOW, HostId(1 + at % 2), message).is_err()
        {
            return false;
        }
        answer(&mut server, &mut store);
        true
    });
    assert_eq!(server.outstanding(), 0, "the store has answered everything");
}

fn agent(data: &[u8]) {
    let mut settings = AgentSettings::new(hash_of, HostId(1), 1);
    (settings.cache_blocks, settings.block_bytes) = (4, 4096);
    let mut agent = Agent::new(settings).expect("the settings fit");
    agent.connected(NOW);
    let volume = agent.attach(NOW, "a");
    each(data, |at, kind, body| {
        let heard = match (ToAgent::read(kind, &body), ToPeer::read(kind, &body)) {
            (Ok(message), _) => agent.hear(NOW, message),
            (_, Ok(message)) => agent.hear_peer(NOW, HostId(at % 4), message),
            _ => Ok(()),
        };
        let _ = agent.read(NOW, volume, u32::from(at) % BLOCKS, 2);
        let _ = agent.write(NOW, volume, u32::from(at) % 8, &[at as u8; 4096], at % 2 == 0);
        while let Some(event) = agent.next_event() {
            if let Event::Read { bytes, .. } = event {
                assert_eq!(bytes.len(), 2 * 4096);
            }
        }
        while agent.next_message().is_some() {}
        while agent.next_peer_message().is_some() {}
        heard.is_ok()
    });
    agent.disconnected();
    agent.connected(NOW);
}

/// Calls `hear` with every message: its position, kind and body, until it says no.
fn each(mut data: &[u8], mut hear: impl FnMut(u16, u8, Bytes) -> bool) {
    let mut at = 0;
    while let [kind, length, tail @ ..] = data {
        let (body, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        data = tail;
        if !hear(at, kind % 12, Bytes::copy_from_slice(body)) {
            return;
        }
        at = at.wrapping_add(1);
    }
}

fn link(data: &[u8]) {
    let config = Config::new(Role::Acceptor, [1; 16]);
    let protocol = Protocol::named("manifest").expect("it is there");
    let mut link = Link::new(config, protocol, HostId(1), NOW).expect("the settings fit");
    for piece in data.chunks(7) {
        if link.receive(NOW, piece).is_err() {
            return;
        }
        while let Ok(Some(_)) = link.next_message::<ToServer>() {}
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((how, rest)) if how % 3 == 0 => server(rest),
        Some((how, rest)) if how % 3 == 1 => agent(rest),
        Some((_, rest)) => link(rest),
        None => {}
    }
});
