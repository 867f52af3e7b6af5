//! An agent alone, whose server is the test: orders of messages that few seeds of the simulation
//! reach.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_macros)]

use thermocline_hostcache::{
    Agent, AgentSettings, BLOCK_BYTES, ContentId, Event, Gone, Hash, HostId, How, Protocol,
    ReadItem, Shortage, ToAgent, ToPeer, ToServer, UNKNOWN, VolumeKey, Why, WriteItem,
};
use thermocline_units::Nanos;
use thermocline_units::mutants::plant;

const NOW: Nanos = Nanos(1);
const BLOCKS: u32 = 5000;

fn hash_of(bytes: &[u8]) -> Hash {
    [bytes[0]; 32]
}

fn bytes_of(value: u8) -> Vec<u8> {
    vec![value; BLOCK_BYTES]
}

fn data(value: u8) -> ReadItem {
    ReadItem::Data(id_of(value), [value; 32], bytes_of(value).into())
}

/// The number that the server gives the content of a value.
fn id_of(value: u8) -> ContentId {
    ContentId(1 << 48 | 1 << 32 | u64::from(value))
}

/// An agent with room for two blocks, which is connected.
fn agent(protocol: &str) -> Agent {
    let mut settings = AgentSettings::new(hash_of, HostId(1), 7);
    settings.protocol = Protocol::named(protocol).unwrap();
    settings.cache_blocks = 2;
    settings.cache_policy = "lru".to_string();
    settings.hash_first_always = true;
    let mut agent = Agent::new(settings).unwrap();
    agent.connected(NOW);
    agent
}

/// The next message but reports of evicted contents.
fn next(agent: &mut Agent) -> Option<ToServer> {
    loop {
        match agent.next_message() {
            Some(ToServer::Evicted { .. }) => {}
            message => return message,
        }
    }
}

/// Attaches a volume, which gets this number, as a clone of an image unless that is 0.
fn attach(agent: &mut Agent, volume: u32, base: u32) -> VolumeKey {
    attach_sized(agent, volume, base, BLOCKS)
}

fn attach_sized(agent: &mut Agent, volume: u32, base: u32, blocks: u32) -> VolumeKey {
    let key = agent.attach(NOW, "guest");
    grant(agent, volume, base, blocks);
    key
}

/// Takes the request for a lease and grants it.
fn grant(agent: &mut Agent, volume: u32, base: u32, blocks: u32) {
    let Some(ToServer::Attach { request, .. }) = next(agent) else { panic!() };
    let (fence, lease) = (1, Nanos::from_secs(10).0);
    hear(agent, ToAgent::Attached { request, volume, fence, blocks, base, lease });
}

/// Ends the connection and begins another.
fn reconnect(agent: &mut Agent) {
    agent.disconnected();
    agent.connected(NOW);
}

fn hear(agent: &mut Agent, message: ToAgent) {
    agent.hear(NOW, message).unwrap();
}

/// Takes a request for one block; returns its number and manner.
fn asked_block(agent: &mut Agent, block: u32) -> (u32, How) {
    match next(agent) {
        Some(ToServer::Read { request, block: at, count: 1, how, .. }) if at == block => {
            (request, how)
        }
        other => panic!("{other:?}"),
    }
}

fn answer(agent: &mut Agent, request: u32, version: u64, item: ReadItem) {
    hear(agent, ToAgent::Blocks { request, version, items: vec![item] });
}

/// Takes a request for a part of a map; returns its number, the volume, and the first block.
fn asked_map(agent: &mut Agent, of_image: bool) -> (u32, u32, u32) {
    match next(agent) {
        Some(ToServer::Map { request, volume, base, block }) if base == of_image => {
            (request, volume, block)
        }
        other => panic!("{other:?}"),
    }
}

fn events(agent: &mut Agent) -> Vec<Event> {
    std::iter::from_fn(|| agent.next_event()).collect()
}

/// First bytes of the blocks of a read that is done.
fn values(events: &[Event]) -> Vec<u8> {
    match events {
        [Event::Read { bytes, .. }] => bytes.chunks(BLOCK_BYTES).map(|block| block[0]).collect(),
        other => panic!("{other:?}"),
    }
}

/// A block is read, written, flushed, and read again. The first read is requested a second time
/// between the server's answer that it does not know the content and the content's bytes; this
/// request is answered last. Returns the value of the last read, which must be 2.
fn read_after_a_write_that_was_named_first() -> u8 {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    agent.read(NOW, volume, 7, 1).unwrap();
    let (first, _) = asked_block(&mut agent, 7);
    agent.write(NOW, volume, 7, &bytes_of(2), false).unwrap();
    let Some(ToServer::Write { request: named, items, .. }) = next(&mut agent) else { panic!() };
    assert!(matches!(items[..], [WriteItem::Hash(_)]), "{items:?}");
    // The number is of content that is not here, so the block's bytes are requested.
    answer(&mut agent, first, 0, ReadItem::Id(id_of(1)));
    let (second, how) = asked_block(&mut agent, 7);
    assert_eq!(how, How::Bytes);
    hear(&mut agent, ToAgent::Written { request: named, version: 1, ids: vec![UNKNOWN] });
    let Some(ToServer::Write { request: sent, items, .. }) = next(&mut agent) else { panic!() };
    assert!(matches!(items[..], [WriteItem::Data(_)]), "{items:?}");
    hear(&mut agent, ToAgent::Written { request: sent, version: 2, ids: vec![id_of(2).0] });
    agent.flush(NOW, volume).unwrap();
    let Some(ToServer::Flush { request, .. }) = next(&mut agent) else { panic!() };
    hear(&mut agent, ToAgent::Flushed { request });
    // Other blocks take the place of the written one in the cache.
    for (block, value) in [(20, 8), (21, 9), (22, 10)] {
        agent.read(NOW, volume, block, 1).unwrap();
        let (request, _) = asked_block(&mut agent, block);
        answer(&mut agent, request, 2, data(value));
    }
    events(&mut agent);
    agent.read(NOW, volume, 7, 1).unwrap();
    let third = next(&mut agent);
    // The server looked this one up before it had the bytes of the write.
    answer(&mut agent, second, 1, data(1));
    let mut read = events(&mut agent);
    assert_eq!(values(&read[..1]), [1], "the first read began before the write");
    if let Some(ToServer::Read { request, .. }) = third {
        answer(&mut agent, request, 2, data(2));
        read.extend(events(&mut agent));
    }
    values(&read[1..])[0]
}

#[test]
fn a_read_does_not_join_a_request_from_before_the_bytes_of_a_write_were_stored() {
    assert_eq!(read_after_a_write_that_was_named_first(), 2);
    if !cfg!(debug_assertions) {
        eprintln!("SKIPPED: mutants exist in builds with debug assertions only");
        return;
    }
    let _planted = plant("a_read_joins_one_from_before_a_write_was_stored");
    assert_eq!(read_after_a_write_that_was_named_first(), 1, "the mutant reads old data");
}

/// A write is answered after a flush was sent and before that is answered. Returns the blocks that
/// are written again on the next connection, which must be that one.
fn written_again_after_a_flush_that_was_sent_before() -> Vec<u32> {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    let written = |agent: &mut Agent, version, id| {
        let Some(ToServer::Write { request, .. }) = next(agent) else { panic!() };
        hear(agent, ToAgent::Written { request, version, ids: vec![id] });
    };
    agent.write(NOW, volume, 1, &bytes_of(1), false).unwrap();
    written(&mut agent, 1, id_of(1).0);
    agent.flush(NOW, volume).unwrap();
    let Some(ToServer::Flush { request, .. }) = next(&mut agent) else { panic!() };
    agent.write(NOW, volume, 2, &bytes_of(2), false).unwrap();
    written(&mut agent, 2, id_of(2).0);
    hear(&mut agent, ToAgent::Flushed { request });
    reconnect(&mut agent);
    grant(&mut agent, 1, 0, BLOCKS);
    let block = |message| match message {
        ToServer::Write { block, .. } => Some(block),
        _ => None,
    };
    std::iter::from_fn(|| next(&mut agent)).filter_map(block).collect()
}

#[test]
fn a_flush_does_not_cover_writes_that_were_answered_after_it_was_sent() {
    assert_eq!(written_again_after_a_flush_that_was_sent_before(), [2]);
    if !cfg!(debug_assertions) {
        eprintln!("SKIPPED: mutants exist in builds with debug assertions only");
        return;
    }
    let _planted = plant("a_flush_covers_later_writes");
    let lost = written_again_after_a_flush_that_was_sent_before();
    assert_eq!(lost, [0; 0], "the mutant does not write it again");
}

#[test]
fn a_refused_request_is_not_joined_and_does_not_keep_the_next_one_from_being_joined() {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    agent.read(NOW, volume, 7, 1).unwrap();
    let (request, _) = asked_block(&mut agent, 7);
    hear(&mut agent, ToAgent::Refused { request, why: Why::Store });
    agent.read(NOW, volume, 7, 1).unwrap();
    let (request, _) = asked_block(&mut agent, 7);
    agent.read(NOW, volume, 7, 1).unwrap();
    assert_eq!((next(&mut agent), agent.counts().joined), (None, 1));
    events(&mut agent);
    answer(&mut agent, request, 0, data(1));
    let read = events(&mut agent);
    assert_eq!((values(&read[..1]), values(&read[1..])), (vec![1], vec![1]));
}

/// A host that was away comes back, and its volume's name is that of another volume by now, of the
/// same size and under the same fencing number. Returns what the host says and tells.
fn come_back_to_another_volume() -> (Vec<ToServer>, Vec<Event>, VolumeKey) {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    agent.write(NOW, volume, 1, &bytes_of(1), false).unwrap();
    let Some(ToServer::Write { request, .. }) = next(&mut agent) else { panic!() };
    let ids = vec![id_of(1).0];
    hear(&mut agent, ToAgent::Written { request, version: 1, ids });
    events(&mut agent);
    reconnect(&mut agent);
    grant(&mut agent, 2, 0, BLOCKS);
    let said = std::iter::from_fn(|| next(&mut agent));
    let said = said.filter(|message| !matches!(message, ToServer::Held { .. })).collect();
    (said, events(&mut agent), volume)
}

#[test]
fn a_host_does_not_take_another_volume_of_the_same_name_for_its_own() {
    let (said, told, volume) = come_back_to_another_volume();
    assert_eq!(said, [ToServer::Release { volume: 2, fence: 1, to: None }]);
    assert_eq!(told, [Event::Lost { volume, why: Some(Why::NoVolume) }]);
    if !cfg!(debug_assertions) {
        eprintln!("SKIPPED: mutants exist in builds with debug assertions only");
        return;
    }
    let _planted = plant("a_volume_is_known_by_its_name");
    let (said, ..) = come_back_to_another_volume();
    let is_write = |said: &ToServer| matches!(said, ToServer::Write { volume: 2, .. });
    assert!(said.iter().any(is_write), "the mutant writes what was meant for the other one");
}

#[test]
fn a_host_that_comes_back_says_why_its_volume_is_lost() {
    let reasons = [
        (Why::InUse, None),
        (Why::NoVolume, Some(Why::NoVolume)),
        (Why::NotEntitled, Some(Why::NotEntitled)),
        (Why::ReadOnly, Some(Why::ReadOnly)),
    ];
    for (why, told) in reasons {
        let mut agent = agent("seacache");
        let volume = attach(&mut agent, 1, 0);
        events(&mut agent);
        reconnect(&mut agent);
        let Some(ToServer::Attach { request, .. }) = next(&mut agent) else { panic!() };
        hear(&mut agent, ToAgent::Refused { request, why });
        assert_eq!(events(&mut agent), [Event::Lost { volume, why: told }]);
    }
}

/// Two flushes are refused because another host has the volume: the one that is refused first was
/// never answered, and its client waited for ever.
fn fenced_flushes() -> Vec<Event> {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    events(&mut agent);
    let mut requests = Vec::new();
    for _ in 0..2 {
        agent.flush(NOW, volume).unwrap();
        let Some(ToServer::Flush { request, .. }) = next(&mut agent) else { panic!() };
        requests.push(request);
    }
    for request in requests {
        hear(&mut agent, ToAgent::Refused { request, why: Why::Fenced });
    }
    assert_eq!(agent.outstanding(), 0);
    events(&mut agent)
}

#[test]
fn every_flush_that_is_refused_is_answered_once() {
    let told = fenced_flushes();
    let failed = |event: &Event| matches!(event, Event::Failed { why: Gone::Volume, .. });
    assert_eq!(told.iter().filter(|event| failed(event)).count(), 2, "{told:?}");
    assert!(matches!(told[..], [_, _, Event::Lost { why: None, .. }]), "{told:?}");
    if !cfg!(debug_assertions) {
        eprintln!("SKIPPED: mutants exist in builds with debug assertions only");
        return;
    }
    let _planted = plant("a_fenced_flush_is_not_answered");
    assert_eq!(fenced_flushes().len(), 2, "the mutant loses a flush");
}

#[test]
fn renewals_go_before_all_that_waits() {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    agent.read(NOW, volume, 7, 1).unwrap();
    agent.tick(Nanos::from_secs(4)).unwrap();
    assert!(matches!(next(&mut agent), Some(ToServer::Renew { .. })));
    asked_block(&mut agent, 7);
}

/// An agent that loads the map of an image in the name of the first of two clones, for which the
/// second waits; the clones, and the number of the request.
fn loading() -> (Agent, [VolumeKey; 2], u32) {
    let mut agent = agent("manifest");
    let first = attach(&mut agent, 2, 1);
    let (request, volume, block) = asked_map(&mut agent, true);
    assert_eq!((volume, block), (2, 0));
    let second = attach(&mut agent, 3, 1);
    assert_eq!(next(&mut agent), None, "the map of an image is loaded once");
    (agent, [first, second], request)
}

fn entries(request: u32, block: u32, value: u8, next: Option<u32>) -> ToAgent {
    ToAgent::Entries { request, version: 0, runs: vec![(block, vec![id_of(value).0])], next }
}

/// The rest of the load in the name of the second clone, until it can be used.
fn is_loaded_by(agent: &mut Agent, second: VolumeKey, request: u32) {
    hear(agent, entries(request, 4096, 2, None));
    let (request, volume, _) = asked_map(agent, false);
    assert_eq!(volume, 3);
    hear(agent, ToAgent::Entries { request, version: 0, runs: vec![], next: None });
    assert_eq!(events(agent), [Event::Attached { volume: second, blocks: BLOCKS }]);
}

#[test]
fn an_images_map_is_loaded_for_the_next_clone_when_the_first_is_lost() {
    let (mut agent, [first, second], request) = loading();
    hear(&mut agent, ToAgent::Lost { volume: 2 });
    assert_eq!(events(&mut agent), [Event::Lost { volume: first, why: None }]);
    hear(&mut agent, ToAgent::Refused { request, why: Why::Fenced });
    let (request, volume, block) = asked_map(&mut agent, true);
    assert_eq!((volume, block), (3, 0));
    hear(&mut agent, entries(request, 0, 1, Some(4096)));
    let (request, volume, block) = asked_map(&mut agent, true);
    assert_eq!((volume, block), (3, 4096));
    is_loaded_by(&mut agent, second, request);
}

#[test]
fn an_images_map_is_loaded_for_the_next_clone_when_the_first_is_refused() {
    let (mut agent, [first, second], request) = loading();
    hear(&mut agent, entries(request, 0, 1, Some(4096)));
    let (request, _, block) = asked_map(&mut agent, true);
    assert_eq!(block, 4096);
    hear(&mut agent, ToAgent::Refused { request, why: Why::Store });
    assert_eq!(events(&mut agent), [Event::Lost { volume: first, why: Some(Why::Store) }]);
    let (request, volume, block) = asked_map(&mut agent, true);
    assert_eq!((volume, block), (3, 4096), "parts that came stay");
    is_loaded_by(&mut agent, second, request);
}

#[test]
fn an_images_map_is_loaded_for_the_next_clone_when_the_first_is_given_up() {
    let (mut agent, [first, second], request) = loading();
    agent.detach(first, None);
    assert!(matches!(next(&mut agent), Some(ToServer::Release { volume: 2, .. })));
    hear(&mut agent, entries(request, 0, 1, Some(4096)));
    let (request, volume, block) = asked_map(&mut agent, true);
    assert_eq!((volume, block), (3, 4096));
    is_loaded_by(&mut agent, second, request);
}

#[test]
fn an_images_map_that_nobody_waits_for_is_forgotten_and_loaded_anew() {
    let (mut agent, clones, request) = loading();
    for clone in clones {
        agent.detach(clone, None);
        assert!(matches!(next(&mut agent), Some(ToServer::Release { .. })));
    }
    hear(&mut agent, entries(request, 0, 1, Some(4096)));
    assert_eq!((next(&mut agent), agent.memory().1, agent.memory().3), (None, 0, 0));
    attach(&mut agent, 4, 1);
    let (_, volume, block) = asked_map(&mut agent, true);
    assert_eq!((volume, block), (4, 0));
}

#[test]
fn clones_of_other_sizes_take_what_they_have_room_for_of_an_images_map() {
    for blocks in [100, 2 * BLOCKS] {
        let mut agent = agent("manifest");
        attach(&mut agent, 2, 1);
        let (request, ..) = asked_map(&mut agent, true);
        hear(&mut agent, entries(request, 7, 1, None));
        let (request, ..) = asked_map(&mut agent, false);
        hear(&mut agent, ToAgent::Entries { request, version: 0, runs: vec![], next: None });
        let key = attach_sized(&mut agent, 3, 1, blocks);
        let (request, ..) = asked_map(&mut agent, false);
        hear(&mut agent, ToAgent::Entries { request, version: 0, runs: vec![], next: None });
        events(&mut agent);
        agent.write(NOW, key, blocks - 1, &bytes_of(3), false).unwrap();
        agent.read(NOW, key, blocks - 1, 1).unwrap();
        assert_eq!(values(&events(&mut agent)), [3]);
    }
}

#[test]
fn contents_of_a_map_that_is_loaded_anew_are_forgotten() {
    let mut agent = agent("manifest");
    attach(&mut agent, 2, 1);
    for value in 1..4 {
        let (request, ..) = asked_map(&mut agent, true);
        hear(&mut agent, entries(request, 7, value, None));
        // The connection breaks before the differences have come.
        asked_map(&mut agent, false);
        reconnect(&mut agent);
        grant(&mut agent, 2, 1, BLOCKS);
        assert_eq!(agent.memory().1, 0, "nothing is known of the new map");
    }
}

#[test]
fn contents_that_were_pushed_while_a_map_was_loaded_are_forgotten_with_their_volume() {
    let (mut agent, clones, request) = loading();
    hear(&mut agent, entries(request, 7, 1, Some(4096)));
    let (request, ..) = asked_map(&mut agent, true);
    let blocks = vec![(2, 8), (3, 9)];
    hear(&mut agent, ToAgent::Push { id: id_of(1), version: 0, blocks });
    hear(&mut agent, entries(request, 4096, 2, None));
    assert_eq!(agent.memory().1, 2);
    clones.into_iter().for_each(|clone| agent.detach(clone, None));
    agent.disconnected();
    assert_eq!(agent.memory().1, 0);
}

#[test]
fn contents_that_were_reported_and_not_named_are_forgotten_with_the_connection() {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    agent.read(NOW, volume, 0, 1).unwrap();
    let (request, _) = asked_block(&mut agent, 0);
    answer(&mut agent, request, 0, data(1));
    reconnect(&mut agent);
    grant(&mut agent, 1, 0, BLOCKS);
    assert!(matches!(next(&mut agent), Some(ToServer::Held { .. })));
    // The numbers of what is held do not come.
    reconnect(&mut agent);
    grant(&mut agent, 1, 0, BLOCKS);
    assert!(matches!(next(&mut agent), Some(ToServer::Held { .. })));
    hear(&mut agent, ToAgent::Named { ids: vec![0] });
    agent.detach(volume, None);
    assert!(matches!(next(&mut agent), Some(ToServer::Release { .. })));
    let other = attach(&mut agent, 2, 0);
    // Two other blocks take the place of the first in the cache.
    for (block, value) in [(1, 2), (2, 3)] {
        agent.read(NOW, other, block, 1).unwrap();
        let (request, _) = asked_block(&mut agent, block);
        answer(&mut agent, request, 0, data(value));
    }
    let (cached, known, ..) = agent.memory();
    assert_eq!((cached, known), (2, 2));
}

/// An agent that has read block 0, whose bytes host 2 is to send, and that shall send them to host
/// 3 in turn; it names host 2's token 20, and host 3's 30.
fn waits_and_owes() -> (Agent, VolumeKey) {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    agent.read(NOW, volume, 0, 1).unwrap();
    let (request, _) = asked_block(&mut agent, 0);
    answer(&mut agent, request, 0, ReadItem::Deferred(id_of(5), [5; 32], HostId(2), 20));
    hear(&mut agent, ToAgent::Serve { token: 30, id: id_of(5), to: HostId(3) });
    assert_eq!(agent.next_peer_message(), None, "it does not have them yet");
    (agent, volume)
}

fn sent_to_host_3(agent: &mut Agent) -> ToPeer {
    let (to, message) = agent.next_peer_message().expect("host 3 is told");
    assert_eq!((to, agent.next_peer_message()), (HostId(3), None));
    message
}

#[test]
fn what_another_host_sends_is_sent_on_to_the_next_that_was_named_this_one() {
    let (mut agent, _) = waits_and_owes();
    let bytes = bytes_of(5).into();
    agent.hear_peer(NOW, HostId(2), ToPeer::Block { token: 20, bytes }).unwrap();
    assert!(events(&mut agent).iter().any(|event| matches!(event, Event::Read { .. })));
    let bytes = bytes_of(5).into();
    assert_eq!(sent_to_host_3(&mut agent), ToPeer::Block { token: 30, bytes });
    assert_eq!(agent.counts().served, 1);
}

#[test]
fn what_the_server_sends_in_place_of_a_host_is_sent_on_too() {
    let (mut agent, _) = waits_and_owes();
    agent.hear_peer(NOW, HostId(2), ToPeer::Gone { token: 20 }).unwrap();
    assert_eq!(agent.next_peer_message(), None, "its bytes are asked of the server");
    let (request, how) = asked_block(&mut agent, 0);
    assert_eq!(how, How::Bytes);
    answer(&mut agent, request, 0, data(5));
    let bytes = bytes_of(5).into();
    assert_eq!(sent_to_host_3(&mut agent), ToPeer::Block { token: 30, bytes });
}

#[test]
fn a_host_is_told_when_what_it_was_to_get_from_here_does_not_come() {
    let (mut agent, volume) = waits_and_owes();
    agent.detach(volume, None);
    agent.hear_peer(NOW, HostId(2), ToPeer::Gone { token: 20 }).unwrap();
    assert_eq!(sent_to_host_3(&mut agent), ToPeer::Gone { token: 30 });
    let (mut agent, _) = waits_and_owes();
    agent.disconnected();
    assert_eq!(sent_to_host_3(&mut agent), ToPeer::Gone { token: 30 });
    let (mut agent, _) = waits_and_owes();
    agent.peer_lost(NOW, HostId(3));
    let bytes = bytes_of(5).into();
    agent.hear_peer(NOW, HostId(2), ToPeer::Block { token: 20, bytes }).unwrap();
    assert_eq!(agent.next_peer_message(), None, "host 3 is gone");
}

#[test]
fn a_host_is_told_in_time_that_what_it_is_owed_is_late() {
    let (mut agent, _) = waits_and_owes();
    let late = agent.next_deadline().unwrap();
    agent.tick(Nanos(late.0 - 1)).unwrap();
    assert_eq!(agent.next_peer_message(), None);
    agent.tick(late).unwrap();
    assert_eq!(sent_to_host_3(&mut agent), ToPeer::Gone { token: 30 });
    assert_eq!(next(&mut agent), None, "this host itself still waits");
}

/// Content that is only asked of the server may come by naming the very host that waits here.
#[test]
fn a_host_does_not_wait_for_what_is_only_asked_of_the_server() {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    agent.read(NOW, volume, 0, 1).unwrap();
    let (request, _) = asked_block(&mut agent, 0);
    answer(&mut agent, request, 0, data(5));
    for block in 1..3 {
        agent.read(NOW, volume, block, 1).unwrap();
        let (request, _) = asked_block(&mut agent, block);
        answer(&mut agent, request, 0, data(5 + block as u8));
    }
    agent.read(NOW, volume, 0, 1).unwrap();
    asked_block(&mut agent, 0);
    hear(&mut agent, ToAgent::Serve { token: 30, id: id_of(5), to: HostId(3) });
    assert_eq!(sent_to_host_3(&mut agent), ToPeer::Gone { token: 30 });
}

/// Takes the next write, which is of this block alone; the first byte it would write, if it names
/// or brings bytes, and its number.
fn asked_write(agent: &mut Agent, block: u32) -> (u32, u8) {
    match next(agent) {
        Some(ToServer::Write { request, block: at, items, .. }) if at == block => {
            let value = match &items[..] {
                [WriteItem::Hash(hash)] => hash[0],
                [WriteItem::Data(bytes)] => bytes[0],
                [WriteItem::Id(id)] => id.0 as u8,
                other => panic!("{other:?}"),
            };
            (request, value)
        }
        other => panic!("{other:?}"),
    }
}

fn written(agent: &mut Agent, request: u32, version: u64, number: u64) {
    hear(agent, ToAgent::Written { request, version, ids: vec![number] });
}

/// A write is answered, another one of the same block finds no room, and the server may have lost
/// the first one. Returns what the agent writes again, which must be the first one's bytes.
fn written_again_after_a_refusal() -> Vec<u8> {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    events(&mut agent);
    agent.write(NOW, volume, 5, &bytes_of(1), false).unwrap();
    let (request, _) = asked_write(&mut agent, 5);
    written(&mut agent, request, 1, id_of(1).0);
    let refused = agent.write(NOW, volume, 5, &bytes_of(2), false).unwrap();
    let (request, _) = asked_write(&mut agent, 5);
    events(&mut agent);
    written(&mut agent, request, 2, Shortage::Physical.number());
    let why = Gone::NoRoom(Shortage::Physical);
    assert_eq!(events(&mut agent), [Event::Failed { ticket: refused, why }]);
    reconnect(&mut agent);
    grant(&mut agent, 1, 0, BLOCKS);
    let value = |message| match message {
        ToServer::Write { items, .. } => match &items[..] {
            [WriteItem::Hash(hash)] => Some(hash[0]),
            [WriteItem::Data(bytes)] => Some(bytes[0]),
            other => panic!("{other:?}"),
        },
        _ => None,
    };
    std::iter::from_fn(|| next(&mut agent)).filter_map(value).collect()
}

#[test]
fn a_refused_write_leaves_the_one_before_to_be_said_again() {
    assert_eq!(written_again_after_a_refusal(), [1]);
    if !cfg!(debug_assertions) {
        eprintln!("SKIPPED: mutants exist in builds with debug assertions only");
        return;
    }
    let _planted = plant("a_refused_write_takes_the_one_before");
    assert_eq!(written_again_after_a_refusal(), [0; 0], "the mutant loses it");
}

/// The connection is lost while the second write is not answered; on the next one that is refused.
#[test]
fn a_write_before_one_that_is_refused_on_the_next_connection_is_said_again() {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    agent.write(NOW, volume, 5, &bytes_of(1), false).unwrap();
    let (request, _) = asked_write(&mut agent, 5);
    written(&mut agent, request, 1, id_of(1).0);
    let refused = agent.write(NOW, volume, 5, &bytes_of(2), false).unwrap();
    reconnect(&mut agent);
    grant(&mut agent, 1, 0, BLOCKS);
    events(&mut agent);
    next(&mut agent);
    let (request, value) = asked_write(&mut agent, 5);
    assert_eq!(value, 2);
    agent.flush(NOW, volume).unwrap();
    written(&mut agent, request, 2, Shortage::Store.number());
    let why = Gone::NoRoom(Shortage::Store);
    assert_eq!(events(&mut agent), [Event::Failed { ticket: refused, why }]);
    let (request, value) = asked_write(&mut agent, 5);
    assert_eq!((value, next(&mut agent)), (1, None), "nothing is flushed before it");
    // Its own write was answered long ago, so it waits for room, and the flush with it.
    written(&mut agent, request, 3, Shortage::Store.number());
    assert_eq!((next(&mut agent), events(&mut agent)), (None, Vec::new()));
    agent.read(NOW, volume, 5, 1).unwrap();
    assert_eq!(values(&events(&mut agent)), [1], "it is read from here meanwhile");
    let later = agent.next_deadline().unwrap();
    assert!(later <= Nanos(NOW.0 + 1_000_000_000), "{later}");
    agent.tick(Nanos(NOW.0 + 1_000_000_000)).unwrap();
    let (request, value) = asked_write(&mut agent, 5);
    assert_eq!(value, 1);
    written(&mut agent, request, 4, id_of(1).0);
    let Some(ToServer::Flush { request, .. }) = next(&mut agent) else { panic!() };
    hear(&mut agent, ToAgent::Flushed { request });
    assert!(matches!(events(&mut agent)[..], [Event::Done { .. }]));
    assert_eq!(agent.outstanding(), 0);
}

/// A write that was answered waits for room after the server's restart; the guest's later writes of
/// the block go before it, so that it can trim.
#[test]
fn a_block_that_waits_for_room_is_written_by_a_later_write() {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    agent.write(NOW, volume, 5, &bytes_of(1), false).unwrap();
    let (request, _) = asked_write(&mut agent, 5);
    written(&mut agent, request, 1, id_of(1).0);
    reconnect(&mut agent);
    grant(&mut agent, 1, 0, BLOCKS);
    events(&mut agent);
    next(&mut agent);
    let full = Shortage::Store.number();
    let (request, value) = asked_write(&mut agent, 5);
    assert_eq!(value, 1);
    written(&mut agent, request, 2, full);
    assert_eq!(next(&mut agent), None, "it waits");
    agent.flush(NOW, volume).unwrap();
    let other = agent.write(NOW, volume, 9, &bytes_of(4), false).unwrap();
    let (request, _) = asked_write(&mut agent, 9);
    written(&mut agent, request, 3, full);
    let why = Gone::NoRoom(Shortage::Store);
    assert_eq!(events(&mut agent), [Event::Failed { ticket: other, why }]);
    let later = agent.write(NOW, volume, 5, &bytes_of(3), false).unwrap();
    let (request, value) = asked_write(&mut agent, 5);
    assert_eq!((value, next(&mut agent)), (3, None), "the flush waits for both");
    written(&mut agent, request, 4, full);
    assert_eq!(events(&mut agent), [Event::Failed { ticket: later, why }]);
    let (request, value) = asked_write(&mut agent, 5);
    assert_eq!((value, next(&mut agent)), (1, None), "what was answered is still owed");
    written(&mut agent, request, 5, full);
    agent.read(NOW, volume, 5, 1).unwrap();
    assert_eq!(values(&events(&mut agent)), [1]);
    let last = agent.write(NOW, volume, 5, &bytes_of(6), false).unwrap();
    let (request, value) = asked_write(&mut agent, 5);
    assert_eq!(value, 6);
    written(&mut agent, request, 6, id_of(6).0);
    assert_eq!(events(&mut agent), [Event::Done { ticket: last }]);
    let Some(ToServer::Flush { request, .. }) = next(&mut agent) else { panic!("nothing is owed") };
    hear(&mut agent, ToAgent::Flushed { request });
    assert!(matches!(events(&mut agent)[..], [Event::Done { .. }]));
    agent.tick(Nanos(NOW.0 + 1_000_000_000)).unwrap();
    assert_eq!((next(&mut agent), agent.outstanding()), (None, 0));
}

/// A write of several blocks of which some find room fails once. The volume stays, and what was
/// refused is read from the server as it is there.
#[test]
fn a_write_of_several_blocks_fails_once_and_the_volume_stays() {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    events(&mut agent);
    let bytes: Vec<u8> = [1, 2, 3].into_iter().flat_map(bytes_of).collect();
    let ticket = agent.write(NOW, volume, 7, &bytes, false).unwrap();
    let Some(ToServer::Write { request, .. }) = next(&mut agent) else { panic!() };
    let ids = vec![Shortage::Logical.number(), id_of(2).0, Shortage::Store.number()];
    hear(&mut agent, ToAgent::Written { request, version: 9, ids });
    let why = Gone::NoRoom(Shortage::Logical);
    assert_eq!(events(&mut agent), [Event::Failed { ticket, why }]);
    agent.read(NOW, volume, 7, 1).unwrap();
    let (request, _) = asked_block(&mut agent, 7);
    answer(&mut agent, request, 9, data(6));
    assert_eq!(values(&events(&mut agent)), [6]);
    // What is older than the refusal is not learnt.
    agent.write(NOW, volume, 7, &bytes_of(4), false).unwrap();
    let (request, _) = asked_write(&mut agent, 7);
    written(&mut agent, request, 12, id_of(4).0);
    assert!(matches!(events(&mut agent)[..], [Event::Done { .. }]), "there is room again");
}

/// Another host is faster than the server's word that it sends a block. That block was dropped, and
/// the read waited until the host was given up.
#[test]
fn a_block_that_comes_before_it_is_named_is_kept() {
    let mut agent = agent("seacache");
    let volume = attach(&mut agent, 1, 0);
    events(&mut agent);
    agent.read(NOW, volume, 7, 1).unwrap();
    let (request, _) = asked_block(&mut agent, 7);
    let block = |token: u64, value| ToPeer::Block { token, bytes: bytes_of(value).into() };
    agent.hear_peer(NOW, HostId(2), block(20, 3)).unwrap();
    // Not that of another host, nor what has another token.
    agent.hear_peer(NOW, HostId(3), block(21, 9)).unwrap();
    agent.hear_peer(NOW, HostId(2), block(22, 9)).unwrap();
    answer(&mut agent, request, 0, ReadItem::Deferred(id_of(3), [3; 32], HostId(2), 20));
    assert_eq!((values(&events(&mut agent)), next(&mut agent)), (vec![3], None));
    assert_eq!(agent.counts().from_peers, 1);
    // It is taken once. Wrong bytes are asked for at the server.
    agent.read(NOW, volume, 8, 1).unwrap();
    let (request, _) = asked_block(&mut agent, 8);
    agent.hear_peer(NOW, HostId(2), block(23, 9)).unwrap();
    answer(&mut agent, request, 0, ReadItem::Deferred(id_of(4), [4; 32], HostId(2), 23));
    let (request, how) = asked_block(&mut agent, 8);
    assert_eq!((how, events(&mut agent)), (How::Bytes, Vec::new()));
    answer(&mut agent, request, 0, data(4));
    assert_eq!(values(&events(&mut agent)), [4]);
}
