//! Reads: from the cache, by joining a request under way, or by a new request.
//!
//! 1. A block is taken from the cache (or from the unflushed writes) if the volume's map names it,
//!    then from the second level, which is a source of content like a request. Otherwise it joins a
//!    request for the same block or the same content. Otherwise it is requested, together with its
//!    neighbours.
//! 2. Content that was requested has one *source*: a request, or a peer's token. When the source
//!    fails or brings other content, the first waiting read requests the bytes from the server, and
//!    becomes the source for the others.
//! 3. The map learns from an answer unless a newer write was answered. A write ends the joining of
//!    requests for its blocks. Those that are sent before its answer cannot be joined, because the
//!    server may look them up before it has the bytes.

use super::asked::{Request, Wanted};
use super::events::{AgentError, Event, Gone, Ticket, VolumeKey};
use super::state::AgentState;
use super::volume::{State, Waiter};
use crate::BLOCKS_MAX;
use crate::flash::{FlashFailed, Found};
use crate::map::Known;
use crate::messages::{ContentId, Hash, HostId, How, ReadItem, ToPeer, ToServer, Why};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

#[derive(Debug)]
struct ReadOp {
    volume: VolumeKey,
    block: u32,
    bytes: Vec<u8>,
    left: usize,
}

/// A content that another host is to send. It holds a reference to it.
#[derive(Debug)]
struct Deferred {
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

/// Hosts that are to send blocks of an answer, with their tokens.
pub(super) fn tokens(items: &[ReadItem]) -> Vec<(HostId, u64)> {
    let token = |item: &ReadItem| match item {
        ReadItem::Deferred(_, _, holder, token) => Some((*holder, *token)),
        _ => None,
    };
    items.iter().filter_map(token).collect()
}

/// The reads of guests that are not answered, and the blocks and contents that they wait for.
#[derive(Debug, Default)]
pub(super) struct Reads {
    ops: BTreeMap<Ticket, ReadOp>,
    /// Requests to the server that reads may join, by block: sent after the answers to all writes
    /// of the block that have begun.
    under_way: BTreeMap<(VolumeKey, u32), u32>,
    /// Contents that were requested, and the reads that wait for them.
    awaited: BTreeMap<u32, Vec<Waiter>>,
    /// Those of them that another host is to send.
    coming: BTreeSet<u32>,
    /// Those of them that other hosts wait for, and contents of such that have come or been given
    /// up since somebody asked.
    watched: BTreeSet<u32>,
    ended: Vec<u32>,
    /// Contents that are being read from the second level. Each read holds a reference.
    on_flash: BTreeSet<u32>,
    deferred: BTreeMap<u64, Deferred>,
    /// Times at which deferred reads are given up, with their tokens.
    deadlines: VecDeque<(Nanos, u64)>,
}

impl Reads {
    /// Number of reads that are not answered.
    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    /// Number of contents that reads wait for, and of those that other hosts are to send.
    pub(super) fn awaited(&self) -> (usize, usize) {
        (self.awaited.len(), self.deferred.len())
    }

    /// True if reads wait for a content.
    pub(super) fn awaits(&self, content: u32) -> bool {
        self.awaited.contains_key(&content)
    }

    /// True if another host is to send a content.
    pub(super) fn comes_from_a_peer(&self, content: u32) -> bool {
        self.coming.contains(&content)
    }

    /// Lets [`Reads::take_ended`] tell when an awaited content has come or was given up.
    pub(super) fn watch(&mut self, content: u32) {
        assert!(self.awaits(content), "only what is awaited can come");
        self.watched.insert(content);
    }

    /// Watched contents that have come, or that no read waits for any more, since the last time.
    pub(super) fn take_ended(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.ended)
    }

    /// A content is not awaited from its source any more.
    fn source_ended(&mut self, content: u32) {
        self.coming.remove(&content);
        if !self.awaits(content) && self.watched.remove(&content) {
            self.ended.push(content);
        }
    }

    /// Reads of a volume.
    pub(super) fn of(&self, volume: VolumeKey) -> impl Iterator<Item = Ticket> + '_ {
        let reads = self.ops.iter().filter(move |(_, op)| op.volume == volume);
        reads.map(|(ticket, _)| *ticket)
    }

    /// Forgets a read; returns false if there is none.
    pub(super) fn forget(&mut self, ticket: Ticket) -> bool {
        self.ops.remove(&ticket).is_some()
    }

    /// Ends the joining of requests for a block; returns false if there is none.
    pub(super) fn end_joining(&mut self, volume: VolumeKey, block: u32) -> bool {
        self.under_way.remove(&(volume, block)).is_some()
    }

    /// Time at which [`Reads::give_up_late`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Nanos> {
        self.deadlines.front().map(|(at, _)| *at)
    }

    /// Reads blocks of a volume that has them.
    pub(super) fn read(
        &mut self,
        state: &mut AgentState,
        now: Nanos,
        volume: VolumeKey,
        block: u32,
        count: u32,
    ) -> Ticket {
        let ticket = state.tickets.issue();
        let bytes = vec![0; count as usize * state.settings.block_bytes];
        self.ops.insert(ticket, ReadOp { volume, block, bytes, left: count as usize });
        state.counts.read += u64::from(count);
        let waiters = (block..block + count).map(|block| Waiter { volume, block, ticket });
        self.seek(state, now, waiters.collect());
        ticket
    }

    /// Looks for blocks in the cache and in requests under way, and requests the rest.
    pub(super) fn seek(&mut self, state: &mut AgentState, now: Nanos, waiters: Vec<Waiter>) {
        let how = usual(state);
        let mut run: Option<(VolumeKey, u32, Vec<Wanted>)> = None;
        for waiter in waiters {
            let Some(wanted) = self.sought(state, now, waiter) else { continue };
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
                        self.ask(state, now, volume, block, how, blocks);
                    }
                }
            }
        }
        if let Some((volume, block, blocks)) = run {
            self.ask(state, now, volume, block, how, blocks);
        }
    }

    /// Serves a waiter from the cache or lets it join a request; otherwise returns the block to be
    /// requested.
    fn sought(&mut self, state: &mut AgentState, now: Nanos, waiter: Waiter) -> Option<Wanted> {
        let Waiter { volume, block, ticket } = waiter;
        let it = state.volumes.get_mut(&volume)?;
        if !it.may_serve(now) {
            met("a read waited for a lease");
            it.parked.push(waiter);
            return None;
        }
        if self.take_here(state, waiter) || self.take_from_flash(state, waiter) {
            return None;
        }
        let it = state.volumes.get_mut(&volume)?;
        if !it.may_ask(now) {
            it.parked.push(waiter);
            return None;
        }
        if let Some(request) = self.under_way.get(&(volume, block))
            && let Some((_, Request::Read { block: first, blocks, .. })) =
                state.requests.get_mut(request)
        {
            met("a read joined another of the same block");
            blocks[(block - *first) as usize].waiters.push(ticket);
            state.counts.joined += 1;
            return None;
        }
        let mut expects = None;
        if let Known::Content(content) = it.map.get(block) {
            if let Some(waiters) = self.awaited.get_mut(&content) {
                met("a read joined another of the same content");
                waiters.push(waiter);
                state.counts.joined += 1;
                return None;
            }
            self.await_content(state, content, Vec::new());
            expects = Some(content);
        }
        Some(Wanted { waiters: vec![ticket], expects })
    }

    fn await_content(&mut self, state: &mut AgentState, content: u32, waiters: Vec<Waiter>) {
        state.contents.change_refs(content, 1);
        let before = self.awaited.insert(content, waiters);
        assert!(before.is_none(), "a content has one source");
    }

    /// Requests a run of blocks.
    pub(super) fn ask(
        &mut self,
        state: &mut AgentState,
        now: Nanos,
        volume: VolumeKey,
        block: u32,
        how: How,
        blocks: Vec<Wanted>,
    ) {
        let count = blocks.len() as u16;
        let it = &state.volumes[&volume];
        let number = it.number;
        let request = state.requests.note(now, Request::Read { volume, block, how, blocks });
        for at in block..block + u32::from(count) {
            // The block of an earlier read is requested again, perhaps while it is being written.
            let is_written = it.unflushed.get(&at).is_some_and(|one| one.answered.is_none());
            met_if(is_written, "a block was requested while a write of it was not answered");
            if !is_written || mutant("a_read_joins_one_from_before_a_write_was_stored") {
                self.under_way.entry((volume, at)).or_insert(request);
            }
        }
        state.out.push_back(ToServer::Read { request, volume: number, block, count, how });
    }

    /// Copies a block to the waiting read; returns false if the block is not cached.
    fn take_here(&mut self, state: &mut AgentState, waiter: Waiter) -> bool {
        let volume = &state.volumes[&waiter.volume];
        let Some(op) = self.ops.get_mut(&waiter.ticket) else { return true };
        let size = state.settings.block_bytes;
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
                Known::Content(content) => match state.contents.get(content) {
                    Some(bytes) => into.copy_from_slice(bytes),
                    None => return false,
                },
            }
        }
        state.counts.hits += 1;
        self.one_read(state, waiter.ticket);
        true
    }

    /// Serves a waiter from the second level, at once or when that has been read; false if the
    /// block is not there.
    fn take_from_flash(&mut self, state: &mut AgentState, waiter: Waiter) -> bool {
        let Known::Content(content) = state.volumes[&waiter.volume].map.get(waiter.block) else {
            return false;
        };
        if let Some(waiters) = self.awaited.get_mut(&content) {
            // Whatever else it is awaited from may need the server.
            let is_on_flash = self.on_flash.contains(&content);
            if is_on_flash {
                waiters.push(waiter);
                state.counts.joined += 1;
            }
            return is_on_flash;
        }
        match state.contents.find_on_flash(content) {
            None => false,
            Some(Found::Here(bytes)) => {
                state.counts.from_flash += 1;
                self.deliver(state, waiter.block, waiter.ticket, Some(&bytes));
                true
            }
            Some(Found::Reading) => {
                self.await_content(state, content, vec![waiter]);
                // The content keeps its number until the device has answered.
                state.contents.change_refs(content, 1);
                self.on_flash.insert(content);
                true
            }
        }
    }

    /// Handles an answer of the second level's device.
    pub(super) fn flash_ended(
        &mut self,
        state: &mut AgentState,
        now: Nanos,
        number: u64,
        result: Result<Bytes, FlashFailed>,
    ) {
        let Some(read) = state.contents.flash_ended(number, result) else { return };
        self.on_flash.remove(&read.content);
        match read.bytes {
            Some(bytes) => {
                state.counts.from_flash += 1;
                let hash = state.settings.protocol.names.then_some(&read.hash);
                state.contents.cache(read.content, &bytes, hash);
                self.resolve(state, read.content, &bytes);
            }
            None => self.source_failed(state, now, read.content),
        }
        state.contents.change_refs(read.content, -1);
    }

    fn one_read(&mut self, state: &mut AgentState, ticket: Ticket) {
        let Some(op) = self.ops.get_mut(&ticket) else { return };
        op.left -= 1;
        if op.left == 0 {
            let op = self.ops.remove(&ticket).expect("it is there");
            state.events.push_back(Event::Read { ticket, bytes: op.bytes });
        }
    }

    fn deliver(
        &mut self,
        state: &mut AgentState,
        block: u32,
        ticket: Ticket,
        bytes: Option<&[u8]>,
    ) {
        let Some(op) = self.ops.get_mut(&ticket) else { return };
        let size = state.settings.block_bytes;
        let from = (block - op.block) as usize * size;
        match bytes {
            Some(bytes) => op.bytes[from..from + size].copy_from_slice(bytes),
            None => op.bytes[from..from + size].fill(0),
        }
        self.one_read(state, ticket);
    }

    /// Handles the answer to a read.
    pub(super) fn blocks(
        &mut self,
        state: &mut AgentState,
        now: Nanos,
        answer: Answer,
        blocks: Vec<Wanted>,
        items: Vec<ReadItem>,
    ) -> Result<(), AgentError> {
        let size = state.settings.block_bytes;
        let is_right = |item: &ReadItem| match item {
            ReadItem::Plain(bytes) => bytes.len() == size && !state.settings.protocol.names,
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
            let source = self.block(state, now, answer, block, wanted, item);
            if let Some(content) = expects.filter(|_| source != expects) {
                self.source_failed(state, now, content);
            }
        }
        Ok(())
    }

    /// Handles one block of an answer; returns the content that is now awaited for it.
    fn block(
        &mut self,
        state: &mut AgentState,
        now: Nanos,
        answer: Answer,
        block: u32,
        wanted: Wanted,
        item: ReadItem,
    ) -> Option<u32> {
        match item {
            ReadItem::Zero => {
                learn(state, answer, block, Known::Zero);
                wanted.waiters.iter().for_each(|&ticket| self.deliver(state, block, ticket, None));
                None
            }
            ReadItem::Plain(bytes) => {
                let content = state.contents.add();
                self.came(state, answer, block, wanted, content, (&bytes, None));
                None
            }
            ReadItem::Data(id, hash, bytes) => {
                let known = state.contents.with_id(id);
                let known = known.or_else(|| state.contents.with_bytes(&hash, &bytes));
                let content = named_content(state, known, id);
                self.came(state, answer, block, wanted, content, (&bytes, Some(&hash)));
                None
            }
            ReadItem::Id(id) => {
                let content = state.contents.with_id(id);
                self.told(state, now, answer, block, wanted, content)
            }
            ReadItem::Hash(id, hash) => {
                let content = known_by_hash(state, id, &hash);
                self.told(state, now, answer, block, wanted, Some(content))
            }
            ReadItem::Deferred(id, hash, holder, token) => {
                let content = known_by_hash(state, id, &hash);
                let is_here = state.contents.is_cached(content);
                let is_source = wanted.expects == Some(content);
                if is_here || (self.awaited.contains_key(&content) && !is_source) {
                    return self.told(state, now, answer, block, wanted, Some(content));
                }
                state.contents.change_refs(content, 1);
                learn(state, answer, block, Known::Content(content));
                let to_waiter = |ticket| Waiter { volume: answer.volume, block, ticket };
                let waiters = wanted.waiters.into_iter().map(to_waiter);
                match self.awaited.get_mut(&content) {
                    Some(others) => others.extend(waiters),
                    None => self.await_content(state, content, waiters.collect()),
                }
                // The reference stays with the token: until its holder answers, the number of the
                // content is not another's, whatever becomes of it.
                let within = Nanos(now.0.saturating_add(state.settings.peer_within.0));
                self.deadlines.push_back((within, token));
                let deferred = Deferred { content, hash, holder };
                if let Some(before) = self.deferred.insert(token, deferred) {
                    state.contents.change_refs(before.content, -1);
                }
                self.coming.insert(content);
                Some(content)
            }
        }
    }

    /// Handles bytes of a content that came with an answer.
    fn came(
        &mut self,
        state: &mut AgentState,
        answer: Answer,
        block: u32,
        wanted: Wanted,
        content: u32,
        (bytes, hash): (&Bytes, Option<&Hash>),
    ) {
        state.contents.change_refs(content, 1);
        state.contents.cache(content, bytes, hash);
        learn(state, answer, block, Known::Content(content));
        wanted.waiters.iter().for_each(|&ticket| self.deliver(state, block, ticket, Some(bytes)));
        self.resolve(state, content, bytes);
        state.contents.change_refs(content, -1);
    }

    /// Serves all reads that wait for a content.
    fn resolve(&mut self, state: &mut AgentState, content: u32, bytes: &[u8]) {
        let Some(waiters) = self.awaited.remove(&content) else { return };
        self.source_ended(content);
        for waiter in waiters {
            self.deliver(state, waiter.block, waiter.ticket, Some(bytes));
        }
        state.contents.change_refs(content, -1);
    }

    /// Handles a block whose content the server named: it is cached, awaited, or must be requested.
    fn told(
        &mut self,
        state: &mut AgentState,
        now: Nanos,
        answer: Answer,
        block: u32,
        wanted: Wanted,
        content: Option<u32>,
    ) -> Option<u32> {
        let Some(content) = content else {
            met("the server named content that is not known here");
            self.ask_again(state, now, answer.volume, block, wanted);
            return None;
        };
        state.contents.change_refs(content, 1);
        learn(state, answer, block, Known::Content(content));
        let mut source = None;
        if let Some(bytes) = state.contents.get(content).map(Bytes::copy_from_slice) {
            state.counts.named += wanted.waiters.len() as u64;
            wanted
                .waiters
                .iter()
                .for_each(|&ticket| self.deliver(state, block, ticket, Some(&bytes)));
            self.resolve(state, content, &bytes);
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
                self.await_content(state, content, Vec::new());
            }
            let again = Wanted { waiters: wanted.waiters, expects: Some(content) };
            self.ask_bytes(state, now, answer.volume, block, again);
            state.counts.again += u64::from(answer.how != How::Hashes);
            source = Some(content);
        }
        state.contents.change_refs(content, -1);
        source
    }

    /// Requests the bytes of a block from the server.
    fn ask_again(
        &mut self,
        state: &mut AgentState,
        now: Nanos,
        volume: VolumeKey,
        block: u32,
        wanted: Wanted,
    ) {
        state.counts.again += 1;
        self.ask_bytes(state, now, volume, block, wanted);
    }

    fn ask_bytes(
        &mut self,
        state: &mut AgentState,
        now: Nanos,
        volume: VolumeKey,
        block: u32,
        wanted: Wanted,
    ) {
        let live = state.volumes.get(&volume).map(|volume| volume.state);
        if live == Some(State::Live) {
            return self.ask(state, now, volume, block, How::Bytes, vec![wanted]);
        }
        if let Some(it) = state.volumes.get_mut(&volume) {
            let waiter = |&ticket: &Ticket| Waiter { volume, block, ticket };
            it.parked.extend(wanted.waiters.iter().map(waiter));
        }
        if let Some(content) = wanted.expects {
            self.source_failed(state, now, content);
        }
    }

    /// Replaces the failed source of a content: the first waiting read requests its block.
    pub(super) fn source_failed(&mut self, state: &mut AgentState, now: Nanos, content: u32) {
        let Some(mut waiters) = self.awaited.remove(&content) else { return };
        met("a source of content failed");
        // Who reads a volume that waits for its lease waits with it.
        waiters.retain(|waiter| {
            let volume = state.volumes.get_mut(&waiter.volume);
            let Some(volume) = volume.filter(|_| self.ops.contains_key(&waiter.ticket)) else {
                return false;
            };
            let is_live = volume.state == State::Live;
            if !is_live {
                volume.parked.push(*waiter);
            }
            is_live
        });
        if !waiters.is_empty() {
            let first = waiters.remove(0);
            state.contents.change_refs(content, 1);
            self.awaited.insert(content, waiters);
            let wanted = Wanted { waiters: vec![first.ticket], expects: Some(content) };
            self.ask_again(state, now, first.volume, first.block, wanted);
        }
        self.source_ended(content);
        state.contents.change_refs(content, -1);
    }

    /// Handles the refusal of a read.
    pub(super) fn refused(
        &mut self,
        state: &mut AgentState,
        now: Nanos,
        (volume, block): (VolumeKey, u32),
        blocks: Vec<Wanted>,
        why: Why,
    ) {
        for (block, wanted) in (block..).zip(blocks) {
            let key = (volume, block);
            let request = self.under_way.get(&key);
            if request.is_some_and(|request| !state.requests.contains_key(request)) {
                self.under_way.remove(&key);
            }
            for ticket in wanted.waiters {
                if self.forget(ticket) {
                    state.events.push_back(Event::Failed { ticket, why: Gone::Server(why) });
                }
            }
            if let Some(content) = wanted.expects {
                self.source_failed(state, now, content);
            }
        }
    }

    /// Parks all reads that wait for the server or for peers, to be requested again later.
    pub(super) fn park_all(&mut self, state: &mut AgentState) {
        self.under_way.clear();
        for deferred in std::mem::take(&mut self.deferred).into_values() {
            state.contents.change_refs(deferred.content, -1);
        }
        self.deadlines.clear();
        let mut parked = Vec::new();
        for (content, waiters) in std::mem::take(&mut self.awaited) {
            if self.on_flash.contains(&content) {
                self.awaited.insert(content, waiters);
                continue;
            }
            parked.extend(waiters);
            self.source_ended(content);
            state.contents.change_refs(content, -1);
        }
        for (_, request) in state.requests.values_mut() {
            if let Request::Read { volume, block, blocks, .. } = request {
                for (block, wanted) in (*block..).zip(std::mem::take(blocks)) {
                    let waiter = |ticket| Waiter { volume: *volume, block, ticket };
                    parked.extend(wanted.waiters.into_iter().map(waiter));
                }
            }
        }
        for waiter in parked {
            if let Some(volume) = state.volumes.get_mut(&waiter.volume) {
                volume.parked.push(waiter);
            }
        }
    }

    /// True if this host is to send the content of a token.
    pub(super) fn expects(&self, token: u64, from: HostId) -> bool {
        self.deferred.get(&token).is_some_and(|deferred| deferred.holder == from)
    }

    /// Handles the answer of the host that was to send a content.
    ///
    /// # Errors
    /// It sent wrong bytes.
    pub(super) fn peer_answered(
        &mut self,
        state: &mut AgentState,
        now: Nanos,
        from: HostId,
        message: ToPeer,
    ) -> Result<(), AgentError> {
        let (ToPeer::Block { token, .. } | ToPeer::Gone { token }) = message;
        let deferred = self.deferred.remove(&token).expect("it is there");
        // It may have come by other ways, and nobody may know of it any more.
        let is_awaited = self.comes_from_a_peer(deferred.content);
        state.contents.change_refs(deferred.content, -1);
        if !is_awaited {
            met("a peer answered when the content had come by other ways");
            return Ok(());
        }
        let ToPeer::Block { bytes, .. } = message else {
            self.source_failed(state, now, deferred.content);
            return Ok(());
        };
        let is_right = bytes.len() == state.settings.block_bytes
            && ((state.settings.hash_of)(&bytes) == deferred.hash
                || mutant("bytes_of_peers_are_not_checked"));
        if !is_right {
            met("a peer sent wrong bytes");
            self.source_failed(state, now, deferred.content);
            return Err(AgentError::WrongBytes { host: from.0 });
        }
        met("a peer sent a block");
        state.counts.from_peers += 1;
        if state.admission.from_peers {
            state.contents.cache(deferred.content, &bytes, Some(&deferred.hash));
        } else {
            state.contents.note_evicted(deferred.content);
        }
        self.resolve(state, deferred.content, &bytes);
        Ok(())
    }

    /// The connection with another host is over: the contents that it was to send are requested
    /// again.
    pub(super) fn peer_lost(&mut self, state: &mut AgentState, now: Nanos, host: HostId) {
        let its = self.deferred.iter().filter(|(_, deferred)| deferred.holder == host);
        let tokens: Vec<u64> = its.map(|(token, _)| *token).collect();
        tokens.into_iter().for_each(|token| self.give_up(state, now, token));
    }

    fn give_up(&mut self, state: &mut AgentState, now: Nanos, token: u64) {
        if let Some(Deferred { content, .. }) = self.deferred.remove(&token) {
            if self.comes_from_a_peer(content) {
                self.source_failed(state, now, content);
            }
            state.contents.change_refs(content, -1);
        }
    }

    /// Gives up peers that have not sent their blocks in time.
    pub(super) fn give_up_late(&mut self, state: &mut AgentState, now: Nanos) {
        while self.deadlines.front().is_some_and(|(at, _)| *at <= now) {
            let (_, token) = self.deadlines.pop_front().expect("it is there");
            if self.deferred.contains_key(&token) {
                met("a peer was silent");
            }
            self.give_up(state, now, token);
        }
    }
}

/// The usual manner of requests.
fn usual(state: &AgentState) -> How {
    if state.settings.protocol.ask_hashes { How::Hashes } else { How::Usual }
}

/// The content of a number and a hash.
fn known_by_hash(state: &mut AgentState, id: ContentId, hash: &Hash) -> u32 {
    let known = state.contents.with_id(id);
    let hash_of = state.settings.hash_of;
    let known = known.or_else(|| state.contents.with_hash(hash, hash_of));
    named_content(state, known, id)
}

/// A known content, or a new one, under this number.
fn named_content(state: &mut AgentState, known: Option<u32>, id: ContentId) -> u32 {
    let content = known.unwrap_or_else(|| state.contents.add());
    if state.contents.id(content) != Some(id) {
        state.contents.set_id(content, id);
    }
    content
}

/// Puts into the map what an answer says of a block, unless a newer write was answered.
fn learn(state: &mut AgentState, answer: Answer, block: u32, known: Known) {
    let Some(volume) = state.volumes.get_mut(&answer.volume) else { return };
    if volume.map.learns(block, answer.version) {
        let contents = &mut state.contents;
        volume.map.set(block, known, |content, change| contents.change_refs(content, change));
    }
}
