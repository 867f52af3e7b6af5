//! Who may start on a chunk, and who waits.
//!
//! Reads wait for nothing but a slot being opened and a locking copy. A write waits for
//! - writes under way that it overlaps: copies would otherwise end up different;
//! - the journal, when it is the first since the chunk's copies were last known to be equal, when
//!   the journal calls the chunk's table of checksums right, or has not yet opened its region
//!   ([`crate::regions`]), and when it still calls a copy equal that has been dropped: a crash
//!   would bring it back;
//! - the piece that an operation is copying just now, when it overlaps, and the writes have spoiled
//!   it too often or go to the same place: one request's service time;
//! - blocks of the chunk that are being repaired, and checksums that are being read.
//!
//! What frees the chunk waits until nobody is on it. Nobody overtakes who waits.

use crate::foreground::Verb;
use crate::format::Record;
use crate::group::Group;
use crate::journal::Waiter;
use crate::presence::around_blocks;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{ChunkId, Nanos};

/// Copies of one piece that foreground writes may spoil before they wait for it.
pub(crate) const SPOILS_MAX: u32 = 3;

impl Group {
    /// True if `part` may start on its chunk; sets going what it has to wait for.
    pub(crate) fn pass_hazards(&mut self, now: Nanos, part: u32) -> bool {
        let state = &self.parts[part];
        let (chunk, range, writes) = (state.chunk, state.range.clone(), state.is_write());
        let frees = matches!(state.verb, Verb::Zero | Verb::Discard) && self.covers_chunk(part);
        let traffic = &self.traffic[self.map.entry(chunk).traffic];
        if !traffic.waiting.is_empty() || traffic.opening.is_some() {
            return false;
        }
        if writes && traffic.repairing {
            return false;
        }
        let operation = traffic.operation;
        let idle = traffic.running.is_empty();
        let changes_map = frees || writes && self.map.entry(chunk).first().is_none();
        let adds_record = changes_map || writes && self.lacks_announcement(chunk);
        if adds_record && self.records_pile_up() {
            self.await_room(chunk);
            return false;
        }
        if frees {
            if let Some(operation) = operation {
                self.copier.operations[operation].cancelled = true;
                return false;
            }
            return idle || mutant("unmapped_under_parts");
        }
        let traffic = &self.traffic[self.map.entry(chunk).traffic];
        // No block of a chunk in two parts may be written on both sides at once.
        let in_two = self.map.overlay(chunk).is_some();
        met_if(
            writes && in_two && !self.writes_under_way(chunk, &range) && {
                self.writes_under_way(chunk, &around_blocks(&range))
            },
            "two writes into one block of a mirror",
        );
        let touched = if in_two && !mutant("two_writes_into_one_block") {
            around_blocks(&range)
        } else {
            range.clone()
        };
        met_if(writes && traffic.dropping > 0, "write waited for the record of a drop");
        if writes && (traffic.dropping > 0 || self.writes_under_way(chunk, &touched)) {
            return false;
        }
        if let Some(operation) = operation
            && !self.passes_operation(operation, writes, &range)
        {
            return false;
        }
        // What a write waits for is fetched while the journal is being told.
        let at_hand = self.seal_is_at_hand(now, chunk);
        if !writes {
            return at_hand;
        }
        let may_write = self.journal_expects_writes(now, chunk) && at_hand;
        if may_write {
            self.take_table(now, chunk);
        }
        may_write
    }

    /// The chunk's parts are looked at again when the journal has taken what is queued.
    fn await_room(&mut self, chunk: ChunkId) {
        let traffic = self.map.entry(chunk).traffic;
        if !std::mem::replace(&mut self.traffic[traffic].awaits_room, true) {
            self.journal.join(Waiter::Room(chunk));
        }
    }

    fn passes_operation(
        &mut self,
        operation: u32,
        writes: bool,
        range: &std::ops::Range<u32>,
    ) -> bool {
        let locking = self.settings.copying.locking;
        let operation = &mut self.copier.operations[operation];
        if locking && operation.is_copying() {
            return false;
        }
        let Some(piece) = operation.piece.as_mut().filter(|_| writes) else { return true };
        let earlier = range.start < piece.range.start && mutant("earlier_write_spoils_no_piece");
        if piece.range.end <= range.start || range.end <= piece.range.start || earlier {
            return true;
        }
        if operation.goal.is_some() || operation.spoils >= SPOILS_MAX {
            return false;
        }
        piece.spoiled = true;
        true
    }

    /// True if the journal knows that the chunk's copies may differ, where there are several, and
    /// that its seal is broken, where it had one.
    fn journal_expects_writes(&mut self, now: Nanos, chunk: ChunkId) -> bool {
        if self.needs_announcement(chunk) {
            self.announce_writes(chunk);
            if self.map.entry(chunk).is_called_right() {
                self.open_regions(now, chunk);
            }
            return mutant("write_before_its_intent");
        }
        !self.waits_for_region(chunk)
    }

    /// True if the journal says something of the chunk that a write would make false.
    fn needs_announcement(&self, chunk: ChunkId) -> bool {
        let announced = self.map.extra(chunk).is_some_and(|extra| extra.dirty);
        let equal = self.map.may_differ(chunk) && !announced;
        let right = self.map.entry(chunk).is_called_right();
        equal || right && !mutant("write_before_unsealing")
    }

    /// True if a write to the chunk would have to queue a record first.
    fn lacks_announcement(&self, chunk: ChunkId) -> bool {
        let traffic = self.map.entry(chunk).traffic;
        !self.traffic[traffic].intent && self.needs_announcement(chunk)
    }

    /// Queues the record of a chunk to which writes are to come. Beside that it says only what
    /// earlier records have said. So no pool need be flushed for it, unless blocks have changed
    /// sides of which there is no record yet.
    pub(crate) fn announce_only(&mut self, chunk: ChunkId) {
        let state = self.durable_state(chunk);
        let moved = self.map.overlay(chunk).is_some_and(|overlay| overlay.unsaved);
        self.journal.announce(&Record::Chunk(chunk, state), moved);
    }

    /// Tells the journal that the chunk's copies may differ, and that its tables are not right; no
    /// write begins until it knows.
    pub(crate) fn announce_writes(&mut self, chunk: ChunkId) {
        let traffic = self.traffic_of(chunk);
        if !std::mem::replace(&mut self.traffic[traffic].intent, true) {
            self.announce_only(chunk);
            // Who waits for it may go before it is told, when a mirror ends meanwhile.
            self.map.hold(chunk.volume);
            self.journal.join(Waiter::Intent(chunk));
        }
    }

    /// A copy was dropped that the journal may call equal to those that stay: no write begins until
    /// it has heard. Where writes have been announced it calls none equal.
    pub(crate) fn await_drop(&mut self, chunk: ChunkId, announced: bool) {
        if !announced && !mutant("write_before_the_drop") {
            let traffic = self.traffic_of(chunk);
            self.traffic[traffic].dropping += 1;
            self.map.hold(chunk.volume);
            self.journal.join(Waiter::Dropped(chunk));
        }
    }

    /// The journal knows now that a copy of the chunk is gone.
    pub(crate) fn drop_durable(&mut self, now: Nanos, chunk: ChunkId) {
        let traffic = self.traffic_of(chunk);
        assert!(self.traffic[traffic].dropping > 0, "each drop is durable once");
        self.traffic[traffic].dropping -= 1;
        self.map.let_go(chunk.volume);
        self.traffic_eased(now, chunk);
    }

    /// The journal knows now that the chunk's copies may differ, and that its seal is broken.
    pub(crate) fn intent_durable(&mut self, now: Nanos, chunk: ChunkId) {
        let traffic = self.traffic_of(chunk);
        self.traffic[traffic].intent = false;
        self.map.let_go(chunk.volume);
        self.break_seal(now, chunk);
        if self.map.may_differ(chunk) {
            let extra = self.map.extra_mut(chunk);
            if !std::mem::replace(&mut extra.dirty, true) {
                self.housekeeping.dirty_chunks.push(chunk);
            }
            self.touch_copies(now, chunk);
        }
        self.traffic_eased(now, chunk);
    }
}
