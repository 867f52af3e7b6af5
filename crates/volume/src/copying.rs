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

use crate::flight::{Flight, Owner};
use crate::group::Group;
use crate::map::{ChunkCopy, ChunkState, Place};
use crate::operation::{Operation, OperationId, OperationKind, Outcome};
use crate::presence::Presence;
use crate::throttle::Held;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::{ChunkId, Nanos, Slab, VolumeId};

/// The largest chunk whose writes can be redirected: its bits fit into a record.
pub(crate) const REDIRECT_CHUNK_MAX: u32 = 16 << 20;
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
pub(crate) enum Stage {
    Copying,
    Switching,
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) id: OperationId,
    pub(crate) what: Operation,
    pub(crate) stage: Stage,
    /// Where the chunk goes; for a redirected chunk its overlay's place.
    pub(crate) destination: Place,
    /// The copy that a migration replaces.
    pub(crate) source: Place,
    /// Blocks at the destination; a redirected chunk keeps them in its overlay.
    pub(crate) presence: Presence,
    pub(crate) piece: Option<Piece>,
    pub(crate) cursor: u32,
    pub(crate) spoils: u32,
    /// Pools that failed to give the piece: one bit each.
    pub(crate) failed_sources: u64,
    pub(crate) cancelled: bool,
    /// The destination missed a write or died.
    pub(crate) failed: bool,
    /// Since when the foreground holds it back.
    pub(crate) held_since: Option<Nanos>,
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
    pub(crate) queue: VecDeque<(OperationId, Operation)>,
    /// Chunks that have an operation queued or under way.
    pub(crate) chunks: BTreeMap<ChunkId, OperationId>,
    pub(crate) operations: Slab<Copy>,
    pub(crate) wishes: VecDeque<Operation>,
    pub(crate) ids: u64,
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
        !self.operations.is_empty() || !self.queue.is_empty()
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
    /// Starts queued operations, and takes the next step of those under way.
    pub(crate) fn pump_operations(&mut self, now: Nanos) {
        self.copier.wake = None;
        while self.copier.operations.len() < self.settings.copying.concurrent as usize {
            let queued = self.copier.queue.pop_front();
            let Some((id, operation)) = queued.or_else(|| self.next_move()) else { break };
            self.begin_operation(now, id, operation);
        }
        if !self.copier.operations.is_empty() {
            // Oldest first: where only one may use a pool at a time, none waits forever.
            let mut under_way: Vec<u32> =
                self.copier.operations.iter().map(|(index, _)| index).collect();
            under_way.sort_unstable_by_key(|&index| self.copier.operations[index].id);
            for index in under_way {
                self.advance(now, index);
            }
        }
    }

    /// Takes the next step of an operation that is not waiting for a device or the journal.
    pub(crate) fn advance(&mut self, now: Nanos, index: u32) {
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
        let length_max = (self.settings.copying.piece.0 as u32).min(self.chunk_size);
        let free = |range: &Range<u32>| !self.writes_under_way(copy.what.chunk, range);
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
}
