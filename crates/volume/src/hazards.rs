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

use crate::core::traffic::Verb;
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
        let state = &self.core.parts[part];
        let (chunk, range, writes) = (state.chunk, state.range.clone(), state.is_write());
        let frees =
            matches!(state.verb, Verb::Zero | Verb::Discard) && self.core.covers_chunk(part);
        let traffic = &self.core.traffic[self.core.map.entry(chunk).traffic];
        if !traffic.waiting.is_empty() || traffic.opening.is_some() {
            return false;
        }
        if writes && traffic.repairing {
            return false;
        }
        let operation = traffic.operation;
        let idle = traffic.running.is_empty();
        let changes_map = frees || writes && self.core.map.entry(chunk).first().is_none();
        let adds_record = changes_map || writes && self.core.lacks_announcement(chunk);
        if adds_record && self.core.records_pile_up() {
            self.await_room(chunk);
            return false;
        }
        if frees {
            if let Some(operation) = operation {
                self.core.operations[operation].cancelled = true;
                return false;
            }
            return idle || mutant("unmapped_under_parts");
        }
        let traffic = &self.core.traffic[self.core.map.entry(chunk).traffic];
        // No block of a chunk in two parts may be written on both sides at once.
        let in_two = self.core.map.overlay(chunk).is_some();
        met_if(
            writes && in_two && !self.core.writes_under_way(chunk, &range) && {
                self.core.writes_under_way(chunk, &around_blocks(&range))
            },
            "two writes into one block of a mirror",
        );
        let touched = if in_two && !mutant("two_writes_into_one_block") {
            around_blocks(&range)
        } else {
            range.clone()
        };
        met_if(writes && traffic.dropping > 0, "write waited for the record of a drop");
        if writes && (traffic.dropping > 0 || self.core.writes_under_way(chunk, &touched)) {
            return false;
        }
        if let Some(operation) = operation
            && !self.passes_operation(operation, writes, &range)
        {
            return false;
        }
        // What a write waits for is fetched while the journal is being told.
        let at_hand = self.checksums.seal_is_at_hand(&mut self.core, now, chunk);
        if !writes {
            return at_hand;
        }
        let may_write = self.journal_expects_writes(now, chunk) && at_hand;
        if may_write {
            self.checksums.take_table(&mut self.core, now, chunk);
        }
        may_write
    }

    /// The chunk's parts are looked at again when the journal has taken what is queued.
    fn await_room(&mut self, chunk: ChunkId) {
        let traffic = self.core.map.entry(chunk).traffic;
        if !std::mem::replace(&mut self.core.traffic[traffic].awaits_room, true) {
            self.core.journal.join(Waiter::Room(chunk));
        }
    }

    fn passes_operation(
        &mut self,
        operation: u32,
        writes: bool,
        range: &std::ops::Range<u32>,
    ) -> bool {
        let locking = self.core.settings.copying.locking;
        let operation = &mut self.core.operations[operation];
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
        if self.core.needs_announcement(chunk) {
            self.core.announce_writes(chunk);
            if self.core.map.entry(chunk).is_called_right() {
                self.checksums.open_regions(&mut self.core, now, chunk);
            }
            return mutant("write_before_its_intent");
        }
        !self.checksums.waits_for_region(&mut self.core, chunk)
    }

    /// The journal knows now that a copy of the chunk is gone.
    pub(crate) fn drop_durable(&mut self, now: Nanos, chunk: ChunkId) {
        let traffic = self.core.traffic_of(chunk);
        assert!(self.core.traffic[traffic].dropping > 0, "each drop is durable once");
        self.core.traffic[traffic].dropping -= 1;
        self.core.map.let_go(chunk.volume);
        self.traffic_eased(now, chunk);
    }

    /// The journal knows now that the chunk's copies may differ, and that its seal is broken.
    pub(crate) fn intent_durable(&mut self, now: Nanos, chunk: ChunkId) {
        let traffic = self.core.traffic_of(chunk);
        self.core.traffic[traffic].intent = false;
        self.core.map.let_go(chunk.volume);
        self.checksums.break_seal(&mut self.core, now, chunk);
        if self.core.map.may_differ(chunk) {
            let extra = self.core.map.extra_mut(chunk);
            if !std::mem::replace(&mut extra.dirty, true) {
                self.core.dirty_chunks.push(chunk);
            }
            self.core.touch_copies(now, chunk);
        }
        self.traffic_eased(now, chunk);
    }
}
