//! From where chunks should be to the moves that bring them there, whatever the number of pools.
//!
//! 1. Chunks that should *rise* to a faster pool are told best first; chunks that should *fall* to
//!    a slower one, and chunks that may *yield* their place to a better one, are told worst last.
//! 2. The best rise whose pool has room goes first.
//! 3. When none has room, the pool of the best rise lets a chunk go: the worst that should fall,
//!    then the worst that may yield. Where the pool below is full, that one lets a chunk go before;
//!    where it cannot, the chunk goes to the next pool below with room.
//! 4. When no rise is left, or none can be helped, the falls that are left go, worst first. Nobody
//!    yields without need.
//!
//! So any prefix overfills no pool, and a short budget buys the best rises. A chunk is moved once:
//! one that had to go farther down than it should rises in the next epoch.
//!
//! State: 16 B a chunk that moves or may, while moves are planned. O(chunks told + moves × pools).

use super::{Budget, Move, VolumeView};
use std::collections::VecDeque;
use thermocline_units::{ChunkId, PoolId};

/// Free chunks of each pool, while moves are planned.
#[derive(Debug)]
pub(super) struct Rooms(Vec<i128>);

impl Rooms {
    pub(super) fn of(view: &dyn VolumeView) -> Rooms {
        let room = |pool: u16| {
            let pool = PoolId(pool);
            i128::from(view.capacity_chunks(pool)) - i128::from(view.used_chunks(pool))
        };
        Rooms((0..view.pool_count()).map(room).collect())
    }

    pub(super) fn has_room(&self, pool: PoolId) -> bool {
        self.0[usize::from(pool.0)] > 0
    }

    /// The next pool below `pool` that has room.
    pub(super) fn below(&self, pool: PoolId) -> Option<PoolId> {
        (pool.0 + 1..self.0.len() as u16).map(PoolId).find(|&pool| self.has_room(pool))
    }

    /// Free chunks of a pool.
    pub(super) fn free(&self, pool: PoolId) -> i128 {
        self.0[usize::from(pool.0)]
    }

    /// Keeps so many chunks from coming to a pool, whose room is for something else.
    pub(super) fn set_aside(&mut self, pool: PoolId, chunks: u64) {
        self.0[usize::from(pool.0)] -= i128::from(chunks);
    }

    /// A chunk takes room on a pool beside where it is.
    pub(super) fn take(&mut self, pool: PoolId) {
        self.0[usize::from(pool.0)] -= 1;
    }

    /// A chunk leaves one of its places.
    pub(super) fn give_back(&mut self, pool: PoolId) {
        self.0[usize::from(pool.0)] += 1;
    }

    /// A chunk goes from one pool to another.
    pub(super) fn carry(&mut self, from: PoolId, to: PoolId) {
        self.give_back(from);
        self.take(to);
    }
}

/// A chunk that should rise.
#[derive(Debug)]
struct Rise {
    /// Among all rises; the best is 0.
    order: u32,
    chunk: ChunkId,
    from: PoolId,
}

/// Chunks that should rise and fall, and the moves that come of it.
#[derive(Debug)]
pub(super) struct Plan {
    rooms: Rooms,
    rises: u32,
    pools: Vec<Wishes>,
}

/// Wishes of one pool.
#[derive(Debug, Default)]
struct Wishes {
    /// Chunks that should come up to it, best first.
    rises: VecDeque<Rise>,
    /// Chunks that should go down from it, and their destinations; the worst last.
    falls: Vec<(ChunkId, PoolId)>,
    /// Chunks that may go down from it, and their destinations; the worst last.
    yields: Vec<(ChunkId, PoolId)>,
}

impl Plan {
    /// A plan for the machine as it is now.
    pub(super) fn new(view: &dyn VolumeView) -> Plan {
        let pools = (0..view.pool_count()).map(|_| Wishes::default()).collect();
        Plan { rooms: Rooms::of(view), rises: 0, pools }
    }

    /// Keeps so many chunks from coming to a pool, whose room is for something else.
    pub(super) fn set_aside(&mut self, pool: PoolId, chunks: u64) {
        self.rooms.set_aside(pool, chunks);
    }

    fn pool(&mut self, pool: PoolId) -> &mut Wishes {
        &mut self.pools[usize::from(pool.0)]
    }

    /// `chunk`, which is on `from`, should be on `to`. Among chunks that come to a pool the best
    /// must be told first, and among those that leave one the worst last.
    pub(super) fn wish(&mut self, chunk: ChunkId, from: PoolId, to: PoolId) {
        if to < from {
            let order = self.rises;
            self.rises += 1;
            self.pool(to).rises.push_back(Rise { order, chunk, from });
        } else if from < to {
            self.pool(from).falls.push((chunk, to));
        }
    }

    /// `chunk`, which is on `from`, may leave it for a better one, to the next pool below; the
    /// worst must be told last.
    pub(super) fn may_yield(&mut self, chunk: ChunkId, from: PoolId) {
        self.may_fall(chunk, from, PoolId(from.0 + 1));
    }

    /// The same, to `to` if that has room.
    pub(super) fn may_fall(&mut self, chunk: ChunkId, from: PoolId, to: PoolId) {
        if from < to && usize::from(to.0) < self.pools.len() {
            self.pool(from).yields.push((chunk, to));
        }
    }

    /// Appends the moves.
    pub(super) fn propose(mut self, budget: Budget, moves: &mut Vec<Move>) {
        for _ in 0..budget.moves {
            let next = self.rise().or_else(|| self.make_room()).or_else(|| self.fall());
            let Some(next) = next else { break };
            moves.push(next);
        }
    }

    fn carry(&mut self, chunk: ChunkId, from: PoolId, to: PoolId) -> Move {
        self.rooms.carry(from, to);
        Move::to(chunk, to)
    }

    /// Pools with the order of their best rise, if they have one.
    fn wanted(&self) -> impl Iterator<Item = (u32, PoolId)> {
        let pools = self.pools.iter().zip(0..);
        pools.filter_map(|(wishes, pool)| Some((wishes.rises.front()?.order, PoolId(pool))))
    }

    fn rise(&mut self) -> Option<Move> {
        let (_, to) = self.wanted().filter(|&(_, pool)| self.rooms.has_room(pool)).min()?;
        let Rise { chunk, from, .. } = self.pool(to).rises.pop_front().expect("it is wanted");
        Some(self.carry(chunk, from, to))
    }

    /// Lets a chunk go for the best rise that can be helped.
    fn make_room(&mut self) -> Option<Move> {
        let mut tried = None;
        loop {
            let next = self.wanted().filter(|wanted| Some(*wanted) > tried).min()?;
            if let Some(step) = self.let_go(next.1) {
                return Some(step);
            }
            tried = Some(next);
        }
    }

    /// Lets a chunk of `pool` go, or of a pool below it that must make room for that first.
    fn let_go(&mut self, pool: PoolId) -> Option<Move> {
        let wishes = &self.pools[usize::from(pool.0)];
        let &(_, to) = wishes.falls.last().or(wishes.yields.last())?;
        if !self.rooms.has_room(to)
            && let Some(first) = self.let_go(to)
        {
            return Some(first);
        }
        let to = if self.rooms.has_room(to) { to } else { self.rooms.below(to)? };
        let wishes = self.pool(pool);
        let leaves = wishes.falls.pop().or_else(|| wishes.yields.pop());
        let (chunk, _) = leaves.expect("one of the two was seen");
        Some(self.carry(chunk, pool, to))
    }

    fn fall(&mut self) -> Option<Move> {
        // From below upwards: a pool makes room for the one above it.
        for from in (0..self.pools.len() as u16).rev().map(PoolId) {
            let Some(&(chunk, to)) = self.pool(from).falls.last() else { continue };
            if self.rooms.has_room(to) {
                self.pool(from).falls.pop();
                return Some(self.carry(chunk, from, to));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
