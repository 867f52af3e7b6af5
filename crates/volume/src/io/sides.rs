//! Chunks in two parts at work: which side a part reads and writes, and what becomes of one that a
//! device fails.
//!
//! Where both sides hold a block, a sub-request goes to one of them: the one that an operation
//! strives for, else the one that routing names ([`crate::io::routing`]). Two sub-requests in the
//! same block wait for each other at the hazard check, so that no block is written on both sides at
//! once.

use crate::group_state::GroupState;
use crate::io::routing::Routing;
use crate::map::overlay::{Goal, Holder, Side};
use crate::map::place::Place;
use crate::map::presence::whole_blocks;
use std::ops::Range;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{ChunkId, PoolId};

pub(crate) fn is_alive_on(group: &GroupState, chunk: ChunkId, side: Side) -> bool {
    group.pools[group.map.place_on(chunk, side).pool].is_alive()
}

/// The side for a sub-request where both would do; `None` where blocks stay where they are, as they
/// do in a redirected chunk that nobody brings together.
pub(crate) fn side_for(
    group: &GroupState,
    routing: &mut Routing,
    chunk: ChunkId,
    write: bool,
) -> Option<Side> {
    let towards = group.goal_on(chunk).filter(|_| write).and_then(Goal::side);
    let towards = towards.filter(|&side| is_alive_on(group, chunk, side));
    let [base, above] = [Side::Base, Side::Above].map(|side| group.map.place_on(chunk, side));
    assert_ne!(base, above, "the sides are two slots");
    if towards.is_some() || !group.map.overlay_of(chunk).blocks.is_mirror() {
        return towards;
    }
    match [Side::Base, Side::Above].map(|side| is_alive_on(group, chunk, side)) {
        [true, false] => Some(Side::Base),
        [false, true] => Some(Side::Above),
        _ => {
            let pools = [Side::Base, Side::Above].map(|side| group.map.place_on(chunk, side).pool);
            Some(routing.choose(group, group.now, pools, write))
        }
    }
}

/// From where to read each run of a chunk in two parts.
pub(crate) fn sources_of(
    group: &GroupState,
    routing: &mut Routing,
    chunk: ChunkId,
    range: &Range<u32>,
) -> Vec<(Range<u32>, Side)> {
    let runs = group.map.overlay_of(chunk).blocks.runs(range);
    let shared = runs.iter().any(|(_, holder)| *holder == Holder::Both);
    let choice = if shared { side_for(group, routing, chunk, false) } else { None };
    let mut sources = Vec::with_capacity(runs.len());
    for (run, holder) in runs {
        push_run(&mut sources, run, holder.or(choice));
    }
    assert_eq!(bytes_of(&sources), range.len(), "each byte is read once");
    sources
}

/// Side for each run of a write to a chunk in two parts.
pub(crate) fn targets_of(
    group: &GroupState,
    routing: &mut Routing,
    sub_request: u32,
) -> Vec<(Range<u32>, Side)> {
    let (chunk, range) =
        (group.sub_requests[sub_request].chunk, group.sub_requests[sub_request].range.clone());
    let choice = side_for(group, routing, chunk, true);
    let mut targets = Vec::new();
    for (run, holder) in group.map.overlay_of(chunk).blocks.runs(&range) {
        let side = holder.or(choice);
        match choice.filter(|&choice| choice != side) {
            // Whole blocks may change sides; what is left of others is where they are.
            Some(choice) => {
                let inner = whole_blocks(&run);
                push_run(&mut targets, run.start..inner.start.min(run.end), side);
                push_run(&mut targets, inner.clone(), choice);
                push_run(&mut targets, inner.end.max(run.start)..run.end, side);
            }
            None => push_run(&mut targets, run, side),
        }
    }
    assert_eq!(bytes_of(&targets), range.len(), "each byte is written once");
    targets
}

/// Side to which a run that a side's device failed may go instead, if there is one.
pub(crate) fn other_side(
    group: &GroupState,
    sub_request: u32,
    run: &Range<u32>,
    pool: PoolId,
) -> Option<Side> {
    let chunk = group.sub_requests[sub_request].chunk;
    let overlay = group.map.mirror(chunk)?;
    let other = side_at(group, chunk, pool)?.other();
    let able = match group.sub_requests[sub_request].is_write() {
        true => {
            let parting = is_parting(group, chunk) && !mutant("write_sent_to_a_parting_side");
            overlay.blocks.takes(other, run) && !parting
        }
        false => !overlay.blocks.any_only_on(other.other(), run),
    };
    let place = group.map.place_on(chunk, other);
    let untried = !group.sub_requests[sub_request].avoided.contains(&place);
    (able && untried && group.pools[place.pool].is_alive()).then_some(other)
}

/// The side that a pool is; `None` where the chunk has left that pool.
pub(crate) fn side_at(group: &GroupState, chunk: ChunkId, pool: PoolId) -> Option<Side> {
    let sides = [Side::Base, Side::Above];
    sides.into_iter().find(|&side| group.map.place_on(chunk, side).pool == pool)
}

/// True if a record is on its way to the journal that one of the sides is gone.
pub(crate) fn is_parting(group: &GroupState, chunk: ChunkId) -> bool {
    group.operation_on(chunk).is_some_and(|operation| {
        let copy = &group.operations[operation];
        !copy.is_copying() && copy.goal().and_then(Goal::side).is_some()
    })
}

/// Relies no longer on what `pool` has of a run: where the other side has it as well, that one
/// counts. When one side is about to go, the one that stays counts whatever it holds: what was
/// read on the other could not be read again.
pub(crate) fn distrust(group: &mut GroupState, chunk: ChunkId, run: &Range<u32>, pool: PoolId) {
    let staying = group.goal_on(chunk).and_then(Goal::side);
    let parting = staying.filter(|_| is_parting(group, chunk));
    met_if(parting.is_some(), "side of a mirror failed while the other was about to go");
    let Some(other) = parting.or(side_at(group, chunk, pool).map(Side::other)) else { return };
    let both = parting.is_some() && mutant("both_sides_count_while_one_goes");
    if both || !is_alive_on(group, chunk, other) {
        return;
    }
    let runs = group.map.overlay_of(chunk).blocks.runs(run);
    let shared = runs.into_iter().filter(|(_, holder)| *holder == Holder::Both);
    let place = group.map.place_on(chunk, other);
    let shared: Vec<(Range<u32>, Place)> = shared.map(|(run, _)| (run, place)).collect();
    let announced = group.map.is_called_differing(chunk);
    // The journal calls these blocks equal on both sides until it hears otherwise.
    if group.map.blocks_written(chunk, &shared, group.pools.chunk_bytes())
        && !mutant("distrusted_block_written_at_once")
    {
        group.await_drop(chunk, announced);
    }
    let relies = |(_, holder): &(Range<u32>, Holder)| *holder == Holder::Both;
    let runs = || group.map.overlay_of(chunk).blocks.runs(run);
    debug_assert!(!runs().iter().any(relies), "nothing of it counts on both sides");
}

/// Number of bytes that runs have together.
fn bytes_of(runs: &[(Range<u32>, Side)]) -> usize {
    runs.iter().map(|(run, _)| run.len()).sum()
}

/// Appends a run, or lengthens the last one that goes to the same side.
fn push_run(runs: &mut Vec<(Range<u32>, Side)>, run: Range<u32>, side: Side) {
    let before = runs.last().map_or(0, |(last, _)| last.end);
    assert!(before <= run.start || run.is_empty(), "runs are in order and do not overlap");
    match runs.last_mut() {
        Some((last, same)) if *same == side && last.end == run.start => last.end = run.end,
        _ if run.is_empty() => {}
        _ => runs.push((run, side)),
    }
}

#[cfg(test)]
mod tests;
