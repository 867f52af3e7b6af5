//! Change of a volume's map, and the records that tell of it.

use super::Piece;
use crate::blocks::Blocks;
use crate::format::{MAP_RUN_MAX, Record};
use crate::journal::Journal;
use crate::tree::Nodes;
use crate::volume::{Ledger, Volume};
use std::ops::Range;
use thermocline_units::VolumeId;
use thermocline_units::situations::met_if;

/// One volume, and what a change of its map touches.
pub(super) struct Mapping<'a> {
    pub(super) id: VolumeId,
    pub(super) volume: &'a mut Volume,
    pub(super) nodes: &'a mut Nodes,
    pub(super) blocks: &'a mut Blocks,
    pub(super) ledger: &'a mut Ledger,
    pub(super) journal: &'a mut Journal,
}

impl Mapping<'_> {
    /// Makes blocks zeroes.
    pub(super) fn zero(&mut self, range: Range<u32>) {
        let Mapping { volume: it, nodes, blocks, ledger, .. } = self;
        let mut sink = |change| ledger.note(blocks, change);
        let (first, end) = (u64::from(range.start), u64::from(range.end));
        let gone = nodes.count_in(it.root, it.level, first, end);
        if gone > 0 {
            it.root = nodes.zero(it.root, it.level, first, end, &mut sink);
            it.mapped -= gone;
            it.version += gone;
            let (volume, first, count) = (self.id, range.start, range.end - range.start);
            self.journal.append(&Record::Zero { volume, first, count });
        }
    }

    /// Maps blocks to what they were settled to.
    pub(super) fn set(&mut self, pieces: &[Piece]) {
        let Mapping { volume: it, nodes, blocks, ledger, journal, .. } = self;
        let mut sink = |change| ledger.note(blocks, change);
        let volume = self.id;
        let mut run: Option<(u32, Vec<u32>)> = None;
        let mut flush = |run: &mut Option<(u32, Vec<u32>)>| {
            if let Some((first, numbers)) = run.take() {
                journal.append(&Record::Map { volume, first, numbers });
            }
        };
        for piece in pieces {
            let (old, new) = (nodes.get(it.root, it.level, piece.block), piece.number());
            if old == new {
                met_if(old != 0, "block written with what it held");
                continue;
            }
            it.root = nodes.set(it.root, it.level, u64::from(piece.block), new, &mut sink);
            it.mapped = it.mapped + u64::from(new != 0) - u64::from(old != 0);
            it.version += 1;
            let goes_on = run.as_ref().is_some_and(|(first, numbers)| {
                *first + numbers.len() as u32 == piece.block && numbers.len() < MAP_RUN_MAX
            });
            if !goes_on {
                flush(&mut run);
                run = Some((piece.block, Vec::new()));
            }
            run.as_mut().expect("just made").1.push(new);
        }
        flush(&mut run);
    }
}
