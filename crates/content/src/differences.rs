//! Differences between the maps of two volumes, without a look at what they share.
//!
//! A clone shares the nodes of its image's map until it differs, so equal nodes are passed over
//! whole.

use crate::name::BlockId;
use crate::tree::Nodes;

/// A part of the differences between two maps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Differences {
    /// Blocks that differ, in ascending order, with what the first map has there; `None` stands for
    /// zeroes.
    pub blocks: Vec<(u32, Option<BlockId>)>,
    /// First block that was not looked at; `None`: nothing is left.
    pub next: Option<u32>,
    /// Entries of nodes that were looked at.
    pub steps: u64,
}

/// A walk through two maps of one size side by side.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    nodes: &'a Nodes,
    /// First block that is wanted.
    from: u64,
    /// Differences, and steps, after which the walk ends.
    most: usize,
    steps_most: u64,
    pub(crate) found: Vec<(u32, u32)>,
    /// First block that was not looked at, once the walk has ended early.
    pub(crate) next: Option<u64>,
    pub(crate) steps: u64,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(nodes: &'a Nodes, from: u32, most: usize, steps_most: u64) -> Walk<'a> {
        let (found, next, steps) = (Vec::new(), None, 0);
        Walk { nodes, from: from.into(), most, steps_most, found, next, steps }
    }

    /// Compares two nodes of this level whose first block is `base`; 0 is a node without entries.
    pub(crate) fn go(&mut self, (one, other): (u32, u32), level: u8, base: u64) {
        if one == other {
            return;
        }
        let span = self.nodes.span(level);
        let first = self.from.saturating_sub(base) / span;
        for slot in first..u64::from(self.nodes.fanout()) {
            if self.next.is_some() {
                return;
            }
            let at = base + slot * span;
            if self.found.len() >= self.most || self.steps >= self.steps_most {
                self.next = Some(at.max(self.from));
                return;
            }
            self.steps += 1;
            let slot = slot as usize;
            let entries = (self.nodes.entry(one, slot), self.nodes.entry(other, slot));
            if level > 0 {
                self.go(entries, level - 1, at);
            } else if entries.0 != entries.1 {
                self.found.push((at as u32, entries.0));
            }
        }
    }
}
