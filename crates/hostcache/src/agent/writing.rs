//! Writes and flushes of guests, and blocks that are kept until they are durable.
//!
//! 1. A write begins when no write of the same blocks is unanswered, in the guest's order. Map and
//!    cache change at once, so later reads see it. The map learns nothing of its blocks meanwhile.
//! 2. Its blocks are named to the server by number or hash. The server requests the bytes of
//!    contents that it does not know.
//! 3. The blocks stay here until a flush is answered that was sent after their answer. After a lost
//!    connection they are sent again before any flush.
//! 4. A block for which the server has no room is as it was before, and its write fails. If it is
//!    sent again, its write was answered before: it stays here, and is sent again each second.

use super::asked::Request;
use super::events::{Event, Gone, Ticket, VolumeKey};
use super::reading::Reads;
use super::state::AgentState;
use super::volume::{Before, Queued, State, Unflushed};
use crate::map::Known;
use crate::messages::{ContentId, Shortage, ToServer, UNKNOWN, WriteItem};
use crate::{BLOCKS_MAX, Hash};
use bytes::Bytes;
use std::collections::BTreeMap;
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Number of an answer to a write that no flush makes durable: it must be sent again.
const NOT_DURABLE: u64 = u64::MAX;
/// Time after which what found no room is sent again.
const ROOM_AGAIN: Nanos = Nanos::from_secs(1);

#[derive(Debug)]
struct WriteOp {
    volume: VolumeKey,
    left: usize,
    shortage: Option<Shortage>,
}

/// A write of a guest.
#[derive(Debug)]
pub(super) struct NewWrite {
    pub(super) volume: VolumeKey,
    pub(super) block: u32,
    /// `None`: zeroes.
    pub(super) blocks: Vec<Option<Bytes>>,
    pub(super) fua: bool,
}

/// The writes of guests that are not answered.
#[derive(Debug, Default)]
pub(super) struct Writes {
    ops: BTreeMap<Ticket, WriteOp>,
    /// Number of answers to written blocks.
    stamp: u64,
}

impl Writes {
    /// Number of writes that are not answered.
    pub(super) fn len(&self) -> usize {
        self.ops.len()
    }

    /// Writes of a volume.
    pub(super) fn of(&self, volume: VolumeKey) -> impl Iterator<Item = Ticket> + '_ {
        let writes = self.ops.iter().filter(move |(_, op)| op.volume == volume);
        writes.map(|(ticket, _)| *ticket)
    }

    /// Forgets a write.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.ops.remove(&ticket);
    }

    /// Writes blocks of a volume that has them.
    pub(super) fn write(
        &mut self,
        state: &mut AgentState,
        reads: &mut Reads,
        now: Nanos,
        write: NewWrite,
    ) -> Ticket {
        let NewWrite { volume, block, blocks, fua } = write;
        let ticket = state.tickets.issue();
        self.ops.insert(ticket, WriteOp { volume, left: blocks.len(), shortage: None });
        let it = state.volumes.get_mut(&volume).expect("it was checked");
        it.queue.push_back(Queued { ticket, block, blocks, fua });
        self.begin_writes(state, reads, now, volume);
        ticket
    }

    /// Begins the writes that need not wait any more.
    pub(super) fn begin_writes(
        &mut self,
        state: &mut AgentState,
        reads: &mut Reads,
        now: Nanos,
        key: VolumeKey,
    ) {
        let most = state.settings.unflushed_bytes_max / state.settings.block_bytes as u64;
        loop {
            let Some(volume) = state.volumes.get_mut(&key) else { return };
            let Some(first) = volume.queue.front() else { return };
            if !volume.may_ask(now) {
                met("a write waited for a lease");
                return;
            }
            let blocks = first.block..first.block + first.blocks.len() as u32;
            // What waits for room is not on its way: a later write of the block may go first, so
            // that a guest can still trim what it has.
            let is_unanswered = |one: &Unflushed| one.answered.is_none() && !one.waits_for_room;
            let overlaps = volume.unflushed.range(blocks).any(|(_, one)| is_unanswered(one));
            if overlaps && !mutant("overlapping_writes_do_not_wait") {
                met("a write waited for another of the same block");
                return;
            }
            let unflushed = volume.unflushed.len() as u64;
            // What is sent again keeps flushes waiting, the host's own as well as the guest's.
            if unflushed > most && !volume.is_flushing && volume.again == 0 {
                met("a host flushed because much was not flushed");
                volume.is_flushing = true;
                self.send_flush(state, now, key, None);
                continue;
            }
            if unflushed > 2 * most {
                return;
            }
            let write = volume.queue.pop_front().expect("it is there");
            self.begin_write(state, reads, now, key, write);
        }
    }

    fn begin_write(
        &mut self,
        state: &mut AgentState,
        reads: &mut Reads,
        now: Nanos,
        key: VolumeKey,
        write: Queued,
    ) {
        let (ticket, count) = (write.ticket, write.blocks.len());
        for (block, bytes) in (write.block..).zip(write.blocks) {
            let mut known = Known::Zero;
            let data = bytes.map(|bytes| {
                let hash = (state.settings.hash_of)(&bytes);
                known = Known::Content(written_content(state, &bytes, &hash));
                (bytes, hash)
            });
            let volume = state.volumes.get_mut(&key).expect("it writes");
            let contents = &mut state.contents;
            let before = volume.unflushed.remove(&block);
            let has_waited = before.as_ref().is_some_and(|one| one.waits_for_room);
            met_if(has_waited, "a write was of a block that waited for room");
            volume.map.begin_write(block);
            volume.map.set(block, known, |content, change| contents.change_refs(content, change));
            if let Known::Content(content) = known {
                contents.change_refs(content, -1);
            }
            let before = before.and_then(|one| {
                let answered = if has_waited { NOT_DURABLE } else { one.answered? };
                Some(Box::new(Before { data: one.data, answered }))
            });
            let one = Unflushed {
                data,
                ticket: Some(ticket),
                fua: write.fua,
                answered: None,
                // Flushes wait for what it replaces, as long as this one may be refused.
                is_again: has_waited,
                waits_for_room: false,
                before,
            };
            volume.unflushed.insert(block, one);
            // Who reads from now on must not get what was asked for before.
            if !mutant("a_read_joins_one_from_before_a_write") {
                let is_read = reads.end_joining(key, block);
                met_if(is_read, "a write was to a block that is being read");
            }
        }
        send_write(state, now, key, write.block, count, false);
    }

    /// Handles the answer to a write.
    pub(super) fn written(
        &mut self,
        state: &mut AgentState,
        reads: &mut Reads,
        now: Nanos,
        (key, block): (VolumeKey, u32),
        version: u64,
        ids: &[u64],
    ) {
        if !state.volumes.contains_key(&key) {
            return;
        }
        let mut wanted: Vec<(u32, usize)> = Vec::new();
        for (at, &id) in (block..).zip(ids) {
            if id == UNKNOWN {
                match wanted.last_mut() {
                    Some((first, count)) if *first + *count as u32 == at => *count += 1,
                    _ => wanted.push((at, 1)),
                }
                continue;
            }
            match Shortage::of(id) {
                Some(shortage) => self.block_refused(state, now, (key, at), version, shortage),
                None => self.block_written(state, key, at, version, id),
            }
        }
        for (first, count) in wanted {
            met("the server wanted the bytes of a write");
            send_write(state, now, key, first, count, true);
        }
        self.begin_writes(state, reads, now, key);
        self.send_flushes(state, now, key);
    }

    fn block_written(
        &mut self,
        state: &mut AgentState,
        key: VolumeKey,
        block: u32,
        version: u64,
        id: u64,
    ) {
        self.stamp += 1;
        let volume = state.volumes.get_mut(&key).expect("it was checked");
        volume.map.end_write(block, version);
        let Some(one) = volume.unflushed.get_mut(&block) else { return };
        (one.answered, one.before) = (Some(self.stamp), None);
        if std::mem::take(&mut one.is_again) {
            volume.again -= 1;
        }
        let ticket = one.ticket.take();
        let data = one.data.clone();
        if let (Known::Content(content), Some((bytes, hash))) = (volume.map.get(block), data)
            && id != 0
            && state.settings.protocol.names
        {
            name_written(state, (key, block), content, ContentId(id), (&bytes, &hash));
        }
        if let Some(ticket) = ticket {
            self.one_answered(state, ticket, None);
        }
    }

    /// A block of a guest's write was written, or found no room; the last one ends the write.
    fn one_answered(&mut self, state: &mut AgentState, ticket: Ticket, shortage: Option<Shortage>) {
        let Some(op) = self.ops.get_mut(&ticket) else { return };
        assert!(op.left > 0, "a block is answered once");
        op.left -= 1;
        op.shortage = op.shortage.or(shortage);
        if op.left > 0 {
            return;
        }
        let event = match op.shortage {
            None => Event::Done { ticket },
            Some(shortage) => Event::Failed { ticket, why: Gone::NoRoom(shortage) },
        };
        self.ops.remove(&ticket);
        state.events.push_back(event);
    }

    /// There is no room for a block, which the server has as it was.
    fn block_refused(
        &mut self,
        state: &mut AgentState,
        now: Nanos,
        (key, block): (VolumeKey, u32),
        version: u64,
        shortage: Shortage,
    ) {
        let volume = state.volumes.get_mut(&key).expect("it was checked");
        let Some(one) = volume.unflushed.get_mut(&block) else {
            return volume.map.end_write(block, version);
        };
        let Some(ticket) = one.ticket else {
            // Its write was answered, so it must not be lost; nor is anything flushed before it.
            met("there was no room for a write that was said again");
            one.waits_for_room = true;
            volume.room_at.get_or_insert(Nanos(now.0.saturating_add(ROOM_AGAIN.0)));
            return;
        };
        let refused = volume.unflushed.remove(&block).expect("just seen");
        let before = refused.before.filter(|_| !mutant("a_refused_write_takes_the_one_before"));
        volume.again -= usize::from(refused.is_again);
        volume.map.end_write(block, version);
        if let Some(before) = before {
            met("a write was refused after another of the same block that was not durable");
            let Before { data, answered } = *before;
            let answered = Some(answered).filter(|_| !refused.is_again);
            let one = Unflushed {
                data,
                ticket: None,
                fua: false,
                answered,
                is_again: refused.is_again,
                waits_for_room: false,
                before: None,
            };
            volume.unflushed.insert(block, one);
            if refused.is_again {
                // The server may have lost it since.
                volume.again += 1;
                volume.map.begin_write(block);
            }
        }
        // What the server has there is learnt when it is read.
        state.set_map(key, block, Known::Nothing);
        if refused.is_again && state.volumes[&key].unflushed.contains_key(&block) {
            met("a write from before a refused one was said again");
            send_write(state, now, key, block, 1, false);
        }
        self.one_answered(state, ticket, Some(shortage));
    }

    /// Sends again what found no room, when it is time.
    pub(super) fn look_for_room(&self, state: &mut AgentState, now: Nanos) {
        for key in state.volumes.keys().copied().collect::<Vec<_>>() {
            let volume = state.volumes.get_mut(&key).expect("it is there");
            if volume.room_at.is_none_or(|at| at > now) {
                continue;
            }
            if !volume.may_ask(now) {
                volume.room_at = Some(Nanos(now.0.saturating_add(ROOM_AGAIN.0)));
                continue;
            }
            volume.room_at = None;
            let waiting = volume.unflushed.iter_mut().filter(|(_, one)| one.waits_for_room);
            let blocks = waiting.map(|(&block, one)| {
                one.waits_for_room = false;
                block
            });
            for (block, count) in runs_of(blocks.collect()) {
                send_write(state, now, key, block, count, false);
            }
        }
    }

    /// Time at which [`Writes::look_for_room`] has something to do.
    pub(super) fn next_deadline(&self, state: &AgentState) -> Option<Nanos> {
        state.volumes.values().filter_map(|volume| volume.room_at).min()
    }

    /// Makes all writes that were answered durable.
    pub(super) fn flush(&self, state: &mut AgentState, now: Nanos, volume: VolumeKey) -> Ticket {
        let ticket = state.tickets.issue();
        let it = state.volumes.get_mut(&volume).expect("it was checked");
        it.flushes.push_back(ticket);
        self.send_flushes(state, now, volume);
        ticket
    }

    /// Sends the flushes that need not wait any more.
    pub(super) fn send_flushes(&self, state: &mut AgentState, now: Nanos, key: VolumeKey) {
        let Some(volume) = state.volumes.get_mut(&key) else { return };
        if !volume.may_ask(now) || volume.again > 0 {
            met_if(!volume.flushes.is_empty(), "a flush waited for the server");
            return;
        }
        for ticket in std::mem::take(&mut volume.flushes) {
            self.send_flush(state, now, key, Some(ticket));
        }
    }

    fn send_flush(
        &self,
        state: &mut AgentState,
        now: Nanos,
        key: VolumeKey,
        ticket: Option<Ticket>,
    ) {
        let stamp = self.stamp;
        let (volume, fence) = (state.volumes[&key].number, state.volumes[&key].fence);
        let request = state.requests.note(now, Request::Flush { volume: key, ticket, stamp });
        state.out.push_back(ToServer::Flush { request, volume, fence });
    }

    /// Handles the answer to a flush.
    pub(super) fn flushed(
        &mut self,
        state: &mut AgentState,
        reads: &mut Reads,
        now: Nanos,
        key: VolumeKey,
        ticket: Option<Ticket>,
        stamp: u64,
    ) {
        let Some(volume) = state.volumes.get_mut(&key) else { return };
        let upto = if mutant("a_flush_covers_later_writes") { u64::MAX } else { stamp };
        volume.unflushed.retain(|_, one| {
            if one.before.as_ref().is_some_and(|before| before.answered <= upto) {
                one.before = None;
            }
            one.answered.is_none_or(|answered| answered > upto)
        });
        match ticket {
            Some(ticket) => state.events.push_back(Event::Done { ticket }),
            None => volume.is_flushing = false,
        }
        self.begin_writes(state, reads, now, key);
    }
}

/// Sends again the writes that the server may have lost.
pub(super) fn write_again(state: &mut AgentState, now: Nanos, key: VolumeKey) {
    let volume = state.volumes.get_mut(&key).expect("it was attached");
    debug_assert!(volume.state == State::Live, "the server knows its lease");
    if mutant("unflushed_writes_are_not_said_again") {
        volume.unflushed.retain(|_, one| one.answered.is_none());
    }
    for (&block, one) in &mut volume.unflushed {
        met_if(one.answered.is_some(), "a write that was answered was said again");
        (one.answered, one.is_again, one.waits_for_room) = (None, true, false);
        if let Some(before) = &mut one.before {
            before.answered = NOT_DURABLE; // The server may have lost it, too.
        }
        volume.map.begin_write(block);
    }
    (volume.again, volume.room_at) = (volume.unflushed.len(), None);
    for (block, count) in runs_of(volume.unflushed.keys().copied().collect()) {
        send_write(state, now, key, block, count, false);
    }
}

/// Runs of neighbours among ascending blocks: the first block and the number of blocks.
fn runs_of(blocks: Vec<u32>) -> Vec<(u32, usize)> {
    let mut runs: Vec<(u32, usize)> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some((first, count)) if *first + *count as u32 == block => *count += 1,
            _ => runs.push((block, 1)),
        }
    }
    runs
}

/// The content of written bytes, with a reference.
fn written_content(state: &mut AgentState, bytes: &Bytes, hash: &Hash) -> u32 {
    let names = state.settings.protocol.names;
    let known = if names { state.contents.with_bytes(hash, bytes) } else { None };
    let content = known.unwrap_or_else(|| state.contents.add());
    state.contents.change_refs(content, 1);
    if state.admission.written {
        state.contents.cache(content, bytes, names.then_some(hash));
    }
    content
}

/// Sends unflushed blocks to the server: by name if the protocol says so and not `as_bytes`.
fn send_write(
    state: &mut AgentState,
    now: Nanos,
    key: VolumeKey,
    block: u32,
    count: usize,
    as_bytes: bool,
) {
    let volume = &state.volumes[&key];
    let (number, fence) = (volume.number, volume.fence);
    let end = block + count as u32;
    let mut from = block;
    while from < end {
        let count = (end - from).min(BLOCKS_MAX as u32);
        let volume = &state.volumes[&key];
        let mut fua = false;
        let items = (from..from + count).map(|at| {
            let one = &volume.unflushed[&at];
            fua |= one.fua;
            let Some((bytes, hash)) = &one.data else { return WriteItem::Zero };
            let protocol = state.settings.protocol;
            let id = match volume.map.get(at) {
                Known::Content(content) if protocol.hash_first && !as_bytes => {
                    state.contents.id(content)
                }
                _ => None,
            };
            match id {
                Some(id) => WriteItem::Id(id),
                None if protocol.hash_first && !as_bytes && state.settings.hash_first_always => {
                    WriteItem::Hash(*hash)
                }
                None => WriteItem::Data(bytes.clone()),
            }
        });
        let items: Vec<WriteItem> = items.collect();
        let request = Request::Write { volume: key, block: from, count: items.len() };
        let request = state.requests.note(now, request);
        let message = ToServer::Write { request, volume: number, fence, block: from, fua, items };
        state.out.push_back(message);
        from += count;
    }
}

/// Notes the number of written content, which may be known under another entry.
fn name_written(
    state: &mut AgentState,
    (key, block): (VolumeKey, u32),
    content: u32,
    id: ContentId,
    (bytes, hash): (&Bytes, &Hash),
) {
    let mut named = content;
    match state.contents.with_id(id) {
        Some(other) if other != content => {
            named = other;
            let contents = &mut state.contents;
            let volume = state.volumes.get_mut(&key).expect("it was checked");
            let known = Known::Content(other);
            volume.map.set(block, known, |content, change| contents.change_refs(content, change));
            if state.admission.written {
                state.contents.cache(other, bytes, Some(hash));
            }
        }
        Some(_) => {}
        None => state.contents.set_id(content, id),
    }
    if !state.contents.is_cached(named) {
        state.contents.note_evicted(named);
    }
}
