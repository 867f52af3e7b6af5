//! Reads: from the cache, by joining a request under way, or by a new request.
//!
//! 1. A block is taken from the cache (or from the unflushed writes) if the volume's map names it.
//!    Otherwise it joins a request for the same block or the same content. Otherwise it is
//!    requested, together with its neighbours.
//! 2. Content that was requested has one *source*: a request, or a peer's token. When the source
//!    fails or brings other content, the first waiting read requests the bytes from the server, and
//!    becomes the source for the others.
//! 3. The map learns from an answer unless a newer write was answered. A write ends the joining of
//!    requests for its blocks.

use super::asked::Request;
use super::volume::State;
use super::{Agent, AgentError, Event, Gone, PEER_QUEUE_MAX, STRAYS_MAX, Ticket, VolumeKey};
use crate::BLOCKS_MAX;
use crate::map::Known;
use crate::messages::{ContentId, Hash, HostId, How, ReadItem, ToPeer, ToServer};
use bytes::Bytes;
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

#[derive(Debug)]
pub(super) struct ReadOp {
    pub(super) volume: VolumeKey,
    block: u32,
    bytes: Vec<u8>,
    left: usize,
}

/// A block of a guest's read that waits for its bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiter {
    pub(super) volume: VolumeKey,
    pub(super) block: u32,
    pub(super) ticket: Ticket,
}

/// A block of a request: the reads that wait for it, and the content that it is the source of.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) waiters: Vec<Ticket>,
    pub(super) expects: Option<u32>,
}

/// A content that another host is to send.
#[derive(Debug)]
pub(super) struct Deferred {
    content: u32,
    hash: Hash,
    holder: HostId,
}

/// Context of an answer: its request, the request's first block and manner, and the version.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) request: u32,
    pub(super) volume: VolumeKey,
    pub(super) block: u32,
    pub(super) how: How,
    pub(super) version: u64,
}

impl Agent {
    /// Reads blocks: an [`Event::Read`] or [`Event::Failed`] follows, perhaps at once.
    ///
    /// # Errors
    /// The range cannot be read; nothing was changed.
    pub fn read(
        &mut self,
        now: Nanos,
        volume: VolumeKey,
        block: u32,
        count: u32,
    ) -> Result<Ticket, Gone> {
        self.check(volume, block, count)?;
        let ticket = self.tickets.issue();
        let bytes = vec![0; count as usize * self.settings.block_bytes];
        self.reads.insert(ticket, ReadOp { volume, block, bytes, left: count as usize });
        self.counts.read += u64::from(count);
        let waiters = (block..block + count).map(|block| Waiter { volume, block, ticket });
        self.seek(now, waiters.collect());
        Ok(ticket)
    }

    /// Looks for blocks in the cache and in requests under way, and requests the rest.
    pub(super) fn seek(&mut self, now: Nanos, waiters: Vec<Waiter>) {
        let mut run: Option<(VolumeKey, u32, Vec<Wanted>)> = None;
        for waiter in waiters {
            let Some(wanted) = self.sought(now, waiter) else { continue };
            match &mut run {
                Some((volume, first, blocks))
                    if *volume == waiter.volume
                        && *first + blocks.len() as u32 == waiter.block
                        && blocks.len() < BLOCKS_MAX =>
                {
                    blocks.push(wanted);
                }
                _ => {
                    let new = (waiter.volume, waiter.block, vec![wanted]);
                    if let Some((volume, block, blocks)) = run.replace(new) {
                        self.ask(now, volume, block, self.usual(), blocks);
                    }
                }
            }
        }
        if let Some((volume, block, blocks)) = run {
            self.ask(now, volume, block, self.usual(), blocks);
        }
    }

    fn usual(&self) -> How {
        if self.settings.protocol.ask_hashes { How::Hashes } else { How::Usual }
    }

    /// Serves a waiter from the cache or lets it join a request; otherwise returns the block to be
    /// requested.
    fn sought(&mut self, now: Nanos, waiter: Waiter) -> Option<Wanted> {
        let Waiter { volume, block, ticket } = waiter;
        let state = self.volumes.get_mut(&volume)?;
        if !state.may_serve(now) {
            met("a read waited for a lease");
            state.parked.push(waiter);
            return None;
        }
        if self.take_here(waiter) {
            return None;
        }
        let state = self.volumes.get_mut(&volume)?;
        if !state.may_ask(now) {
            state.parked.push(waiter);
            return None;
        }
        if let Some(request) = self.under_way.get(&(volume, block))
            && let Some((_, Request::Read { block: first, blocks, .. })) =
                self.requests.get_mut(request)
        {
            met("a read joined another of the same block");
            blocks[(block - *first) as usize].waiters.push(ticket);
            self.counts.joined += 1;
            return None;
        }
        let mut expects = None;
        if let Known::Content(content) = state.map.get(block) {
            if let Some(waiters) = self.awaited.get_mut(&content) {
                met("a read joined another of the same content");
                waiters.push(waiter);
                self.counts.joined += 1;
                return None;
            }
            self.await_content(content, Vec::new());
            expects = Some(content);
        }
        Some(Wanted { waiters: vec![ticket], expects })
    }

    fn await_content(&mut self, content: u32, waiters: Vec<Waiter>) {
        self.contents.change_refs(content, 1);
        let before = self.awaited.insert(content, waiters);
        assert!(before.is_none(), "a content has one source");
    }

    /// Requests a run of blocks.
    pub(super) fn ask(
        &mut self,
        now: Nanos,
        volume: VolumeKey,
        block: u32,
        how: How,
        blocks: Vec<Wanted>,
    ) {
        let count = blocks.len() as u16;
        let number = self.volumes[&volume].number;
        let request = self.requests.note(now, Request::Read { volume, block, how, blocks });
        for at in block..block + u32::from(count) {
            self.under_way.entry((volume, at)).or_insert(request);
        }
        self.out.push_back(ToServer::Read { request, volume: number, block, count, how });
    }

    /// Copies a block to the waiting read; returns false if the block is not cached.
    fn take_here(&mut self, waiter: Waiter) -> bool {
        let volume = &self.volumes[&waiter.volume];
        let Some(op) = self.reads.get_mut(&waiter.ticket) else { return true };
        let size = self.settings.block_bytes;
        let from = (waiter.block - op.block) as usize * size;
        let into = &mut op.bytes[from..from + size];
        if let Some(unflushed) = volume.unflushed.get(&waiter.block) {
            match &unflushed.data {
                Some((bytes, _)) => into.copy_from_slice(bytes),
                None => into.fill(0),
            }
        } else {
            match volume.map.get(waiter.block) {
                Known::Nothing => return false,
                Known::Zero => into.fill(0),
                Known::Content(content) => match self.contents.get(content) {
                    Some(bytes) => into.copy_from_slice(bytes),
                    None => return false,
                },
            }
        }
        self.counts.hits += 1;
        self.one_read(waiter.ticket);
        true
    }

    fn one_read(&mut self, ticket: Ticket) {
        let Some(op) = self.reads.get_mut(&ticket) else { return };
        op.left -= 1;
        if op.left == 0 {
            let op = self.reads.remove(&ticket).expect("it is there");
            self.events.push_back(Event::Read { ticket, bytes: op.bytes });
        }
    }

    fn deliver(&mut self, block: u32, ticket: Ticket, bytes: Option<&[u8]>) {
        let Some(op) = self.reads.get_mut(&ticket) else { return };
        let size = self.settings.block_bytes;
        let from = (block - op.block) as usize * size;
        match bytes {
            Some(bytes) => op.bytes[from..from + size].copy_from_slice(bytes),
            None => op.bytes[from..from + size].fill(0),
        }
        self.one_read(ticket);
    }

    /// Handles the answer to a read.
    pub(super) fn blocks(
        &mut self,
        now: Nanos,
        answer: Answer,
        blocks: Vec<Wanted>,
        items: Vec<ReadItem>,
    ) -> Result<(), AgentError> {
        let size = self.settings.block_bytes;
        let is_right = |item: &ReadItem| match item {
            ReadItem::Plain(bytes) => bytes.len() == size && !self.settings.protocol.names,
            ReadItem::Data(_, _, bytes) => bytes.len() == size,
            _ => true,
        };
        if !items.iter().all(is_right) {
            return Err(AgentError::NotAsked { what: "a block of another length or kind" });
        }
        for ((block, wanted), item) in (answer.block..).zip(blocks).zip(items) {
            let key = (answer.volume, block);
            if self.under_way.get(&key) == Some(&answer.request) {
                self.under_way.remove(&key);
            }
            let expects = wanted.expects;
            let source = self.block(now, answer, block, wanted, item);
            if let Some(content) = expects.filter(|_| source != expects) {
                self.source_failed(now, content);
            }
        }
        Ok(())
    }

    /// Handles one block of an answer; returns the content that is now awaited for it.
    fn block(
        &mut self,
        now: Nanos,
        answer: Answer,
        block: u32,
        wanted: Wanted,
        item: ReadItem,
    ) -> Option<u32> {
        match item {
            ReadItem::Zero => {
                self.learn(answer, block, Known::Zero);
                wanted.waiters.iter().for_each(|&ticket| self.deliver(block, ticket, None));
                None
            }
            ReadItem::Plain(bytes) => {
                let content = self.contents.add();
                self.came(answer, block, wanted, content, (&bytes, None));
                None
            }
            ReadItem::Data(id, hash, bytes) => {
                let known = self.contents.with_id(id);
                let known = known.or_else(|| self.contents.with_bytes(&hash, &bytes));
                let content = self.named_content(known, id);
                self.came(answer, block, wanted, content, (&bytes, Some(&hash)));
                None
            }
            ReadItem::Id(id) => {
                let content = self.contents.with_id(id);
                self.told(now, answer, block, wanted, content)
            }
            ReadItem::Hash(id, hash) => {
                let content = self.known_by_hash(id, &hash);
                self.told(now, answer, block, wanted, Some(content))
            }
            ReadItem::Deferred(id, hash, holder, token) => {
                let content = self.known_by_hash(id, &hash);
                let is_here = self.contents.is_cached(content);
                let is_source = wanted.expects == Some(content);
                if is_here || (self.awaited.contains_key(&content) && !is_source) {
                    return self.told(now, answer, block, wanted, Some(content));
                }
                self.contents.change_refs(content, 1);
                self.learn(answer, block, Known::Content(content));
                let to_waiter = |ticket| Waiter { volume: answer.volume, block, ticket };
                let waiters = wanted.waiters.into_iter().map(to_waiter);
                match self.awaited.get_mut(&content) {
                    Some(others) => others.extend(waiters),
                    None => self.await_content(content, waiters.collect()),
                }
                self.contents.change_refs(content, -1);
                let within = Nanos(now.0.saturating_add(self.settings.peer_within.0));
                self.deadlines.push_back((within, token));
                self.deferred.insert(token, Deferred { content, hash, holder });
                Some(content)
            }
        }
    }

    fn known_by_hash(&mut self, id: ContentId, hash: &Hash) -> u32 {
        let known = self.contents.with_id(id);
        let hash_of = self.settings.hash_of;
        let known = known.or_else(|| self.contents.with_hash(hash, hash_of));
        self.named_content(known, id)
    }

    fn named_content(&mut self, known: Option<u32>, id: ContentId) -> u32 {
        let content = known.unwrap_or_else(|| self.contents.add());
        if self.contents.id(content) != Some(id) {
            self.contents.set_id(content, id);
        }
        content
    }

    fn learn(&mut self, answer: Answer, block: u32, known: Known) {
        let Some(volume) = self.volumes.get_mut(&answer.volume) else { return };
        if volume.map.learns(block, answer.version) {
            let contents = &mut self.contents;
            volume.map.set(block, known, |content, change| contents.change_refs(content, change));
        }
    }

    /// Handles bytes of a content that came with an answer.
    fn came(
        &mut self,
        answer: Answer,
        block: u32,
        wanted: Wanted,
        content: u32,
        (bytes, hash): (&Bytes, Option<&Hash>),
    ) {
        self.contents.change_refs(content, 1);
        self.contents.cache(content, bytes, hash);
        self.learn(answer, block, Known::Content(content));
        wanted.waiters.iter().for_each(|&ticket| self.deliver(block, ticket, Some(bytes)));
        self.resolve(content, bytes);
        self.contents.change_refs(content, -1);
    }

    /// Serves all reads that wait for a content.
    fn resolve(&mut self, content: u32, bytes: &[u8]) {
        let Some(waiters) = self.awaited.remove(&content) else { return };
        for waiter in waiters {
            self.deliver(waiter.block, waiter.ticket, Some(bytes));
        }
        self.contents.change_refs(content, -1);
    }

    /// Handles a block whose content the server named: it is cached, awaited, or must be requested.
    fn told(
        &mut self,
        now: Nanos,
        answer: Answer,
        block: u32,
        wanted: Wanted,
        content: Option<u32>,
    ) -> Option<u32> {
        let Some(content) = content else {
            met("the server named content that is not known here");
            self.ask_again(now, answer.volume, block, wanted);
            return None;
        };
        self.contents.change_refs(content, 1);
        self.learn(answer, block, Known::Content(content));
        let mut source = None;
        if let Some(bytes) = self.contents.get(content).map(Bytes::copy_from_slice) {
            self.counts.named += wanted.waiters.len() as u64;
            wanted.waiters.iter().for_each(|&ticket| self.deliver(block, ticket, Some(&bytes)));
            self.resolve(content, &bytes);
        } else if wanted.expects != Some(content)
            && let Some(others) = self.awaited.get_mut(&content)
        {
            let waiter = |ticket| Waiter { volume: answer.volume, block, ticket };
            others.extend(wanted.waiters.into_iter().map(waiter));
        } else {
            if answer.how != How::Hashes {
                met("the server named content that was evicted");
            }
            if wanted.expects != Some(content) {
                self.await_content(content, Vec::new());
            }
            let again = Wanted { waiters: wanted.waiters, expects: Some(content) };
            self.ask_bytes(now, answer.volume, block, again);
            self.counts.again += u64::from(answer.how != How::Hashes);
            source = Some(content);
        }
        self.contents.change_refs(content, -1);
        source
    }

    /// Requests the bytes of a block from the server.
    fn ask_again(&mut self, now: Nanos, volume: VolumeKey, block: u32, wanted: Wanted) {
        self.counts.again += 1;
        self.ask_bytes(now, volume, block, wanted);
    }

    fn ask_bytes(&mut self, now: Nanos, volume: VolumeKey, block: u32, wanted: Wanted) {
        let state = self.volumes.get(&volume).map(|volume| volume.state);
        if state == Some(State::Live) {
            return self.ask(now, volume, block, How::Bytes, vec![wanted]);
        }
        if let Some(state) = self.volumes.get_mut(&volume) {
            let waiter = |&ticket: &Ticket| Waiter { volume, block, ticket };
            state.parked.extend(wanted.waiters.iter().map(waiter));
        }
        if let Some(content) = wanted.expects {
            self.source_failed(now, content);
        }
    }

    /// Replaces the failed source of a content: the first waiting read requests its block.
    pub(super) fn source_failed(&mut self, now: Nanos, content: u32) {
        let Some(mut waiters) = self.awaited.remove(&content) else { return };
        met("a source of content failed");
        waiters.retain(|waiter| self.reads.contains_key(&waiter.ticket));
        if !waiters.is_empty() {
            let first = waiters.remove(0);
            self.contents.change_refs(content, 1);
            self.awaited.insert(content, waiters);
            let wanted = Wanted { waiters: vec![first.ticket], expects: Some(content) };
            self.ask_again(now, first.volume, first.block, wanted);
        }
        self.contents.change_refs(content, -1);
    }

    /// Parks all reads that wait for the server or for peers, to be requested again later.
    pub(super) fn park_all(&mut self) {
        self.under_way.clear();
        self.deferred.clear();
        self.deadlines.clear();
        let mut parked = Vec::new();
        for (content, waiters) in std::mem::take(&mut self.awaited) {
            parked.extend(waiters);
            self.contents.change_refs(content, -1);
        }
        for (_, request) in self.requests.values_mut() {
            if let Request::Read { volume, block, blocks, .. } = request {
                for (block, wanted) in (*block..).zip(std::mem::take(blocks)) {
                    let waiter = |ticket| Waiter { volume: *volume, block, ticket };
                    parked.extend(wanted.waiters.into_iter().map(waiter));
                }
            }
        }
        for waiter in parked {
            if let Some(volume) = self.volumes.get_mut(&waiter.volume) {
                volume.parked.push(waiter);
            }
        }
    }

    /// Handles a push: other blocks with content that this host was sent.
    pub(super) fn pushed(&mut self, id: ContentId, version: u64, blocks: &[(u32, u32)]) {
        let Some(content) = self.contents.with_id(id) else { return };
        for &(number, block) in blocks {
            let Some(key) = self.by_number.get(&number) else { continue };
            let volume = self.volumes.get_mut(key).expect("numbers are of volumes");
            if block < volume.blocks && volume.map.learns(block, version) {
                let contents = &mut self.contents;
                let known = Known::Content(content);
                volume.map.set(block, known, |content, by| contents.change_refs(content, by));
            }
        }
    }

    /// Sends a block to another host at the server's request.
    pub(super) fn serve(&mut self, token: u64, id: ContentId, to: HostId) {
        let bytes = self.contents.with_id(id).and_then(|content| self.contents.peek(content));
        let queue = self.to_peers.entry(to).or_default();
        let message = match bytes {
            Some(bytes) if queue.len() < PEER_QUEUE_MAX => {
                self.counts.served += 1;
                ToPeer::Block { token, bytes: Bytes::copy_from_slice(bytes) }
            }
            _ => {
                met("a host was to serve what it does not hold");
                ToPeer::Gone { token }
            }
        };
        if queue.len() < 2 * PEER_QUEUE_MAX {
            queue.push_back(message);
        }
    }

    /// Takes a message of another host, whose number is known from its certificate.
    ///
    /// # Errors
    /// It sent wrong bytes, or too many unexpected blocks: its connection ends, and
    /// [`Agent::peer_lost`] must be called.
    pub fn hear_peer(
        &mut self,
        now: Nanos,
        from: HostId,
        message: ToPeer,
    ) -> Result<(), AgentError> {
        let (ToPeer::Block { token, .. } | ToPeer::Gone { token }) = message;
        let is_its = self.deferred.get(&token).is_some_and(|deferred| deferred.holder == from);
        if !is_its {
            met("a peer answered what nobody waits for");
            let strays = self.strays.entry(from).or_default();
            *strays += 1;
            if *strays > STRAYS_MAX {
                return Err(AgentError::Strays { host: from.0, strays: *strays });
            }
            return Ok(());
        }
        let deferred = self.deferred.remove(&token).expect("it is there");
        let ToPeer::Block { bytes, .. } = message else {
            self.source_failed(now, deferred.content);
            return Ok(());
        };
        let is_right = bytes.len() == self.settings.block_bytes
            && ((self.settings.hash_of)(&bytes) == deferred.hash
                || mutant("bytes_of_peers_are_not_checked"));
        if !is_right {
            met("a peer sent wrong bytes");
            self.source_failed(now, deferred.content);
            return Err(AgentError::WrongBytes { host: from.0 });
        }
        met("a peer sent a block");
        self.counts.from_peers += 1;
        if self.admission.from_peers {
            self.contents.cache(deferred.content, &bytes, Some(&deferred.hash));
        } else {
            self.contents.note_evicted(deferred.content);
        }
        self.resolve(deferred.content, &bytes);
        Ok(())
    }

    /// Notes that the connection with another host is over. The contents that it was to send are
    /// requested again.
    pub fn peer_lost(&mut self, now: Nanos, host: HostId) {
        self.to_peers.remove(&host);
        self.strays.remove(&host);
        let its = self.deferred.iter().filter(|(_, deferred)| deferred.holder == host);
        let tokens: Vec<u64> = its.map(|(token, _)| *token).collect();
        tokens.into_iter().for_each(|token| self.give_up(now, token));
    }

    fn give_up(&mut self, now: Nanos, token: u64) {
        if let Some(deferred) = self.deferred.remove(&token) {
            self.source_failed(now, deferred.content);
        }
    }

    /// Gives up peers that have not sent their blocks in time.
    pub(super) fn give_up_late(&mut self, now: Nanos) {
        while self.deadlines.front().is_some_and(|(at, _)| *at <= now) {
            let (_, token) = self.deadlines.pop_front().expect("it is there");
            if self.deferred.contains_key(&token) {
                met("a peer was silent");
            }
            self.give_up(now, token);
        }
    }
}
