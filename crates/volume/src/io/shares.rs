//! Shares of the requests that a group takes: no pool's backlog keeps requests from another.
//!
//! Every request counts for one pool, the slowest that its chunks are on: that is the one it waits
//! for. A pool may have as many requests in flight as are still free in the whole group: one that
//! cannot keep up takes half of them, two take a third each, and something is left for a pool that
//! is idle (the dynamic thresholds of Choudhury and Hahne, IEEE/ACM Transactions on Networking
//! 1998, with a factor of one). Flushes, and what needs no pool, count together like one more pool.
//! Where there is one pool only, it has all of them.

use crate::group_state::GroupState;
use crate::io::busy_chunk::Verb;
use crate::io::request::{Action, Request};
use crate::io::requests::Requests;
use crate::io::scheduler::Lane;
use crate::io::sources::lane_for;
use crate::settings::REQUESTS_IN_FLIGHT_MAX;
use thermocline_ports::Payload;
use thermocline_units::ChunkId;
use thermocline_units::mutants::mutant;

/// Chunks of a request that are looked at.
const CHUNKS_MAX: u64 = 64;

/// Requests in flight, by what they count for.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    taken: Vec<u32>,
}

impl Shares {
    fn of(&self, lane: Lane) -> usize {
        self.taken.get(lane.index()).map_or(0, |&taken| taken as usize)
    }

    /// A request begins to count for a pool.
    pub(crate) fn take(&mut self, lane: Lane) {
        let at = lane.index();
        if self.taken.len() <= at {
            self.taken.resize(at + 1, 0);
        }
        self.taken[at] += 1;
        assert!(self.of(lane) <= REQUESTS_IN_FLIGHT_MAX, "no pool has more than there may be");
    }

    /// A request that counted for a pool has ended.
    pub(crate) fn give_back(&mut self, lane: Lane) {
        assert!(self.of(lane) > 0, "what ends was counted");
        self.taken[lane.index()] -= 1;
    }
}

impl Requests {
    /// True if one more request that counts for `lane` may be taken.
    pub(crate) fn has_share(&self, group: &GroupState, lane: Lane) -> bool {
        let free = group.settings.limits.requests.saturating_sub(self.all.len());
        let alone = group.pools.count() < 2 || mutant("backlog_takes_all_requests");
        free > 0 && (alone || self.shares.of(lane) < free)
    }
}

/// The lane that a request counts for: the slowest pool of its first chunks.
pub(crate) fn lane_of(group: &GroupState, request: &Request) -> Lane {
    let (start, length, verb) = match &request.action {
        Action::Flush => return Lane::NONE,
        Action::Read { offset, length } => (offset.0, u64::from(*length), Verb::Read),
        Action::Write { offset, payload, .. } => {
            // Only that it is a write counts.
            (offset.0, u64::from(payload.len()), Verb::Write(Payload::Zeroes(0)))
        }
        Action::WriteZeroes { offset, length, .. } => (offset.0, length.0, Verb::Zero),
        Action::Discard { offset, length } => (offset.0, length.0, Verb::Discard),
    };
    let chunk_size = u64::from(group.pools.chunk_bytes());
    let first = start / chunk_size;
    let last = start.saturating_add(length).saturating_sub(1) / chunk_size;
    let chunks = first..=last.max(first).min(first.saturating_add(CHUNKS_MAX - 1));
    let lanes = chunks.filter_map(|index| {
        let chunk = ChunkId { volume: request.volume, index: u32::try_from(index).ok()? };
        let from = start.saturating_sub(index * chunk_size).min(chunk_size) as u32;
        let end = start
            .saturating_add(length)
            .min((index + 1) * chunk_size)
            .saturating_sub(index * chunk_size);
        let range = from..(end as u32).max(from);
        group.map.has(chunk).then(|| lane_for(group, chunk, &range, &verb))
    });
    let rank = |lane: &Lane| lane.pool().map(|pool| group.pools.ranks().rank_of(pool));
    lanes.max_by_key(rank).unwrap_or(Lane::NONE)
}

#[cfg(test)]
mod tests;
