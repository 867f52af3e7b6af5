//! Machines that keep the rules of the connection and send arbitrary messages: they are refused
//! with a clear error, within bounded memory.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use std::collections::VecDeque;
use thermocline_hostcache::{
    Agent, AgentSettings, BLOCK_BYTES, ContentId, Event, Hash, HostId, How, Link, LinkError,
    MESSAGE_BYTES_MAX, MemoryStore, OPERATIONS_MAX, Protocol, QUEUED_BYTES_MAX, Server,
    ServerSettings, ToAgent, ToPeer, ToServer, UNKNOWN, VolumeKey, WriteItem,
};
use thermocline_units::Nanos;
use thermocline_wire::{Config, Role};

const NOW: Nanos = Nanos(1);

fn hash_of(bytes: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash[0] = bytes.iter().fold(1, |sum: u8, byte| sum.wrapping_mul(31).wrapping_add(*byte));
    hash[1] = bytes[0];
    hash
}

fn server(protocol: &str) -> (Server, MemoryStore) {
    let mut settings = ServerSettings::new(hash_of, 1, 7);
    settings.protocol = Protocol::named(protocol).unwrap();
    settings.lookup = "peers-first".to_string();
    let mut store = MemoryStore::default();
    store.create("guest", 64, 0);
    store.create("secret", 64, 1);
    let mut server = Server::new(settings, NOW).unwrap();
    server.joined(HostId(1), 1).unwrap();
    (server, store)
}

fn agent(protocol: &str) -> Agent {
    let mut settings = AgentSettings::new(hash_of, HostId(1), 7);
    settings.protocol = Protocol::named(protocol).unwrap();
    Agent::new(settings).unwrap()
}

/// Messages of the server after its store has answered everything.
fn answers(server: &mut Server, store: &mut MemoryStore) -> Vec<ToAgent> {
    while let Some((op, request)) = server.next_store_request() {
        server.stored(NOW, op, store.perform(request));
    }
    std::iter::from_fn(|| server.next_message()).map(|(_, message)| message).collect()
}

fn attach(server: &mut Server, store: &mut MemoryStore) {
    let volume = "guest".to_string();
    server.hear(NOW, HostId(1), ToServer::Attach { request: 1, volume, fence: 0 }).unwrap();
    assert!(matches!(answers(server, store)[..], [ToAgent::Attached { fence: 1, .. }]));
}

fn write(items: Vec<WriteItem>) -> ToServer {
    ToServer::Write { request: 2, volume: 1, fence: 1, block: 0, fua: false, items }
}

#[test]
fn a_host_that_does_not_wait_for_answers_is_refused() {
    let (mut server, mut store) = server("seacache");
    attach(&mut server, &mut store);
    let read = ToServer::Read { request: 2, volume: 1, block: 0, count: 1, how: How::Usual };
    for _ in 0..OPERATIONS_MAX {
        server.hear(NOW, HostId(1), read.clone()).unwrap();
    }
    let error = server.hear(NOW, HostId(1), read).unwrap_err().to_string();
    assert!(error.contains("4096 requests are outstanding"), "{error}");
    server.left(HostId(1));
    assert!(answers(&mut server, &mut store).is_empty(), "nobody is there");
    assert_eq!(server.outstanding(), 0);
}

#[test]
fn strangers_and_what_is_not_attached_or_outside_are_refused() {
    let (mut server, mut store) = server("seacache");
    let error = server.hear(NOW, HostId(9), ToServer::Renew { request: 1 }).unwrap_err();
    assert!(error.to_string().contains("host 9 is not known"), "{error}");
    let read = |block| ToServer::Read { request: 2, volume: 1, block, count: 9, how: How::Usual };
    server.hear(NOW, HostId(1), read(0)).unwrap();
    let why = |server: &mut Server, store: &mut MemoryStore| match answers(server, store)[..] {
        [ToAgent::Refused { why, .. }] => format!("{why:?}"),
        ref other => panic!("{other:?}"),
    };
    assert_eq!(why(&mut server, &mut store), "Fenced");
    attach(&mut server, &mut store);
    for block in [60, u32::MAX] {
        server.hear(NOW, HostId(1), read(block)).unwrap();
        assert_eq!(why(&mut server, &mut store), "Outside");
    }
    let attach = |name: &str| ToServer::Attach { request: 3, volume: name.into(), fence: 0 };
    server.hear(NOW, HostId(1), attach("secret")).unwrap();
    assert_eq!(why(&mut server, &mut store), "NotEntitled");
    server.hear(NOW, HostId(1), attach("nothing")).unwrap();
    assert_eq!(why(&mut server, &mut store), "NoVolume");
}

#[test]
fn numbers_that_were_never_given_and_foreign_content_are_unknown() {
    let (mut server, mut store) = server("seacache");
    attach(&mut server, &mut store);
    let secret = vec![5; BLOCK_BYTES];
    let of_secret = thermocline_hostcache::StoreItem::Data(secret.clone().into(), hash_of(&secret));
    store.perform(thermocline_hostcache::StoreRequest::Write {
        volume: 2,
        block: 0,
        items: vec![of_secret],
    });
    let items = vec![
        WriteItem::Id(ContentId(1)),
        WriteItem::Id(ContentId(1 << 16 | 1)),
        WriteItem::Id(ContentId(u64::MAX - 1)),
        WriteItem::Hash(hash_of(&secret)),
        WriteItem::Zero,
    ];
    server.hear(NOW, HostId(1), write(items)).unwrap();
    let [ToAgent::Written { ids, .. }] = &answers(&mut server, &mut store)[..] else { panic!() };
    assert_eq!(ids[..], [UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, 0]);
    server.hear(NOW, HostId(1), ToServer::Held { hashes: vec![hash_of(&secret)] }).unwrap();
    let [ToAgent::Named { ids }] = &answers(&mut server, &mut store)[..] else { panic!() };
    assert_eq!(ids[..], [0], "nothing is said of another domain's content");
    let ids = vec![ContentId(3), ContentId(77 << 32)];
    server.hear(NOW, HostId(1), ToServer::Evicted { ids }).unwrap();
}

#[test]
fn answers_to_nothing_end_the_connection() {
    let messages = [
        ToAgent::Renewed { request: 1 },
        ToAgent::Blocks { request: 1, version: 1, items: vec![] },
        ToAgent::Written { request: 1, version: 1, ids: vec![1] },
        ToAgent::Flushed { request: 9 },
        ToAgent::Entries { request: 1, version: 1, runs: vec![], next: None },
        ToAgent::Named { ids: vec![1] },
    ];
    for message in messages {
        let error = agent("manifest").hear(NOW, message).unwrap_err().to_string();
        assert!(error.contains("answers no request of this host"), "{error}");
    }
    // What is true of nothing here is let go.
    let mut agent = agent("manifest");
    agent.hear(NOW, ToAgent::Lost { volume: 8 }).unwrap();
    let push = ToAgent::Push { id: ContentId(5), version: 1, blocks: vec![(1, u32::MAX)] };
    agent.hear(NOW, push).unwrap();
    agent.hear(NOW, ToAgent::Serve { token: 1, id: ContentId(5), to: HostId(2) }).unwrap();
    assert_eq!(agent.next_peer_message(), Some((HostId(2), ToPeer::Gone { token: 1 })));
}

/// An agent that has attached a volume of 64 blocks and asks for one.
fn reading(protocol: &str) -> (Agent, VolumeKey, u32) {
    let mut agent = agent(protocol);
    agent.connected(NOW);
    let volume = agent.attach(NOW, "guest");
    let Some(ToServer::Attach { request, .. }) = agent.next_message() else { panic!() };
    let lease = Nanos::from_secs(10).0;
    let message = ToAgent::Attached { request, volume: 1, fence: 1, blocks: 64, base: 0, lease };
    agent.hear(NOW, message).unwrap();
    agent.read(NOW, volume, 0, 1).unwrap();
    let Some(ToServer::Read { request, .. }) = agent.next_message() else { panic!() };
    (agent, volume, request)
}

#[test]
fn wrong_bytes_of_a_peer_end_its_connection_and_the_server_is_asked() {
    let (mut agent, _, request) = reading("seacache");
    let right = vec![7; BLOCK_BYTES];
    let item = thermocline_hostcache::ReadItem::Deferred(
        ContentId(1 << 16),
        hash_of(&right),
        HostId(2),
        55,
    );
    agent.hear(NOW, ToAgent::Blocks { request, version: 1, items: vec![item] }).unwrap();
    // Not from whom it was to come.
    let block = |value| ToPeer::Block { token: 55, bytes: Bytes::from(vec![value; BLOCK_BYTES]) };
    agent.hear_peer(NOW, HostId(3), block(7)).unwrap();
    assert!(!matches!(agent.next_event(), Some(Event::Read { .. })));
    let error = agent.hear_peer(NOW, HostId(2), block(8)).unwrap_err().to_string();
    assert!(error.contains("host 2 sent bytes whose hash is not the content's"), "{error}");
    let asked = agent.next_message();
    assert!(matches!(asked, Some(ToServer::Read { how: How::Bytes, .. })), "{asked:?}");
}

#[test]
fn a_peer_that_floods_is_refused_and_a_silent_one_is_given_up() {
    let (mut agent, _, request) = reading("seacache");
    let stray = || ToPeer::Gone { token: 1234 };
    let error = (0..5000).find_map(|_| agent.hear_peer(NOW, HostId(4), stray()).err()).unwrap();
    assert!(error.to_string().contains("that nobody waits for"), "{error}");
    let hash = hash_of(&[7; BLOCK_BYTES]);
    let item = thermocline_hostcache::ReadItem::Deferred(ContentId(1 << 16), hash, HostId(2), 55);
    agent.hear(NOW, ToAgent::Blocks { request, version: 1, items: vec![item] }).unwrap();
    let late = Nanos::from_secs(1);
    assert!(agent.next_deadline().unwrap() < late);
    agent.tick(late).unwrap();
    let asked = agent.next_message();
    assert!(matches!(asked, Some(ToServer::Read { how: How::Bytes, .. })), "{asked:?}");
    // The server says nothing any more, either.
    let error = agent.tick(Nanos::from_secs(100)).unwrap_err().to_string();
    assert!(error.contains("has not answered for"), "{error}");
}

fn link(role: Role, protocol: &str) -> Link {
    let config = Config::new(role, [1; 16]);
    Link::new(config, Protocol::named(protocol).unwrap(), HostId(1), NOW).unwrap()
}

/// Transfers bytes in both directions until none is left.
fn exchange(one: &mut Link, other: &mut Link) -> Result<(), LinkError> {
    loop {
        let mut carried = 0;
        for turn in 0..2 {
            let (from, to) =
                if turn == 0 { (&mut *one, &mut *other) } else { (&mut *other, &mut *one) };
            let mut out = VecDeque::new();
            carried += from.transmit(NOW, &mut out, 1 << 20);
            out.iter().try_for_each(|bytes| to.receive(NOW, bytes))?;
        }
        if carried == 0 {
            return Ok(());
        }
    }
}

#[test]
fn ends_of_different_protocols_say_what_to_do() {
    let (mut one, mut other) =
        (link(Role::Connector, "seacache"), link(Role::Acceptor, "baseline"));
    let error = exchange(&mut one, &mut other).unwrap_err().to_string();
    assert!(error.contains("both need the same version"), "{error}");
}

/// A store that says hello and closes in one breath ended the process of the agent.
#[test]
fn an_end_that_closes_at_once_is_told() {
    let mut one = link(Role::Connector, "seacache");
    let mut config = Config::new(Role::Acceptor, [2; 16]);
    config.parameters = Bytes::from_static(&[2, 0b11_1101, 2, 0]);
    let mut session = thermocline_wire::Session::new(config, NOW).unwrap();
    session.close(0, "bye");
    let mut out = VecDeque::new();
    session.transmit(NOW, &mut out, 1 << 20);
    let bytes: Vec<u8> = out.iter().flat_map(|part| part.to_vec()).collect();
    let error = one.receive(NOW, &bytes).unwrap_err().to_string();
    assert!(error.contains("closes the connection before it has begun"), "{error}");
}

#[test]
fn a_message_that_is_too_long_or_unread_ends_the_connection() {
    let (mut one, mut other) =
        (link(Role::Connector, "seacache"), link(Role::Acceptor, "seacache"));
    exchange(&mut one, &mut other).unwrap();
    assert_eq!(other.peer(), Some(HostId(1)));
    let block = ToPeer::Block { token: 1, bytes: vec![1; BLOCK_BYTES].into() };
    let error = (0..20_000).find_map(|_| one.send(&block).err()).unwrap().to_string();
    assert!(error.contains("takes nothing"), "{error}");
    const { assert!(QUEUED_BYTES_MAX < 20_000 * BLOCK_BYTES) };

    // A raw session that claims a long message.
    let mut config = Config::new(Role::Connector, [2; 16]);
    config.parameters = Bytes::from_static(&[2, 0b11_1101, 2, 0]);
    let mut session = thermocline_wire::Session::new(config, NOW).unwrap();
    let mut victim = link(Role::Acceptor, "seacache");
    let mut stream = None;
    for _ in 0..4 {
        let mut out = VecDeque::new();
        session.transmit(NOW, &mut out, 1 << 20);
        out.iter().for_each(|bytes| victim.receive(NOW, bytes).unwrap());
        let mut out = VecDeque::new();
        victim.transmit(NOW, &mut out, 1 << 20);
        out.iter().for_each(|bytes| session.receive(NOW, bytes).unwrap());
        if stream.is_none() && session.version().is_some() {
            let number = session.open(&[]).unwrap();
            let mut bytes = Bytes::from((MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes().to_vec());
            session.send(number, &mut bytes).unwrap();
            session.send(number, &mut Bytes::from_static(&[1])).unwrap();
            stream = Some(number);
        }
    }
    let error = victim.next_message::<ToServer>().unwrap_err().to_string();
    assert!(error.contains("at most"), "{error}");
}
