//! Reads: each block is answered by its number, as bytes, or by another host.

use super::leases::Leases;
use super::operations::{Answer, Asker, Op, Part, Read};
use super::state::ServerState;
use crate::messages::{ContentId, HostId, How, ReadItem, ToAgent, Why};
use crate::store::{Content, StoreRequest};
use bytes::Bytes;
use std::collections::BTreeMap;
use thermocline_policy::lookup::{Asked, Scope, Source};
use thermocline_units::Nanos;
use thermocline_units::situations::met;

/// Number of times that blocks are looked up again because their content was swept meanwhile.
const TRIES_MAX: u8 = 4;

/// The parts of reads that wait for the bytes of a content.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Reads by content, and the index of the block in each.
    fetching: BTreeMap<u64, Vec<(u32, usize)>>,
}

impl Reads {
    /// Number of contents that reads wait for.
    pub(super) fn fetching(&self) -> usize {
        self.fetching.len()
    }

    /// The store has looked up the contents of the blocks of a read.
    pub(super) fn looked_up(
        &mut self,
        state: &mut ServerState,
        leases: &Leases,
        now: Nanos,
        number: u32,
        mut read: Read,
        contents: &[Option<Content>],
    ) {
        read.parts.clear();
        (read.waiting, read.is_stale) = (0, false);
        let mut wanted = Vec::new();
        for (at, content) in contents.iter().enumerate() {
            let part = match content {
                None => Part::Zero,
                Some(content) => {
                    let answer = decide(state, now, &read, read.block + at as u32, *content);
                    if matches!(answer, Answer::Wanted) {
                        wanted.push((content.number, at));
                    }
                    Part::Content(*content, answer)
                }
            };
            read.parts.push(part);
        }
        if wanted.is_empty() {
            return answered(state, leases, now, read);
        }
        read.waiting = wanted.len();
        let kept = state.ops.insert(Op::Read(read));
        assert!(kept == number, "the number that was freed last is the next");
        for (content, at) in wanted {
            self.fetch(state, kept, content, at);
        }
    }

    fn fetch(&mut self, state: &mut ServerState, read: u32, number: u64, at: usize) {
        let waiters = self.fetching.entry(number).or_default();
        waiters.push((read, at));
        if waiters.len() > 1 {
            met("reads waited for the same block of the store");
            return;
        }
        state.counts.fetched += 1;
        let op = state.ops.insert(Op::Fetch { number });
        state.store.push_back((op, StoreRequest::Fetch { number }));
    }

    /// The bytes of a content came from the store; `None`: it was swept, or cannot be read.
    pub(super) fn fetched(
        &mut self,
        state: &mut ServerState,
        leases: &Leases,
        now: Nanos,
        number: u64,
        bytes: Option<Bytes>,
    ) {
        let waiters = self.fetching.remove(&number).unwrap_or_default();
        for (op, at) in waiters {
            let Op::Read(mut read) = state.ops.remove(op) else {
                unreachable!("a read waits for its blocks")
            };
            read.waiting -= 1;
            let Part::Content(content, answer) = &mut read.parts[at] else {
                unreachable!("zeroes are not fetched")
            };
            let (content, key) = (*content, (read.volume, read.block + at as u32));
            match &bytes {
                Some(bytes) => *answer = Answer::Bytes(bytes.clone()),
                None => read.is_stale = true,
            }
            let is_done = read.waiting == 0;
            let kept = state.ops.insert(Op::Read(read));
            assert!(kept == op, "the number that was freed last is the next");
            if let Some(bytes) = &bytes
                && content.shares >= state.lookup.admission().server_shares_min
            {
                let place = state.place(content.number);
                state.memory.put(place, key, bytes);
            }
            if is_done {
                let Op::Read(read) = state.ops.remove(op) else { unreachable!("it is one") };
                answered(state, leases, now, read);
            }
        }
    }
}

/// Begins a read.
pub(super) fn read(
    state: &mut ServerState,
    asker: Asker,
    volume: u32,
    block: u32,
    count: u16,
    how: How,
) {
    let version = state.version;
    let (parts, waiting) = (Vec::with_capacity(usize::from(count)), 0);
    let read =
        Read { asker, volume, block, how, version, parts, waiting, is_stale: false, tries: 0 };
    state.begin(Op::Read(read), StoreRequest::Lookup { volume, block, count });
}

/// Decides how a block is answered.
fn decide(
    state: &mut ServerState,
    now: Nanos,
    read: &Read,
    block: u32,
    content: Content,
) -> Answer {
    if read.how == How::Hashes {
        return Answer::Number;
    }
    let place = state.place(content.number);
    let index = state.hosts[&read.asker.host].index;
    if read.how == How::Bytes {
        state.names.set_holder(place, index, false);
    } else if state.settings.protocol.tracker && state.names.holds(place, index) {
        return Answer::Number;
    }
    let key = (read.volume, block);
    if state.settings.protocol.peers && read.how == How::Usual {
        let in_memory = state.memory.holds(place, key);
        if let Some(peer) = peer_for(state, now, place, index, in_memory) {
            return Answer::Peer(peer);
        }
    }
    match state.memory.get(place, key) {
        Some(bytes) => {
            state.counts.memory_hits += 1;
            Answer::Bytes(Bytes::copy_from_slice(bytes))
        }
        None => Answer::Wanted,
    }
}

/// The host that is to send a content: the least busy holder, ties at random; `None` if the
/// server is to send it.
fn peer_for(
    state: &mut ServerState,
    now: Nanos,
    place: u32,
    but: usize,
    in_memory: bool,
) -> Option<HostId> {
    let (mut holders, mut equals) = (0, 0);
    let mut best: Option<(u32, HostId)> = None;
    for index in state.names.holders(place) {
        let id = state.by_index[index];
        let host = state.hosts.get_mut(&id).expect("it has an index");
        if index == but || !host.is_here {
            continue;
        }
        while host.serving.front().is_some_and(|until| *until <= now) {
            host.serving.pop_front();
        }
        holders += 1;
        let queue = host.serving.len() as u32;
        match best {
            Some((least, _)) if queue > least => continue,
            Some((least, _)) if queue == least => equals += 1,
            _ => equals = 1,
        }
        if equals == 1 || state.rng.below(equals) == 0 {
            best = Some((queue, id));
        }
    }
    let (holder_queue, peer) = best?;
    let asked = Asked { in_memory, holders, server_busy: state.busy(now), holder_queue };
    (state.lookup.source(now, &asked) == Source::Peer).then_some(peer)
}

/// Ends a read whose blocks are all there: sends the answer, or looks up swept blocks again.
fn answered(state: &mut ServerState, leases: &Leases, now: Nanos, mut read: Read) {
    if !state.ended(read.asker) {
        return;
    }
    if read.is_stale {
        met("content was swept while it was read");
        read.tries += 1;
        if read.tries > TRIES_MAX {
            return state.refuse(now, read.asker, Why::Store);
        }
        read.version = state.version;
        let (volume, block) = (read.volume, read.block);
        let count = read.parts.len() as u16;
        return state.begin(Op::Read(read), StoreRequest::Lookup { volume, block, count });
    }
    let mut items = Vec::with_capacity(read.parts.len());
    for (block, part) in (read.block..).zip(std::mem::take(&mut read.parts)) {
        items.push(match part {
            Part::Zero => ReadItem::Zero,
            Part::Content(content, answer) => {
                item(state, leases, now, &read, block, content, answer)
            }
        });
    }
    let (request, version) = (read.asker.request, read.version);
    state.say(now, read.asker.host, ToAgent::Blocks { request, version, items });
}

/// The item of an answer for a block.
fn item(
    state: &mut ServerState,
    leases: &Leases,
    now: Nanos,
    read: &Read,
    block: u32,
    content: Content,
    answer: Answer,
) -> ReadItem {
    let host = read.asker.host;
    let protocol = state.settings.protocol;
    if !protocol.names {
        state.counts.by_bytes += 1;
        let Answer::Bytes(bytes) = answer else { unreachable!("bytes were wanted") };
        return ReadItem::Plain(bytes);
    }
    let id = state.name(content);
    if read.how == How::Hashes {
        return ReadItem::Hash(id, content.hash);
    }
    let place = state.names.place(id).expect("it was just named");
    let index = state.hosts[&host].index;
    let is_held = protocol.tracker && state.names.holds(place, index);
    let item = match answer {
        _ if is_held && read.how == How::Usual => ReadItem::Id(id),
        Answer::Number => ReadItem::Id(id),
        Answer::Peer(peer) => deferred(state, now, host, peer, id, content),
        Answer::Bytes(bytes) => {
            // Others that asked in the same moment hold it by now: their message to serve is
            // behind the bytes on their connection.
            let may_peer = protocol.peers && read.how == How::Usual;
            match may_peer.then(|| peer_for(state, now, place, index, true)).flatten() {
                Some(peer) => {
                    met("a host that was answered first serves those that asked with it");
                    deferred(state, now, host, peer, id, content)
                }
                None => ReadItem::Data(id, content.hash, bytes),
            }
        }
        Answer::Wanted => unreachable!("all bytes are there"),
    };
    match item {
        ReadItem::Id(_) => state.counts.by_id += 1,
        ReadItem::Deferred(..) => state.counts.by_peer += 1,
        _ => state.counts.by_bytes += 1,
    }
    if protocol.tracker && !matches!(item, ReadItem::Id(_)) {
        state.names.set_holder(place, index, true);
        push(state, leases, read, (read.volume, block), id, content);
    }
    item
}

/// Has another host send a block.
fn deferred(
    state: &mut ServerState,
    now: Nanos,
    host: HostId,
    peer: HostId,
    id: ContentId,
    content: Content,
) -> ReadItem {
    let token = state.rng.next_u64();
    let within = Nanos(now.0.saturating_add(state.settings.serve_within.0));
    state.hosts.get_mut(&peer).expect("it holds it").serving.push_back(within);
    state.say(now, peer, ToAgent::Serve { token, id, to: host });
    ReadItem::Deferred(id, content.hash, peer, token)
}

/// Asks the store for other blocks with the content that is being sent.
fn push(
    state: &mut ServerState,
    leases: &Leases,
    read: &Read,
    but: (u32, u32),
    id: ContentId,
    content: Content,
) {
    let cap = state.lookup.push().cap;
    if !state.settings.protocol.push || content.shares < 2 || cap == 0 {
        return;
    }
    let volumes = told_of(state, leases, read.asker.host);
    let asker = Asker { bytes: 0, ..read.asker };
    let op = Op::Sharers { asker, id, version: state.version, but };
    let (number, cap) = (content.number, cap.saturating_add(1));
    state.begin(op, StoreRequest::Sharers { number, volumes, cap });
}

/// Volumes whose blocks may be pushed to a host.
fn told_of(state: &ServerState, leases: &Leases, host: HostId) -> Vec<u32> {
    match state.lookup.push().scope {
        Scope::None => Vec::new(),
        Scope::Host => state.hosts[&host].attached.keys().copied().collect(),
        Scope::All => leases.volumes().collect(),
    }
}
