//! Filling pools one after the other with the heaviest chunks: greedy, tier by tier.
//!
//! 1. Chunks are ranked by weight; of equally heavy ones the one on the faster pool goes first (it
//!    costs no move), then the lower id. No two rank equal, so a run is repeatable.
//! 2. The heaviest belong on the fastest pool, as many as it holds, the next on the second, and so on.
//! 3. A chunk without weight belongs nowhere: where it is it may stay until its place is needed.
//!
//! State: 32 B a chunk that is ranked, while moves are planned. O(n log n).

use super::activity::Activity;
use super::plan::Plan;
use super::{Budget, Move, VolumeView};
use std::cmp::Reverse;
use thermocline_units::{ChunkId, PoolId};

/// A chunk with what ranks it. Sorts heaviest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Bits of a weight that is not negative, which order as the weights do.
    weight: Reverse<u64>,
    home: PoolId,
    chunk: ChunkId,
}

/// Proposes what brings the heaviest of the chunks that stand in `activity` to the fastest pools;
/// `weight` is not negative, and finite.
pub(super) fn propose(
    activity: &Activity,
    weight: impl Fn(u32) -> f64,
    view: &dyn VolumeView,
    budget: Budget,
    moves: &mut Vec<Move>,
) {
    let candidate = |number: u32| {
        let home = activity.home(number);
        Candidate {
            weight: Reverse(weight(number).to_bits()),
            home,
            chunk: activity.chunks.id(number),
        }
    };
    let mut ranked: Vec<Candidate> = activity.standing().map(candidate).collect();
    ranked.sort_unstable();
    let slowest = PoolId(view.pool_count() - 1);
    let mut pool = PoolId(0);
    let mut room = view.capacity_chunks(pool);
    let mut plan = Plan::new(view);
    for Candidate { weight, home, chunk } in ranked {
        if weight.0 == 0 {
            plan.may_yield(chunk, home);
            continue;
        }
        while room == 0 && pool < slowest {
            pool.0 += 1;
            room = if pool == slowest { u64::MAX } else { view.capacity_chunks(pool) };
        }
        room = room.saturating_sub(1);
        plan.wish(chunk, home, pool);
    }
    plan.propose(budget, moves);
}
