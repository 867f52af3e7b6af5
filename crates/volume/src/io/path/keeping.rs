//! Lines of a sub-request: what they answer, and what of a chunk's contents becomes lines.
//!
//! What a read brought becomes lines only if no write to its chunk has begun or ended since it
//! began, and none to its blocks is under way: else it may be older than the chunk. What a write
//! brought is true when the write has succeeded: no other write to these blocks is under way then,
//! and one that waits voids them again when it begins.

use crate::group_state::GroupState;
use crate::io::busy_chunk::Verb;
use crate::io::request::Priority;
use crate::io::sources::{lines_for, may_have_lines};
use crate::lines::Kept;
use crate::map::presence::{around_blocks, whole_blocks};
use std::ops::Range;
use thermocline_ports::Payload;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met_if;
use thermocline_units::{Nanos, PoolId};

/// Sends a read of a chunk to lines, if they answer all of it: their pool, and requests sent.
pub(super) fn read_lines(
    group: &mut GroupState,
    now: Nanos,
    sub_request: u32,
    run: &Range<u32>,
) -> Option<(PoolId, u32)> {
    let state = &group.sub_requests[sub_request];
    let (chunk, background) = (state.chunk, state.priority != Priority::Foreground);
    assert!(state.order > 0 && !state.is_write(), "only reads that have begun are answered");
    let pool = match state.passes_lines {
        true => None,
        false => lines_for(group, chunk, run),
    };
    let Some(pool) = pool else {
        if may_have_lines(group, chunk) {
            group.lines.note_miss(run);
        }
        return None;
    };
    let GroupState { lines, pools, .. } = group;
    Some((pool, lines.read(pools, now, (chunk, run), sub_request, background)))
}

/// A client has read blocks of a chunk: keeps them as lines, if they are still true.
pub(super) fn keep_read(
    group: &mut GroupState,
    now: Nanos,
    sub_request: u32,
    at: u32,
    payload: &Payload,
) {
    let state = &group.sub_requests[sub_request];
    let (chunk, order) = (state.chunk, state.order);
    assert!(order > 0 && !state.is_write(), "what was read has begun");
    if !may_have_lines(group, chunk) {
        return;
    }
    let run = at..at + payload.len();
    let busy = group.busy_chunk(chunk).expect("the read is on it");
    let is_old =
        busy.was_written_since(order) || group.writes_under_way(chunk, &around_blocks(&run));
    met_if(is_old, "read met a write and fills no line");
    if is_old && !mutant("old_read_fills_lines") || busy.repairing {
        return;
    }
    keep(group, now, sub_request, (at, payload), false);
}

/// A write has succeeded: keeps its blocks as lines, where lines had them.
pub(super) fn keep_written(group: &mut GroupState, now: Nanos, sub_request: u32) {
    let state = &group.sub_requests[sub_request];
    assert_eq!(state.failed, 0, "what failed somewhere is not known");
    if state.error.is_some() || !may_have_lines(group, state.chunk) {
        return;
    }
    let Verb::Write(payload) = &state.verb else { return };
    let (at, payload) = (state.range.start, payload.clone());
    keep(group, now, sub_request, (at, &payload), true);
}

/// Keeps the whole blocks of contents that begin at byte `at` of a sub-request's chunk.
fn keep(
    group: &mut GroupState,
    now: Nanos,
    sub_request: u32,
    (at, payload): (u32, &Payload),
    written: bool,
) {
    let chunk = group.sub_requests[sub_request].chunk;
    let whole = whole_blocks(&(at..at + payload.len()));
    assert!(whole.end <= group.pools.chunk_bytes(), "nothing of another chunk is kept");
    if whole.start < whole.end {
        let payload = &payload.slice(whole.start - at..whole.end - at);
        let kept = Kept { chunk, at: whole.start, payload, written };
        group.lines.keep(&mut group.pools, now, &kept);
    }
}
