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

/// Class of a segment: hot for blocks that clients write, cold for blocks that cleaning moved,
/// which are likely to stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Hot = 0,
    Cold = 1,
}

/// State of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Open,
    Full,
    Sealing,
    Sealed,
    /// A segment without blocks. It becomes free once its trailer is wiped.
    Emptying,
    Nodes,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) state: State,
    pub(crate) sequence: u64,
    /// Number of blocks, or of nodes, on it.
    pub(crate) live: u32,
    /// Number of reads under way.
    pub(crate) readers: u32,
    /// True if a block on it could not be read or is damaged: it cannot be cleaned.
    pub(crate) is_rotten: bool,
}

/// A segment whose trailer is not durable.
#[derive(Debug, Clone)]
pub(crate) struct Unsealed {
    pub(crate) class: u8,
    pub(crate) sequence: u64,
    /// The next slot to be written.
    pub(crate) next: u32,
    /// Number of writes under way.
    pub(crate) outstanding: u32,
    pub(crate) entries: Vec<Option<Stored>>,
}

/// All segments of a store.
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
    /// Sealed segments that hold no blocks any more.
    pub(crate) emptied: Vec<u32>,
}

impl Segments {
    /// Segments of an empty store: all are free.
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

    /// Number of slots that clients may take now.
    pub(crate) fn client_slots(&self) -> u64 {
        let slots = self.layout.slots();
        let head = self.heads[0].map_or(0, |head| slots - self.unsealed[&head].next);
        let reserve = CLEANING_RESERVE + MAP_RESERVE;
        let reserve = if mutant("no_reserve_for_cleaning") { 0 } else { reserve };
        let free = u64::from(self.free_count().saturating_sub(reserve));
        u64::from(head) + free * u64::from(slots)
    }

    /// Number of blocks that the store may hold, so that cleaning always finds room.
    pub(crate) fn capacity(&self) -> u64 {
        let kept = CLEANING_RESERVE + MAP_RESERVE + self.heads.len() as u32 + 1;
        let segments = self.layout.segments.saturating_sub(self.node_segments + kept);
        u64::from(segments) * u64::from(self.layout.slots()) * 31 / 32
    }

    /// Takes the next slot of a class. Returns its address, and the number and sequence of its
    /// segment if one was opened for it. `None` when no segment is free.
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

    /// Opens a segment, to be written from its first slot on.
    pub(crate) fn open(&mut self, segment: u32, class: u8, sequence: u64) {
        self.free.remove(&segment);
        let entries = vec![None; self.layout.slots() as usize];
        let unsealed = Unsealed { class, sequence, next: 0, outstanding: 0, entries };
        self.unsealed.insert(segment, unsealed);
        let slot = &mut self.all[segment as usize];
        *slot = Segment { state: State::Open, sequence, live: 0, readers: 0, is_rotten: false };
    }

    /// Notes that the write of a slot ended, `None` if it failed. Returns the slot's segment if
    /// that was its last slot.
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

    /// Notes that the segment's trailer is durable.
    pub(crate) fn sealed(&mut self, segment: u32) {
        self.unsealed.remove(&segment);
        self.all[segment as usize].state = State::Sealed;
        if self.all[segment as usize].live == 0 {
            self.empty(segment);
        }
    }

    /// Notes that a block has left its place.
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

    /// Marks the segment as free.
    pub(crate) fn free(&mut self, segment: u32) {
        self.all[segment as usize].state = State::Free;
        self.free.insert(segment);
    }

    /// True if any segment is about to be sealed or freed.
    pub(crate) fn are_moving(&self) -> bool {
        self.all
            .iter()
            .any(|segment| matches!(segment.state, State::Full | State::Sealing | State::Emptying))
    }

    // Nodes.

    pub(crate) fn node_places(&self) -> u32 {
        self.node_places.len() as u32
    }

    /// Makes a free segment a segment of nodes; returns false if no more than `reserve` are free.
    pub(crate) fn grow_nodes(&mut self, reserve: u32) -> bool {
        if self.free_count() <= reserve {
            return false;
        }
        let segment = self.free.pop_last().expect("counted");
        self.use_for_nodes(segment);
        true
    }

    /// Makes the segment one of nodes, with all its places free.
    pub(crate) fn use_for_nodes(&mut self, segment: u32) {
        self.free.remove(&segment);
        self.all[segment as usize].state = State::Nodes;
        self.all[segment as usize].live = 0;
        self.node_segments += 1;
        let first = self.layout.first_slot(segment);
        self.node_places.extend(first..first + self.layout.slots());
    }

    /// Takes a free place for a node.
    pub(crate) fn take_node_place(&mut self) -> Option<u32> {
        let place = self.node_places.pop_first()?;
        let segment = self.of(place);
        self.all[segment as usize].live += 1;
        Some(place)
    }

    /// Takes the place of a node that was found on the device; returns false if it is not free.
    pub(crate) fn claim_node_place(&mut self, place: u32) -> bool {
        let claimed = self.node_places.remove(&place);
        if claimed {
            let segment = self.of(place);
            self.all[segment as usize].live += 1;
        }
        claimed
    }

    /// Frees a node's place. Frees the segment, too, if that was its last node and `spare` places
    /// are left without it.
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

    /// Notes that a segment's trailer was found.
    pub(crate) fn found(&mut self, segment: u32, sequence: u64) {
        self.free.remove(&segment);
        let slot = &mut self.all[segment as usize];
        (slot.state, slot.sequence) = (State::Sealed, sequence);
        self.next_sequence = self.next_sequence.max(sequence + 1);
    }

    /// Replays the record that a segment was opened. A segment with a trailer of this sequence or a
    /// later one is not open any more.
    pub(crate) fn reopen(&mut self, segment: u32, class: u8, sequence: u64) {
        self.next_sequence = self.next_sequence.max(sequence + 1);
        let Segment { state, sequence: there, .. } = self.all[segment as usize];
        if state != State::Sealed || there < sequence {
            self.open(segment, class, sequence);
        }
    }

    /// Replays the record that a block was written to a place.
    pub(crate) fn reenter(&mut self, place: u32, stored: &Stored) {
        let (segment, slot) = (self.of(place), self.layout.slot_of(place));
        if let Some(unsealed) = self.unsealed.get_mut(&segment) {
            unsealed.entries[slot as usize] = Some(*stored);
        }
    }

    /// Keeps the entries of open segments for which `is_there` is true. Segments without entries
    /// become free.
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

    /// Begins to free all sealed segments without blocks.
    pub(crate) fn find_emptied(&mut self) {
        for segment in 0..self.layout.segments {
            let Segment { state, live, .. } = self.all[segment as usize];
            if state == State::Sealed && live == 0 {
                self.empty(segment);
            }
        }
    }

    /// Continues at the newest open segment of each class after an opening. Returns the segments
    /// that are to be sealed as they are.
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
