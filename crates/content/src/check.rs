//! Checks of the store's invariants, and a search for leaks.
//!
//! Everything is counted anew from the volumes' roots, and compared with the counts of the parts.

use crate::checkpoint::Checkpoint;
use crate::segments::State;
use crate::state::StoreState;
use std::collections::BTreeMap;
use thermocline_units::VolumeId;

/// Description of a broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw(pub String);

/// A store as it is checked.
pub(crate) struct Inspection<'a> {
    pub(crate) state: &'a StoreState,
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) is_sweeping: bool,
    /// True if nothing is under way.
    pub(crate) is_quiet: bool,
}

impl Inspection<'_> {
    /// List of all broken invariants. O(maps and blocks).
    pub(crate) fn flaws(&self) -> Vec<Flaw> {
        let state = self.state;
        let mut flaws = Vec::new();
        let mut refs: BTreeMap<u32, u32> = BTreeMap::new();
        let mut seen = BTreeMap::new();
        for volume in state.volumes.values() {
            let mut each = |_: u32, leaf: Option<&[u32]>| {
                for &number in leaf.into_iter().flatten().filter(|&&number| number != 0) {
                    *refs.entry(number).or_default() += 1;
                }
            };
            state.nodes.walk(volume.root, &mut seen, &mut each);
        }
        self.check_volumes(&mut flaws);
        self.check_nodes(&seen, &mut flaws);
        self.check_blocks(&refs, &mut flaws);
        self.check_segments(&mut flaws);
        flaws
    }

    fn check_volumes(&self, flaws: &mut Vec<Flaw>) {
        let state = self.state;
        for (id, volume) in &state.volumes {
            let (root, level) = (volume.root, volume.level);
            let whole = state.nodes.count_in(root, level, 0, u64::MAX / 2);
            let inside = state.nodes.count_in(root, level, 0, volume.blocks());
            if whole != volume.mapped || inside != whole {
                let (mapped, id) = (volume.mapped, id.0);
                flaws.push(Flaw(format!(
                    "volume {id} maps {whole} blocks, {inside} of them inside; it says {mapped}"
                )));
            }
        }
    }

    fn check_nodes(&self, seen: &BTreeMap<u32, u32>, flaws: &mut Vec<Flaw>) {
        let state = self.state;
        if !state.nodes.has_doomed() && seen.len() + 1 != state.nodes.count().max(1) {
            let there = state.nodes.count();
            flaws.push(Flaw(format!(
                "{} nodes are under the volumes' roots, and {there} with number 0 are there",
                seen.len()
            )));
        }
        for (&id, &times) in seen {
            let (refs, _, counted, used) = state.nodes.facts(id);
            if refs != times && !state.nodes.has_doomed() || counted != used || used == 0 {
                flaws.push(Flaw(format!(
                    "node {id} is named {times} times and says {refs}; it names {counted} and says \
                     {used}"
                )));
            }
        }
    }

    fn check_blocks(&self, refs: &BTreeMap<u32, u32>, flaws: &mut Vec<Flaw>) {
        let state = self.state;
        for (&number, _) in refs.iter().filter(|&(&number, _)| !state.blocks.is_used(number)) {
            flaws.push(Flaw(format!("a map names block {number}, which is not there")));
        }
        let (mut used, mut referenced) = (0, 0);
        let mut charged: BTreeMap<VolumeId, u64> = BTreeMap::new();
        for number in (1..=state.blocks.top()).filter(|&number| state.blocks.is_used(number)) {
            let entry = state.blocks.entry(number);
            let counted = refs.get(&number).copied().unwrap_or(0);
            let (noted, place) = (entry.refs, entry.place);
            used += 1;
            referenced += u32::from(counted > 0);
            if counted > 0 {
                *charged.entry(state.blocks.owner(number)).or_default() += 1;
            }
            if noted != counted && !state.nodes.has_doomed() {
                flaws.push(Flaw(format!(
                    "block {number} is named {counted} times and says {noted}"
                )));
            }
            if !state.layout.is_slot(place) {
                flaws.push(Flaw(format!("block {number} lies at {place}, outside all segments")));
            }
            let short = entry.short;
            let is_found = state.blocks.index.find(short, |other| other == number).is_some();
            if !is_found && !self.is_sweeping && !state.pins.holds(number) {
                flaws.push(Flaw(format!("block {number} is not found by its hash")));
            }
        }
        let ledger = &state.ledger;
        let is_same = ledger.referenced == referenced
            && state.ledger.charged.iter().filter(|(_, count)| **count > 0).eq(charged.iter());
        if (used != state.blocks.used() || !is_same) && !state.nodes.has_doomed() {
            flaws.push(Flaw(format!(
                "{used} blocks, {referenced} named, charged {charged:?}; noted {}, {ledger:?}",
                state.blocks.used()
            )));
        }
        if !self.is_sweeping && state.blocks.index.len() != used as usize {
            let there = state.blocks.index.len();
            flaws.push(Flaw(format!("the index has {there} of {used} blocks")));
        }
    }

    fn check_segments(&self, flaws: &mut Vec<Flaw>) {
        let state = self.state;
        let mut live: BTreeMap<u32, u32> = BTreeMap::new();
        let mut places: BTreeMap<u32, u32> = BTreeMap::new();
        for number in (1..=state.blocks.top()).filter(|&number| state.blocks.is_used(number)) {
            let place = state.blocks.entry(number).place;
            if let Some(segment) = state.layout.segment_of(place) {
                *live.entry(segment).or_default() += 1;
            }
            if let Some(other) = places.insert(place, number) {
                flaws.push(Flaw(format!("blocks {number} and {other} both lie at {place}")));
            }
        }
        let nodes = state.nodes.addresses().chain(state.nodes.left().iter().copied());
        for place in nodes.chain(self.checkpoint.places()) {
            *live.entry(state.layout.segment_of(place).unwrap_or(u32::MAX)).or_default() += 1;
        }
        let mut free = 0;
        for (index, segment) in state.segments.iter() {
            let counted = live.get(&index).copied().unwrap_or(0);
            free += u32::from(segment.state == State::Free);
            let may_hold = !matches!(segment.state, State::Free | State::Emptying);
            let is_still = self.is_quiet;
            if (is_still && counted != segment.live) || (counted > 0 && !may_hold) {
                flaws.push(Flaw(format!(
                    "segment {index} ({:?}) holds {counted} and says {}",
                    segment.state, segment.live
                )));
            }
            if is_still && segment.readers > 0 {
                flaws.push(Flaw(format!("segment {index} is read by nobody it knows")));
            }
        }
        if free != state.segments.free_count() {
            flaws.push(Flaw(format!("{free} segments are free, and not as many are listed")));
        }
        if self.is_quiet && state.promised > 0 {
            flaws.push(Flaw(format!("{} nodes are promised to nobody", state.promised)));
        }
    }
}
