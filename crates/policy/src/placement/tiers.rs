//! Filling pools one after the other with the heaviest chunks: greedy, tier by tier.
//!
//! 1. Chunks are taken by weight, the heaviest first (see `order`).
//! 2. The heaviest belong on the fastest pool, as many as it holds, the next on the second, and so
//!    on.
//! 3. A chunk without weight belongs nowhere: where it is it may stay until its place is needed.
//!
//! State: 8 B a chunk that is ranked, while moves are planned. O(n log n).

use super::activity::Activity;
use super::plan::Plan;
use super::{Budget, Move, VolumeView, order};
use thermocline_units::PoolId;

/// Proposes what brings the heaviest of the chunks that stand in `activity` to the fastest pools;
/// `weight` is not negative, and finite.
pub(super) fn propose(
    activity: &Activity,
    weight: impl Fn(u32) -> f64,
    view: &dyn VolumeView,
    budget: Budget,
    moves: &mut Vec<Move>,
) {
    let ranked = |number| order::place(weight(number), activity.pool_of(number), number);
    let mut ranked: Vec<u64> = activity.standing().map(ranked).collect();
    order::sort(&mut ranked);
    let slowest = PoolId(view.pool_count() - 1);
    let mut pool = PoolId(0);
    let mut room = view.capacity_chunks(pool);
    let mut plan = Plan::new(view);
    for number in ranked.into_iter().map(order::number) {
        let home = activity.pool_of(number);
        if weight(number) == 0.0 {
            plan.may_yield(activity.chunks.id(number), home);
            continue;
        }
        while room == 0 && pool < slowest {
            pool.0 += 1;
            room = if pool == slowest { u64::MAX } else { view.capacity_chunks(pool) };
        }
        room = room.saturating_sub(1);
        if home != pool {
            plan.wish(activity.chunks.id(number), home, pool);
        }
    }
    plan.propose(budget, moves);
}
