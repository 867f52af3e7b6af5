//! Ranges of blocks that are taken: by one alone, or by several at once, in the order in which they
//! were asked for.
//!
//! Requests in flight are few; a list is searched from one end to the other.

use std::collections::VecDeque;
use std::ops::Range;

#[derive(Debug, Clone)]
struct Taken {
    id: u64,
    volume: u32,
    blocks: Range<u32>,
    is_alone: bool,
}

impl Taken {
    fn keeps_out(&self, other: &Taken) -> bool {
        (self.is_alone || other.is_alone)
            && self.volume == other.volume
            && self.blocks.start < other.blocks.end
            && other.blocks.start < self.blocks.end
    }
}

/// Ranges that are taken and asked for.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    held: Vec<Taken>,
    waiting: VecDeque<Taken>,
}

impl Ranges {
    /// Asks for blocks, alone or beside others that are not; false: [`Ranges::end`] will name it.
    pub(super) fn ask(&mut self, id: u64, volume: u32, blocks: Range<u32>, is_alone: bool) -> bool {
        let taken = Taken { id, volume, blocks, is_alone };
        if self.held.iter().chain(&self.waiting).any(|other| other.keeps_out(&taken)) {
            self.waiting.push_back(taken);
            return false;
        }
        self.held.push(taken);
        true
    }

    /// Gives blocks back; those that may go on now, in their order.
    pub(super) fn end(&mut self, id: u64) -> Vec<u64> {
        let Some(at) = self.held.iter().position(|taken| taken.id == id) else {
            return Vec::new();
        };
        self.held.swap_remove(at);
        let mut went = Vec::new();
        let mut blocked: VecDeque<Taken> = VecDeque::new();
        for taken in self.waiting.drain(..) {
            if self.held.iter().chain(&blocked).any(|other| other.keeps_out(&taken)) {
                blocked.push_back(taken);
            } else {
                went.push(taken.id);
                self.held.push(taken);
            }
        }
        self.waiting = blocked;
        went
    }

    /// True if somebody holds the block, or waits for it.
    pub(super) fn has(&self, volume: u32, block: u32) -> bool {
        let all = self.held.iter().chain(&self.waiting);
        all.into_iter().any(|taken| taken.volume == volume && taken.blocks.contains(&block))
    }
}

#[cfg(test)]
mod tests;
