//! Room for new blocks and nodes: which writes get it, which wait, and which are refused.
//!
//! A write needs room for its blocks (within the store's capacity, so that cleaning always finds
//! room), slots in free segments, and places for the nodes that it will change. If there is no room
//! now, the write waits while a sweep, cleaning or a checkpoint can make some. When none of them
//! can, it is refused with [`RequestError::NoSpace`]. Cleaning has a reserve that no client gets
//! ([`crate::settings::CLEANING_RESERVE`]), so it never waits for itself.

use crate::checkpoint::Mode;
use crate::request::RequestError;
use crate::settings::{CLEANING_RESERVE, TRIM_RESERVE};
use crate::store::Store;
use std::collections::VecDeque;
use thermocline_ports::Device;
use thermocline_units::situations::met;

/// A write that waits for room.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) write: u32,
    /// New blocks.
    pub(crate) blocks: u32,
    /// Nodes that it may make or copy.
    pub(crate) nodes: u32,
    /// True if it is a trim, which frees room.
    pub(crate) is_trim: bool,
    /// Number of sweeps, and of checkpoints, that were done when it began to wait.
    sweeps: u64,
    checkpoints: u64,
}

/// Writes that wait for room, and room that is promised.
#[derive(Debug, Default)]
pub(crate) struct Room {
    waiting: VecDeque<Waiting>,
    /// Nodes promised to writes that are under way.
    pub(crate) promised: u32,
    /// Emptied segments whose trailers may be wiped as soon as nothing reads the segments.
    pub(crate) leaving: Vec<u32>,
}

impl Room {
    pub(crate) fn is_wanted(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// Resource that a write does not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Nothing,
    Blocks,
    Slots,
    Nodes,
}

impl<D: Device> Store<D> {
    /// Requests room; returns true if there is enough. Otherwise the write is queued, and goes on
    /// when there is.
    pub(crate) fn ask_room(&mut self, write: u32, blocks: u32, nodes: u32, is_trim: bool) -> bool {
        let must_queue = self.room.is_wanted() && !is_trim && (blocks > 0 || nodes > 0);
        if !must_queue && self.missing(blocks, nodes, is_trim) == Missing::Nothing {
            self.room.promised += nodes;
            return true;
        }
        let (sweeps, checkpoints) = (self.sweep.done, self.checkpoint.done);
        let waiting = Waiting { write, blocks, nodes, is_trim, sweeps, checkpoints };
        match is_trim {
            true => self.room.waiting.push_front(waiting),
            false => self.room.waiting.push_back(waiting),
        }
        false
    }

    fn missing(&mut self, blocks: u32, nodes: u32, is_trim: bool) -> Missing {
        let kept = if is_trim { 0 } else { TRIM_RESERVE };
        let need = self.nodes.dirty() + self.room.promised + nodes + self.root_need() + kept;
        while self.segments.node_places() < need {
            // A trim may take what is otherwise kept for cleaning: it makes room.
            let reserve = if is_trim { 1 } else { CLEANING_RESERVE };
            if !self.segments.grow_nodes(reserve) {
                return Missing::Nodes;
            }
        }
        if blocks == 0 {
            return Missing::Nothing;
        }
        if u64::from(self.blocks.used()) + u64::from(blocks) > self.segments.capacity() {
            return Missing::Blocks;
        }
        if self.segments.client_slots() < u64::from(blocks) {
            return Missing::Slots;
        }
        Missing::Nothing
    }

    /// Lets waiting writes go on as far as there is room, and makes room for the next one.
    pub(crate) fn pump_room(&mut self) {
        while let Some(front) = self.room.waiting.front() {
            let Waiting { write, blocks, nodes, is_trim, sweeps, checkpoints } = *front;
            let missing = self.missing(blocks, nodes, is_trim);
            if missing == Missing::Nothing {
                met("write waited for room and got it");
                self.room.waiting.pop_front();
                self.room.promised += nodes;
                self.room_found(write);
                continue;
            }
            if self.make_room(missing, sweeps, checkpoints) {
                return;
            }
            met("no space");
            self.room.waiting.pop_front();
            self.end_write(write, Err(RequestError::NoSpace));
        }
    }

    /// Starts work that may free `missing`, or waits for it; returns false if nothing can free it.
    fn make_room(&mut self, missing: Missing, sweeps: u64, checkpoints: u64) -> bool {
        if missing == Missing::Nodes {
            let is_new = self.checkpoint.done < checkpoints + 2;
            let gains = self.nodes.has_left()
                || self.nodes.dirty() > 0
                || self.nodes.has_doomed()
                || self.checkpoint.is_under_way();
            if is_new && gains {
                met("checkpoint for room");
                self.checkpoint.want(Mode::Instead);
                return true;
            }
        }
        if !self.sweep.is_idle() {
            return true;
        }
        if missing != Missing::Blocks {
            if !self.cleaner.is_idle() || self.segments.are_moving() {
                return true;
            }
            if self.clean_some() {
                met("cleaning for room");
                return true;
            }
        }
        if self.unreferenced() > 0 && self.sweep.done < sweeps + 2 {
            self.sweep.wanted = true;
            met("sweep for room");
            return true;
        }
        self.nodes.has_doomed()
    }
}
