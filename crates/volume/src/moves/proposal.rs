//! A placement's proposal on its way: which of its moves is next.
//!
//! A proposal is in order: a departure that makes room stands before the arrival that needs it. So
//! a move whose destination is full waits while earlier ones are under way; moves behind it that
//! have room may go first, within a window. The next epoch's proposal replaces what has not begun;
//! with a deadline, what has not begun by then is dropped before that.
//!
//! A move to a pool whose wear budget is used up is dropped, and with it the departure that makes
//! room for it: the chunk would leave a fast pool for nothing.

use crate::group_state::GroupState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thermocline_policy::placement::Move;
use thermocline_units::{ChunkId, Nanos, PoolId, VolumeId};

/// Moves looked at to find one that can begin.
pub(super) const WINDOW: usize = 32;

/// A placement's proposal at an epoch's end, where it was not empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proposed {
    /// Proposals by origin and destination, in their order.
    pub flows: BTreeMap<(PoolId, PoolId), Flow>,
}

/// Chunks that shall go from one pool to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flow {
    /// Number of chunks.
    pub chunks: u64,
    /// Number of requests for them in the epoch that ended.
    pub requests: u64,
}

/// Moves that a placement wants, in the order of their worth.
#[derive(Debug, Default)]
pub(crate) struct Proposal {
    /// The last one, until somebody has taken note.
    pub(super) told: Option<Proposed>,
    pub(super) moves: VecDeque<Move>,
    /// True if nothing in the window could begin when it was last looked at.
    pub(super) stuck: bool,
    /// Chunks that hints move. Their moves take the place of lines, too.
    pub(super) directed: BTreeSet<ChunkId>,
    /// Moment at which it was made.
    since: Nanos,
    /// Moves whose deadline passed before they began, since opening.
    pub(in crate::moves) expired: u64,
    /// Moves to a pool whose wear budget was used up, since opening.
    pub(in crate::moves) worn: u64,
}

impl Proposal {
    /// Puts these moves, best first, in the place of those that have not begun yet.
    pub(crate) fn replace(&mut self, now: Nanos, moves: Vec<Move>) {
        assert!(self.since <= now, "time does not go back");
        self.moves = moves.into();
        self.directed.clear();
        self.stuck = false;
        self.since = now;
    }

    /// Drops what has not begun of a volume's chunks.
    pub(super) fn forget_volume(&mut self, volume: VolumeId) {
        self.moves.retain(|planned| planned.chunk.volume != volume);
        self.directed.retain(|chunk| chunk.volume != volume);
        self.stuck = false;
        assert!(self.directed.iter().all(|chunk| chunk.volume != volume), "nothing moves it");
    }

    /// True if a hint moves the chunk.
    pub(super) fn is_directed(&self, chunk: ChunkId) -> bool {
        self.directed.contains(&chunk)
    }

    /// Drops what has not begun by its deadline.
    pub(super) fn expire(&mut self, now: Nanos, deadline: Option<Nanos>) {
        assert!(self.since <= now, "time does not go back");
        let late = |deadline: Nanos| now.saturating_sub(self.since) >= deadline;
        if deadline.is_some_and(late) {
            self.expired += self.moves.len() as u64;
            self.moves.clear();
        }
    }

    /// The move that a wear budget keeps away: the one at `at`, or the next one to the pool that
    /// this one leaves, which stands right behind the departures that make room for it.
    pub(super) fn kept_away(&self, group: &mut GroupState, at: usize) -> Option<usize> {
        assert!(at < WINDOW, "moves behind the window wait");
        let Move { chunk, to, .. } = self.moves[at];
        if is_worn(group, to) {
            return Some(at);
        }
        let left = group.pool_of(chunk).filter(|&left| left != to && is_worn(group, left))?;
        let behind = self.moves.iter().enumerate().skip(at + 1).take(WINDOW);
        behind.filter(|(_, planned)| planned.to == left).map(|(at, _)| at).next()
    }

    /// An operation has ended, or a slot is free.
    pub(crate) fn look_again(&mut self) {
        self.stuck = false;
    }

    /// True if a move might begin.
    pub(crate) fn is_worth_a_look(&self) -> bool {
        !self.stuck && !self.moves.is_empty()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.moves.len()
    }
}

/// True if moves may not write another chunk to a pool now.
fn is_worn(group: &mut GroupState, pool: PoolId) -> bool {
    let (now, size) = (group.now, group.chunk_size());
    group.pools.find_mut(pool).is_some_and(|pool| !pool.wear.allows(now, size))
}

#[cfg(test)]
mod tests;
