//! A chunk in two parts: which of its blocks are in its first copy, which in an overlay, and which
//! in both.
//!
//! A *redirected* chunk has every block once: above, or in the first copy, the base. A *mirrored*
//! one may have blocks on both sides; a write to such a block goes to one side, whichever, and
//! the other side's is stale from then on (MOST, FAST 2026: two bits a sub-page). Nothing here does
//! I/O, or knows which side is faster.

use crate::map::place::Place;
use crate::map::presence::{Presence, around_blocks, whole_blocks};
use crate::settings::BLOCK;
use std::ops::Range;
use thermocline_units::mutants::mutant;

/// One of the two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The first copy.
    Base,
    /// The part that lies over it.
    Above,
}

impl Side {
    pub(crate) fn other(self) -> Side {
        match self {
            Side::Base => Side::Above,
            Side::Above => Side::Base,
        }
    }
}

/// Sides that hold a block as it was last written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    Only(Side),
    Both,
}

impl Holder {
    /// The only side; where both would do, `choice`.
    ///
    /// # Panics
    /// When there is no choice and both hold it: only mirrored chunks share blocks.
    pub(crate) fn or(self, choice: Option<Side>) -> Side {
        match self {
            Holder::Only(side) => side,
            Holder::Both => choice.expect("blocks are shared in mirrored chunks"),
        }
    }
}

/// Goal of an operation on a chunk in two parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// All blocks above; the base goes then.
    Above,
    /// All blocks in the base; the overlay goes then.
    Base,
    /// All blocks on both sides.
    Both,
}

impl Goal {
    /// The side that stays alone in the end.
    pub(crate) fn side(self) -> Option<Side> {
        match self {
            Goal::Above => Some(Side::Above),
            Goal::Base => Some(Side::Base),
            Goal::Both => None,
        }
    }
}

/// The second part of a chunk.
#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    pub(crate) place: Place,
    pub(crate) blocks: Blocks,
    /// True if blocks changed sides since the journal was given them.
    pub(crate) unsaved: bool,
}

/// Sides that hold each block of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocks {
    above: Presence,
    /// Those of the blocks above that the base holds as well; only in mirrored chunks.
    shared: Option<Presence>,
}

impl Blocks {
    /// All blocks in the base, for good or until they are redirected.
    pub(crate) fn redirected(chunk_size: u32) -> Blocks {
        Blocks { above: Presence::none(chunk_size), shared: None }
    }

    /// All blocks in the base, until they are copied.
    pub(crate) fn mirrored(chunk_size: u32) -> Blocks {
        let none = Presence::none(chunk_size);
        Blocks { above: none.clone(), shared: Some(none) }
    }

    pub(crate) fn is_mirror(&self) -> bool {
        self.shared.is_some()
    }

    /// True if there are blocks that could differ between the sides.
    pub(crate) fn any_shared(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.count() > 0)
    }

    fn holder(&self, block: u32) -> Holder {
        if !self.above.holds(block) {
            Holder::Only(Side::Base)
        } else if self.shared.as_ref().is_some_and(|shared| shared.holds(block)) {
            Holder::Both
        } else {
            Holder::Only(Side::Above)
        }
    }

    /// Cuts `bytes` into runs whose blocks have the same holder.
    pub(crate) fn runs(&self, bytes: &Range<u32>) -> Vec<(Range<u32>, Holder)> {
        let mut runs: Vec<(Range<u32>, Holder)> = Vec::new();
        for block in bytes.start / BLOCK..bytes.end.div_ceil(BLOCK) {
            let start = (block * BLOCK).max(bytes.start);
            let end = ((block + 1) * BLOCK).min(bytes.end);
            let holder = self.holder(block);
            match runs.last_mut() {
                Some((run, same)) if *same == holder => run.end = end,
                _ => runs.push((start..end, holder)),
            }
        }
        runs
    }

    /// True if `side` alone holds any block that `bytes` touches.
    pub(crate) fn any_only_on(&self, side: Side, bytes: &Range<u32>) -> bool {
        let mut blocks = bytes.start / BLOCK..bytes.end.div_ceil(BLOCK);
        blocks.any(|block| self.holder(block) == Holder::Only(side))
    }

    /// True if `side` has every block as it was last written.
    pub(crate) fn is_whole_on(&self, side: Side) -> bool {
        let blocks = 0..self.above.blocks();
        blocks.into_iter().all(|block| self.holder(block) != Holder::Only(side.other()))
    }

    /// True if a write of `bytes` may go to `side`: what it leaves of a block must be there.
    pub(crate) fn takes(&self, side: Side, bytes: &Range<u32>) -> bool {
        whole_blocks(bytes) == *bytes || !self.any_only_on(side.other(), bytes)
    }

    /// `bytes` were written on `side`, which [`Blocks::takes`] them, and only there; whether that
    /// changed a holder.
    pub(crate) fn written(&mut self, side: Side, bytes: &Range<u32>) -> bool {
        let blocks = match mutant("blocks_written_in_part_not_counted") {
            true => whole_blocks(bytes),
            false => around_blocks(bytes),
        };
        let changed = self.runs(&blocks).iter().any(|(_, holder)| *holder != Holder::Only(side));
        if let Some(shared) = self.shared.as_mut().filter(|_| !mutant("other_side_not_stale")) {
            shared.unmark(&blocks);
        }
        match side {
            Side::Above => _ = self.above.mark(&blocks),
            Side::Base => self.above.unmark(&blocks),
        }
        debug_assert!(!self.any_only_on(side.other(), bytes), "the side has what was written");
        changed
    }

    /// Whole blocks were copied to `side` from the other; whether that changed a holder. A block of
    /// a redirected chunk is above from then on.
    pub(crate) fn copied(&mut self, bytes: &Range<u32>) -> bool {
        assert_eq!(whole_blocks(bytes), *bytes, "whole blocks are copied");
        match &mut self.shared {
            Some(shared) => self.above.mark(bytes) | shared.mark(bytes),
            None => self.above.mark(bytes),
        }
    }

    /// Copies may differ since a crash: what both sides were said to hold counts on `side` only.
    pub(crate) fn trust(&mut self, side: Side) {
        let Some(shared) = &mut self.shared else { return };
        for block in 0..shared.blocks() {
            let bytes = block * BLOCK..(block + 1) * BLOCK;
            if shared.holds(block) {
                shared.unmark(&bytes);
                if side == Side::Base {
                    self.above.unmark(&bytes);
                }
            }
        }
        assert!(!self.any_shared(), "nothing counts on both sides");
    }

    /// True if nothing is left to be copied.
    pub(crate) fn is_at(&self, goal: Goal) -> bool {
        match goal {
            Goal::Above => self.above.is_full(),
            Goal::Base => self.shared.as_ref().map_or(0, Presence::count) == self.above.count(),
            Goal::Both => self.shared.as_ref().is_some_and(Presence::is_full),
        }
    }

    /// The first run at or after byte `from` that must be copied, cut to `length_max` bytes, and
    /// the side that it goes to.
    pub(crate) fn run_towards(
        &self,
        goal: Goal,
        from: u32,
        length_max: u32,
    ) -> Option<(Range<u32>, Side)> {
        let missing = |block: u32| match (self.holder(block), goal) {
            (Holder::Only(Side::Base), Goal::Above | Goal::Both) => Some(Side::Above),
            (Holder::Only(Side::Above), Goal::Base | Goal::Both) => Some(Side::Base),
            _ => None,
        };
        let blocks = self.above.blocks();
        let start = (from / BLOCK..blocks).find(|&block| missing(block).is_some())?;
        let to = missing(start)?;
        let limit = blocks.min(start + (length_max / BLOCK).max(1));
        let end = (start..limit).find(|&block| missing(block) != Some(to)).unwrap_or(limit);
        Some((start * BLOCK..end * BLOCK, to))
    }

    /// The blocks above; of a mirrored chunk also those that both sides hold.
    pub(crate) fn parts(&self) -> (&Presence, Option<&Presence>) {
        (&self.above, self.shared.as_ref())
    }

    /// The overlay of these parts; `None` when a block is shared that is not above.
    pub(crate) fn of_parts(above: Presence, shared: Option<Presence>) -> Option<Blocks> {
        let is_above =
            |block| shared.as_ref().is_none_or(|s| above.holds(block) || !s.holds(block));
        (0..above.blocks()).all(is_above).then_some(Blocks { above, shared })
    }
}

#[cfg(test)]
mod tests;
