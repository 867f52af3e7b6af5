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

use crate::format::Record;
use crate::journal::Waiter;
use crate::state::StoreState;
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
    /// Sweeps done.
    done: u64,
}

impl Sweep {
    /// True while the blocks that maps name are being marked.
    pub(crate) fn is_marking(&self) -> bool {
        self.marks.is_some()
    }

    /// True if none is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.marks.is_none() && !self.is_freeing
    }

    /// Number of sweeps done.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Begins a sweep if one is wanted or worth while, or goes on with it.
    pub(crate) fn pump(&mut self, state: &mut StoreState) {
        if self.is_marking() {
            return self.mark_slice(state);
        }
        let many = (state.segments.capacity() / 16).max(u64::from(state.layout.slots()));
        let is_worth = u64::from(state.sweepable()) > many;
        if self.is_idle() && (state.wants.sweep || is_worth) {
            state.wants.sweep = false;
            self.cursor = 0;
            self.marks = Some(vec![0; state.blocks.top() as usize / 64 + 1]);
            state.nodes.marks = Some(Vec::new());
        }
    }

    fn mark_slice(&mut self, state: &mut StoreState) {
        let marks = self.marks.as_mut().expect("marking");
        let news = state.nodes.marks.as_mut().expect("set with it");
        met_if(!news.is_empty(), "mapped while marking");
        news.drain(..).for_each(|number| mark(marks, number));
        let end = (self.cursor + SLICE).min(state.nodes.slots());
        for place in self.cursor..end {
            state.nodes.leaf_at(place).iter().for_each(|&number| mark(marks, number));
        }
        self.cursor = end;
        if end == state.nodes.slots() {
            self.end_marking(state);
        }
    }

    fn end_marking(&mut self, state: &mut StoreState) {
        let marks = self.marks.take().expect("marking");
        state.nodes.marks = None;
        let mut dead = Vec::new();
        for number in 1..=state.blocks.top().min(marks.len() as u32 * 64 - 1) {
            let is_marked = marks[number as usize / 64] >> (number % 64) & 1 == 1;
            if is_marked || !state.blocks.is_used(number) {
                continue;
            }
            let is_pinned = state.pins.holds(number);
            met_if(is_pinned, "sweep left a pinned block");
            if is_pinned && !mutant("sweep_ignores_pins") {
                continue;
            }
            state.blocks.hide(number);
            dead.push(number);
        }
        state.counters.sweeps += 1;
        self.done += 1;
        state.note_step();
        if dead.is_empty() {
            return;
        }
        self.is_freeing = true;
        if mutant("swept_before_the_drop_is_durable") {
            return self.free(state, dead);
        }
        state.generation += u32::from(!mutant("generation_stays"));
        state.journal.append(&Record::Generation(state.generation));
        state.journal.join(Waiter::Free(dead));
    }

    /// Frees dead blocks (step 3).
    pub(crate) fn free(&mut self, state: &mut StoreState, numbers: Vec<u32>) {
        met("blocks swept");
        self.is_freeing = false;
        state.note_step();
        state.counters.swept_blocks += numbers.len() as u64;
        for number in numbers {
            let place = state.blocks.entry(number).place;
            state.segments.leave(place);
            state.known.forget(number);
            state.blocks.release(number);
        }
    }
}

fn mark(marks: &mut [u64], number: u32) {
    if let Some(word) = marks.get_mut(number as usize / 64) {
        *word |= 1 << (number % 64);
    }
}
