//! A volume that begins where another one's chunks are: those that a load touches, and as many
//! others, which nobody asks for, as fill its pools.
//!
//! 1. Chunks are written pool by pool, fastest first, those of the load evenly among the others; a
//!    new chunk goes to the fastest pool with room. What is to stay free of a pool is held by a
//!    volume meanwhile, which is deleted at the end.
//! 2. On pools of other sizes the same sequence is written. A larger fast pool so holds a share of
//!    what was on the next one, busy or not; a smaller one passes on what it has no room for, and
//!    the next one takes that into its free room. A smaller pool keeps the same share free, a
//!    larger one the same bytes, of what is not needed so.

use super::drive::{request, run_batch};
use super::run::MachineError;
use super::stage::Stage;
use thermocline_ports::Payload;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};
use thermocline_volume::{Action, Request, RequestId};

/// Chunks of a start at most, of all pools: each is written once before a run.
pub const START_CHUNKS_MAX: u64 = 1 << 18;
/// Writes under way.
const DEPTH: usize = 256;
/// Bytes of each.
const WRITTEN: u32 = 4096;
/// Virtual time in which a deleted volume's chunks become free.
const DELETED_WITHIN: Nanos = Nanos::from_secs(600);

/// Content of a pool at the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartPool {
    /// Its name.
    pub name: String,
    /// Chunks of the load that are there, by volume and place; volumes as the load counts them.
    pub chunks: Vec<ChunkId>,
    /// Other chunks that are there.
    pub others: u64,
    /// Chunks that have room there.
    pub free: u64,
}

impl StartPool {
    fn stored(&self) -> u64 {
        self.chunks.len() as u64 + self.others
    }
}

/// Room of a pool that is filled.
struct Room {
    name: String,
    /// Chunks that it has room for.
    chunks: u64,
    /// Chunks among these that are to stay free, unless chunks of faster pools need them.
    kept: u64,
}

/// Content of all pools at the beginning, fastest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The pools.
    pub pools: Vec<StartPool>,
}

impl Start {
    /// Chunks that are stored.
    pub fn stored(&self) -> u64 {
        self.pools.iter().map(StartPool::stored).sum()
    }

    /// The chunks in the order in which they are written; `others` numbers those that are not of
    /// the load.
    fn sequence(&self, others: VolumeId) -> impl Iterator<Item = ChunkId> {
        let mut other = (0..).map(move |index| ChunkId { volume: others, index });
        let mut all = Vec::with_capacity(self.stored() as usize);
        for pool in &self.pools {
            let (count, stored) = (pool.chunks.len() as u64, pool.stored());
            let mut chunks = pool.chunks.iter();
            for at in 0..stored {
                // Evenly: after each part of the pool, as large a part of its load's chunks.
                let own = (at + 1) * count / stored > at * count / stored;
                let next = if own { chunks.next().copied() } else { other.next() };
                all.push(next.expect("as many as were counted"));
            }
        }
        all.into_iter()
    }

    /// Chunks that were stored on the pool of this name, and on all that are faster.
    fn stored_up_to(&self, name: &str) -> Option<(u64, u64)> {
        let at = self.pools.iter().position(|pool| pool.name == name)?;
        let faster = self.pools[..at].iter().map(StartPool::stored).sum();
        Some((self.pools[at].stored(), faster))
    }

    /// Chunks that a pool takes which has so much room, after so many were taken by faster ones.
    fn taken_by(&self, room: &Room, placed: u64) -> u64 {
        let kept = room.chunks.saturating_sub(room.kept);
        let Some((stored, faster)) = self.stored_up_to(&room.name) else { return kept };
        // Chunks of faster pools that have no room there any more.
        let displaced = faster.saturating_sub(placed);
        let room_too = room.chunks.saturating_sub(room.kept.saturating_sub(displaced));
        kept.max(room_too.min(stored + displaced))
    }

    /// Room that is to stay free of a pool of so many chunks.
    fn free_of(&self, name: &str, total: u64) -> u64 {
        let Some(pool) = self.pools.iter().find(|pool| pool.name == name) else { return 0 };
        let before = pool.stored() + pool.free;
        let share = u128::from(pool.free) * u128::from(total) / u128::from(before.max(1));
        pool.free.min(share as u64)
    }

    /// Fills a machine whose volumes are those of the load.
    ///
    /// # Errors
    /// When there is no room, or the machine fails.
    pub(super) fn fill(&self, stage: &mut Stage) -> Result<(), MachineError> {
        let chunk = stage.group.chunk_size().0;
        let volume = |stage: &mut Stage, chunks: u64| {
            let size = Bytes(chunks.max(1) * chunk);
            stage.group.create_volume(stage.now(), size)
        };
        let others = self.pools.iter().map(|pool| pool.others).sum();
        let others = volume(stage, others)?;
        let pools = (0..stage.group.pool_count()).map(PoolId);
        let rooms: Vec<Room> = pools
            .map(|id| {
                let status = stage.group.pool_status(id).expect("ids below the count exist");
                let total = u64::from(status.slots_total);
                let kept = self.free_of(&status.name, total);
                let chunks = total - u64::from(status.slots_used);
                Room { name: status.name, chunks, kept }
            })
            .collect();
        let mut sequence = self.sequence(others).peekable();
        let (mut held, mut placed) = (Vec::new(), 0);
        for room in rooms {
            let taken = self.taken_by(&room, placed) as usize;
            let part: Vec<ChunkId> = sequence.by_ref().take(taken).collect();
            placed += part.len() as u64;
            if part.is_empty() && sequence.peek().is_none() {
                break; // What is slower stays empty.
            }
            let kept = (room.chunks - part.len() as u64).min(room.kept);
            write(stage, part.into_iter())?;
            if sequence.peek().is_none() {
                break; // Nothing comes that could take its free room.
            }
            let id = volume(stage, kept)?;
            write(stage, (0..kept as u32).map(|index| ChunkId { volume: id, index }))?;
            held.push((id, kept));
        }
        // What had no room anywhere goes to the slowest pools first.
        for (id, kept) in held.into_iter().rev() {
            self.release(stage, id, kept)?;
            let part: Vec<ChunkId> = sequence.by_ref().take(kept as usize).collect();
            write(stage, part.into_iter())?;
        }
        write(stage, sequence)
    }

    /// Deletes a volume that held so much room free, and waits until it has gone.
    fn release(&self, stage: &mut Stage, held: VolumeId, chunks: u64) -> Result<(), MachineError> {
        let used = |stage: &Stage| -> u64 {
            let pools = (0..stage.group.pool_count()).map(PoolId);
            let status = pools.filter_map(|id| stage.group.pool_status(id));
            status.map(|status| u64::from(status.slots_used)).sum()
        };
        let wanted = used(stage) - chunks;
        stage.group.delete_volume(stage.now(), held)?;
        let end = Nanos(stage.now().0.saturating_add(DELETED_WITHIN.0));
        while used(stage) > wanted && stage.step(end) {}
        Ok(())
    }
}

fn write(stage: &mut Stage, chunks: impl Iterator<Item = ChunkId>) -> Result<(), MachineError> {
    let chunk = stage.group.chunk_size().0;
    let writes = chunks.enumerate().map(|(index, id)| -> Request {
        let offset = Bytes(u64::from(id.index) * chunk);
        let payload = Payload::Zeroes(WRITTEN);
        request(RequestId(index as u64), id.volume, Action::Write { offset, payload, fua: false })
    });
    run_batch(stage, writes, DEPTH)
}

#[cfg(test)]
mod tests;
