//! Room for new blocks and nodes: which writes get it, which wait, and which are refused.
//!
//! A write needs room for its blocks (within the store's capacity, so that cleaning always finds
//! room), slots in free segments, and places for the nodes that it will change. If there is no room
//! now, the write waits while a sweep, cleaning or a checkpoint can make some. When none of them
//! can, it is refused with [`NoSpace`](crate::RequestError::NoSpace). Cleaning has a reserve that
//! no client gets ([`crate::settings::CLEANING_RESERVE`]), so it never waits for itself.

use crate::clean::victim;
use crate::root::root_need;
use crate::settings::{CLEANING_RESERVE, TRIM_RESERVE};
use crate::state::{Ask, Effect, Mode, Progress, StoreState};
use std::collections::VecDeque;
use thermocline_units::situations::met;

/// A write that waits for room.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    ask: Ask,
    /// Number of sweeps, and of checkpoints, that were done when it began to wait.
    sweeps: u64,
    checkpoints: u64,
}

/// Writes that wait for room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    waiting: VecDeque<Waiting>,
}

/// Resource that a write does not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Nothing,
    Blocks,
    Slots,
    Nodes,
}

impl Room {
    /// True if a write waits.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Gives room if there is enough. Otherwise the write is queued, and goes on when there is.
    pub(crate) fn ask(&mut self, state: &mut StoreState, progress: Progress, ask: Ask) {
        let must_queue = self.is_wanted() && !ask.is_trim && (ask.blocks > 0 || ask.nodes > 0);
        if !must_queue && missing(state, ask) == Missing::Nothing {
            state.promised += ask.nodes;
            return state.emit(Effect::RoomFound(ask.write));
        }
        let (sweeps, checkpoints) = (progress.sweeps_done, progress.checkpoints_done);
        let waiting = Waiting { ask, sweeps, checkpoints };
        match ask.is_trim {
            true => self.waiting.push_front(waiting),
            false => self.waiting.push_back(waiting),
        }
    }

    /// Lets the first of the waiting writes go on if there is room, or makes room for it.
    pub(crate) fn pump(&mut self, state: &mut StoreState, progress: Progress) {
        let Some(&waiting) = self.waiting.front() else { return };
        let missing = missing(state, waiting.ask);
        let outcome = if missing == Missing::Nothing {
            met("write waited for room and got it");
            state.promised += waiting.ask.nodes;
            Effect::RoomFound(waiting.ask.write)
        } else if make_room(state, progress, missing, waiting) {
            return;
        } else {
            met("no space");
            Effect::RoomRefused(waiting.ask.write)
        };
        self.waiting.pop_front();
        state.emit(outcome);
        state.emit(Effect::RoomChanged);
    }
}

fn missing(state: &mut StoreState, ask: Ask) -> Missing {
    let kept = if ask.is_trim { 0 } else { TRIM_RESERVE };
    let need = state.nodes.dirty() + state.promised + ask.nodes + root_need(state) + kept;
    while state.segments.node_places() < need {
        // A trim may take what is otherwise kept for cleaning: it makes room.
        let reserve = if ask.is_trim { 1 } else { CLEANING_RESERVE };
        if !state.segments.grow_nodes(reserve) {
            return Missing::Nodes;
        }
    }
    let blocks = u64::from(ask.blocks);
    if blocks == 0 {
        return Missing::Nothing;
    }
    if u64::from(state.blocks.used()) + blocks > state.segments.capacity() {
        return Missing::Blocks;
    }
    if state.segments.client_slots() < blocks {
        return Missing::Slots;
    }
    Missing::Nothing
}

/// Has work begun that may free `missing`, or waits for it; returns false if nothing can free it.
fn make_room(
    state: &mut StoreState,
    progress: Progress,
    missing: Missing,
    waiting: Waiting,
) -> bool {
    if missing == Missing::Nodes {
        let is_new = progress.checkpoints_done < waiting.checkpoints + 2;
        let gains = state.nodes.has_left()
            || state.nodes.dirty() > 0
            || state.nodes.has_doomed()
            || progress.is_checkpointing;
        if is_new && gains {
            met("checkpoint for room");
            state.wants.checkpoint(Mode::Instead);
            return true;
        }
    }
    if progress.is_sweeping {
        return true;
    }
    if missing != Missing::Blocks {
        if progress.is_cleaning || state.segments.are_moving() {
            return true;
        }
        if let Some(victim) = victim(state, 1) {
            met("cleaning for room");
            state.emit(Effect::Clean(victim));
            return true;
        }
    }
    if state.unreferenced() > 0 && progress.sweeps_done < waiting.sweeps + 2 {
        state.wants.sweep = true;
        met("sweep for room");
        return true;
    }
    state.nodes.has_doomed()
}

#[cfg(test)]
mod tests;
