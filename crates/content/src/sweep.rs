//! Mark and sweep: finds the blocks that no map names, and frees their numbers.
//!
//! 1. Mark: all leaves are visited, in slices, and the blocks that they name are marked. Blocks
//!    that get a reference meanwhile are marked, too.
//! 2. Blocks that are neither marked nor pinned are dead. They are removed from the index, so that
//!    no write finds them by their hash any more.
//! 3. When all records up to this moment are durable, nothing durable names the dead blocks. Their
//!    numbers become free, with a new generation, and their slots become holes.
//!
//! References are counted, too, but only to decide when a sweep is worth while, and to charge
//! volumes. A wrong count frees nothing.

use crate::commit::Waiter;
use crate::format::Record;
use crate::store::Store;
use thermocline_ports::Device;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Nodes of a slice.
const SLICE: usize = 8;

/// State of the sweep that is under way.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// One bit for each number, while marking.
    marks: Option<Vec<u64>>,
    cursor: usize,
    /// True while dead blocks wait for a commit.
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
    /// Number of blocks that no map names.
    pub(crate) fn unreferenced(&self) -> u32 {
        self.blocks.used() - self.ledger.referenced
    }

    /// Number of blocks that a sweep would probably free: pinned blocks are not counted.
    pub(crate) fn sweepable(&self) -> u32 {
        self.unreferenced().saturating_sub(self.pins.len() as u32)
    }

    /// Begins a sweep as soon as none is under way. It frees the blocks that were trimmed,
    /// overwritten or deleted so far, even if they are few.
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

    /// Frees dead blocks (step 3).
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
