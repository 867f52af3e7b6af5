//! The state that all parts of a store share: volumes and their maps, blocks, segments, records on
//! their way to the journal, and what is to be sent to the device. It decides nothing.
//!
//! The parts (`reading`, `writing`, `room`, `sweep`, `clean`, `sealing`, `commit`, `checkpoint`,
//! `opening`) have state of their own beside it, and are handed this one for each step. None calls
//! another: a step leaves *effects*, which the store carries out when the step has ended, and
//! requests to the device, which it sends then. What one effect leaves is done before the next
//! effect of the same step, as if the parts had called each other.

use crate::blocks::Blocks;
use crate::counters::Counters;
use crate::format::Stored;
use crate::journal::{Journal, Waiter};
use crate::known::Known;
use crate::layout::Layout;
use crate::name::ContentId;
use crate::open_error::OpenError;
use crate::pins::Pins;
use crate::request::{Answer, Completed, RequestError, RequestId};
use crate::segments::Segments;
use crate::service::Service;
use crate::settings::Settings;
use crate::tasks::{Outgoing, Task};
use crate::tree::Nodes;
use crate::volume::{Ledger, Volume};
use std::collections::{BTreeMap, VecDeque};
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::{Nanos, VolumeId};

/// Relation of a checkpoint to commits: beside them, or instead of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Beside,
    Instead,
}

/// A block that a write changes in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) write: u32,
    pub(crate) piece: u32,
}

/// Room that a write asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) write: u32,
    /// New blocks.
    pub(crate) blocks: u32,
    /// Nodes that it may make or copy.
    pub(crate) nodes: u32,
    /// True if it is a trim, which frees room.
    pub(crate) is_trim: bool,
}

/// Something that a step of one part leaves for another one, or for a later step.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A block is to be read for a write that changes it in part.
    ReadEdge { edge: Edge, id: RequestId, volume: VolumeId, block: u32 },
    /// That block was read, or was not.
    EdgeRead { edge: Edge, result: Result<Payload, RequestError> },
    /// A write has the blocks for which it waited.
    Unlocked(u32),
    /// A block for which a write waits is on the device, or failed.
    Arrived(u32),
    /// A write needs room.
    RoomAsked(Ask),
    /// A write got its room.
    RoomFound(u32),
    /// Nothing can make room for a write.
    RoomRefused(u32),
    /// The next write that waits for room may get it.
    RoomChanged,
    /// A segment is to be cleaned, to make room.
    Clean(u32),
    /// The records are durable with which blocks became dead.
    Swept(Vec<u32>),
    /// The blocks of a full segment are durable.
    Seal(u32),
    /// The records are durable with which the last blocks left a segment.
    Leave(u32),
    /// A commit has taken all records that there are.
    AllTaken,
    /// A checkpoint is durable.
    CheckpointDone,
    /// The store has stopped: nobody waits any more.
    Stopped,
}

/// Work that some part wants another one to do when it comes to it.
#[derive(Debug, Default)]
pub(crate) struct Wants {
    /// A group commit of the journal, although nothing may wait for it.
    pub(crate) commit: bool,
    pub(crate) sweep: bool,
    pub(crate) checkpoint: Option<Mode>,
}

impl Wants {
    /// Wants a checkpoint; one instead of a commit outweighs one beside it.
    pub(crate) fn checkpoint(&mut self, mode: Mode) {
        self.checkpoint = self.checkpoint.max(Some(mode));
    }
}

/// Progress of some parts, for those that wait for them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) sweeps_done: u64,
    pub(crate) is_sweeping: bool,
    pub(crate) is_cleaning: bool,
    pub(crate) checkpoints_done: u64,
    pub(crate) is_checkpointing: bool,
    /// True if records must wait for the checkpoint that is under way.
    pub(crate) checkpoint_holds_commits: bool,
}

/// The shared state.
pub(crate) struct StoreState {
    pub(crate) settings: Settings,
    pub(crate) layout: Layout,
    pub(crate) identity: u64,
    pub(crate) service: Service,
    pub(crate) now: Nanos,
    pub(crate) blocks: Blocks,
    pub(crate) nodes: Nodes,
    pub(crate) volumes: BTreeMap<VolumeId, Volume>,
    pub(crate) ledger: Ledger,
    pub(crate) segments: Segments,
    pub(crate) journal: Journal,
    pub(crate) known: Known,
    pub(crate) pins: Pins,
    /// Nodes promised to writes that are under way.
    pub(crate) promised: u32,
    /// Current generation, which new numbers get.
    pub(crate) generation: u32,
    pub(crate) next_volume: u32,
    /// True if blocks were written since the device was last flushed.
    pub(crate) is_volatile: bool,
    pub(crate) wants: Wants,
    pub(crate) counters: Counters,
    answers: Vec<Answer>,
    /// Count of steps; `poll` repeats until it does not change any more.
    steps: u64,
    outgoing: Vec<Outgoing>,
    /// Effects of the step that has ended, and of those before it.
    left: Vec<Effect>,
    effects: VecDeque<Effect>,
}

impl StoreState {
    /// State of an empty store with this layout.
    pub(crate) fn new(settings: Settings, layout: Layout) -> StoreState {
        StoreState {
            layout,
            identity: 0,
            service: Service::Opening,
            now: Nanos(0),
            blocks: Blocks::new(),
            nodes: Nodes::new(settings.fanout),
            volumes: BTreeMap::new(),
            ledger: Ledger::default(),
            segments: Segments::new(layout),
            journal: Journal::new(0, 0),
            known: Known::new(settings.known_blocks),
            settings,
            pins: Pins::default(),
            promised: 0,
            generation: 1,
            next_volume: 1,
            is_volatile: false,
            wants: Wants::default(),
            counters: Counters::default(),
            answers: Vec::new(),
            steps: 0,
            outgoing: Vec::new(),
            left: Vec::new(),
            effects: VecDeque::new(),
        }
    }

    // The effects and requests that a step leaves.

    /// Has a request sent to the device when the step has ended.
    pub(crate) fn send(&mut self, task: Task, io: Io) {
        self.outgoing.push(Outgoing { task, io });
    }

    /// Requests to be sent, in their order.
    pub(crate) fn take_outgoing(&mut self) -> std::vec::Drain<'_, Outgoing> {
        self.outgoing.drain(..)
    }

    /// Leaves an effect.
    pub(crate) fn emit(&mut self, effect: Effect) {
        self.left.push(effect);
    }

    /// True if the last step has left nothing.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.left.is_empty() && self.outgoing.is_empty()
    }

    /// The next effect to be carried out: those of the last step come before those of the steps
    /// before it.
    pub(crate) fn next_effect(&mut self) -> Option<Effect> {
        while let Some(effect) = self.left.pop() {
            self.effects.push_front(effect);
        }
        self.effects.pop_front()
    }

    /// Answers a request.
    pub(crate) fn answer(&mut self, id: RequestId, result: Result<Completed, RequestError>) {
        self.note_step();
        self.answers.push(Answer { id, result });
    }

    /// Answers requests of a store that has stopped.
    pub(crate) fn turn_away(&mut self, waiting: Vec<RequestId>) {
        let stopped = Err(RequestError::Stopped);
        let answers = waiting.into_iter().map(|id| Answer { id, result: stopped.clone() });
        self.answers.extend(answers);
    }

    /// Answers that are ready.
    pub(crate) fn answers(&mut self) -> &mut Vec<Answer> {
        &mut self.answers
    }

    /// True if an answer is ready.
    pub(crate) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Notes that something went on without the device: other parts may go on, too.
    pub(crate) fn note_step(&mut self) {
        self.steps += 1;
    }

    /// Count of such steps.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Stops the store; all that waits is answered with an error.
    pub(crate) fn stop(&mut self, error: DeviceError) {
        self.service = Service::Stopped(error);
        self.emit(Effect::Stopped);
    }

    /// Refuses to open the store.
    pub(crate) fn refuse(&mut self, error: OpenError) {
        self.service = Service::Refused(error);
    }

    // Facts about several structures together.

    /// Notes that the write of a slot ended, `None` if it failed. Queues the trailer of its segment
    /// if that was the last slot.
    pub(crate) fn slot_written(&mut self, place: u32, stored: Option<Stored>) {
        if let Some(segment) = self.segments.written(place, stored) {
            self.journal.join(Waiter::Seal(segment));
        }
    }

    /// Remembers the full hash of a stored block.
    pub(crate) fn remember(&mut self, number: u32, content: ContentId) {
        self.known.remember(&self.blocks, number, content);
    }

    /// The full hash of a stored block, if it is remembered.
    pub(crate) fn recall(&self, number: u32) -> Option<ContentId> {
        self.known.recall(&self.blocks, number)
    }

    /// Frees some of the nodes without references.
    pub(crate) fn reap(&mut self, nodes: usize) {
        let StoreState { nodes: tree, blocks, ledger, .. } = self;
        tree.reap(nodes, &mut |change| ledger.note(blocks, change));
    }

    /// Number of blocks that no map names.
    pub(crate) fn unreferenced(&self) -> u32 {
        self.blocks.used() - self.ledger.referenced
    }

    /// Number of blocks that a sweep would probably free: pinned blocks are not counted.
    pub(crate) fn sweepable(&self) -> u32 {
        self.unreferenced().saturating_sub(self.pins.blocks())
    }
}

#[cfg(test)]
mod tests;
