//! Writes and flushes of guests, and blocks that are kept until they are durable.
//!
//! 1. A write begins when no write of the same blocks is unanswered, in the guest's order. Map and
//!    cache change at once, so later reads see it. The map learns nothing of its blocks meanwhile.
//! 2. Its blocks are named to the server by number or hash. The server requests the bytes of
//!    contents that it does not know.
//! 3. The blocks stay here until a flush is answered that was sent after their answer. After a lost
//!    connection they are sent again before any flush.

use super::asked::Request;
use super::volume::{Queued, State, Unflushed};
use super::{Agent, Event, Gone, Ticket, VolumeKey};
use crate::map::Known;
use crate::messages::{ContentId, ToServer, UNKNOWN, WriteItem};
use crate::{BLOCKS_MAX, Hash};
use bytes::Bytes;
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

#[derive(Debug)]
pub(super) struct WriteOp {
    pub(super) volume: VolumeKey,
    left: usize,
}

impl Agent {
    /// Writes whole blocks: an [`Event::Done`] or [`Event::Failed`] follows. With `fua` they are
    /// durable at that time.
    ///
    /// # Errors
    /// The range cannot be written; nothing was changed.
    ///
    /// # Panics
    /// When `bytes` are not whole blocks.
    pub fn write(
        &mut self,
        now: Nanos,
        volume: VolumeKey,
        block: u32,
        bytes: &[u8],
        fua: bool,
    ) -> Result<Ticket, Gone> {
        let size = self.settings.block_bytes;
        assert!(bytes.len().is_multiple_of(size), "writes are of whole blocks");
        let of_zeroes = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        let block_of = |bytes: &[u8]| (!of_zeroes(bytes)).then(|| Bytes::copy_from_slice(bytes));
        self.check(volume, block, (bytes.len() / size) as u32)?;
        self.queue_write(now, volume, block, bytes.chunks(size).map(block_of).collect(), fua)
    }

    /// Makes blocks zero: TRIM and WRITE ZEROES.
    ///
    /// # Errors
    /// As [`Agent::write`].
    pub fn zero(
        &mut self,
        now: Nanos,
        volume: VolumeKey,
        block: u32,
        count: u32,
        fua: bool,
    ) -> Result<Ticket, Gone> {
        self.check(volume, block, count)?;
        self.queue_write(now, volume, block, vec![None; count as usize], fua)
    }

    fn queue_write(
        &mut self,
        now: Nanos,
        volume: VolumeKey,
        block: u32,
        blocks: Vec<Option<Bytes>>,
        fua: bool,
    ) -> Result<Ticket, Gone> {
        let ticket = self.tickets.issue();
        self.writes.insert(ticket, WriteOp { volume, left: blocks.len() });
        let state = self.volumes.get_mut(&volume).expect("it was checked");
        state.queue.push_back(Queued { ticket, block, blocks, fua });
        self.begin_writes(now, volume);
        Ok(ticket)
    }

    /// Begins the writes that need not wait any more.
    pub(super) fn begin_writes(&mut self, now: Nanos, key: VolumeKey) {
        let most = self.settings.unflushed_bytes_max / self.settings.block_bytes as u64;
        loop {
            let Some(volume) = self.volumes.get_mut(&key) else { return };
            let Some(first) = volume.queue.front() else { return };
            if !volume.may_ask(now) {
                met("a write waited for a lease");
                return;
            }
            let blocks = first.block..first.block + first.blocks.len() as u32;
            let is_unanswered = |unflushed: &Unflushed| unflushed.answered.is_none();
            let overlaps = volume.unflushed.range(blocks).any(|(_, one)| is_unanswered(one));
            if overlaps && !mutant("overlapping_writes_do_not_wait") {
                met("a write waited for another of the same block");
                return;
            }
            let unflushed = volume.unflushed.len() as u64;
            if unflushed > most && !volume.is_flushing {
                met("a host flushed because much was not flushed");
                volume.is_flushing = true;
                self.send_flush(now, key, None);
                continue;
            }
            if unflushed > 2 * most {
                return;
            }
            let write = volume.queue.pop_front().expect("it is there");
            self.begin_write(now, key, write);
        }
    }

    fn begin_write(&mut self, now: Nanos, key: VolumeKey, write: Queued) {
        let (ticket, count) = (write.ticket, write.blocks.len());
        for (block, bytes) in (write.block..).zip(write.blocks) {
            let mut known = Known::Zero;
            let data = bytes.map(|bytes| {
                let hash = (self.settings.hash_of)(&bytes);
                known = Known::Content(self.written_content(&bytes, &hash));
                (bytes, hash)
            });
            let volume = self.volumes.get_mut(&key).expect("it writes");
            let contents = &mut self.contents;
            volume.map.begin_write(block);
            volume.map.set(block, known, |content, change| contents.change_refs(content, change));
            if let Known::Content(content) = known {
                contents.change_refs(content, -1);
            }
            let one = Unflushed {
                data,
                ticket: Some(ticket),
                fua: write.fua,
                answered: None,
                is_again: false,
            };
            volume.unflushed.insert(block, one);
            // Who reads from now on must not get what was asked for before.
            if !mutant("a_read_joins_one_from_before_a_write") {
                met_if(
                    self.under_way.remove(&(key, block)).is_some(),
                    "a write was to a block that is being read",
                );
            }
        }
        self.send_write(now, key, write.block, count, false);
    }

    /// The content of written bytes, with a reference.
    fn written_content(&mut self, bytes: &Bytes, hash: &Hash) -> u32 {
        let names = self.settings.protocol.names;
        let known = if names { self.contents.with_bytes(hash, bytes) } else { None };
        let content = known.unwrap_or_else(|| self.contents.add());
        self.contents.change_refs(content, 1);
        if self.admission.written {
            self.contents.cache(content, bytes, names.then_some(hash));
        }
        content
    }

    /// Sends unflushed blocks to the server: by name if the protocol says so and not `as_bytes`.
    fn send_write(&mut self, now: Nanos, key: VolumeKey, block: u32, count: usize, as_bytes: bool) {
        let volume = &self.volumes[&key];
        let (number, fence) = (volume.number, volume.fence);
        let end = block + count as u32;
        let mut from = block;
        while from < end {
            let count = (end - from).min(BLOCKS_MAX as u32);
            let volume = &self.volumes[&key];
            let mut fua = false;
            let items = (from..from + count).map(|at| {
                let one = &volume.unflushed[&at];
                fua |= one.fua;
                let Some((bytes, hash)) = &one.data else { return WriteItem::Zero };
                let protocol = self.settings.protocol;
                let id = match volume.map.get(at) {
                    Known::Content(content) if protocol.hash_first && !as_bytes => {
                        self.contents.id(content)
                    }
                    _ => None,
                };
                match id {
                    Some(id) => WriteItem::Id(id),
                    None if protocol.hash_first && !as_bytes && self.settings.hash_first_always => {
                        WriteItem::Hash(*hash)
                    }
                    None => WriteItem::Data(bytes.clone()),
                }
            });
            let items: Vec<WriteItem> = items.collect();
            let request = Request::Write { volume: key, block: from, count: items.len() };
            let request = self.requests.note(now, request);
            let message =
                ToServer::Write { request, volume: number, fence, block: from, fua, items };
            self.out.push_back(message);
            from += count;
        }
    }

    /// Handles the answer to a write.
    pub(super) fn written(
        &mut self,
        now: Nanos,
        (key, block): (VolumeKey, u32),
        version: u64,
        ids: &[u64],
    ) {
        if !self.volumes.contains_key(&key) {
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
            self.block_written(key, at, version, id);
        }
        for (first, count) in wanted {
            met("the server wanted the bytes of a write");
            self.send_write(now, key, first, count, true);
        }
        self.begin_writes(now, key);
        self.send_flushes(now, key);
    }

    fn block_written(&mut self, key: VolumeKey, block: u32, version: u64, id: u64) {
        self.stamp += 1;
        let volume = self.volumes.get_mut(&key).expect("it was checked");
        volume.map.end_write(block, version);
        let Some(one) = volume.unflushed.get_mut(&block) else { return };
        one.answered = Some(self.stamp);
        if std::mem::take(&mut one.is_again) {
            volume.again -= 1;
        }
        let ticket = one.ticket.take();
        let data = one.data.clone();
        if let (Known::Content(content), Some((bytes, hash))) = (volume.map.get(block), data)
            && id != 0
            && self.settings.protocol.names
        {
            self.name_written((key, block), content, ContentId(id), (&bytes, &hash));
        }
        let Some(ticket) = ticket else { return };
        let Some(op) = self.writes.get_mut(&ticket) else { return };
        op.left -= 1;
        if op.left == 0 {
            self.writes.remove(&ticket);
            self.events.push_back(Event::Done { ticket });
        }
    }

    /// Notes the number of written content, which may be known under another entry.
    fn name_written(
        &mut self,
        (key, block): (VolumeKey, u32),
        content: u32,
        id: ContentId,
        (bytes, hash): (&Bytes, &Hash),
    ) {
        let mut named = content;
        match self.contents.with_id(id) {
            Some(other) if other != content => {
                named = other;
                let contents = &mut self.contents;
                let volume = self.volumes.get_mut(&key).expect("it was checked");
                let known = Known::Content(other);
                volume
                    .map
                    .set(block, known, |content, change| contents.change_refs(content, change));
                if self.admission.written {
                    self.contents.cache(other, bytes, Some(hash));
                }
            }
            Some(_) => {}
            None => self.contents.set_id(content, id),
        }
        if !self.contents.is_cached(named) {
            self.contents.note_evicted(named);
        }
    }

    /// Makes all writes that were answered durable: an [`Event::Done`] or [`Event::Failed`]
    /// follows.
    ///
    /// # Errors
    /// The volume cannot be flushed; nothing was changed.
    pub fn flush(&mut self, now: Nanos, volume: VolumeKey) -> Result<Ticket, Gone> {
        self.check(volume, 0, 1)?;
        let ticket = self.tickets.issue();
        let state = self.volumes.get_mut(&volume).expect("it was checked");
        state.flushes.push_back(ticket);
        self.send_flushes(now, volume);
        Ok(ticket)
    }

    /// Sends the flushes that need not wait any more.
    pub(super) fn send_flushes(&mut self, now: Nanos, key: VolumeKey) {
        let Some(volume) = self.volumes.get_mut(&key) else { return };
        if !volume.may_ask(now) || volume.again > 0 {
            met_if(!volume.flushes.is_empty(), "a flush waited for the server");
            return;
        }
        for ticket in std::mem::take(&mut volume.flushes) {
            self.send_flush(now, key, Some(ticket));
        }
    }

    fn send_flush(&mut self, now: Nanos, key: VolumeKey, ticket: Option<Ticket>) {
        let stamp = self.stamp;
        let (volume, fence) = (self.volumes[&key].number, self.volumes[&key].fence);
        let request = self.requests.note(now, Request::Flush { volume: key, ticket, stamp });
        self.out.push_back(ToServer::Flush { request, volume, fence });
    }

    /// Handles the answer to a flush.
    pub(super) fn flushed(
        &mut self,
        now: Nanos,
        key: VolumeKey,
        ticket: Option<Ticket>,
        stamp: u64,
    ) {
        let Some(volume) = self.volumes.get_mut(&key) else { return };
        let upto = if mutant("a_flush_covers_later_writes") { u64::MAX } else { stamp };
        volume.unflushed.retain(|_, one| one.answered.is_none_or(|answered| answered > upto));
        match ticket {
            Some(ticket) => self.events.push_back(Event::Done { ticket }),
            None => volume.is_flushing = false,
        }
        self.begin_writes(now, key);
    }

    /// Sends again the writes that the server may have lost.
    pub(super) fn write_again(&mut self, now: Nanos, key: VolumeKey) {
        let volume = self.volumes.get_mut(&key).expect("it was attached");
        debug_assert!(volume.state == State::Live, "the server knows its lease");
        if mutant("unflushed_writes_are_not_said_again") {
            volume.unflushed.retain(|_, one| one.answered.is_none());
        }
        let mut runs: Vec<(u32, usize)> = Vec::new();
        for (&block, one) in &mut volume.unflushed {
            met_if(one.answered.is_some(), "a write that was answered was said again");
            (one.answered, one.is_again) = (None, true);
            volume.map.begin_write(block);
            match runs.last_mut() {
                Some((first, count)) if *first + *count as u32 == block => *count += 1,
                _ => runs.push((block, 1)),
            }
        }
        volume.again = volume.unflushed.len();
        for (block, count) in runs {
            self.send_write(now, key, block, count, false);
        }
    }
}
