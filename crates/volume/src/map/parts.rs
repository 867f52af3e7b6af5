//! Chunks with more than one copy, or in two parts: what the journal has not been told of them yet.

use super::overlay::{Blocks, Overlay, Side};
use super::place::{Place, Role};
use super::{ChunkMap, NONE};
use std::ops::Range;
use thermocline_units::{ChunkId, Nanos};

impl ChunkMap {
    /// Number of chunks in two parts.
    pub(crate) fn overlays(&self) -> usize {
        self.overlays
    }

    /// Lays a second part over a chunk. The journal is to be told of it.
    ///
    /// # Panics
    /// When the chunk has two parts already, or none that it could lie over.
    pub(crate) fn add_overlay(&mut self, chunk: ChunkId, place: Place, blocks: Blocks) {
        assert!(self.overlay(chunk).is_none(), "a chunk has two parts at most");
        assert!(self.entry(chunk).first().is_some(), "an overlay lies over a copy");
        self.extra_mut(chunk).overlay = Some(Overlay { place, blocks, unsaved: true });
        self.unsaved.push(chunk);
        self.overlays += 1;
    }

    /// Runs were written, each at a place, in a chunk of so many bytes; whether blocks have changed
    /// sides by that.
    pub(crate) fn blocks_written(
        &mut self,
        chunk: ChunkId,
        runs: &[(Range<u32>, Place)],
        chunk_bytes: u32,
    ) -> bool {
        let base = self.entry(chunk).first();
        let Some(overlay) = self.overlay_mut(chunk) else { return false };
        assert_ne!(base, Some(overlay.place), "the sides are two slots");
        let mut changed = false;
        for (run, place) in runs {
            assert!(run.start < run.end && run.end <= chunk_bytes, "a run is within its chunk");
            let side = if *place == overlay.place { Side::Above } else { Side::Base };
            changed |= overlay.blocks.written(side, run);
        }
        self.blocks_changed(chunk, changed);
        changed
    }

    /// A run was copied from one side to the other.
    pub(crate) fn blocks_copied(&mut self, chunk: ChunkId, run: &Range<u32>) {
        let Some(overlay) = self.overlay_mut(chunk) else { return };
        let changed = overlay.blocks.copied(run);
        self.blocks_changed(chunk, changed);
    }

    fn blocks_changed(&mut self, chunk: ChunkId, changed: bool) {
        let overlay = self.overlay_mut(chunk).expect("the callers have it");
        if changed && !std::mem::replace(&mut overlay.unsaved, true) {
            self.unsaved.push(chunk);
        }
        let listed = || self.unsaved.contains(&chunk);
        debug_assert!(!changed || listed(), "the journal will be told of blocks that changed");
    }

    /// True if blocks of a chunk in two parts changed sides since the journal was told.
    pub(crate) fn has_unsaved(&self) -> bool {
        !self.unsaved.is_empty()
    }

    /// The chunks in two parts whose blocks changed sides since the journal was told: it is told
    /// now.
    pub(crate) fn take_unsaved(&mut self) -> Vec<ChunkId> {
        let mut unsaved = std::mem::take(&mut self.unsaved);
        unsaved.retain(|&chunk| {
            let overlay = if self.has(chunk) { self.overlay_mut(chunk) } else { None };
            overlay.is_some_and(|overlay| std::mem::replace(&mut overlay.unsaved, false))
        });
        assert!(unsaved.len() <= self.overlays, "each is a chunk in two parts, and told once");
        unsaved
    }

    /// Place of the copy that a move to a faster pool has left behind, where there is one.
    pub(crate) fn kept_copy(&self, chunk: ChunkId) -> Option<Place> {
        if self.is_simple(chunk) {
            return None;
        }
        let kept = self.copies(chunk).find(|copy| copy.role == Role::Kept);
        kept.map(|copy| copy.place)
    }

    /// Notes when the copies were last written.
    pub(crate) fn touch_copies(&mut self, now: Nanos, chunk: ChunkId) {
        let mirrored = self.mirror(chunk).is_some();
        if mirrored || self.extra(chunk).is_some_and(|extra| !extra.others.is_empty()) {
            let extra = self.extra_mut(chunk);
            assert!(extra.last_write <= now, "time does not go back");
            extra.last_write = now;
        }
    }

    /// True if the journal says that the chunk's copies may differ, or is about to.
    pub(crate) fn is_called_differing(&self, chunk: ChunkId) -> bool {
        self.extra(chunk).is_some_and(|extra| extra.dirty)
    }

    /// Moment at which the last write to the chunk's copies ended.
    pub(crate) fn last_write(&self, chunk: ChunkId) -> Nanos {
        self.extra(chunk).map_or(Nanos(0), |extra| extra.last_write)
    }

    /// The journal calls the chunk's copies different from now on; it is followed until they were
    /// not written for a while.
    pub(crate) fn call_differing(&mut self, chunk: ChunkId) {
        assert!(self.may_differ(chunk), "what stands in one place does not differ");
        if !std::mem::replace(&mut self.extra_mut(chunk).dirty, true) {
            self.differing.push(chunk);
        }
    }

    /// The journal calls the chunk's copies equal from now on.
    pub(crate) fn call_equal(&mut self, chunk: ChunkId) {
        let extra = self.entry(chunk).extra;
        assert_ne!(extra, NONE, "there are copies to be equal");
        self.extra_mut(chunk).dirty = false;
    }

    /// Follows a chunk whose copies the journal calls different already.
    pub(crate) fn follow_differing(&mut self, chunk: ChunkId) {
        self.differing.push(chunk);
    }

    /// True if the chunk is followed.
    pub(crate) fn follows_differing(&self, chunk: ChunkId) -> bool {
        self.differing.contains(&chunk)
    }

    /// True if chunks are followed whose copies may differ.
    pub(crate) fn has_differing(&self) -> bool {
        !self.differing.is_empty()
    }

    /// The chunks that are followed; those that still may differ are put back with
    /// [`ChunkMap::put_back_differing`].
    pub(crate) fn take_differing(&mut self) -> Vec<ChunkId> {
        std::mem::take(&mut self.differing)
    }

    /// Follows these chunks again.
    ///
    /// # Panics
    /// When others came meanwhile.
    pub(crate) fn put_back_differing(&mut self, chunks: Vec<ChunkId>) {
        assert!(self.differing.is_empty(), "settling writes nothing");
        self.differing = chunks;
    }
}

#[cfg(test)]
mod tests;
