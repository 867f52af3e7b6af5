//! Segments: which are free, which are written, how much of each is in use; and places for nodes.
//!
//! ```text
//!            first slot taken      all slots written       flushed         trailer durable
//!   free ──────────────────► open ─────────────────► full ─────────► sealing ──────────► sealed
//!    ▲  ▲                                                                                  │
//!    │  └── nodes (given to maps, and back when no node is left on it)                      │
//!    └─────────────── emptying (trailer wiped, discarded) ◄── the last block moved or swept ─┘
//! ```

use crate::format::Stored;
use crate::layout::Layout;
use crate::settings::{CLEANING_RESERVE, MAP_RESERVE};
use std::collections::{BTreeMap, BTreeSet};
use thermocline_units::mutants::mutant;

/// Blocks that clients write; and blocks that cleaning moved: they have lived long, and are likely
/// to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Hot = 0,
    Cold = 1,
}

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Open,
    Full,
    Sealing,
    Sealed,
    /// No block is on it; its trailer goes, then it is free.
    Emptying,
    Nodes,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) state: State,
    pub(crate) sequence: u64,
    /// Blocks, or nodes, that lie here.
    pub(crate) live: u32,
    /// Reads under way.
    pub(crate) readers: u32,
    /// A block on it could not be read or is damaged: it cannot be cleaned.
    pub(crate) is_rotten: bool,
}

/// A segment whose trailer is not durable.
#[derive(Debug, Clone)]
pub(crate) struct Unsealed {
    pub(crate) class: u8,
    pub(crate) sequence: u64,
    /// The next slot.
    pub(crate) next: u32,
    /// Writes under way.
    pub(crate) outstanding: u32,
    pub(crate) entries: Vec<Option<Stored>>,
}

/// See the module.
pub(crate) struct Segments {
    pub(crate) layout: Layout,
    all: Vec<Segment>,
    free: BTreeSet<u32>,
    pub(crate) unsealed: BTreeMap<u32, Unsealed>,
    heads: [Option<u32>; 2],
    /// Free places for nodes.
    node_places: BTreeSet<u32>,
    node_segments: u32,
    pub(crate) next_sequence: u64,
    /// Sealed segments that no block lies on any more.
    pub(crate) emptied: Vec<u32>,
}

impl Segments {
    /// All free.
    pub(crate) fn new(layout: Layout) -> Segments {
        let segment =
            Segment { state: State::Free, sequence: 0, live: 0, readers: 0, is_rotten: false };
        Segments {
            layout,
            all: vec![segment; layout.segments as usize],
            free: (0..layout.segments).collect(),
            unsealed: BTreeMap::new(),
            heads: [None; 2],
            node_places: BTreeSet::new(),
            node_segments: 0,
            next_sequence: 1,
            emptied: Vec::new(),
        }
    }

    pub(crate) fn get(&self, segment: u32) -> &Segment {
        &self.all[segment as usize]
    }

    pub(crate) fn get_mut(&mut self, segment: u32) -> &mut Segment {
        &mut self.all[segment as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Segment)> {
        (0u32..).zip(&self.all)
    }

    /// The segment that a block's address lies in.
    pub(crate) fn of(&self, place: u32) -> u32 {
        self.layout.segment_of(place).expect("blocks lie in segments")
    }

    pub(crate) fn free_count(&self) -> u32 {
        self.free.len() as u32
    }

    pub(crate) fn node_segments(&self) -> u32 {
        self.node_segments
    }

    /// Slots that clients may take now.
    pub(crate) fn client_slots(&self) -> u64 {
        let slots = self.layout.slots();
        let head = self.heads[0].map_or(0, |head| slots - self.unsealed[&head].next);
        let reserve = CLEANING_RESERVE + MAP_RESERVE;
        let reserve = if mutant("no_reserve_for_cleaning") { 0 } else { reserve };
        let free = u64::from(self.free_count().saturating_sub(reserve));
        u64::from(head) + free * u64::from(slots)
    }

    /// Blocks that the store can hold so that cleaning always finds room somewhere.
    pub(crate) fn capacity(&self) -> u64 {
        let kept = CLEANING_RESERVE + MAP_RESERVE + self.heads.len() as u32 + 1;
        let segments = self.layout.segments.saturating_sub(self.node_segments + kept);
        u64::from(segments) * u64::from(self.layout.slots()) * 31 / 32
    }

    /// The next slot of a class; with the segment's number and sequence if one was opened for it.
    /// `None` when no segment is free.
    pub(crate) fn take_slot(&mut self, class: Class) -> Option<(u32, Option<(u32, u64)>)> {
        let mut opened = None;
        let head = match self.heads[class as usize] {
            Some(head) => head,
            None => {
                let head = self.free.pop_first()?;
                let sequence = self.next_sequence;
                self.next_sequence += 1;
                self.open(head, class as u8, sequence);
                self.heads[class as usize] = Some(head);
                opened = Some((head, sequence));
                head
            }
        };
        let unsealed = self.unsealed.get_mut(&head).expect("heads are not sealed");
        let place = self.layout.first_slot(head) + unsealed.next;
        unsealed.next += 1;
        unsealed.outstanding += 1;
        if unsealed.next == self.layout.slots() {
            self.heads[class as usize] = None;
        }
        Some((place, opened))
    }

    /// The segment is written from its first slot on.
    pub(crate) fn open(&mut self, segment: u32, class: u8, sequence: u64) {
        self.free.remove(&segment);
        let entries = vec![None; self.layout.slots() as usize];
        let unsealed = Unsealed { class, sequence, next: 0, outstanding: 0, entries };
        self.unsealed.insert(segment, unsealed);
        let slot = &mut self.all[segment as usize];
        *slot = Segment { state: State::Open, sequence, live: 0, readers: 0, is_rotten: false };
    }

    /// A write to a slot ended: with a block, or with nothing. Returns its segment if that was the
    /// last of it.
    pub(crate) fn written(&mut self, place: u32, stored: Option<Stored>) -> Option<u32> {
        let (segment, slot) = (self.of(place), self.layout.slot_of(place));
        let slots = self.layout.slots();
        let unsealed = self.unsealed.get_mut(&segment).expect("slots are written once");
        unsealed.outstanding -= 1;
        unsealed.entries[slot as usize] = stored;
        self.all[segment as usize].live += u32::from(stored.is_some());
        let is_full = unsealed.next == slots && unsealed.outstanding == 0;
        is_full.then(|| {
            self.all[segment as usize].state = State::Full;
            segment
        })
    }

    /// The trailer is durable.
    pub(crate) fn sealed(&mut self, segment: u32) {
        self.unsealed.remove(&segment);
        self.all[segment as usize].state = State::Sealed;
        if self.all[segment as usize].live == 0 {
            self.empty(segment);
        }
    }

    /// A block lies there no more.
    pub(crate) fn leave(&mut self, place: u32) {
        let segment = self.of(place);
        self.all[segment as usize].live -= 1;
        let Segment { state, live, .. } = self.all[segment as usize];
        if live == 0 && state == State::Sealed {
            self.empty(segment);
        }
    }

    fn empty(&mut self, segment: u32) {
        self.all[segment as usize].state = State::Emptying;
        self.emptied.push(segment);
    }

    /// The segment may be written again.
    pub(crate) fn free(&mut self, segment: u32) {
        self.all[segment as usize].state = State::Free;
        self.free.insert(segment);
    }

    /// True if segments are on their way to being sealed or free.
    pub(crate) fn are_moving(&self) -> bool {
        self.all
            .iter()
            .any(|segment| matches!(segment.state, State::Full | State::Sealing | State::Emptying))
    }

    // Nodes.

    pub(crate) fn node_places(&self) -> u32 {
        self.node_places.len() as u32
    }

    /// Gives maps a segment; false if none can be spared.
    pub(crate) fn grow_nodes(&mut self, reserve: u32) -> bool {
        if self.free_count() <= reserve {
            return false;
        }
        let segment = self.free.pop_last().expect("counted");
        self.use_for_nodes(segment);
        true
    }

    /// The segment is for nodes; all its places are free.
    pub(crate) fn use_for_nodes(&mut self, segment: u32) {
        self.free.remove(&segment);
        self.all[segment as usize].state = State::Nodes;
        self.all[segment as usize].live = 0;
        self.node_segments += 1;
        let first = self.layout.first_slot(segment);
        self.node_places.extend(first..first + self.layout.slots());
    }

    /// A place for a node.
    pub(crate) fn take_node_place(&mut self) -> Option<u32> {
        let place = self.node_places.pop_first()?;
        let segment = self.of(place);
        self.all[segment as usize].live += 1;
        Some(place)
    }

    /// A node that was found on the device is there; false if something else is.
    pub(crate) fn claim_node_place(&mut self, place: u32) -> bool {
        let claimed = self.node_places.remove(&place);
        if claimed {
            let segment = self.of(place);
            self.all[segment as usize].live += 1;
        }
        claimed
    }

    /// The place is free, and its segment if that was its last node and `spare` places are left
    /// without it.
    pub(crate) fn leave_node_place(&mut self, place: u32, spare: u32) {
        self.node_places.insert(place);
        let (segment, slots) = (self.of(place), self.layout.slots());
        self.all[segment as usize].live -= 1;
        if self.all[segment as usize].live == 0 && self.node_places() >= spare + slots {
            let first = self.layout.first_slot(segment);
            (first..first + slots).for_each(|place| {
                self.node_places.remove(&place);
            });
            self.node_segments -= 1;
            self.free(segment);
        }
    }

    // Opening.

    /// A trailer was found.
    pub(crate) fn found(&mut self, segment: u32, sequence: u64) {
        self.free.remove(&segment);
        let slot = &mut self.all[segment as usize];
        (slot.state, slot.sequence) = (State::Sealed, sequence);
        self.next_sequence = self.next_sequence.max(sequence + 1);
    }

    /// A record says that the segment was opened. One that has a trailer of this time or a later
    /// one is not open any more.
    pub(crate) fn reopen(&mut self, segment: u32, class: u8, sequence: u64) {
        self.next_sequence = self.next_sequence.max(sequence + 1);
        let Segment { state, sequence: there, .. } = self.all[segment as usize];
        if state != State::Sealed || there < sequence {
            self.open(segment, class, sequence);
        }
    }

    /// A record says that a block was written there.
    pub(crate) fn reenter(&mut self, place: u32, stored: &Stored) {
        let (segment, slot) = (self.of(place), self.layout.slot_of(place));
        if let Some(unsealed) = self.unsealed.get_mut(&segment) {
            unsealed.entries[slot as usize] = Some(*stored);
        }
    }

    /// Keeps the entries of open segments for which this is true. Segments that have none are
    /// free: nothing is on them, or what was is elsewhere.
    pub(crate) fn keep_entries(&mut self, mut is_there: impl FnMut(u32, &Stored) -> bool) {
        let layout = self.layout;
        let mut empty = Vec::new();
        for (&segment, unsealed) in &mut self.unsealed {
            let first = layout.first_slot(segment);
            for (place, entry) in (first..).zip(&mut unsealed.entries) {
                *entry = entry.filter(|stored| is_there(place, stored));
            }
            if unsealed.entries.iter().all(Option::is_none) {
                empty.push(segment);
            }
        }
        for segment in empty {
            self.unsealed.remove(&segment);
            // Nodes may have come there since.
            if self.all[segment as usize].state == State::Open {
                self.free(segment);
            }
        }
    }

    /// Sealed segments without a block are emptied.
    pub(crate) fn find_emptied(&mut self) {
        for segment in 0..self.layout.segments {
            let Segment { state, live, .. } = self.all[segment as usize];
            if state == State::Sealed && live == 0 {
                self.empty(segment);
            }
        }
    }

    /// After an opening: goes on writing at the heads that are known; returns the segments that
    /// are to be sealed as they are.
    pub(crate) fn resume(&mut self) -> Vec<u32> {
        let slots = self.layout.slots();
        let mut by_age: Vec<(u64, u32)> =
            self.unsealed.iter().map(|(&segment, unsealed)| (unsealed.sequence, segment)).collect();
        by_age.sort_unstable();
        let mut to_seal = Vec::new();
        for (_, segment) in by_age.into_iter().rev() {
            let unsealed = self.unsealed.get_mut(&segment).expect("listed");
            let last = unsealed.entries.iter().rposition(Option::is_some);
            unsealed.next = last.map_or(0, |slot| slot as u32 + 1);
            let head = &mut self.heads[usize::from(unsealed.class & 1)];
            if unsealed.next < slots && head.is_none() {
                *head = Some(segment);
            } else {
                unsealed.next = slots;
                self.all[segment as usize].state = State::Full;
                to_seal.push(segment);
            }
        }
        to_seal
    }
}

impl std::fmt::Debug for Segments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = self.iter().map(|(_, segment)| (segment.state, segment.live, segment.readers));
        f.debug_list().entries(all).finish()
    }
}
