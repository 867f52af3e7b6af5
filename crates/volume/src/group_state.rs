//! State that every machine of a group works on: the time, the settings, where chunks are, what is
//! under way on them, and what the journal is told.
//!
//! A machine above it (checksums, the scrub, operations, requests of clients) is handed the group
//! for each step, beside its own state. It changes the group through the functions here, and says
//! what others must do in [`Effect`]s, which the group carries out when the step has ended. So no
//! machine calls another one back.

pub(crate) mod active;
mod announcing;
pub(crate) mod busy_chunk;
mod room;
pub(crate) mod service;

use crate::finding::Findings;
use crate::format::Superblock;
use crate::journal::{CommitDemand, Journal, Waiter};
use crate::lines::Lines;
use crate::map::overlay::{Goal, Side};
use crate::map::{ChunkMap, ChunkState, NONE, Place, Table};
use crate::moves::feeding::ClientRead;
use crate::moves::operation::Operation;
use crate::pools::pool::PoolState;
use crate::pools::{Pools, Sizes};
use crate::settings::Settings;
use active::ActiveOperations;
use busy_chunk::{BusyChunk, SubRequest};
use service::Service;
use std::collections::VecDeque;
use std::ops::Range;
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, Slab};

/// Work that a step of a machine leaves to others.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Somebody has left the chunk, or what was waited for has come: others may go on.
    Eased(ChunkId),
    /// A copy of the chunk has wrong contents: the scrub looks at it soon.
    Mend {
        chunk: ChunkId,
        /// Blocks whose contents were wrong in what was read.
        blocks: u32,
    },
    /// The chunk has come to rest: the scrub makes its tables.
    Tables(ChunkId),
    /// The chunk has left a slot that no durable map names any more.
    Left(ChunkId, Place),
    /// The chunk has left a slot that the last record of it still names: another one drops it.
    Parted(ChunkId, Place),
    /// A slot is free.
    SlotFree,
    /// A slot may be free for a sub-request that waits for one.
    Space(u32),
    /// The operation on the chunk has ended.
    Ended(ChunkId),
    /// A commit is durable that somebody waited for.
    Durable(Waiter),
    /// A checkpoint is in force, whose superblocks name these states of pools, by id.
    InForce(Vec<PoolState>),
    /// The group is out of service: everybody who waits is told so.
    Failed,
    /// An operation is to begin when there is leisure.
    Wish(Operation),
    /// A client has read blocks of a chunk that an operation copies.
    Read(ClientRead),
    /// A move has left a copy behind that may go when its room is wanted.
    Kept(ChunkId, PoolId),
}

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
    /// Chunks in two parts.
    pub(crate) overlays: usize,
    /// Of these, those with blocks that changed sides since the journal was told.
    pub(crate) unsaved_overlays: Vec<ChunkId>,
    /// Chunks whose copies may differ.
    pub(crate) dirty_chunks: Vec<ChunkId>,
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
    let index = map.entry(chunk).busy;
    if index != NONE {
        let busy = &busy_chunks[index];
        state.dirty |= busy.intent && !mutant("intent_not_in_the_record");
        if busy.intent {
            state.table = Table::None;
        }
        if let Some(operation) = busy.operation {
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
            overlays: 0,
            unsaved_overlays: Vec::new(),
            dirty_chunks: Vec::new(),
            findings: Findings::default(),
            effects: VecDeque::new(),
        }
    }

    /// Takes over what a superblock says of the group; so many chunks are in two parts.
    pub(crate) fn adopt(&mut self, superblock: &Superblock, overlays: usize) {
        assert!(self.sub_requests.is_empty() && !self.has_effects(), "nothing is under way yet");
        self.settings.chunk_size = Bytes(u64::from(superblock.chunk_size));
        self.settings.journal_blocks = superblock.journal_blocks;
        self.settings.checksums = superblock.pools.iter().all(|pool| pool.checksums);
        let generation = match mutant("journal_keeps_its_generation") {
            true => superblock.journal_generation,
            false => superblock.sequence + 1,
        };
        self.journal = Journal::recovered(superblock, generation);
        self.overlays = overlays;
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

    /// The chunk's state, made when it has none.
    pub(crate) fn busy_chunk_of(&mut self, chunk: ChunkId) -> u32 {
        let index = self.map.entry(chunk).busy;
        if index != NONE {
            return index;
        }
        let index = self.busy_chunks.insert(BusyChunk::default());
        assert_ne!(index, NONE, "a number that says that there is none");
        self.map.entry_mut(chunk).busy = index;
        debug_assert!(self.busy_chunks[index].is_over(), "nobody is on it yet");
        index
    }

    /// The chunk's state, where it has one.
    pub(crate) fn busy_chunk_mut(&mut self, chunk: ChunkId) -> Option<&mut BusyChunk> {
        let index = self.map.entry(chunk).busy;
        (index != NONE).then(|| &mut self.busy_chunks[index])
    }

    /// True if a write to the chunk that overlaps `range` is on devices.
    pub(crate) fn writes_under_way(&self, chunk: ChunkId, range: &Range<u32>) -> bool {
        let busy = self.map.entry(chunk).busy;
        busy != NONE
            && self.busy_chunks[busy].running.iter().any(|&sub_request| {
                let sub_request = &self.sub_requests[sub_request];
                sub_request.is_write() && sub_request.overlaps(range)
            })
    }

    pub(crate) fn covers_chunk(&self, sub_request: u32) -> bool {
        let sub_request = &self.sub_requests[sub_request];
        let volume = self.map.volume(sub_request.chunk.volume).expect("busy volumes stay");
        let start = u64::from(sub_request.chunk.index) * u64::from(self.pools.chunk_bytes());
        let bytes = (volume.size.0 - start).min(u64::from(self.pools.chunk_bytes()));
        sub_request.range.start == 0 && u64::from(sub_request.range.end) >= bytes
    }

    /// The chunk as the journal shall have it once all that is queued is durable.
    pub(crate) fn durable_state(&self, chunk: ChunkId) -> ChunkState {
        durable_state(&self.map, &self.busy_chunks, &self.operations, chunk)
    }

    /// Notes when the copies were last written.
    pub(crate) fn touch_copies(&mut self, now: Nanos, chunk: ChunkId) {
        let mirrored = self.map.mirror(chunk).is_some();
        if mirrored || self.map.extra(chunk).is_some_and(|extra| !extra.others.is_empty()) {
            let extra = self.map.extra_mut(chunk);
            assert!(extra.last_write <= now, "time does not go back");
            extra.last_write = now;
        }
    }

    /// Goal of the operation on a chunk, where the chunk is in two parts.
    pub(crate) fn goal_on(&self, chunk: ChunkId) -> Option<Goal> {
        self.operations[self.operation_on(chunk)?].goal
    }

    /// Runs were written, each at a place; whether blocks have changed sides by that.
    pub(crate) fn blocks_written(&mut self, chunk: ChunkId, runs: &[(Range<u32>, Place)]) -> bool {
        let base = self.map.entry(chunk).first();
        let chunk_bytes = self.pools.chunk_bytes();
        let Some(overlay) = self.map.overlay_mut(chunk) else { return false };
        assert_ne!(base, Some(overlay.place), "the sides are two slots");
        let mut changed = false;
        for (run, place) in runs {
            assert!(run.start < run.end && run.end <= chunk_bytes, "a run is within its chunk");
            let side = if *place == overlay.place { Side::Above } else { Side::Base };
            changed |= overlay.blocks.written(side, run);
        }
        self.blocks_changed(chunk, changed);
        changed
    }

    /// A run was copied from one side to the other.
    pub(crate) fn blocks_copied(&mut self, chunk: ChunkId, run: &Range<u32>) {
        let Some(overlay) = self.map.overlay_mut(chunk) else { return };
        let changed = overlay.blocks.copied(run);
        self.blocks_changed(chunk, changed);
    }

    fn blocks_changed(&mut self, chunk: ChunkId, changed: bool) {
        let overlay = self.map.overlay_mut(chunk).expect("the callers have it");
        if changed && !std::mem::replace(&mut overlay.unsaved, true) {
            self.unsaved_overlays.push(chunk);
        }
        let listed = || self.unsaved_overlays.contains(&chunk);
        debug_assert!(!changed || listed(), "the journal will be told of blocks that changed");
    }

    /// The operation on a chunk, by its number.
    pub(crate) fn operation_on(&self, chunk: ChunkId) -> Option<u32> {
        let busy = self.map.entry(chunk).busy;
        if busy == NONE { None } else { self.busy_chunks[busy].operation }
    }

    /// Reasons for a commit that the journal does not know of.
    pub(crate) fn commit_demand(&self) -> CommitDemand {
        let unsaved = !self.unsaved_overlays.is_empty();
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
