//! Announcements to the journal before writes begin: that a chunk's copies may differ from now on,
//! that its tables are not right any more, that a copy is gone.

use super::GroupState;
use crate::format::Record;
use crate::io::busy_chunk::BusyChunk;
use crate::journal::commit::Waiter;
use crate::map::Table;
use thermocline_units::ChunkId;
use thermocline_units::mutants::mutant;

impl GroupState {
    /// True if the journal says something of the chunk that a write would make false.
    pub(crate) fn needs_announcement(&self, chunk: ChunkId) -> bool {
        let announced = self.map.is_called_differing(chunk);
        let equal = self.map.may_differ(chunk) && !announced;
        let right = self.map.entry(chunk).is_called_right();
        equal || right && !mutant("write_before_voiding")
    }

    /// True if a write to the chunk would have to queue a record first.
    pub(crate) fn lacks_announcement(&self, chunk: ChunkId) -> bool {
        let announcing = self.busy_chunk(chunk).is_some_and(BusyChunk::is_announcing);
        !announcing && self.needs_announcement(chunk)
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
        if self.busy_chunk_of(chunk).announce() {
            debug_assert_eq!(self.durable_state(chunk).table, Table::None, "no table is right");
            self.announce_only(chunk);
            // Who waits for it may go before it is told, when a mirror ends meanwhile.
            self.map.hold(chunk.volume);
            self.journal.join(Waiter::Intent(chunk));
            assert!(self.journal.is_queued(), "what is waited for is on its way");
        }
    }

    /// A copy was dropped that the journal may call equal to those that stay: no write begins until
    /// it has heard. Where writes have been announced it calls none equal.
    pub(crate) fn await_drop(&mut self, chunk: ChunkId, announced: bool) {
        if !announced && !mutant("write_before_the_drop") {
            assert!(!self.map.is_simple(chunk), "a copy that is the only one is not dropped");
            self.busy_chunk_of(chunk).begin_drop();
            self.map.hold(chunk.volume);
            self.journal.join(Waiter::Dropped(chunk));
        }
    }
}
