//! Checks of the store's invariants, and a search for leaks.
//!
//! Everything is counted anew from the volumes' roots, and compared with the counts of the parts.

use crate::segments::State;
use crate::store::Store;
use std::collections::BTreeMap;
use thermocline_ports::Device;
use thermocline_units::VolumeId;

/// Description of a broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw(pub String);

impl<D: Device> Store<D> {
    /// List of all broken invariants. O(maps and blocks). Meant for a store that has nothing in
    /// flight; blocks that are being written count as written.
    pub fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let mut refs: BTreeMap<u32, u32> = BTreeMap::new();
        let mut seen = BTreeMap::new();
        for volume in self.volumes.values() {
            let mut each = |_: u32, leaf: Option<&[u32]>| {
                for &number in leaf.into_iter().flatten().filter(|&&number| number != 0) {
                    *refs.entry(number).or_default() += 1;
                }
            };
            self.nodes.walk(volume.root, &mut seen, &mut each);
        }
        self.check_volumes(&mut flaws);
        self.check_nodes(&seen, &mut flaws);
        self.check_blocks(&refs, &mut flaws);
        self.check_segments(&mut flaws);
        flaws
    }

    fn check_volumes(&self, flaws: &mut Vec<Flaw>) {
        for (id, volume) in &self.volumes {
            let (root, level) = (volume.root, volume.level);
            let whole = self.nodes.count_in(root, level, 0, u64::MAX / 2);
            let inside = self.nodes.count_in(root, level, 0, volume.blocks());
            if whole != volume.mapped || inside != whole {
                let (mapped, id) = (volume.mapped, id.0);
                flaws.push(Flaw(format!(
                    "volume {id} maps {whole} blocks, {inside} of them inside; it says {mapped}"
                )));
            }
        }
    }

    fn check_nodes(&self, seen: &BTreeMap<u32, u32>, flaws: &mut Vec<Flaw>) {
        if !self.nodes.has_doomed() && seen.len() + 1 != self.nodes.count().max(1) {
            let there = self.nodes.count();
            flaws.push(Flaw(format!(
                "{} nodes are under the volumes' roots, and {there} with number 0 are there",
                seen.len()
            )));
        }
        for (&id, &times) in seen {
            let (refs, _, counted, used) = self.nodes.facts(id);
            if refs != times && !self.nodes.has_doomed() || counted != used || used == 0 {
                flaws.push(Flaw(format!(
                    "node {id} is named {times} times and says {refs}; it names {counted} and says \
                     {used}"
                )));
            }
        }
    }

    fn check_blocks(&self, refs: &BTreeMap<u32, u32>, flaws: &mut Vec<Flaw>) {
        for (&number, _) in refs.iter().filter(|&(&number, _)| !self.blocks.is_used(number)) {
            flaws.push(Flaw(format!("a map names block {number}, which is not there")));
        }
        let (mut used, mut referenced) = (0, 0);
        let mut charged: BTreeMap<VolumeId, u64> = BTreeMap::new();
        for number in (1..=self.blocks.top()).filter(|&number| self.blocks.is_used(number)) {
            let entry = self.blocks.entry(number);
            let counted = refs.get(&number).copied().unwrap_or(0);
            let (noted, place) = (entry.refs, entry.place);
            used += 1;
            referenced += u32::from(counted > 0);
            if counted > 0 {
                *charged.entry(self.blocks.owner(number)).or_default() += 1;
            }
            if noted != counted && !self.nodes.has_doomed() {
                flaws.push(Flaw(format!(
                    "block {number} is named {counted} times and says {noted}"
                )));
            }
            if !self.layout.is_slot(place) {
                flaws.push(Flaw(format!("block {number} lies at {place}, outside all segments")));
            }
            let short = entry.short;
            let is_found = self.blocks.index.find(short, |other| other == number).is_some();
            if !is_found && self.sweep.is_idle() && !self.pins.contains_key(&number) {
                flaws.push(Flaw(format!("block {number} is not found by its hash")));
            }
        }
        let ledger = &self.ledger;
        let is_same = ledger.referenced == referenced
            && self.ledger.charged.iter().filter(|(_, count)| **count > 0).eq(charged.iter());
        if (used != self.blocks.used() || !is_same) && !self.nodes.has_doomed() {
            flaws.push(Flaw(format!(
                "{used} blocks, {referenced} named, charged {charged:?}; noted {}, {ledger:?}",
                self.blocks.used()
            )));
        }
        if self.sweep.is_idle() && self.blocks.index.len() != used as usize {
            let there = self.blocks.index.len();
            flaws.push(Flaw(format!("the index has {there} of {used} blocks")));
        }
    }

    fn check_segments(&self, flaws: &mut Vec<Flaw>) {
        let mut live: BTreeMap<u32, u32> = BTreeMap::new();
        let mut places: BTreeMap<u32, u32> = BTreeMap::new();
        for number in (1..=self.blocks.top()).filter(|&number| self.blocks.is_used(number)) {
            let place = self.blocks.entry(number).place;
            if let Some(segment) = self.layout.segment_of(place) {
                *live.entry(segment).or_default() += 1;
            }
            if let Some(other) = places.insert(place, number) {
                flaws.push(Flaw(format!("blocks {number} and {other} both lie at {place}")));
            }
        }
        let checkpoint = &self.checkpoint;
        let nodes = self.nodes.addresses().chain(checkpoint.chain.iter().copied());
        let nodes = nodes.chain(self.nodes.left().iter().copied());
        for place in nodes.chain(checkpoint.released().iter().copied()) {
            *live.entry(self.layout.segment_of(place).unwrap_or(u32::MAX)).or_default() += 1;
        }
        let mut free = 0;
        for (index, segment) in self.segments.iter() {
            let counted = live.get(&index).copied().unwrap_or(0);
            free += u32::from(segment.state == State::Free);
            let may_hold = !matches!(segment.state, State::Free | State::Emptying);
            let is_still = self.is_quiet();
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
        if free != self.segments.free_count() {
            flaws.push(Flaw(format!("{free} segments are free, and not as many are listed")));
        }
        if self.is_quiet() && self.room.promised > 0 {
            flaws.push(Flaw(format!("{} nodes are promised to nobody", self.room.promised)));
        }
    }
}
