//! Maps of volumes: trees of nodes in memory that clones share, and their way to the device.
//!
//! 1. A leaf holds numbers of blocks, an inner node holds nodes. An entry of 0 stands for zeroes. A
//!    node without entries does not exist.
//! 2. A node with several parents or volumes is not changed but copied, from the root down. A clone
//!    costs one reference, and then a path of nodes for each leaf that differs.
//! 3. A checkpoint gives every node that is not on the device an address and *freezes* it. Before a
//!    frozen node is changed or freed, it is encoded. The nodes above it were changed first, so all
//!    addresses that it names are still those of the moment when it was frozen.
//! 4. Nodes without references are freed in slices: a volume of a TiB has 262,000 nodes.

use crate::format::encode_entries;
use std::collections::BTreeMap;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

#[derive(Debug, Clone)]
struct Node {
    entries: Box<[u32]>,
    level: u8,
    /// True while a checkpoint is to write it under its address.
    frozen: bool,
    /// Entries that are not 0.
    used: u32,
    /// Number of parents and volumes that have it; 0: it waits to be freed.
    refs: u32,
    /// Its address on the device; 0: its current contents are not there.
    disk: u32,
    is_free: bool,
}

/// A change of the references of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ref {
    Add(u32),
    Drop(u32),
}

/// Nodes of all maps.
#[derive(Debug)]
pub(crate) struct Nodes {
    nodes: Vec<Node>,
    free: Vec<u32>,
    doomed: Vec<u32>,
    fanout: u32,
    /// Number of nodes whose current contents are not on the device.
    dirty: u32,
    /// Addresses that the next checkpoint no longer names.
    left: Vec<u32>,
    /// Frozen nodes that were changed since, by address.
    early: BTreeMap<u32, Vec<u8>>,
    /// Numbers of blocks that got a reference since the list was last emptied; `None` unless a
    /// sweep is marking.
    pub(crate) marks: Option<Vec<u32>>,
}

impl Nodes {
    pub(crate) fn new(fanout: u32) -> Nodes {
        Nodes {
            nodes: Vec::new(),
            free: Vec::new(),
            doomed: Vec::new(),
            fanout,
            dirty: 0,
            left: Vec::new(),
            early: BTreeMap::new(),
            marks: None,
        }
    }

    /// Level of the root of a map of `blocks` blocks.
    pub(crate) fn root_level(&self, blocks: u64) -> u8 {
        let (mut level, mut span) = (0, u64::from(self.fanout));
        while span < blocks {
            span = span.saturating_mul(u64::from(self.fanout));
            level += 1;
        }
        level
    }

    /// Number of nodes, those that wait to be freed included.
    pub(crate) fn count(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Number of places for nodes, free ones included.
    pub(crate) fn slots(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn dirty(&self) -> u32 {
        self.dirty
    }

    /// True if nodes wait to be freed.
    pub(crate) fn has_doomed(&self) -> bool {
        !self.doomed.is_empty()
    }

    /// True if addresses wait for the next checkpoint.
    pub(crate) fn has_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// Addresses that wait for the next checkpoint.
    pub(crate) fn left(&self) -> &[u32] {
        &self.left
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.count() * self.fanout as usize * 4 + self.nodes.capacity() * size_of::<Node>()
    }

    /// Entries of a node.
    pub(crate) fn fanout(&self) -> u32 {
        self.fanout
    }

    /// Entry of a node; 0 also for the node 0, which has none.
    pub(crate) fn entry(&self, node: u32, slot: usize) -> u32 {
        match node {
            0 => 0,
            node => self.nodes[node as usize].entries[slot],
        }
    }

    /// Blocks under one entry of a node of this level.
    pub(crate) fn span(&self, level: u8) -> u64 {
        u64::from(self.fanout).saturating_pow(u32::from(level))
    }

    fn make(&mut self, level: u8, entries: Box<[u32]>, used: u32) -> u32 {
        let node = Node { entries, level, frozen: false, used, refs: 1, disk: 0, is_free: false };
        self.dirty += 1;
        match self.free.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                // Number 0 is nobody's.
                if self.nodes.is_empty() {
                    self.nodes.push(Node { is_free: true, ..node.clone() });
                    self.nodes[0].entries = Box::default();
                }
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    /// Adds a reference to the node.
    pub(crate) fn share(&mut self, node: u32) {
        if node != 0 {
            self.nodes[node as usize].refs += 1;
        }
    }

    /// Drops a reference to the node.
    pub(crate) fn release(&mut self, node: u32) {
        if node == 0 {
            return;
        }
        let refs = &mut self.nodes[node as usize].refs;
        *refs -= 1;
        if *refs == 0 {
            self.doomed.push(node);
        }
    }

    /// Frees up to `nodes` nodes without references.
    pub(crate) fn reap(&mut self, nodes: usize, sink: &mut impl FnMut(Ref)) {
        for _ in 0..nodes {
            let Some(id) = self.doomed.pop() else { return };
            self.leave_disk(id);
            let node = &mut self.nodes[id as usize];
            let entries = std::mem::take(&mut node.entries);
            node.is_free = true;
            let level = node.level;
            self.dirty -= 1;
            self.free.push(id);
            for &entry in entries.iter().filter(|&&entry| entry != 0) {
                match level {
                    0 => sink(Ref::Drop(entry)),
                    _ => self.release(entry),
                }
            }
        }
    }

    /// Gives up a node's address, because its contents will differ from those on the device.
    fn leave_disk(&mut self, id: u32) {
        let node = &self.nodes[id as usize];
        let (disk, frozen) = (node.disk, node.frozen);
        if disk == 0 {
            return;
        }
        if frozen {
            met("node changed while its checkpoint was written");
            if !mutant("frozen_node_changed_in_place") {
                let payload = self.payload(id);
                self.early.insert(disk, payload);
            }
        }
        let node = &mut self.nodes[id as usize];
        (node.disk, node.frozen) = (0, mutant("frozen_node_changed_in_place") && frozen);
        self.left.push(disk);
        self.dirty += 1;
    }

    /// Returns a node that only the caller has and may change: the node itself, or a copy.
    fn own(&mut self, id: u32, sink: &mut impl FnMut(Ref)) -> u32 {
        if self.nodes[id as usize].refs == 1 || mutant("shared_node_changed_in_place") {
            self.leave_disk(id);
            return id;
        }
        let node = &mut self.nodes[id as usize];
        node.refs -= 1;
        let (level, entries, used) = (node.level, node.entries.clone(), node.used);
        met_if(level == 0, "leaf of a clone copied");
        for &entry in entries.iter().filter(|&&entry| entry != 0) {
            if level == 0 {
                sink(Ref::Add(entry));
                if let Some(marks) = &mut self.marks {
                    marks.push(entry);
                }
            } else {
                self.nodes[entry as usize].refs += 1;
            }
        }
        self.make(level, entries, used)
    }

    /// The number that a map has for a block; 0 for zeroes.
    pub(crate) fn get(&self, root: u32, level: u8, block: u32) -> u32 {
        let (mut node, mut at) = (root, u64::from(block));
        for level in (0..=level).rev() {
            if node == 0 {
                return 0;
            }
            let span = self.span(level);
            node = self.nodes[node as usize].entries[(at / span) as usize];
            at %= span;
        }
        node
    }

    /// Number of other maps and parents that share the nodes on the way to a block.
    pub(crate) fn sharers(&self, root: u32, level: u8, block: u32) -> u32 {
        let (mut node, mut at, mut sharers) = (root, u64::from(block), 0);
        for level in (0..=level).rev() {
            if node == 0 {
                break;
            }
            let (span, it) = (self.span(level), &self.nodes[node as usize]);
            sharers += it.refs.saturating_sub(1);
            node = it.entries[(at / span) as usize];
            at %= span;
        }
        sharers
    }

    /// Sets the number of a block, 0 for zeroes, and returns the new root. The caller has checked
    /// that the number differs.
    pub(crate) fn set(
        &mut self,
        node: u32,
        level: u8,
        block: u64,
        number: u32,
        sink: &mut impl FnMut(Ref),
    ) -> u32 {
        if node == 0 && number == 0 {
            return 0;
        }
        let id = match node {
            0 => self.make(level, vec![0; self.fanout as usize].into(), 0),
            _ => self.own(node, sink),
        };
        let span = self.span(level);
        let slot = (block / span) as usize;
        let old = self.nodes[id as usize].entries[slot];
        let new = match level {
            0 => number,
            _ => self.set(old, level - 1, block % span, number, sink),
        };
        self.put(id, slot, new, sink);
        self.unless_empty(id)
    }

    fn put(&mut self, id: u32, slot: usize, new: u32, sink: &mut impl FnMut(Ref)) {
        let node = &mut self.nodes[id as usize];
        let old = std::mem::replace(&mut node.entries[slot], new);
        node.used = node.used + u32::from(new != 0) - u32::from(old != 0);
        if node.level > 0 {
            return;
        }
        if new != 0 {
            sink(Ref::Add(new));
            if let Some(marks) = &mut self.marks
                && !mutant("sweep_misses_what_is_mapped_meanwhile")
            {
                marks.push(new);
            }
        }
        if old != 0 {
            sink(Ref::Drop(old));
        }
    }

    fn unless_empty(&mut self, id: u32) -> u32 {
        if self.nodes[id as usize].used > 0 {
            return id;
        }
        self.release(id);
        0
    }

    /// Number of blocks in a range that are not zeroes.
    pub(crate) fn count_in(&self, node: u32, level: u8, first: u64, end: u64) -> u64 {
        if node == 0 || first >= end {
            return 0;
        }
        let span = self.span(level);
        let entries = &self.nodes[node as usize].entries;
        if level == 0 {
            let entries = &entries[first as usize..(end as usize).min(entries.len())];
            return entries.iter().filter(|&&entry| entry != 0).count() as u64;
        }
        let slots = first / span..end.div_ceil(span).min(u64::from(self.fanout));
        slots
            .map(|slot| {
                let (from, to) = (first.max(slot * span), end.min((slot + 1) * span));
                let child = entries[slot as usize];
                self.count_in(child, level - 1, from - slot * span, to - slot * span)
            })
            .sum()
    }

    /// Makes a range of blocks zeroes, and returns the new root.
    pub(crate) fn zero(
        &mut self,
        node: u32,
        level: u8,
        first: u64,
        end: u64,
        sink: &mut impl FnMut(Ref),
    ) -> u32 {
        let span = self.span(level);
        let whole = span.saturating_mul(u64::from(self.fanout));
        if first >= end || self.count_in(node, level, first, end) == 0 {
            return node;
        }
        if first == 0 && end >= whole {
            self.release(node);
            return 0;
        }
        let id = self.own(node, sink);
        for slot in first / span..end.div_ceil(span).min(u64::from(self.fanout)) {
            let old = self.nodes[id as usize].entries[slot as usize];
            if old == 0 {
                continue;
            }
            let new = match level {
                0 => 0,
                _ => {
                    let (from, to) = (first.max(slot * span), end.min((slot + 1) * span));
                    self.zero(old, level - 1, from - slot * span, to - slot * span, sink)
                }
            };
            self.put(id, slot as usize, new, sink);
        }
        self.unless_empty(id)
    }

    /// Entries of the leaf at a place; empty if there is none.
    pub(crate) fn leaf_at(&self, place: usize) -> &[u32] {
        match &self.nodes[place] {
            node if node.is_free || node.level > 0 => &[],
            node => &node.entries,
        }
    }

    /// Calls `each` once for every node under `root` that is not yet in `seen`, with its entries if
    /// it is a leaf.
    pub(crate) fn walk(
        &self,
        root: u32,
        seen: &mut BTreeMap<u32, u32>,
        each: &mut impl FnMut(u32, Option<&[u32]>),
    ) {
        if root == 0 {
            return;
        }
        let times = seen.entry(root).or_default();
        *times += 1;
        if *times > 1 {
            return;
        }
        let node = &self.nodes[root as usize];
        each(root, (node.level == 0).then_some(&node.entries[..]));
        if node.level > 0 {
            for &entry in node.entries.iter() {
                self.walk(entry, seen, each);
            }
        }
    }

    /// Facts of a node for checks: references, address, and entries in use as counted and as noted.
    pub(crate) fn facts(&self, id: u32) -> (u32, u32, u32, u32) {
        let node = &self.nodes[id as usize];
        let counted = node.entries.iter().filter(|&&entry| entry != 0).count() as u32;
        (node.refs, node.disk, counted, node.used)
    }

    /// Addresses of all nodes that are on the device.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = u32> + '_ {
        let alive = self.nodes.iter().filter(|node| !node.is_free && node.disk != 0);
        alive.map(|node| node.disk)
    }

    /// The address of a root; 0 for none.
    pub(crate) fn disk(&self, node: u32) -> u32 {
        if node == 0 { 0 } else { self.nodes[node as usize].disk }
    }

    /// Freezes all nodes under `roots` that are not on the device, and gives each an address from
    /// `address`. Returns their addresses and numbers, and the addresses that nothing names once
    /// these nodes are durable.
    pub(crate) fn freeze(
        &mut self,
        roots: &[u32],
        mut address: impl FnMut() -> u32,
    ) -> (Vec<(u32, u32)>, Vec<u32>) {
        let mut frozen = Vec::new();
        let mut to_do: Vec<u32> = roots.to_vec();
        while let Some(id) = to_do.pop() {
            if id == 0 || self.nodes[id as usize].disk != 0 {
                continue;
            }
            let node = &mut self.nodes[id as usize];
            (node.disk, node.frozen) = (address(), true);
            self.dirty -= 1;
            frozen.push((node.disk, id));
            if node.level > 0 {
                to_do.extend(node.entries.iter().filter(|&&entry| entry != 0));
            }
        }
        (frozen, std::mem::take(&mut self.left))
    }

    /// The contents of a node that was frozen under this address, and its level; it is not frozen
    /// any more.
    pub(crate) fn thaw(&mut self, address: u32, id: u32) -> (Vec<u8>, u8) {
        if let Some(payload) = self.early.remove(&address) {
            let level = payload[0];
            return (payload[1..].to_vec(), level);
        }
        self.nodes[id as usize].frozen = false;
        let payload = self.payload(id);
        (payload[1..].to_vec(), payload[0])
    }

    /// The level, and the entries as they stand on the device.
    fn payload(&self, id: u32) -> Vec<u8> {
        let node = &self.nodes[id as usize];
        let mut out = Vec::with_capacity(1 + node.entries.len() * 4);
        out.push(node.level);
        let on_disk = |&entry: &u32| if node.level == 0 { entry } else { self.disk(entry) };
        encode_entries(node.entries.iter().map(on_disk), &mut out);
        out
    }

    /// A node that is on the device and not yet read, with no references.
    pub(crate) fn expect(&mut self, level: u8, address: u32) -> u32 {
        let id = self.make(level, Box::default(), 0);
        let node = &mut self.nodes[id as usize];
        (node.refs, node.disk) = (0, address);
        self.dirty -= 1;
        id
    }

    pub(crate) fn level(&self, id: u32) -> u8 {
        self.nodes[id as usize].level
    }

    /// Fills a node that was read.
    pub(crate) fn fill(&mut self, id: u32, entries: Box<[u32]>) {
        let node = &mut self.nodes[id as usize];
        node.used = entries.iter().filter(|&&entry| entry != 0).count() as u32;
        node.entries = entries;
    }
}
