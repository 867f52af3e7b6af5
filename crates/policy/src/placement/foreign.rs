//! Placements from outside: a shared library's, or a program's that calls us.
//!
//! 1. A [`ForeignPlacements`] makes a [`ForeignPlacement`] for each run.
//! 2. [`Checked`] stands between: it counts the accesses of an epoch by chunk, and at the epoch's
//!    end gives all chunks and pools to the placement at once, as plain numbers.
//! 3. It checks the proposal before anyone takes it: chunks and pools must exist, a chunk is moved
//!    once and to another pool, and each arrival must find room after the moves before it.
//! 4. After the first proposal that makes no sense, or an error of the placement's own, nothing is
//!    proposed any more, and [`Placement::failure`] says why; whoever runs it ends the run.
//!
//! A chunk is told by its number: chunks are numbered from 0 in the order in which they were met,
//! and keep their numbers, so that a placement can keep what it knows in arrays. What counts on the
//! first side of a mirrored chunk counts here; mirrorings are not proposed.
//!
//! State: 76 B a chunk, besides the placement's own. O(1) an access; O(chunks met) an epoch.

use super::chunks::Chunks;
use super::plan::Rooms;
use super::{Budget, ChunkAccess, Move, Pattern, Placement, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::{Bytes, Nanos, PoolId};

/// Stands in a placement's text for the placements of the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "plug-in",
    summary: "a placement of the user's own",
    source: "the user",
    settings: &[],
    build: Build::Placement(|_| unreachable!("a plug-in is built by its own description")),
};

/// A placement that comes from outside, with its settings.
pub trait ForeignPlacements: Send + Sync {
    /// Returns a placement that knows nothing yet.
    ///
    /// # Errors
    /// When it cannot be made, in its own words.
    fn create(&self) -> Result<Box<dyn ForeignPlacement>, String>;
}

/// Such a placement in a run. The caller uses it from one thread at a time.
pub trait ForeignPlacement: Send {
    /// Ends an epoch: appends the moves that it wants, best first, at most
    /// [`EpochFacts::moves_max`].
    ///
    /// # Errors
    /// A failure of the placement's own.
    fn propose(&mut self, epoch: &EpochFacts<'_>, moves: &mut Vec<Wish>) -> Result<(), String>;

    /// Memory in use now, by its own account.
    fn footprint(&self) -> Footprint;
}

/// Facts about a chunk and its accesses in the epoch that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct ChunkFacts {
    /// The volume, from 0.
    pub volume: u32,
    /// The chunk's place in its volume, from 0.
    pub index: u32,
    /// Its pool; the slowest when it holds nothing.
    pub pool: u16,
    /// [`ChunkFacts::EMPTY`], [`ChunkFacts::PINNED`] and [`ChunkFacts::REPLICATED`].
    pub flags: u16,
    /// 0.
    pub reserved: u32,
    /// Accesses of the epoch that read.
    pub reads: u64,
    /// Accesses of the epoch that wrote.
    pub writes: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// Number of its last access among all accesses since the start, from 1; 0: never.
    pub last_access: u64,
    /// Time of its last access, in nanoseconds; 0: never.
    pub last_ns: u64,
}

impl ChunkFacts {
    /// Nothing is in the chunk: it was read before it was written, or discarded. A move of it is
    /// refused by the volume, without harm.
    pub const EMPTY: u16 = 1;
    /// An administrator pinned the chunk: a move of it is refused by the volume, without harm.
    pub const PINNED: u16 = 2;
    /// The chunk has further copies: a move to one of their pools is refused by the volume, without
    /// harm.
    pub const REPLICATED: u16 = 4;
}

/// Service of one pattern of requests by a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct ServiceFacts {
    /// Mean latency of a request of 4 KiB that is alone, in nanoseconds.
    pub latency_ns: u64,
    /// Units of 4 KiB a second, at most.
    pub per_second: u64,
}

/// Facts about a pool, and its load in the epoch that ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct PoolFacts {
    /// Chunks that it can hold.
    pub total_chunks: u64,
    /// Chunks that it can take now.
    pub free_chunks: u64,
    /// Expected service by [`Pattern`], in the order of [`Pattern::ALL`].
    pub services: [ServiceFacts; 4],
    /// Requests to its device that read.
    pub reads: u64,
    /// Requests to its device that wrote.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Mean latency of reads, in nanoseconds; 0 without any.
    pub read_latency_ns: u64,
    /// Mean latency of writes, in nanoseconds; 0 without any.
    pub write_latency_ns: u64,
}

impl PoolFacts {
    fn of(view: &dyn VolumeView, rooms: &Rooms, pool: PoolId) -> PoolFacts {
        let (traits, load) = (view.traits(pool), view.load(pool));
        let services = Pattern::ALL.map(|pattern| {
            let service = traits.of(pattern);
            ServiceFacts { latency_ns: service.latency.0, per_second: service.per_second }
        });
        PoolFacts {
            total_chunks: view.capacity_chunks(pool),
            free_chunks: u64::try_from(rooms.free(pool)).unwrap_or(0),
            services,
            reads: load.reads,
            writes: load.writes,
            read_bytes: load.read_bytes.0,
            written_bytes: load.written_bytes.0,
            read_latency_ns: load.read_latency.0,
            write_latency_ns: load.write_latency.0,
        }
    }
}

/// An epoch that ends.
#[derive(Debug, Clone, Copy)]
pub struct EpochFacts<'a> {
    /// Time since time zero.
    pub now: Nanos,
    /// Length of the epoch, above 0.
    pub length: Nanos,
    /// Bytes of a chunk.
    pub chunk_size: Bytes,
    /// Moves that may be proposed, at most.
    pub moves_max: usize,
    /// All chunks met so far, by number.
    pub chunks: &'a [ChunkFacts],
    /// Pools from fastest to slowest, 2 or more.
    pub pools: &'a [PoolFacts],
}

/// A move that a placement wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Wish {
    /// Number of the chunk.
    pub chunk: u32,
    /// Number of the pool.
    pub pool: u32,
}

impl Wish {
    /// No move: what a placement leaves as it found it is seen to be no answer.
    pub const NOTHING: Wish = Wish { chunk: u32::MAX, pool: u32::MAX };
}

/// A foreign placement whose proposals are checked.
pub(crate) struct Checked {
    placement: Box<dyn ForeignPlacement>,
    chunks: Chunks,
    facts: Vec<ChunkFacts>,
    accesses: u64,
    failure: Option<String>,
}

impl Checked {
    pub(crate) fn new(placement: Box<dyn ForeignPlacement>) -> Checked {
        let (chunks, facts) = (Chunks::default(), Vec::new());
        Checked { placement, chunks, facts, accesses: 0, failure: None }
    }

    /// Facts about all chunks met until the one of this number.
    fn cover(&mut self, number: u32) {
        while self.facts.len() <= number as usize {
            let id = self.chunks.id(self.facts.len() as u32);
            let facts = ChunkFacts { volume: id.volume.0, index: id.index, ..Default::default() };
            self.facts.push(facts);
        }
    }

    /// Takes note of where chunks are.
    fn look(&mut self, view: &dyn VolumeView) {
        let slowest = view.pool_count() - 1;
        for facts in &mut self.facts {
            (facts.pool, facts.flags) = (slowest, ChunkFacts::EMPTY);
        }
        for pool in (0..view.pool_count()).map(PoolId) {
            view.visit_pool(pool, &mut |chunk| {
                let number = self.chunks.number(chunk);
                self.cover(number);
                let facts = &mut self.facts[number as usize];
                let pinned = view.has_pins() && view.is_pinned(chunk);
                let replicated = view.is_replicated(chunk);
                facts.pool = pool.0;
                facts.flags = (u16::from(pinned) * ChunkFacts::PINNED)
                    | (u16::from(replicated) * ChunkFacts::REPLICATED);
            });
        }
    }

    fn end_epoch(&mut self) {
        for facts in &mut self.facts {
            (facts.reads, facts.writes) = (0, 0);
            (facts.read_bytes, facts.written_bytes) = (0, 0);
        }
    }

    /// Asks the placement, and checks what it wants.
    fn ask(&mut self, epoch: &EpochFacts<'_>, mut rooms: Rooms) -> Result<Vec<Move>, String> {
        let mut wishes = Vec::new();
        self.placement.propose(epoch, &mut wishes)?;
        let (count, most) = (wishes.len(), epoch.moves_max);
        if count > most {
            return Err(nonsense(format!("{count} moves, and at most {most} may be proposed")));
        }
        let mut moved = vec![false; epoch.chunks.len()];
        let mut moves = Vec::with_capacity(count);
        for (at, wish) in wishes.iter().enumerate() {
            let to = check(epoch, &rooms, &mut moved, *wish)
                .map_err(|problem| nonsense(format!("move {at} {problem}")))?;
            rooms.carry(PoolId(epoch.chunks[wish.chunk as usize].pool), to);
            moves.push(Move::to(self.chunks.id(wish.chunk), to));
        }
        Ok(moves)
    }
}

/// A message about a proposal; moves are counted from 0.
fn nonsense(problem: String) -> String {
    format!("its proposal makes no sense: {problem}")
}

/// Destination of a wish that makes sense after the moves before it.
fn check(
    epoch: &EpochFacts<'_>,
    rooms: &Rooms,
    moved: &mut [bool],
    wish: Wish,
) -> Result<PoolId, String> {
    let Wish { chunk, pool } = wish;
    let (chunks, pools) = (epoch.chunks.len(), epoch.pools.len());
    let Some(facts) = epoch.chunks.get(chunk as usize) else {
        return Err(format!("is of chunk {chunk}, and there are {chunks} chunks, counted from 0"));
    };
    let Some(destination) = epoch.pools.get(pool as usize) else {
        return Err(format!(
            "brings chunk {chunk} to pool {pool}, and there are {pools} pools, counted from 0"
        ));
    };
    if std::mem::replace(&mut moved[chunk as usize], true) {
        return Err(format!("is the second one of chunk {chunk}"));
    }
    if u32::from(facts.pool) == pool {
        return Err(format!("brings chunk {chunk} to pool {pool}, where it is"));
    }
    let to = PoolId(pool as u16);
    if !rooms.has_room(to) {
        return Err(format!(
            "brings chunk {chunk} to pool {pool}, which has no room for it after the moves before \
             (of its {} chunks {} were free)",
            destination.total_chunks, destination.free_chunks
        ));
    }
    Ok(to)
}

impl Placement for Checked {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        let number = self.chunks.number(access.chunk);
        self.cover(number);
        self.accesses += 1;
        let facts = &mut self.facts[number as usize];
        let (count, bytes) = match access.write {
            true => (&mut facts.writes, &mut facts.written_bytes),
            false => (&mut facts.reads, &mut facts.read_bytes),
        };
        *count += 1;
        *bytes = bytes.saturating_add(access.bytes.0);
        (facts.last_access, facts.last_ns) = (self.accesses, access.at.0);
    }

    fn propose(
        &mut self,
        now: Nanos,
        view: &dyn VolumeView,
        budget: Budget,
        moves: &mut Vec<Move>,
    ) {
        if self.failure.is_some() || view.pool_count() < 2 {
            return;
        }
        self.look(view);
        let rooms = Rooms::of(view);
        let pools = (0..view.pool_count()).map(|pool| PoolFacts::of(view, &rooms, PoolId(pool)));
        let pools: Vec<PoolFacts> = pools.collect();
        let chunks = std::mem::take(&mut self.facts);
        let moves_max = usize::try_from(budget.moves).unwrap_or(usize::MAX).min(chunks.len());
        let epoch = EpochFacts {
            now,
            length: view.epoch(),
            chunk_size: view.chunk_size(),
            moves_max,
            chunks: &chunks,
            pools: &pools,
        };
        match self.ask(&epoch, rooms) {
            Ok(wanted) => moves.extend(wanted),
            Err(problem) => self.failure = Some(problem),
        }
        self.facts = chunks;
        self.end_epoch();
    }

    fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn footprint(&self) -> Footprint {
        let facts = (self.facts.capacity() * size_of::<ChunkFacts>()) as u64;
        let theirs = self.placement.footprint();
        let index = theirs.index.saturating_add(self.chunks.bytes() + facts);
        Footprint { resident: theirs.resident, index }
    }
}

#[cfg(test)]
mod tests;
