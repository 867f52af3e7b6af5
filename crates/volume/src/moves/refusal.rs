//! Refusal of operations that make no sense on a chunk as it is now.

use super::Moves;
use crate::group_state::GroupState;
use crate::group_state::service::Service;
use crate::map::overlay::{Goal, Side};
use crate::moves::operation::{Operation, OperationKind, Refusal};
use crate::settings::{COPIES_MAX, OPERATIONS_QUEUED_MAX};
use crate::sizes::{MIRROR_CHUNK_MAX, REDIRECT_CHUNK_MAX};

/// Refuses an operation that makes no sense now.
///
/// # Errors
/// The reason.
pub(crate) fn refuse(
    moves: &Moves,
    group: &GroupState,
    operation: &Operation,
) -> Result<(), Refusal> {
    if group.service != Service::Ready {
        return Err(Refusal::NotReady);
    }
    let chunk = operation.chunk;
    let volume = group.map.volume(chunk.volume);
    let alive = volume.is_some_and(|volume| !volume.is_deleting()) && group.map.has(chunk);
    if !alive || group.map.entry(chunk).first().is_none() {
        return Err(Refusal::Unmapped);
    }
    let pool = group.pools.find(operation.to).ok_or(Refusal::NoPool)?;
    let resumes = goal_of(group, operation).is_some() && pool.is_alive();
    if !pool.takes_chunks() && !resumes {
        return Err(Refusal::NoPool);
    }
    if moves.chunks.contains_key(&chunk) {
        return Err(Refusal::Busy);
    }
    if moves.chunks.len() >= OPERATIONS_QUEUED_MAX {
        return Err(Refusal::QueueFull);
    }
    refuse_for_copies(group, operation)
}

fn refuse_for_copies(group: &GroupState, operation: &Operation) -> Result<(), Refusal> {
    let chunk = operation.chunk;
    if let Some(overlay) = group.map.overlay(chunk) {
        return match goal_of(group, operation) {
            Some(goal) if goal == Goal::Both && overlay.blocks.is_at(goal) => {
                Err(Refusal::AlreadyThere)
            }
            Some(_) => Ok(()),
            None => Err(Refusal::InTwoParts),
        };
    }
    let kept = group.map.kept_copy(chunk);
    if kept.is_some_and(|kept| kept.pool == operation.to) && is_prefetched_there(group, operation) {
        return Ok(()); // It needs no slot.
    }
    // A kept copy goes before another operation begins.
    let copies = || group.map.copies(chunk).filter(|copy| Some(copy.place) != kept);
    let there = copies().any(|copy| copy.place.pool == operation.to);
    if there && !is_prefetched_there(group, operation) {
        return Err(Refusal::AlreadyThere);
    }
    let copies = copies().filter(|copy| copy.place.pool != operation.to).count();
    let adds = matches!(operation.kind, OperationKind::Replicate | OperationKind::Prefetch);
    let redirects = matches!(operation.kind, OperationKind::Redirect | OperationKind::Mirror);
    if adds && copies >= COPIES_MAX || redirects && copies > 1 {
        return Err(Refusal::TooManyCopies);
    }
    let pool = &group.pools[operation.to];
    let mirrors = operation.kind == OperationKind::Mirror;
    let from_far = group.pool_of(chunk).is_some_and(|home| group.pools[home].is_far());
    if redirects && pool.is_far() || mirrors && from_far {
        return Err(Refusal::Far);
    }
    let full = match operation.kind {
        OperationKind::Prefetch => pool.prefetched >= pool.reserve || pool.room() == 0,
        OperationKind::Redirect => {
            pool.free_beside_reserve() == 0
                || group.overlay_room() == 0
                || group.pools.chunk_bytes() > REDIRECT_CHUNK_MAX
        }
        OperationKind::Mirror => {
            pool.free_beside_reserve() == 0
                || group.overlay_room() == 0
                || group.pools.chunk_bytes() > MIRROR_CHUNK_MAX
        }
        _ => pool.free_beside_reserve() == 0,
    };
    if full || pool.is_full() { Err(Refusal::NoRoom) } else { Ok(()) }
}

/// True if a prefetched copy is where a chunk shall have an ordinary one: nothing is to copy.
pub(super) fn is_prefetched_there(group: &GroupState, operation: &Operation) -> bool {
    let stays = matches!(operation.kind, OperationKind::Migrate | OperationKind::Replicate);
    let mut copies = group.map.copies(operation.chunk);
    stays && copies.any(|copy| copy.gives_way() && copy.place.pool == operation.to)
}

/// Goal of an operation on a chunk that is in two parts already; `None` when it
/// is not, or the operation makes no sense there.
pub(super) fn goal_of(group: &GroupState, operation: &Operation) -> Option<Goal> {
    let blocks = &group.map.overlay(operation.chunk)?.blocks;
    let on = |side| group.map.place_on(operation.chunk, side).pool == operation.to;
    match operation.kind {
        OperationKind::Redirect | OperationKind::Migrate if on(Side::Above) => Some(Goal::Above),
        OperationKind::Migrate if on(Side::Base) && blocks.is_mirror() => Some(Goal::Base),
        OperationKind::Mirror if blocks.is_mirror() && (on(Side::Above) || on(Side::Base)) => {
            Some(Goal::Both)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
