//! State that every machine of a group works on: the time, the settings, where chunks are, what is
//! under way on them, and what the journal is told.
//!
//! A machine above it (checksums, the scrub, operations, requests of clients) is handed the group
//! for each step, beside its own state. It changes the group through the functions here, and says
//! what others must do in [`Effect`]s, which the group carries out when the step has ended. So no
//! machine calls another one back.

mod announcing;
pub(crate) mod effect;
mod room;
pub(crate) mod service;

use crate::finding::Findings;
use crate::format::Superblock;
use crate::group_state::effect::Effect;
use crate::io::busy_chunk::{BusyChunk, SubRequest};
use crate::journal::{CommitDemand, Journal};
use crate::lines::Lines;
use crate::map::overlay::Goal;
use crate::map::{ChunkMap, ChunkState, Table};
use crate::moves::active::ActiveOperations;
use crate::pools::{Pools, Sizes};
use crate::settings::Settings;
use service::Service;
use std::collections::VecDeque;
use std::ops::Range;
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, Slab};

/// State that all machines of a group share.
pub(crate) struct GroupState {
    pub(crate) settings: Settings,
    pub(crate) service: Service,
    /// The time of the last event.
    pub(crate) now: Nanos,
    pub(crate) map: ChunkMap,
    pub(crate) pools: Pools,
    pub(crate) journal: Journal,
    pub(crate) lines: Lines,
    pub(crate) sub_requests: Slab<SubRequest>,
    /// Sub-requests that were begun, ever; orders them among each other.
    pub(crate) sub_requests_begun: u64,
    pub(crate) busy_chunks: Slab<BusyChunk>,
    /// Operations that have begun.
    pub(crate) operations: ActiveOperations,
    pub(crate) findings: Findings,
    effects: VecDeque<Effect>,
}

/// A chunk as the journal must say it: as it is once all that is queued is durable.
pub(crate) fn durable_state(
    map: &ChunkMap,
    busy_chunks: &Slab<BusyChunk>,
    operations: &ActiveOperations,
    chunk: ChunkId,
) -> ChunkState {
    let mut state = map.state(chunk);
    if let Some(busy) = map.busy_index(chunk).map(|index| &busy_chunks[index]) {
        state.dirty |= busy.is_announcing() && !mutant("intent_not_in_the_record");
        if busy.is_announcing() {
            state.table = Table::None;
        }
        if let Some(operation) = busy.operation() {
            operations[operation].foretell(&mut state);
        }
    }
    state
}

impl GroupState {
    /// The state of a group without pools and volumes.
    pub(crate) fn new(settings: Settings, sizes: Sizes, identity: u64) -> GroupState {
        GroupState {
            settings,
            service: Service::Opening,
            now: Nanos(0),
            map: ChunkMap::new(1),
            pools: Pools::new(sizes),
            journal: Journal::new(identity),
            lines: Lines::default(),
            sub_requests: Slab::default(),
            sub_requests_begun: 0,
            busy_chunks: Slab::default(),
            operations: ActiveOperations::default(),
            findings: Findings::default(),
            effects: VecDeque::new(),
        }
    }

    /// Takes over what a superblock says of the group.
    pub(crate) fn adopt(&mut self, superblock: &Superblock) {
        assert!(self.sub_requests.is_empty() && !self.has_effects(), "nothing is under way yet");
        self.settings.chunk_size = Bytes(u64::from(superblock.chunk_size));
        self.settings.journal_blocks = superblock.journal_blocks;
        self.settings.checksums = superblock.pools.iter().all(|pool| pool.checksums);
        let generation = match mutant("journal_keeps_its_generation") {
            true => superblock.journal_generation,
            false => superblock.sequence + 1,
        };
        self.journal = Journal::recovered(superblock, generation);
    }

    /// Leaves something to others, which is done when the step has ended.
    pub(crate) fn emit(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// True if something was left to others that is not done yet.
    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// The first thing that was left to others and is not done yet.
    pub(crate) fn take_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Sets what is not done yet aside, so that what one effect leaves to others is done before it.
    pub(crate) fn set_effects_aside(&mut self) -> VecDeque<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Puts back what was set aside, behind what has come since.
    pub(crate) fn put_effects_back(&mut self, mut rest: VecDeque<Effect>) {
        self.effects.append(&mut rest);
    }

    /// Bytes that one chunk takes on a pool.
    pub(crate) fn chunk_size(&self) -> Bytes {
        Bytes(u64::from(self.pools.chunk_bytes()))
    }

    /// The pool of a chunk's first copy; `None` when the chunk holds nothing, or its volume ends
    /// before it.
    pub(crate) fn pool_of(&self, chunk: ChunkId) -> Option<PoolId> {
        let mapped = self.map.has(chunk).then(|| self.map.entry(chunk).first());
        mapped.flatten().map(|place| place.pool)
    }

    /// The state of a chunk on which something is under way, made when it has none.
    pub(crate) fn busy_chunk_of(&mut self, chunk: ChunkId) -> &mut BusyChunk {
        let index = self.map.busy_index(chunk).unwrap_or_else(|| {
            let index = self.busy_chunks.insert(BusyChunk::default());
            debug_assert!(self.busy_chunks[index].is_over(), "nobody is on it yet");
            self.map.set_busy_index(chunk, Some(index));
            index
        });
        &mut self.busy_chunks[index]
    }

    /// The state of a chunk, where something is under way on it.
    pub(crate) fn busy_chunk(&self, chunk: ChunkId) -> Option<&BusyChunk> {
        self.map.busy_index(chunk).map(|index| &self.busy_chunks[index])
    }

    /// The same, to be changed.
    pub(crate) fn busy_chunk_mut(&mut self, chunk: ChunkId) -> Option<&mut BusyChunk> {
        self.map.busy_index(chunk).map(|index| &mut self.busy_chunks[index])
    }

    /// Forgets the state of a chunk on which nothing is under way any more.
    pub(crate) fn forget_if_idle(&mut self, chunk: ChunkId) {
        let over = |&index: &u32| self.busy_chunks[index].is_over();
        if let Some(index) = self.map.busy_index(chunk).filter(over) {
            self.map.set_busy_index(chunk, None);
            let gone = self.busy_chunks.remove(index);
            debug_assert!(!gone.is_announcing(), "the journal has answered");
        }
    }

    /// True if a write to the chunk that overlaps `range` is on devices.
    pub(crate) fn writes_under_way(&self, chunk: ChunkId, range: &Range<u32>) -> bool {
        let running = self.busy_chunk(chunk).map_or(&[][..], BusyChunk::running);
        running.iter().any(|&sub_request| {
            let sub_request = &self.sub_requests[sub_request];
            sub_request.is_write() && sub_request.overlaps(range)
        })
    }

    pub(crate) fn covers_chunk(&self, sub_request: u32) -> bool {
        let sub_request = &self.sub_requests[sub_request];
        let chunk = sub_request.chunk();
        let volume = self.map.volume(chunk.volume).expect("busy volumes stay");
        let start = u64::from(chunk.index) * u64::from(self.pools.chunk_bytes());
        let bytes = (volume.size().0 - start).min(u64::from(self.pools.chunk_bytes()));
        sub_request.range().start == 0 && u64::from(sub_request.range().end) >= bytes
    }

    /// The chunk as the journal shall have it once all that is queued is durable.
    pub(crate) fn durable_state(&self, chunk: ChunkId) -> ChunkState {
        durable_state(&self.map, &self.busy_chunks, &self.operations, chunk)
    }

    /// Goal of the operation on a chunk, where the chunk is in two parts.
    pub(crate) fn goal_on(&self, chunk: ChunkId) -> Option<Goal> {
        self.operations[self.operation_on(chunk)?].goal()
    }

    /// The operation on a chunk, by its number.
    pub(crate) fn operation_on(&self, chunk: ChunkId) -> Option<u32> {
        self.busy_chunk(chunk)?.operation()
    }

    /// Reasons for a commit that the journal does not know of.
    pub(crate) fn commit_demand(&self) -> CommitDemand {
        let unsaved = self.map.has_unsaved();
        CommitDemand { unsaved, hurried: !self.operations.is_copying() }
    }

    /// True if the map in memory is ahead of the journal.
    pub(crate) fn has_changes(&self) -> bool {
        self.journal.has_records() || self.commit_demand().unsaved
    }

    /// Wants a commit for what is queued, although nobody waits for it.
    pub(crate) fn want_commit_of_changes(&mut self) {
        if self.journal.is_queued() || self.commit_demand().unsaved {
            self.journal.want_commit();
        }
    }

    /// True if so much is queued that nobody may add to it before the next commit.
    pub(crate) fn records_pile_up(&self) -> bool {
        self.journal.records_pile_up(self.pools.sizes())
    }

    /// True if records that nobody waits for must leave the rest of the room to others.
    pub(crate) fn records_half_pile_up(&self) -> bool {
        self.journal.records_half_pile_up(self.pools.sizes())
    }
}

#[cfg(test)]
pub(crate) mod tests;
