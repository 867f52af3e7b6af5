//! Checkpoints: everything that the journal says, written so that the journal can begin anew.
//!
//! 1. All nodes of maps that are not on the device get addresses and are frozen, and the root is
//!    written down: volumes, numbers given next, and the blocks of segments without a trailer. That
//!    is a moment; what changes later does not show.
//! 2. Nodes and root are written to free places, which nothing durable names.
//! 3. The device is flushed, and the superblock is forced. It names the new root, and the first
//!    journal block behind the moment. Only now are the old root and the nodes that it alone named
//!    free.
//!
//! A checkpoint *beside* commits begins with a commit that takes all records there are; others go
//! on meanwhile. A checkpoint *instead* of a commit makes the records durable that wait, when the
//! journal has no room for them, and when a store is formatted or opened; commits wait for it.

use crate::format::{Head, Kind, PAYLOAD_BYTES, Superblock, encode_record, seal_block};
use crate::name::BLOCK;
use crate::open_error::OpenError;
use crate::root::{root_need, root_records};
use crate::service::Service;
use crate::settings::TRIM_RESERVE;
use crate::state::{Effect, Mode, StoreState};
use crate::tasks::{TRIES_MAX, Task, offset};
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Device requests of a checkpoint in flight at once: a checkpoint is not urgent.
const WRITES_MAX: u32 = 2;
/// Nodes of one request.
const RUN_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Idle,
    Nodes,
    Flush,
    Supers,
}

/// The checkpoint that is under way, and the one in force.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    phase: Phase,
    holds_commits: bool,
    /// Number of the superblock in force, or under way.
    number: u64,
    /// Number of records that are durable once a checkpoint instead of a commit is done.
    mark: Option<u64>,
    journal_start: u64,
    /// Frozen nodes not yet sent, the next one last.
    nodes: Vec<(u32, u32)>,
    /// Blocks of the root not yet sent.
    root_blocks: Vec<(u32, Vec<u8>)>,
    outstanding: u32,
    /// Addresses that are free when it is done.
    released: Vec<u32>,
    /// The root in force, or under way.
    chain: Vec<u32>,
    /// Checkpoints done.
    done: u64,
}

impl Checkpoint {
    /// A store whose superblock has this number, and whose root is in these blocks.
    pub(crate) fn resumed(number: u64, chain: Vec<u32>) -> Checkpoint {
        Checkpoint { number, chain, ..Checkpoint::default() }
    }

    /// True while one is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// True if records must wait for the one that is under way.
    pub(crate) fn holds_commits(&self) -> bool {
        self.holds_commits
    }

    /// Number of checkpoints done.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Blocks of the root in force or under way, and those that nothing durable will name after it.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> + '_ {
        self.chain.iter().chain(&self.released).copied()
    }

    /// Begins or goes on with a checkpoint.
    pub(crate) fn pump(&mut self, state: &mut StoreState) {
        let idle = !state.journal.is_busy();
        match self.phase {
            Phase::Idle if state.wants.checkpoint == Some(Mode::Instead) && idle => {
                self.capture(state, Mode::Instead);
            }
            // Nobody may commit for long: then nothing is in its way either.
            Phase::Idle
                if state.wants.checkpoint.is_some() && idle && state.journal.is_settled() =>
            {
                self.capture(state, Mode::Beside);
            }
            _ => {}
        }
        if self.phase == Phase::Nodes {
            self.send_nodes(state);
        }
    }

    /// Step 1.
    pub(crate) fn capture(&mut self, state: &mut StoreState, mode: Mode) {
        let need = state.nodes.dirty() + root_need(state);
        while state.segments.node_places() < need {
            if !state.segments.grow_nodes(0) {
                return match state.service {
                    Service::Opening => state.refuse(OpenError::NoRoom),
                    _ => state.stop(DeviceError::NoSpace),
                };
            }
        }
        state.wants.checkpoint = None;
        self.number += 1;
        self.holds_commits = mode == Mode::Instead;
        self.mark = (mode == Mode::Instead).then(|| state.journal.cover());
        met_if(mode == Mode::Instead, "checkpoint instead of a commit");
        met_if(mode == Mode::Beside, "checkpoint beside commits");
        self.journal_start = state.journal.behind_taken();
        let roots: Vec<u32> = state.volumes.values().map(|volume| volume.root).collect();
        let StoreState { nodes, segments, .. } = state;
        let place = || segments.take_node_place().expect("counted before");
        let (mut frozen, left) = nodes.freeze(&roots, place);
        frozen.sort_unstable_by(|a, b| b.cmp(a));
        self.released = left;
        let old = std::mem::take(&mut self.chain);
        self.released.extend(old);
        self.nodes = frozen;
        self.write_root(state);
        self.phase = Phase::Nodes;
    }

    /// The root, in blocks that are not sent yet.
    fn write_root(&mut self, state: &mut StoreState) {
        let mut pages: Vec<Vec<u8>> = vec![Vec::new()];
        let mut record = Vec::new();
        for statement in root_records(state) {
            record.clear();
            encode_record(&statement, &mut record);
            if pages.last().is_some_and(|page| page.len() + record.len() > PAYLOAD_BYTES) {
                pages.push(Vec::new());
            }
            pages.last_mut().expect("there is one").extend_from_slice(&record);
        }
        met_if(pages.len() > 1, "root of several blocks");
        let take = |_: &Vec<u8>| state.segments.take_node_place().expect("counted before");
        let chain: Vec<u32> = pages.iter().map(take).collect();
        for (index, page) in pages.iter().enumerate() {
            let head = Head {
                identity: state.identity,
                generation: self.number,
                sequence: index as u64,
                part: 0,
                extra: chain.get(index + 1).copied().unwrap_or(0),
            };
            let mut block = Vec::with_capacity(BLOCK as usize);
            seal_block(Kind::Root, head, page, &mut block);
            self.root_blocks.push((chain[index], block));
        }
        self.chain = chain;
    }

    /// Step 2.
    fn send_nodes(&mut self, state: &mut StoreState) {
        while self.outstanding < WRITES_MAX {
            let mut data = Vec::new();
            let Some(&(first, _)) = self.nodes.last() else { break };
            let mut next = first;
            while let Some(&(place, id)) = self.nodes.last()
                && place == next
                && data.len() < RUN_MAX * BLOCK as usize
            {
                self.nodes.pop();
                next += 1;
                let (payload, level) = state.nodes.thaw(place, id);
                let head = Head {
                    identity: state.identity,
                    generation: self.number,
                    sequence: u64::from(place),
                    part: 0,
                    extra: u32::from(level),
                };
                seal_block(Kind::Node, head, &payload, &mut data);
            }
            state.counters.map_blocks += u64::from(next - first);
            self.send_node(state, first, Payload::from(data), 0);
        }
        while self.outstanding < WRITES_MAX
            && let Some((place, block)) = self.root_blocks.pop()
        {
            state.counters.map_blocks += 1;
            self.send_node(state, place, Payload::from(block), 0);
        }
        let is_sent = self.nodes.is_empty() && self.root_blocks.is_empty();
        // The commit with which it began must be durable, or its journal would begin with a hole.
        let is_covered = state.journal.next_block() >= self.journal_start;
        if is_sent && self.outstanding == 0 && is_covered {
            self.phase = Phase::Flush;
            // Blocks count as volatile still: a commit must not rely on a flush that has not ended.
            state.send(Task::CheckpointFlush, Io::Flush);
        }
    }

    fn send_node(&mut self, state: &mut StoreState, place: u32, data: Payload, tries: u32) {
        self.outstanding += 1;
        let io = Io::Write { offset: offset(u64::from(place)), data: data.clone(), fua: false };
        state.send(Task::Node { place, data, tries }, io);
    }

    /// Nodes, or a block of the root, were written, or were not.
    pub(crate) fn node_written(
        &mut self,
        state: &mut StoreState,
        place: u32,
        data: Payload,
        tries: u32,
        result: Result<Payload, DeviceError>,
    ) {
        self.outstanding -= 1;
        match result {
            Ok(_) => {}
            Err(DeviceError::Io | DeviceError::TimedOut) if tries < TRIES_MAX => {
                self.send_node(state, place, data, tries + 1);
            }
            Err(error) => fail(state, error),
        }
    }

    /// Step 3.
    pub(crate) fn flushed(&mut self, state: &mut StoreState, result: Result<Payload, DeviceError>) {
        if let Err(error) = result {
            return fail(state, error);
        }
        self.phase = Phase::Supers;
        let superblock = Superblock {
            identity: state.identity,
            number: self.number,
            layout: state.layout,
            fanout: state.settings.fanout,
            journal_generation: state.journal.generation(),
            journal_start: self.journal_start,
            root: self.chain[0],
        };
        let data = Payload::from(superblock.encode());
        for place in state.layout.supers(self.number) {
            self.send_super(state, place, data.clone(), 0);
        }
    }

    fn send_super(&mut self, state: &mut StoreState, place: u64, data: Payload, tries: u32) {
        self.outstanding += 1;
        let fua = !mutant("superblock_not_forced");
        let io = Io::Write { offset: offset(place), data: data.clone(), fua };
        state.send(Task::Super { place, data, tries }, io);
    }

    /// A superblock was written, or was not.
    pub(crate) fn super_written(
        &mut self,
        state: &mut StoreState,
        place: u64,
        data: Payload,
        tries: u32,
        result: Result<Payload, DeviceError>,
    ) {
        self.outstanding -= 1;
        match result {
            Ok(_) if self.outstanding == 0 => self.end(state),
            Ok(_) => {}
            Err(DeviceError::Io | DeviceError::TimedOut) if tries < TRIES_MAX => {
                self.send_super(state, place, data, tries + 1);
            }
            Err(error) => fail(state, error),
        }
    }

    fn end(&mut self, state: &mut StoreState) {
        met("checkpoint done");
        self.phase = Phase::Idle;
        self.done += 1;
        self.holds_commits = false;
        state.counters.checkpoints += 1;
        state.journal.starts_at(self.journal_start);
        if let Some(mark) = self.mark.take() {
            state.journal.covered(mark);
        }
        self.release_places(state);
        state.emit(Effect::CheckpointDone);
    }

    fn release_places(&mut self, state: &mut StoreState) {
        let spare = state.nodes.dirty() + 2 * root_need(state) + 2 * TRIM_RESERVE;
        for place in std::mem::take(&mut self.released) {
            state.segments.leave_node_place(place, spare);
        }
    }
}

/// Ends a store that cannot write its checkpoint.
fn fail(state: &mut StoreState, error: DeviceError) {
    match state.service {
        Service::Opening => state.refuse(OpenError::Device(error)),
        _ => state.stop(error),
    }
}
