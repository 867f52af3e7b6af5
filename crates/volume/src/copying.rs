//! The four operations as live state machines: a chunk is copied while it is in use.
//!
//! ```text
//! queued ──► copying ──► switching ──► over
//!               │            │
//!               └────────────┴──► failed or cancelled: the copy is given up
//! ```
//!
//! *Copying.* The chunk is copied piece by piece, each piece read from a copy and written to the
//! destination. A block counts as present at the destination once a copy of it arrived that no
//! foreground write overlapped. MIGRATE, REPLICATE and PREFETCH *mirror*: a write goes to the
//! original, and to the destination as well where blocks of it are present. REDIRECT *forwards*:
//! whole blocks go to the destination alone, and become present with that; the journal keeps the
//! bits. No piece is started that a write under way overlaps.
//!
//! *Switching.* With all blocks present, the record that names the destination is queued. Until it
//! is durable writes go to both places, so that either map is right; a write that fails on the
//! destination meanwhile queues a second record, which takes the first one back.
//!
//! The throttle: bytes a second and requests in flight for each pool, and operations hold back
//! while the foreground uses the pool, up to a bound on their patience.

use crate::commit::Waiter;
use crate::flight::{Flight, Owner};
use crate::format::Record;
use crate::group::{Group, Service};
use crate::layout::OVERLAYS_MAX;
use crate::map::{ChunkCopy, ChunkState, NONE, Overlay, Place};
use crate::operation::{Finished, Operation, OperationId, OperationKind, Outcome, Refusal};
use crate::pool::PoolState;
use crate::presence::Presence;
use crate::settings::{COPIES_MAX, OPERATIONS_QUEUED_MAX};
use crate::slab::Slab;
use crate::throttle::Held;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::{ChunkId, Nanos, PoolId, VolumeId};

/// The largest chunk whose writes can be redirected: its bits fit into a record.
const REDIRECT_CHUNK_MAX: u32 = 16 << 20;
/// Copies that are to be made anew; beyond it the oldest wish is forgotten.
const WISHES_MAX: usize = 4096;

/// A piece on its way.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) range: Range<u32>,
    /// Whether a foreground write overlapped it meanwhile.
    pub(crate) spoiled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Copying,
    Switching,
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Copy {
    id: OperationId,
    pub(crate) what: Operation,
    stage: Stage,
    /// Where the chunk goes; for a redirected chunk its overlay's place.
    destination: Place,
    /// The copy that a migration replaces.
    source: Place,
    /// Blocks at the destination; a redirected chunk keeps them in its overlay.
    presence: Presence,
    pub(crate) piece: Option<Piece>,
    cursor: u32,
    pub(crate) spoils: u32,
    /// Pools that failed to give the piece: one bit each.
    failed_sources: u64,
    pub(crate) cancelled: bool,
    /// The destination missed a write or died.
    pub(crate) failed: bool,
    /// Since when the foreground holds it back.
    held_since: Option<Nanos>,
}

impl Copy {
    pub(crate) fn is_copying(&self) -> bool {
        self.stage == Stage::Copying
    }

    /// What the chunk becomes once all that is queued is durable.
    pub(crate) fn foretell(&self, state: &mut ChunkState) {
        if self.stage != Stage::Switching || self.failed {
            return;
        }
        let prefetched = self.what.kind == OperationKind::Prefetch;
        let copy = ChunkCopy { place: self.destination, prefetched };
        match self.what.kind {
            OperationKind::Replicate | OperationKind::Prefetch => state.copies.push(copy),
            OperationKind::Migrate | OperationKind::Redirect => {
                state.copies.retain(|other| other.place != self.source);
                state.copies.insert(0, copy);
                state.overlay = None;
            }
        }
        state.dirty |= state.copies.len() > 1;
        state.sealed = false;
    }
}

/// All operations of a group.
#[derive(Debug, Default)]
pub(crate) struct Copier {
    queue: VecDeque<(OperationId, Operation)>,
    /// Chunks that have an operation queued or under way.
    chunks: BTreeMap<ChunkId, OperationId>,
    pub(crate) operations: Slab<Copy>,
    wishes: VecDeque<Operation>,
    ids: u64,
    /// When a throttle lets an operation go on.
    pub(crate) wake: Option<Nanos>,
    /// Chunks whose overlay took blocks that the journal has not been given.
    pub(crate) unsaved_overlays: Vec<ChunkId>,
    pub(crate) overlays: usize,
}

impl Copier {
    /// Asks for an operation later, when there is leisure.
    pub(crate) fn wish(&mut self, operation: Operation) {
        if self.wishes.len() == WISHES_MAX {
            self.wishes.pop_front();
        }
        self.wishes.push_back(operation);
    }

    pub(crate) fn take_wish(&mut self) -> Option<Operation> {
        self.wishes.pop_front()
    }

    pub(crate) fn has_wishes(&self) -> bool {
        !self.wishes.is_empty()
    }

    pub(crate) fn next_id(&mut self) -> OperationId {
        self.ids += 1;
        OperationId(self.ids)
    }

    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.operations.len() > 0 || !self.queue.is_empty()
    }

    /// Operations queued and under way.
    pub(crate) fn count(&self) -> usize {
        self.chunks.len()
    }

    /// Whether an operation under way will leave a slot.
    pub(crate) fn will_free(&self) -> bool {
        self.operations.iter().any(|(_, copy)| copy.stage == Stage::Switching)
    }

    /// Cancels everything on a volume; queued operations are found out when they begin.
    pub(crate) fn cancel_volume(&mut self, volume: VolumeId) {
        for (_, copy) in self.operations.iter_mut() {
            copy.cancelled |= copy.what.chunk.volume == volume;
        }
    }

    /// Slots that prefetches are filling.
    pub(crate) fn prefetching(&self) -> impl Iterator<Item = Place> + '_ {
        let prefetch = |copy: &&Copy| copy.what.kind == OperationKind::Prefetch;
        self.operations.iter().map(|(_, copy)| copy).filter(prefetch).map(|copy| copy.destination)
    }

    /// Slots that operations are filling; overlays stand in the map, and what was taken back in the
    /// record that says so.
    pub(crate) fn destinations(&self) -> impl Iterator<Item = Place> + '_ {
        let unmapped = |copy: &&Copy| {
            let taken_back = copy.stage == Stage::Switching && copy.failed;
            copy.what.kind != OperationKind::Redirect && !taken_back
        };
        self.operations.iter().map(|(_, copy)| copy).filter(unmapped).map(|copy| copy.destination)
    }
}

impl Group {
    /// Queues an operation.
    ///
    /// # Errors
    /// When it makes no sense now; nothing has changed then.
    pub fn start(&mut self, now: Nanos, operation: Operation) -> Result<OperationId, Refusal> {
        self.refuse(&operation)?;
        let id = self.copier.next_id();
        self.copier.chunks.insert(operation.chunk, id);
        self.copier.queue.push_back((id, operation));
        self.pump(now);
        Ok(id)
    }

    /// Cancels an operation that is queued or copying; one that is switching goes on. Whether it
    /// was found and will end as cancelled. A redirected chunk keeps what it has at either place.
    pub fn cancel(&mut self, now: Nanos, id: OperationId) -> bool {
        if let Some(at) = self.copier.queue.iter().position(|(queued, _)| *queued == id) {
            let (_, operation) = self.copier.queue.remove(at).expect("just found");
            self.copier.chunks.remove(&operation.chunk);
            self.finished_out.push(Finished { id, operation, outcome: Outcome::Cancelled });
            return true;
        }
        let copying = |copy: &Copy| copy.id == id && copy.is_copying();
        let found = self.copier.operations.iter_mut().find(|(_, copy)| copying(copy));
        let Some((_, copy)) = found else { return false };
        copy.cancelled = true;
        self.pump(now);
        true
    }

    /// Cancels everything that can be cancelled.
    pub(crate) fn cancel_all(&mut self, now: Nanos) {
        self.proposal.replace(Vec::new());
        let queued: Vec<OperationId> = self.copier.queue.iter().map(|(id, _)| *id).collect();
        for id in queued {
            self.cancel(now, id);
        }
        for (_, copy) in self.copier.operations.iter_mut() {
            copy.cancelled = true;
        }
    }

    pub(crate) fn refuse(&self, operation: &Operation) -> Result<(), Refusal> {
        if self.service != Service::Ready {
            return Err(Refusal::NotReady);
        }
        let chunk = operation.chunk;
        let volume = self.map.volume(chunk.volume);
        let alive = volume.is_some_and(|volume| !volume.deleting) && self.map.has(chunk);
        if !alive || self.map.entry(chunk).first().is_none() {
            return Err(Refusal::Unmapped);
        }
        let pool = self.pools.get(usize::from(operation.to.0)).ok_or(Refusal::NoPool)?;
        let overlay = self.map.extra(chunk).and_then(|extra| extra.overlay.as_ref());
        let resumes = overlay.is_some_and(|o| o.place.pool == operation.to) && pool.is_alive();
        if !pool.takes_chunks() && !resumes {
            return Err(Refusal::NoPool);
        }
        if self.copier.chunks.contains_key(&chunk) {
            return Err(Refusal::Busy);
        }
        if self.copier.chunks.len() >= OPERATIONS_QUEUED_MAX {
            return Err(Refusal::QueueFull);
        }
        self.refuse_for_copies(operation)
    }

    fn refuse_for_copies(&self, operation: &Operation) -> Result<(), Refusal> {
        let chunk = operation.chunk;
        let overlay = self.map.extra(chunk).and_then(|extra| extra.overlay.as_ref());
        if let Some(overlay) = overlay {
            // A chunk in two parts is brought together where its overlay is.
            let together = overlay.place.pool == operation.to;
            return match operation.kind {
                OperationKind::Redirect | OperationKind::Migrate if together => Ok(()),
                _ => Err(Refusal::Busy),
            };
        }
        if self.map.copies(chunk).any(|copy| copy.place.pool == operation.to) {
            return Err(Refusal::AlreadyThere);
        }
        let copies = self.map.copies(chunk).count();
        let adds = matches!(operation.kind, OperationKind::Replicate | OperationKind::Prefetch);
        let redirects = operation.kind == OperationKind::Redirect;
        if adds && copies >= COPIES_MAX || redirects && copies > 1 {
            return Err(Refusal::TooManyCopies);
        }
        let pool = self.pool(operation.to);
        let full = match operation.kind {
            OperationKind::Prefetch => pool.prefetched >= pool.reserve || pool.slots.free() == 0,
            OperationKind::Redirect => {
                pool.free_beside_reserve() == 0
                    || self.copier.overlays >= OVERLAYS_MAX
                    || self.chunk_size > REDIRECT_CHUNK_MAX
            }
            _ => pool.free_beside_reserve() == 0,
        };
        if full { Err(Refusal::NoRoom) } else { Ok(()) }
    }

    /// The operation on a chunk, by its number in the copier.
    pub(crate) fn operation_on(&self, chunk: ChunkId) -> Option<u32> {
        let traffic = self.map.entry(chunk).traffic;
        if traffic == NONE { None } else { self.traffic[traffic].operation }
    }

    /// Starts queued operations, and takes the next step of those under way.
    pub(crate) fn pump_operations(&mut self, now: Nanos) {
        self.copier.wake = None;
        while self.copier.operations.len() < self.settings.copying.concurrent as usize {
            let queued = self.copier.queue.pop_front();
            let Some((id, operation)) = queued.or_else(|| self.next_move()) else { break };
            self.begin_operation(now, id, operation);
        }
        if self.copier.operations.len() > 0 {
            // Oldest first: where only one may use a pool at a time, none waits forever.
            let mut under_way: Vec<u32> =
                self.copier.operations.iter().map(|(index, _)| index).collect();
            under_way.sort_unstable_by_key(|&index| self.copier.operations[index].id);
            for index in under_way {
                self.advance(now, index);
            }
        }
    }

    fn begin_operation(&mut self, now: Nanos, id: OperationId, what: Operation) {
        self.copier.chunks.remove(&what.chunk);
        if let Err(refusal) = self.refuse(&what) {
            let gone = matches!(refusal, Refusal::Unmapped | Refusal::NotReady);
            let outcome = if gone { Outcome::Cancelled } else { Outcome::Failed };
            self.finished_out.push(Finished { id, operation: what, outcome });
            return;
        }
        let chunk = what.chunk;
        self.copier.chunks.insert(chunk, id);
        let source = self.map.entry(chunk).first().expect("refused otherwise");
        let overlay = self.map.extra(chunk).and_then(|extra| extra.overlay.as_ref());
        let resumed = overlay.map(|overlay| overlay.place);
        let destination = resumed.unwrap_or_else(|| {
            let slots = &mut self.pools[usize::from(what.to.0)].slots;
            let (slot, _) = slots.take().expect("refused otherwise");
            Place { pool: what.to, slot }
        });
        let presence = Presence::none(self.chunk_size);
        let mut what = what;
        if resumed.is_some() {
            what.kind = OperationKind::Redirect;
        } else if what.kind == OperationKind::Redirect {
            let overlay = Overlay { place: destination, presence: presence.clone(), unsaved: true };
            self.map.extra_mut(chunk).overlay = Some(overlay);
            self.copier.unsaved_overlays.push(chunk);
            self.copier.overlays += 1;
        }
        if what.kind == OperationKind::Prefetch {
            self.pool_mut(what.to).prefetched += 1;
        }
        let copy = Copy {
            id,
            what,
            stage: Stage::Copying,
            destination,
            source,
            presence,
            piece: None,
            cursor: 0,
            spoils: 0,
            failed_sources: 0,
            cancelled: false,
            failed: false,
            held_since: None,
        };
        let index = self.copier.operations.insert(copy);
        self.map.volume_mut(chunk.volume).expect("refused otherwise").busy += 1;
        let traffic = self.traffic_of(chunk);
        self.traffic[traffic].operation = Some(index);
        self.advance(now, index);
    }

    /// Takes the next step of an operation that is not waiting for a device or the journal.
    fn advance(&mut self, now: Nanos, index: u32) {
        let copy = &self.copier.operations[index];
        if copy.piece.is_some() || copy.stage == Stage::Switching {
            return;
        }
        if copy.cancelled || copy.failed {
            let outcome = if copy.failed { Outcome::Failed } else { Outcome::Cancelled };
            return self.give_up(now, index, outcome);
        }
        if self.presence_of(index).is_full() {
            return self.switch(now, index);
        }
        let chunk = copy.what.chunk;
        if !self.seal_is_at_hand(now, chunk, false) {
            return; // Its arrival leads back here.
        }
        let Some(range) = self.next_piece(index) else { return };
        let copy = &self.copier.operations[index];
        if self.settings.copying.locking && self.has_parts_under_way(index) {
            return;
        }
        let (chunk, failed) = (copy.what.chunk, copy.failed_sources);
        let source = self.best_source(chunk, &range, failed);
        let Some(source) = source else {
            self.copier.operations[index].failed = true;
            return self.advance(now, index);
        };
        let (pools, held) = ([source.pool, copy.destination.pool], copy.held_since);
        let held = self.hold_back(now, &pools, range.end - range.start, held);
        self.copier.operations[index].held_since = held.since();
        if held != Held::Free {
            return;
        }
        let offset = self.pool(source.pool).address(source, range.start, self.chunk_size);
        let io = Io::Read { offset, length: range.end - range.start };
        let copy = &mut self.copier.operations[index];
        copy.cursor = range.end;
        copy.piece = Some(Piece { range, spoiled: false });
        self.send(now, source.pool, Owner::Copy { operation: index }, io);
    }

    fn presence_of(&self, index: u32) -> &Presence {
        let copy = &self.copier.operations[index];
        if copy.what.kind != OperationKind::Redirect {
            return &copy.presence;
        }
        let extra = self.map.extra(copy.what.chunk);
        let overlay = extra.and_then(|extra| extra.overlay.as_ref());
        &overlay.expect("a redirected chunk has an overlay").presence
    }

    /// A whole copy to read a piece from; never the one that is being filled.
    fn best_source(&self, chunk: ChunkId, range: &Range<u32>, failed: u64) -> Option<Place> {
        let destination = self.operation_on(chunk).map(|op| self.copier.operations[op].destination);
        let failed = failed | destination.map_or(0, |place| 1 << place.pool.0);
        self.best_copy(chunk, range, failed)
    }

    fn has_parts_under_way(&self, index: u32) -> bool {
        let traffic = self.map.entry(self.copier.operations[index].what.chunk).traffic;
        !self.traffic[traffic].running.is_empty()
    }

    /// The next run of absent blocks that no write under way overlaps.
    fn next_piece(&self, index: u32) -> Option<Range<u32>> {
        let copy = &self.copier.operations[index];
        let presence = self.presence_of(index);
        let traffic = &self.traffic[self.map.entry(copy.what.chunk).traffic];
        let length_max = (self.settings.copying.piece.0 as u32).min(self.chunk_size);
        let free = |range: &Range<u32>| {
            !traffic.running.iter().any(|&part| {
                let part = &self.parts[part];
                part.is_write() && part.overlaps(range)
            })
        };
        let mut from = copy.cursor;
        let mut wrapped = false;
        loop {
            match presence.absent_run(from, length_max) {
                Some(range) if free(&range) => return Some(range),
                Some(range) => from = range.end,
                None if !wrapped => (from, wrapped) = (0, true),
                None => return None,
            }
            if wrapped && from >= copy.cursor.max(1) {
                return None;
            }
        }
    }

    /// A device answered for an operation.
    pub(crate) fn copy_io_done(
        &mut self,
        now: Nanos,
        index: u32,
        flight: &Flight,
        result: Result<Payload, DeviceError>,
    ) {
        let copy = &mut self.copier.operations[index];
        let piece = copy.piece.as_ref().expect("an operation waits for one piece at a time");
        match result {
            Ok(payload)
                if !flight.writes
                    && !self.seals.agree(copy.what.chunk, piece.range.start, &payload) =>
            {
                copy.failed_sources |= 1 << flight.pool.0;
                self.pool_mut(flight.pool).counters.rotten_blocks += 1;
                self.piece_over(now, index);
            }
            Ok(payload) if !flight.writes => {
                let (destination, start) = (copy.destination, piece.range.start);
                if copy.failed || !self.pool(destination.pool).is_alive() {
                    self.copier.operations[index].failed = true;
                    return self.piece_over(now, index);
                }
                let pool = self.pool(destination.pool);
                let offset = pool.address(destination, start, self.chunk_size);
                let io = Io::Write { offset, data: payload, fua: false };
                self.send(now, destination.pool, Owner::Copy { operation: index }, io);
            }
            Ok(_) => {
                self.piece_arrived(index);
                self.piece_over(now, index);
            }
            Err(_) => {
                if flight.writes {
                    copy.failed = true;
                } else {
                    copy.failed_sources |= 1 << flight.pool.0;
                }
                self.piece_over(now, index);
            }
        }
    }

    fn piece_arrived(&mut self, index: u32) {
        let copy = &mut self.copier.operations[index];
        let piece = copy.piece.as_ref().expect("it arrived");
        if piece.spoiled && !cfg!(mutant = "drop_recopy") {
            copy.spoils += 1;
            copy.cursor = piece.range.start;
            return;
        }
        copy.spoils = 0;
        let (chunk, range) = (copy.what.chunk, piece.range.clone());
        if copy.what.kind == OperationKind::Redirect {
            self.overlay_arrived(chunk, &[range]);
        } else {
            copy.presence.insert(&range);
        }
    }

    fn piece_over(&mut self, now: Nanos, index: u32) {
        let copy = &mut self.copier.operations[index];
        copy.piece = None;
        let chunk = copy.what.chunk;
        self.advance(now, index);
        self.traffic_eased(now, chunk);
    }

    /// Blocks are in the overlay now, and nowhere else.
    pub(crate) fn overlay_arrived(&mut self, chunk: ChunkId, runs: &[Range<u32>]) {
        let Some(overlay) = self.map.extra_mut(chunk).overlay.as_mut() else { return };
        let mut new = false;
        for run in runs {
            new |= overlay.presence.insert(run);
        }
        if new && !std::mem::replace(&mut overlay.unsaved, true) {
            self.copier.unsaved_overlays.push(chunk);
        }
    }

    /// The destination, where a read may use it: all blocks of `range` are there.
    pub(crate) fn arriving_copy(&self, chunk: ChunkId, range: &Range<u32>) -> Option<Place> {
        let copy = &self.copier.operations[self.operation_on(chunk)?];
        let usable = copy.what.kind != OperationKind::Redirect && !copy.failed && !copy.cancelled;
        (usable && copy.presence.all_in(range)).then_some(copy.destination)
    }

    /// Where a write to `range` must go as well.
    pub(crate) fn mirror_of(&self, chunk: ChunkId, range: &Range<u32>) -> Option<Place> {
        let copy = &self.copier.operations[self.operation_on(chunk)?];
        let mirrors = copy.what.kind != OperationKind::Redirect && !copy.failed;
        (mirrors && copy.presence.any_in(range)).then_some(copy.destination)
    }

    /// A write that was mirrored failed somewhere: original and destination may differ.
    pub(crate) fn mirror_disagrees(
        &mut self,
        chunk: ChunkId,
        range: &Range<u32>,
        failed: u64,
        safe: bool,
    ) {
        let Some(index) = self.operation_on(chunk) else { return };
        let copy = &mut self.copier.operations[index];
        let missed = failed >> copy.destination.pool.0 & 1 == 1;
        if copy.what.kind == OperationKind::Redirect || safe && !missed {
            return;
        }
        match copy.stage {
            Stage::Copying if missed => copy.failed = true,
            Stage::Copying => copy.presence.remove(range),
            Stage::Switching => self.take_back(index),
        }
    }

    /// All blocks are at the destination: the record that says so is queued.
    fn switch(&mut self, now: Nanos, index: u32) {
        let copy = &mut self.copier.operations[index];
        copy.stage = Stage::Switching;
        let chunk = copy.what.chunk;
        let state = self.durable_state(chunk);
        self.change(Record::Chunk(chunk, state), chunk, &[]);
        self.commit.join(Waiter::Switch(index));
        self.traffic_eased(now, chunk);
    }

    /// The record of the switch is queued, but the destination is wrong: a second one says so.
    fn take_back(&mut self, index: u32) {
        let copy = &mut self.copier.operations[index];
        if std::mem::replace(&mut copy.failed, true) {
            return;
        }
        let (chunk, destination) = (copy.what.chunk, copy.destination);
        // A redirected chunk keeps its overlay: it may hold the only copy of some blocks.
        let stays = copy.what.kind == OperationKind::Redirect;
        let left: &[Place] = if stays { &[] } else { &[destination] };
        let state = self.durable_state(chunk);
        self.change(Record::Chunk(chunk, state), chunk, left);
    }

    /// The record of the switch is durable.
    pub(crate) fn switch_durable(&mut self, now: Nanos, index: u32) {
        let copy = &self.copier.operations[index];
        let (chunk, source, kind) = (copy.what.chunk, copy.source, copy.what.kind);
        if copy.failed {
            return self.end_operation(now, index, Outcome::Failed);
        }
        let had_source = self.map.copies(chunk).any(|other| other.place == source);
        let state = self.durable_state(chunk);
        let moved = matches!(kind, OperationKind::Migrate | OperationKind::Redirect);
        if kind == OperationKind::Redirect {
            self.copier.overlays -= 1;
        }
        let dirty = state.dirty && state.copies.len() > 1;
        self.break_seal(now, chunk);
        self.map.set_state(chunk, &state);
        if dirty {
            self.housekeeping.dirty_chunks.push(chunk);
            self.touch_copies(now, chunk);
        }
        self.end_operation(now, index, Outcome::Done);
        if moved && had_source {
            self.leave(now, chunk, source);
        }
    }

    /// Gives up a copy that no durable map names.
    fn give_up(&mut self, now: Nanos, index: u32, outcome: Outcome) {
        let copy = &self.copier.operations[index];
        let (chunk, destination, kind) = (copy.what.chunk, copy.destination, copy.what.kind);
        if kind == OperationKind::Redirect {
            // The journal may name the overlay, and it may hold the only copy of some blocks.
            return self.end_operation(now, index, outcome);
        }
        if kind == OperationKind::Prefetch {
            self.pool_mut(destination.pool).prefetched -= 1;
        }
        self.end_operation(now, index, outcome);
        self.leave(now, chunk, destination);
    }

    fn end_operation(&mut self, now: Nanos, index: u32, outcome: Outcome) {
        let copy = self.copier.operations.remove(index);
        let chunk = copy.what.chunk;
        if copy.failed
            && copy.stage == Stage::Switching
            && copy.what.kind == OperationKind::Prefetch
        {
            self.pool_mut(copy.destination.pool).prefetched -= 1;
        }
        self.copier.chunks.remove(&chunk);
        self.proposal.look_again();
        self.finished_out.push(Finished { id: copy.id, operation: copy.what, outcome });
        let traffic = self.traffic_of(chunk);
        self.traffic[traffic].operation = None;
        self.map.volume_mut(chunk.volume).expect("busy volumes stay").busy -= 1;
        self.traffic_eased(now, chunk);
    }

    /// A pool died: operations that fill a copy there fail.
    pub(crate) fn operations_lose(&mut self, pool: PoolId) {
        let hit: Vec<u32> = self
            .copier
            .operations
            .iter()
            .filter(|(_, copy)| copy.destination.pool == pool)
            .map(|(index, _)| index)
            .collect();
        for index in hit {
            match self.copier.operations[index].stage {
                Stage::Copying => self.copier.operations[index].failed = true,
                Stage::Switching => self.take_back(index),
            }
        }
    }

    /// Moves chunks off pools that are being drained.
    pub(crate) fn evacuate(&mut self, now: Nanos) {
        let draining = |pool: &crate::pool::Pool| pool.state == PoolState::Draining;
        if !self.pools.iter().any(draining) || self.copier.is_busy() {
            return;
        }
        let batch = self.settings.copying.concurrent as usize;
        let found: Vec<(ChunkId, PoolId)> = self
            .map
            .chunks()
            .filter(|chunk| !self.copier.chunks.contains_key(chunk))
            .filter_map(|chunk| {
                let mut copies = self.map.copies(chunk);
                let copy = copies.find(|copy| draining(self.pool(copy.place.pool)))?;
                Some((chunk, copy.place.pool))
            })
            .take(batch)
            .collect();
        for (chunk, from) in found {
            // A further copy needs no move: it is dropped.
            if self.map.copies(chunk).count() > 1 {
                self.drop_copy(chunk, from, false);
                continue;
            }
            let mut to = (0..self.pools.len()).map(|index| PoolId(index as u16));
            // The first pool that takes it; when none does, the next round tries again.
            to.any(|to| {
                self.start(now, Operation { kind: OperationKind::Migrate, chunk, to }).is_ok()
            });
        }
    }
}
