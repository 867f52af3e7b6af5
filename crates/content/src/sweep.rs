//! Mark and sweep: finds the blocks that no map names, and frees their numbers.
//!
//! 1. Mark: every leaf is looked at, in slices; what its entries name is marked. What gets a
//!    reference meanwhile is marked as well.
//! 2. Blocks that are neither marked nor pinned are dead: nobody finds them by their hash from now
//!    on.
//! 3. When every record up to now is durable, nothing durable names them either: their numbers are
//!    free, with a new generation, and their slots are holes.
//!
//! References are counted too, but only to know when a sweep is worth while, and what volumes cost:
//! a count that is wrong frees nothing.

use crate::commit::Waiter;
use crate::format::Record;
use crate::store::Store;
use thermocline_ports::Device;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Leaves of a slice.
const SLICE: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// One bit for each number, while marking.
    marks: Option<Vec<u64>>,
    cursor: usize,
    /// True while dead numbers wait for a commit.
    is_freeing: bool,
    pub(crate) wanted: bool,
    /// Sweeps done.
    pub(crate) done: u64,
}

impl Sweep {
    pub(crate) fn is_marking(&self) -> bool {
        self.marks.is_some()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.marks.is_none() && !self.is_freeing
    }
}

fn mark(marks: &mut [u64], number: u32) {
    if let Some(word) = marks.get_mut(number as usize / 64) {
        *word |= 1 << (number % 64);
    }
}

impl<D: Device> Store<D> {
    /// Blocks that no map names.
    pub(crate) fn unreferenced(&self) -> u32 {
        self.blocks.used() - self.ledger.referenced
    }

    /// Blocks that a sweep would probably free: those that writes under way brought are pinned.
    pub(crate) fn sweepable(&self) -> u32 {
        self.unreferenced().saturating_sub(self.pins.len() as u32)
    }

    /// Begins a sweep as soon as none is under way: what was trimmed, overwritten or deleted so far
    /// comes back without waiting for more of it.
    pub fn sweep(&mut self) {
        self.sweep.wanted = true;
        self.is_touched = true;
    }

    /// True while a sweep is asked for or under way, or maps of deleted volumes are being taken
    /// apart.
    pub fn is_sweeping(&self) -> bool {
        self.sweep.wanted || !self.sweep.is_idle() || self.nodes.has_doomed()
    }

    pub(crate) fn pump_sweep(&mut self) {
        if self.sweep.is_marking() {
            return self.mark_slice();
        }
        let many = (self.segments.capacity() / 16).max(u64::from(self.layout.slots()));
        let is_worth = u64::from(self.sweepable()) > many;
        if self.sweep.is_idle() && (self.sweep.wanted || is_worth) {
            self.sweep.wanted = false;
            self.sweep.cursor = 0;
            self.sweep.marks = Some(vec![0; self.blocks.top() as usize / 64 + 1]);
            self.nodes.marks = Some(Vec::new());
        }
    }

    fn mark_slice(&mut self) {
        let marks = self.sweep.marks.as_mut().expect("marking");
        let news = self.nodes.marks.as_mut().expect("set with it");
        met_if(!news.is_empty(), "mapped while marking");
        news.drain(..).for_each(|number| mark(marks, number));
        let end = (self.sweep.cursor + SLICE).min(self.nodes.slots());
        for place in self.sweep.cursor..end {
            self.nodes.leaf_at(place).iter().for_each(|&number| mark(marks, number));
        }
        self.sweep.cursor = end;
        if end == self.nodes.slots() {
            self.end_marking();
        }
    }

    fn end_marking(&mut self) {
        let marks = self.sweep.marks.take().expect("marking");
        self.nodes.marks = None;
        let mut dead = Vec::new();
        for number in 1..=self.blocks.top().min(marks.len() as u32 * 64 - 1) {
            let is_marked = marks[number as usize / 64] >> (number % 64) & 1 == 1;
            if is_marked || !self.blocks.is_used(number) {
                continue;
            }
            let is_pinned = self.pins.contains_key(&number);
            met_if(is_pinned, "sweep left a pinned block");
            if is_pinned && !mutant("sweep_ignores_pins") {
                continue;
            }
            self.blocks.hide(number);
            dead.push(number);
        }
        self.counters.sweeps += 1;
        self.sweep.done += 1;
        self.steps += 1;
        if dead.is_empty() {
            return;
        }
        self.sweep.is_freeing = true;
        if mutant("swept_before_the_drop_is_durable") {
            return self.free_swept(dead);
        }
        self.generation += u32::from(!mutant("generation_stays"));
        self.commit.append(&Record::Generation(self.generation));
        self.commit.join(Waiter::Free(dead));
    }

    /// Step 3.
    pub(crate) fn free_swept(&mut self, numbers: Vec<u32>) {
        met("blocks swept");
        self.sweep.is_freeing = false;
        self.steps += 1;
        self.counters.swept_blocks += numbers.len() as u64;
        for number in numbers {
            let place = self.blocks.entry(number).place;
            self.segments.leave(place);
            self.forget(number);
            self.blocks.release(number);
        }
    }
}
