//! Reads: each block is answered by its number, as bytes, or by another host.

use super::{Asker, Op, Server};
use crate::messages::{HostId, How, ReadItem, ToAgent, Why};
use crate::store::{Content, StoreRequest};
use bytes::Bytes;
use thermocline_policy::lookup::{Asked, Source};
use thermocline_units::Nanos;
use thermocline_units::situations::met;

/// Number of times that blocks are looked up again because their content was swept meanwhile.
const TRIES_MAX: u8 = 4;

#[derive(Debug)]
pub(super) struct Read {
    pub(super) asker: Asker,
    volume: u32,
    block: u32,
    how: How,
    version: u64,
    parts: Vec<Part>,
    /// Number of blocks whose bytes are not there yet.
    waiting: usize,
    /// True if the content of a block was swept.
    is_stale: bool,
    tries: u8,
}

#[derive(Debug)]
enum Part {
    Zero,
    Content(Content, Answer),
}

/// Chosen way to answer a block. A host that holds the content when the answer leaves gets its
/// number in any case.
#[derive(Debug)]
enum Answer {
    Number,
    Peer(HostId),
    Wanted,
    Bytes(Bytes),
}

impl Server {
    pub(super) fn read(&mut self, asker: Asker, volume: u32, block: u32, count: u16, how: How) {
        let version = self.version;
        let (parts, waiting) = (Vec::with_capacity(usize::from(count)), 0);
        let read =
            Read { asker, volume, block, how, version, parts, waiting, is_stale: false, tries: 0 };
        self.begin(Op::Read(read), StoreRequest::Lookup { volume, block, count });
    }

    pub(super) fn looked_up(
        &mut self,
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
                    let answer = self.decide(now, &read, read.block + at as u32, *content);
                    if matches!(answer, Answer::Wanted) {
                        wanted.push((content.number, at));
                    }
                    Part::Content(*content, answer)
                }
            };
            read.parts.push(part);
        }
        if wanted.is_empty() {
            return self.answered(now, read);
        }
        read.waiting = wanted.len();
        let kept = self.ops.insert(Op::Read(read));
        assert!(kept == number, "the number that was freed last is the next");
        for (content, at) in wanted {
            self.fetch(kept, content, at);
        }
    }

    fn fetch(&mut self, read: u32, number: u64, at: usize) {
        let waiters = self.fetching.entry(number).or_default();
        waiters.push((read, at));
        if waiters.len() > 1 {
            met("reads waited for the same block of the store");
            return;
        }
        self.counts.fetched += 1;
        let op = self.ops.insert(Op::Fetch { number });
        self.store.push_back((op, StoreRequest::Fetch { number }));
    }

    fn decide(&mut self, now: Nanos, read: &Read, block: u32, content: Content) -> Answer {
        if read.how == How::Hashes {
            return Answer::Number;
        }
        let place = self.place(content.number);
        let index = self.hosts[&read.asker.host].index;
        if read.how == How::Bytes {
            self.names.set_holder(place, index, false);
        } else if self.protocol.tracker && self.names.holds(place, index) {
            return Answer::Number;
        }
        let key = (read.volume, block);
        if self.protocol.peers && read.how == How::Usual {
            let in_memory = self.memory.holds(place, key);
            if let Some(peer) = self.peer_for(now, place, index, in_memory) {
                return Answer::Peer(peer);
            }
        }
        match self.memory.get(place, key) {
            Some(bytes) => {
                self.counts.memory_hits += 1;
                Answer::Bytes(Bytes::copy_from_slice(bytes))
            }
            None => Answer::Wanted,
        }
    }

    /// The host that is to send a content: the least busy holder, ties at random; `None` if the
    /// server is to send it.
    fn peer_for(&mut self, now: Nanos, place: u32, but: usize, in_memory: bool) -> Option<HostId> {
        let (mut holders, mut equals) = (0, 0);
        let mut best: Option<(u32, HostId)> = None;
        for index in self.names.holders(place) {
            let id = self.by_index[index];
            let host = self.hosts.get_mut(&id).expect("it has an index");
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
            if equals == 1 || self.rng.below(equals) == 0 {
                best = Some((queue, id));
            }
        }
        let (holder_queue, peer) = best?;
        let asked = Asked { in_memory, holders, server_busy: self.busy(now), holder_queue };
        (self.lookup.source(now, &asked) == Source::Peer).then_some(peer)
    }

    pub(super) fn fetched(&mut self, now: Nanos, number: u64, bytes: Option<Bytes>) {
        let waiters = self.fetching.remove(&number).unwrap_or_default();
        for (op, at) in waiters {
            let Op::Read(mut read) = self.ops.remove(op) else {
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
            let kept = self.ops.insert(Op::Read(read));
            assert!(kept == op, "the number that was freed last is the next");
            if let Some(bytes) = &bytes
                && content.shares >= self.lookup.admission().server_shares_min
            {
                let place = self.place(content.number);
                self.memory.put(place, key, bytes);
            }
            if is_done {
                let Op::Read(read) = self.ops.remove(op) else { unreachable!("it is one") };
                self.answered(now, read);
            }
        }
    }

    /// Ends a read whose blocks are all there: sends the answer, or looks up swept blocks again.
    fn answered(&mut self, now: Nanos, mut read: Read) {
        if !self.ended(read.asker) {
            return;
        }
        if read.is_stale {
            met("content was swept while it was read");
            read.tries += 1;
            if read.tries > TRIES_MAX {
                return self.refuse(now, read.asker, Why::Store);
            }
            read.version = self.version;
            let (volume, block) = (read.volume, read.block);
            let count = read.parts.len() as u16;
            return self.begin(Op::Read(read), StoreRequest::Lookup { volume, block, count });
        }
        let mut items = Vec::with_capacity(read.parts.len());
        for (block, part) in (read.block..).zip(std::mem::take(&mut read.parts)) {
            items.push(match part {
                Part::Zero => ReadItem::Zero,
                Part::Content(content, answer) => self.item(now, &read, block, content, answer),
            });
        }
        let (request, version) = (read.asker.request, read.version);
        self.say(now, read.asker.host, ToAgent::Blocks { request, version, items });
    }

    fn item(
        &mut self,
        now: Nanos,
        read: &Read,
        block: u32,
        content: Content,
        answer: Answer,
    ) -> ReadItem {
        let host = read.asker.host;
        let protocol = self.protocol;
        if !protocol.names {
            self.counts.by_bytes += 1;
            let Answer::Bytes(bytes) = answer else { unreachable!("bytes were wanted") };
            return ReadItem::Plain(bytes);
        }
        let id = self.name(content);
        if read.how == How::Hashes {
            return ReadItem::Hash(id, content.hash);
        }
        let place = self.names.place(id).expect("it was just named");
        let index = self.hosts[&host].index;
        let is_held = protocol.tracker && self.names.holds(place, index);
        let item = match answer {
            _ if is_held && read.how == How::Usual => ReadItem::Id(id),
            Answer::Number => ReadItem::Id(id),
            Answer::Peer(peer) => self.deferred(now, host, peer, id, content),
            Answer::Bytes(bytes) => {
                // Others that asked in the same moment hold it by now: their message to serve is
                // behind the bytes on their connection.
                let may_peer = protocol.peers && read.how == How::Usual;
                match may_peer.then(|| self.peer_for(now, place, index, true)).flatten() {
                    Some(peer) => {
                        met("a host that was answered first serves those that asked with it");
                        self.deferred(now, host, peer, id, content)
                    }
                    None => ReadItem::Data(id, content.hash, bytes),
                }
            }
            Answer::Wanted => unreachable!("all bytes are there"),
        };
        match item {
            ReadItem::Id(_) => self.counts.by_id += 1,
            ReadItem::Deferred(..) => self.counts.by_peer += 1,
            _ => self.counts.by_bytes += 1,
        }
        if protocol.tracker && !matches!(item, ReadItem::Id(_)) {
            self.names.set_holder(place, index, true);
            self.push(read, (read.volume, block), id, content);
        }
        item
    }

    fn deferred(
        &mut self,
        now: Nanos,
        host: HostId,
        peer: HostId,
        id: crate::ContentId,
        content: Content,
    ) -> ReadItem {
        let token = self.rng.next_u64();
        let within = Nanos(now.0.saturating_add(self.settings.serve_within.0));
        self.hosts.get_mut(&peer).expect("it holds it").serving.push_back(within);
        self.say(now, peer, ToAgent::Serve { token, id, to: host });
        ReadItem::Deferred(id, content.hash, peer, token)
    }

    /// Asks the store for other blocks with the content that is being sent.
    fn push(&mut self, read: &Read, but: (u32, u32), id: crate::ContentId, content: Content) {
        let cap = self.lookup.push().cap;
        if !self.protocol.push || content.shares < 2 || cap == 0 {
            return;
        }
        let volumes = self.told_of(read.asker.host);
        let op = Op::Sharers { asker: read.asker, id, version: self.version, but };
        let (number, cap) = (content.number, cap.saturating_add(1));
        self.begin(op, StoreRequest::Sharers { number, volumes, cap });
    }
}
