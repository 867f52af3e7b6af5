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
//! bits. MIRROR leaves both sides for good, whichever of them has a block ([`crate::overlay`]), and
//! a mirrored chunk is brought together on one of them by MIGRATE. No piece is started that a write
//! under way overlaps.
//!
//! *Switching.* With all blocks present, the record that names the destination is queued. It waits
//! for up to a tenth of a second for those of others, because each commit flushes both pools. Until
//! it is durable writes go to both places, so that either map is right; a write that fails on the
//! destination meanwhile queues a second record, which takes the first one back. The record of a
//! move names the old copy behind the new one, as one that may differ: the new pool may die in that
//! very commit. When it is durable another record drops the old copy, and its slot is free after
//! that; flushes and forced writes wait for it, so nothing that was promised is on one of them
//! only.
//!
//! The throttle: bytes a second and requests in flight for each pool, and operations hold back
//! while the foreground uses the pool, up to a bound on their patience.

use crate::foreground::bit;
use crate::group::Group;
use crate::journal::SWITCHES_TOGETHER;
use crate::map::{ChunkCopy, ChunkState, Place, Table};
use crate::operation::{Operation, OperationId, OperationKind, Outcome};
use crate::overlay::{Blocks, Goal, Side};
use crate::pools::flight::{Flight, Owner};
use crate::presence::Presence;
use crate::sums::checksums;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use thermocline_policy::migration::{Held, Trial, Tried};
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::{ChunkId, Nanos, PoolId, Slab, VolumeId};

/// The largest chunk whose writes can be redirected: its bits fit into a record.
pub(crate) const REDIRECT_CHUNK_MAX: u32 = 16 << 20;
/// The largest chunk that can be mirrored: it has two bits a block.
pub(crate) const MIRROR_CHUNK_MAX: u32 = REDIRECT_CHUNK_MAX / 2;
/// Bytes that are copied at a time from or to a far pool, where a request costs the same whatever
/// its length; a chunk, where that is less.
const FAR_PIECE: u32 = 8 << 20;
/// Copies that are to be made anew; beyond it the oldest wish is forgotten.
const WISHES_MAX: usize = 4096;

/// A piece on its way.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) range: Range<u32>,
    pub(crate) to: Place,
    /// True if a foreground write overlapped it meanwhile.
    pub(crate) spoiled: bool,
    /// Checksums of what was read, where they were not known; none: they were.
    pub(crate) sums: Vec<u32>,
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
    /// True if the placement wanted it.
    pub(crate) proposed: bool,
    pub(crate) trial: Trial,
    /// Its goal, where the chunk is in two parts.
    pub(crate) goal: Option<Goal>,
    pub(crate) stage: Stage,
    /// Place that the chunk goes to; one of the sides of a chunk in two parts.
    pub(crate) destination: Place,
    /// The copy that a migration replaces, or the other side.
    pub(crate) source: Place,
    /// Blocks at the destination; a chunk in two parts keeps them in its overlay.
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
    /// True if it is a placement's move, of which the `share` percent that are tried first have
    /// arrived; 0: nothing is tried.
    fn has_its_trial_share(&self, share: u32) -> bool {
        let blocks = u64::from(self.presence.blocks());
        let moves = self.proposed && self.goal.is_none();
        share > 0
            && moves
            && self.what.kind == OperationKind::Migrate
            && self.presence.count() * 100 >= blocks * u64::from(share)
    }

    pub(crate) fn is_copying(&self) -> bool {
        self.stage == Stage::Copying
    }

    /// Makes the state that of the chunk once all that is queued is durable.
    pub(crate) fn foretell(&self, state: &mut ChunkState) {
        if self.stage != Stage::Switching || self.failed {
            return;
        }
        state.table = Table::None;
        let prefetched = self.what.kind == OperationKind::Prefetch;
        let copy = ChunkCopy { place: self.destination, prefetched };
        match (self.goal, self.what.kind) {
            (Some(Goal::Both), _) => return,
            (None, OperationKind::Replicate | OperationKind::Prefetch) => state.copies.push(copy),
            _ => {
                let leaves = |place| place == self.source || place == self.destination;
                state.copies.retain(|other| !leaves(other.place));
                let alone = state.copies.is_empty();
                state.copies.insert(0, copy);
                if alone && self.leaves_whole_copy(state) {
                    // Until a later record drops it: the new pool may die under this one. Said to
                    // be prefetched, so that nobody makes it anew.
                    state.copies.push(ChunkCopy { place: self.source, prefetched: true });
                }
                state.overlay = None;
            }
        }
        state.dirty |= state.copies.len() > 1 && !mutant("switch_says_copies_are_equal");
    }

    /// True if the place that the chunk leaves has all of it: in a chunk in two parts the side that
    /// stays may hold the only copy of some blocks, as it does after every write from now on.
    fn leaves_whole_copy(&self, state: &ChunkState) -> bool {
        let Some(stays) = self.goal.and_then(Goal::side) else {
            return !mutant("old_copy_forgotten_at_once");
        };
        let has_all = |blocks: &Blocks| blocks.is_whole_on(stays.other());
        state.overlay.as_ref().is_some_and(|(_, blocks)| has_all(blocks))
            && !mutant("old_side_forgotten_at_once")
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
    /// Chunks in two parts with blocks that changed sides since the journal was told.
    pub(crate) unsaved_overlays: Vec<ChunkId>,
    pub(crate) overlays: usize,
    /// Moves given up because the part that was brought first was slower, since opening.
    pub(crate) trials_lost: u64,
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

    /// True if an operation will come to its switch.
    pub(crate) fn is_copying(&self) -> bool {
        self.operations.iter().any(|(_, copy)| copy.is_copying())
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.operations.is_empty() || !self.queue.is_empty()
    }

    /// Operations queued and under way.
    pub(crate) fn count(&self) -> usize {
        self.chunks.len()
    }

    /// True if an operation under way will leave a slot.
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
            copy.goal.is_none() && !taken_back
        };
        self.operations.iter().map(|(_, copy)| copy).filter(unmapped).map(|copy| copy.destination)
    }
}

impl Group {
    /// Starts queued operations, and takes the next step of those under way.
    pub(crate) fn pump_operations(&mut self, now: Nanos) {
        self.throttle.begin_round();
        while self.has_turn() {
            if let Some((id, operation)) = self.copier.queue.pop_front() {
                self.begin_operation(now, id, operation, false);
            } else if let Some((id, operation)) = self.next_move() {
                self.begin_operation(now, id, operation, true);
            } else {
                break;
            }
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

    /// True if another operation may begin beside those under way. Those that wait for their switch
    /// to be durable do not count among the `concurrent`, while there is room for their records.
    pub(crate) fn has_turn(&self) -> bool {
        let concurrent = self.settings.copying.concurrent as usize;
        let all = self.copier.operations.iter();
        let copying = all.filter(|(_, copy)| copy.is_copying()).count();
        let most = match self.records_half_pile_up() {
            true => concurrent,
            false => concurrent + SWITCHES_TOGETHER,
        };
        copying < concurrent && self.copier.operations.len() < most
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
        if self.is_complete(index) {
            return self.switch(now, index);
        }
        let chunk = copy.what.chunk;
        if !self.passes_trial(now, index) {
            return;
        }
        if !self.seal_is_at_hand(now, chunk) {
            return; // Its arrival leads back here.
        }
        let Some((range, to)) = self.next_piece(index) else { return };
        let copy = &self.copier.operations[index];
        if self.settings.copying.locking && self.has_parts_under_way(index) {
            return;
        }
        let (chunk, failed) = (copy.what.chunk, copy.failed_sources);
        let parting = self.parting_source(index, &range);
        let source = parting.or_else(|| self.best_source(chunk, &range, to, failed));
        let Some(source) = source else {
            self.copier.operations[index].failed = true;
            return self.advance(now, index);
        };
        let (pools, held) = ([source.pool, to.pool], copy.held_since);
        let held = self.hold_back(now, &pools, range.end - range.start, held);
        self.copier.operations[index].held_since = held.since();
        if held != Held::Free {
            return;
        }
        let offset = self.pools[source.pool].address(source, range.start, self.pools.chunk_bytes());
        let io = Io::Read { offset, length: range.end - range.start };
        let copy = &mut self.copier.operations[index];
        copy.cursor = range.end;
        copy.piece = Some(Piece { range, to, spoiled: false, sums: Vec::new() });
        self.send(now, source.pool, Owner::Copy { operation: index }, io);
    }

    /// True if a move may copy on: its trial is over, or has not come. One that is lost is given
    /// up.
    fn passes_trial(&mut self, now: Nanos, index: u32) -> bool {
        let copy = &mut self.copier.operations[index];
        let order = self.pools.ranks().compare_speed(copy.what.to, copy.source.pool);
        let tried = order.is_lt() && copy.has_its_trial_share(self.settings.copying.trial);
        match copy.trial.ask(now, tried) {
            Tried::GoesOn => true,
            Tried::Waits(until) => {
                self.throttle.wake_at(until);
                false
            }
            Tried::Lost => {
                copy.cancelled = true;
                self.copier.trials_lost += 1;
                self.advance(now, index);
                false
            }
        }
    }

    /// Asks the throttle about a piece that touches these pools, at the rate of now.
    pub(crate) fn hold_back(
        &mut self,
        now: Nanos,
        touched: &[PoolId],
        bytes: u32,
        held_since: Option<Nanos>,
    ) -> Held {
        let copying = self.rate_control.paced(&self.settings.copying);
        self.throttle.hold_back(&mut self.pools, &copying, now, touched, (bytes, held_since))
    }

    /// True if every block is where it shall be, and no write is on its way to a side that goes.
    fn is_complete(&self, index: u32) -> bool {
        let copy = &self.copier.operations[index];
        let Some(goal) = copy.goal else { return copy.presence.is_full() };
        let overlay = self.map.overlay(copy.what.chunk).expect("it has a goal");
        let leaves = |part: &u32| {
            let sent = &self.parts[*part].sent;
            goal.side().is_some() && sent.iter().any(|(_, place)| *place == copy.source)
        };
        let traffic = self.map.entry(copy.what.chunk).traffic;
        overlay.blocks.is_at(goal) && !self.traffic[traffic].running.iter().any(leaves)
    }

    /// The copy that a move replaces, where nothing says what it must be and others stay: should
    /// they differ, the move must not hide it. What is missing of it comes from the others.
    fn parting_source(&self, index: u32, range: &Range<u32>) -> Option<Place> {
        let copy = &self.copier.operations[index];
        let (chunk, source) = (copy.what.chunk, copy.source);
        let moves = copy.what.kind == OperationKind::Migrate && copy.goal.is_none();
        let able =
            self.pools[source.pool].is_alive() && copy.failed_sources & bit(source.pool) == 0;
        if !moves || !able || !self.keeps_checksums() || self.can_verify(chunk, range) {
            return None;
        }
        let places = || self.map.copies(chunk).map(|copy| copy.place);
        (places().count() > 1 && places().any(|place| place == source)).then_some(source)
    }

    /// A place to read a piece from; never the one that is being filled.
    fn best_source(
        &self,
        chunk: ChunkId,
        range: &Range<u32>,
        to: Place,
        failed: u64,
    ) -> Option<Place> {
        let failed = failed | 1 << to.pool.0;
        if self.goal_on(chunk).is_none() {
            return self.best_copy(chunk, range, |place| failed >> place.pool.0 & 1 == 1);
        }
        let mut sides =
            [Side::Base, Side::Above].map(|side| self.map.place_on(chunk, side)).into_iter();
        sides.find(|place| failed >> place.pool.0 & 1 == 0 && self.pools[place.pool].is_alive())
    }

    fn has_parts_under_way(&self, index: u32) -> bool {
        let traffic = self.map.entry(self.copier.operations[index].what.chunk).traffic;
        !self.traffic[traffic].running.is_empty()
    }

    /// The next run of missing blocks that no write under way overlaps, and where it is missing.
    fn next_piece(&self, index: u32) -> Option<(Range<u32>, Place)> {
        let copy = &self.copier.operations[index];
        let length_max = self.piece_max(copy);
        let free = |range: &Range<u32>| {
            !self.writes_under_way(copy.what.chunk, range) || mutant("piece_copied_under_a_write")
        };
        let mut from = copy.cursor;
        let mut wrapped = false;
        loop {
            match self.missing_run(copy, from, length_max) {
                Some((range, to)) if free(&range) => return Some((range, to)),
                Some((range, _)) => from = range.end,
                None if !wrapped => (from, wrapped) = (0, true),
                None => return None,
            }
            if wrapped && from >= copy.cursor.max(1) {
                return None;
            }
        }
    }

    /// Bytes copied at a time: of a far pool, where each request costs alike, many.
    fn piece_max(&self, copy: &Copy) -> u32 {
        let far = [copy.source.pool, copy.destination.pool].map(|pool| self.pools[pool].is_far());
        let far = if far.contains(&true) { FAR_PIECE } else { 0 };
        (self.settings.copying.piece.0 as u32).max(far).min(self.pools.chunk_bytes())
    }

    fn missing_run(&self, copy: &Copy, from: u32, length_max: u32) -> Option<(Range<u32>, Place)> {
        let Some(goal) = copy.goal else {
            let range = copy.presence.absent_run(from, length_max)?;
            return Some((range, copy.destination));
        };
        let overlay = self.map.overlay(copy.what.chunk).expect("it has a goal");
        let (range, side) = overlay.blocks.run_towards(goal, from, length_max)?;
        Some((range, self.map.place_on(copy.what.chunk, side)))
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
            Ok(payload) if !flight.writes => {
                let (destination, start) = (piece.to, piece.range.start);
                if !self.piece_is_right(index, flight.pool, &payload) {
                    return self.piece_over(now, index);
                }
                let failed = self.copier.operations[index].failed;
                if failed || !self.pools[destination.pool].is_alive() {
                    self.copier.operations[index].failed = true;
                    return self.piece_over(now, index);
                }
                let pool = &self.pools[destination.pool];
                let offset = pool.address(destination, start, self.pools.chunk_bytes());
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

    /// True if a piece that was read is what was written, as far as that is known; hashes it where
    /// it is not.
    fn piece_is_right(&mut self, index: u32, pool: PoolId, payload: &Payload) -> bool {
        let copy = &mut self.copier.operations[index];
        let piece = copy.piece.as_mut().expect("it was read");
        let (chunk, range) = (copy.what.chunk, piece.range.clone());
        if piece.spoiled || !self.keeps_checksums() {
            return true;
        }
        let known = self.checksums.sums(chunk).is_some_and(|sums| sums.of(&range).is_some());
        // What one of several copies has need not be what was written: they are compared first.
        let alone = self.map.copies(chunk).count() == 1;
        if !known && alone {
            let copy = &mut self.copier.operations[index];
            let piece = copy.piece.as_mut().expect("it was read");
            piece.sums = checksums(payload);
            let most = self.settings.limits.seals_cached;
            self.checksums.is_copied(chunk, self.pools.chunk_bytes(), most, &self.map);
        }
        let wrong = self.wrong_blocks(chunk, range.start, payload, u64::MAX);
        if wrong == 0 || mutant("operation_carries_rot") {
            return true;
        }
        self.copier.operations[index].failed_sources |= 1 << pool.0;
        self.pools[pool].counters.checksum_errors += u64::from(wrong);
        self.scrub.status.checksum_errors += u64::from(wrong);
        self.mend(chunk);
        false
    }

    fn piece_arrived(&mut self, index: u32) {
        let copy = &mut self.copier.operations[index];
        let piece = copy.piece.as_ref().expect("it arrived");
        if piece.spoiled && !mutant("spoiled_piece_kept") {
            copy.spoils += 1;
            copy.cursor = piece.range.start;
            return;
        }
        copy.spoils = 0;
        let (chunk, range) = (copy.what.chunk, piece.range.clone());
        if !piece.sums.is_empty() {
            self.checksums.copied(chunk, range.start, &piece.sums, self.parts_begun);
        }
        if copy.goal.is_some() {
            self.blocks_copied(chunk, &range);
        } else {
            copy.presence.mark(&range);
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
