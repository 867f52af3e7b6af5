//! Reads of an opening: those that wait, those under way, and nodes that are read together.
//!
//! Nodes are asked for one by one, in any order; neighbours among them become one read.

use crate::layout::Layout;
use crate::open_error::OpenError;
use crate::tree::Nodes;
use std::collections::{BTreeMap, VecDeque};

/// Reads under way at once.
const READS_MAX: usize = 16;
/// Number of times a failed read is repeated.
const TRIES_MAX: u32 = 3;
/// Blocks of one read of nodes at most, and the largest distance between two nodes in it.
const NODE_READ: u32 = 128;
const NODE_GAP: u32 = 8;

/// Contents that a read brings.
#[derive(Debug, Clone)]
pub(super) enum What {
    Supers,
    Root,
    Journal {
        first: u32,
    },
    Trailer {
        segment: u32,
    },
    /// Nodes, by address and number.
    Nodes(Vec<(u32, u32)>),
}

/// One read.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) address: u64,
    pub(super) blocks: u32,
    pub(super) what: What,
    tries: u32,
}

/// Reads of an opening.
#[derive(Debug, Default)]
pub(super) struct Queue {
    todo: VecDeque<Step>,
    under_way: BTreeMap<u32, Step>,
    next_step: u32,
    /// Nodes by address.
    nodes: BTreeMap<u32, u32>,
    /// Those of them that are nodes to be read.
    unread: BTreeMap<u32, u32>,
}

impl Queue {
    pub(super) fn add(&mut self, address: u64, blocks: u32, what: What) {
        self.todo.push_back(Step { address, blocks, what, tries: 0 });
    }

    /// A block of the root: the others wait for what it says.
    pub(super) fn add_root(&mut self, address: u32) {
        let step = Step { address: u64::from(address), blocks: 1, what: What::Root, tries: 0 };
        self.todo.push_front(step);
    }

    /// The node at an address; it is read if it is new.
    pub(super) fn expect(
        &mut self,
        nodes: &mut Nodes,
        layout: &Layout,
        level: u8,
        address: u32,
    ) -> Result<u32, OpenError> {
        if !layout.is_slot(address) {
            return Err(OpenError::Node(address));
        }
        if let Some(&id) = self.nodes.get(&address) {
            let is_same = nodes.level(id) == level;
            return if is_same { Ok(id) } else { Err(OpenError::Node(address)) };
        }
        let id = nodes.expect(level, address);
        self.nodes.insert(address, id);
        self.unread.insert(address, id);
        Ok(id)
    }

    /// The next read to send, and its number; `None` while enough is under way.
    pub(super) fn begin(&mut self) -> Option<(u32, u64, u32)> {
        if self.under_way.len() >= READS_MAX {
            return None;
        }
        self.gather_nodes();
        let step = self.todo.pop_front()?;
        let number = self.next_step;
        self.next_step = self.next_step.wrapping_add(1);
        let (address, blocks) = (step.address, step.blocks);
        self.under_way.insert(number, step);
        Some((number, address, blocks))
    }

    /// The read that has ended.
    pub(super) fn end(&mut self, number: u32) -> Option<Step> {
        self.under_way.remove(&number)
    }

    /// Queues a failed read again; returns false if it has failed too often.
    pub(super) fn again(&mut self, step: &Step) -> bool {
        if step.tries >= TRIES_MAX {
            return false;
        }
        self.todo.push_front(Step { tries: step.tries + 1, ..step.clone() });
        true
    }

    /// True if nothing waits and nothing is under way.
    pub(super) fn is_done(&self) -> bool {
        self.todo.is_empty() && self.under_way.is_empty() && self.unread.is_empty()
    }

    /// The node that was read from an address.
    pub(super) fn node(&self, address: u32) -> u32 {
        self.nodes[&address]
    }

    /// Addresses of all nodes.
    pub(super) fn node_places(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.keys().copied()
    }

    /// Makes steps of nodes that are to be read, one for neighbours.
    fn gather_nodes(&mut self) {
        while let Some((first, id)) = self.unread.pop_first() {
            let mut nodes = vec![(first, id)];
            let mut last = first;
            while let Some((&next, &id)) = self.unread.first_key_value()
                && next - last <= NODE_GAP
                && next - first < NODE_READ
            {
                self.unread.pop_first();
                nodes.push((next, id));
                last = next;
            }
            self.add(u64::from(first), last - first + 1, What::Nodes(nodes));
        }
    }
}
