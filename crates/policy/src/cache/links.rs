//! Flat building blocks of list-based policies: slots, and doubly linked queues through them.
//!
//! A resident (or ghost) line occupies a *slot*, a number below the policy's bound; queues link
//! slots by number, 8 bytes each, in one array. The index from line to slot costs 4 bytes a
//! distinct line. No allocation after construction but the growth of that index.

use thermocline_units::{LineId, prefetch};

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Slots and the lines in them, either way. 8 B a slot, 4 B a distinct line.
#[derive(Debug)]
pub(crate) struct Slots {
    slot_of: Vec<u32>,
    line_of: Vec<LineId>,
    /// Stack of free slots.
    free: Vec<u32>,
}

impl Slots {
    /// `count` free slots.
    pub(crate) fn new(count: u32) -> Slots {
        Slots {
            slot_of: Vec::new(),
            line_of: vec![LineId(0); count as usize],
            free: (0..count).rev().collect(),
        }
    }

    pub(crate) fn reserve(&mut self, universe: u32) {
        if self.slot_of.len() < universe as usize {
            self.slot_of.resize(universe as usize, NONE);
        }
    }

    /// The slot of `line`, or [`NONE`].
    #[inline]
    pub(crate) fn slot(&self, line: LineId) -> u32 {
        self.slot_of[line.index()]
    }

    /// Gives `line`, which holds no slot, a free one.
    #[inline]
    pub(crate) fn take(&mut self, line: LineId) -> u32 {
        debug_assert_eq!(self.slot(line), NONE);
        let slot = self.free.pop().expect("the policy bounds how many lines it tracks");
        self.slot_of[line.index()] = slot;
        self.line_of[slot as usize] = line;
        slot
    }

    /// Frees `slot`; the line that held it.
    #[inline]
    pub(crate) fn release(&mut self, slot: u32) -> LineId {
        let line = self.line_of[slot as usize];
        self.slot_of[line.index()] = NONE;
        self.free.push(slot);
        line
    }

    #[inline]
    pub(crate) fn prefetch(&self, line: LineId) {
        prefetch(&self.slot_of, line.index());
    }

    /// Bytes that grow with the slots, bytes that grow with the distinct lines.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.line_of.len() as u64 * 8, self.slot_of.len() as u64 * 4)
    }
}

#[derive(Debug, Clone, Copy)]
struct Node {
    /// Towards the front (newer).
    newer: u32,
    /// Towards the back (older).
    older: u32,
}

/// The links of every queue of a policy; a slot is in at most one queue. 8 B a slot.
#[derive(Debug)]
pub(crate) struct Links {
    nodes: Vec<Node>,
}

/// Ends and length of one queue; front is newest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    pub(crate) front: u32,
    pub(crate) back: u32,
    pub(crate) len: u32,
}

impl Queue {
    pub(crate) const fn new() -> Queue {
        Queue { front: NONE, back: NONE, len: 0 }
    }
}

impl Links {
    pub(crate) fn new(count: u32) -> Links {
        Links { nodes: vec![Node { newer: NONE, older: NONE }; count as usize] }
    }

    #[inline]
    pub(crate) fn push_front(&mut self, queue: &mut Queue, slot: u32) {
        self.nodes[slot as usize] = Node { newer: NONE, older: queue.front };
        if queue.front == NONE {
            queue.back = slot;
        } else {
            self.nodes[queue.front as usize].newer = slot;
        }
        queue.front = slot;
        queue.len += 1;
    }

    #[inline]
    pub(crate) fn remove(&mut self, queue: &mut Queue, slot: u32) {
        let Node { newer, older } = self.nodes[slot as usize];
        if newer == NONE {
            queue.front = older;
        } else {
            self.nodes[newer as usize].older = older;
        }
        if older == NONE {
            queue.back = newer;
        } else {
            self.nodes[older as usize].newer = newer;
        }
        queue.len -= 1;
    }

    /// Removes and returns the oldest slot of a queue that is not empty.
    #[inline]
    pub(crate) fn pop_back(&mut self, queue: &mut Queue) -> u32 {
        let slot = queue.back;
        debug_assert_ne!(slot, NONE, "popped an empty queue");
        self.remove(queue, slot);
        slot
    }

    #[inline]
    pub(crate) fn move_to_front(&mut self, queue: &mut Queue, slot: u32) {
        if queue.front != slot {
            self.remove(queue, slot);
            self.push_front(queue, slot);
        }
    }

    /// The next newer slot of the queue that `slot` is in, or [`NONE`].
    #[inline]
    pub(crate) fn newer(&self, slot: u32) -> u32 {
        self.nodes[slot as usize].newer
    }

    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        prefetch(&self.nodes, slot as usize);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.nodes.len() as u64 * 8
    }
}
