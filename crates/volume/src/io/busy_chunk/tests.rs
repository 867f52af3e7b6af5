//! A chunk in use by itself. Parts that need sub-requests take those made here.

use super::{BusyChunk, SubRequest, Verb};
use crate::group_state::GroupState;
use crate::map::place::Place;
use std::ops::Range;
use thermocline_ports::Payload;
use thermocline_units::{ChunkId, PoolId};

/// A write of sevens.
pub(crate) fn write(range: &Range<u32>) -> Verb {
    Verb::Write(Payload::from(vec![7; range.len()]))
}

/// A sub-request that comes to its chunk; its number.
pub(crate) fn come(group: &mut GroupState, chunk: ChunkId, range: Range<u32>, verb: Verb) -> u32 {
    group.map.hold(chunk.volume);
    group.busy_chunk_of(chunk);
    group.sub_requests.insert(SubRequest::new(0, chunk, range, verb))
}

/// A sub-request that has come begins.
pub(crate) fn begin(group: &mut GroupState, sub_request: u32) {
    group.sub_requests_begun += 1;
    group.sub_requests[sub_request].order = group.sub_requests_begun;
    let chunk = group.sub_requests[sub_request].chunk;
    group.busy_chunk_of(chunk).running.push(sub_request);
}

/// A sub-request that has begun is no longer on its chunk.
pub(crate) fn leave(group: &mut GroupState, sub_request: u32) {
    let gone = group.sub_requests.remove(sub_request);
    group.busy_chunk_of(gone.chunk).running.retain(|&running| running != sub_request);
    group.map.let_go(gone.chunk.volume);
}

const PLACE: Place = Place { pool: PoolId(1), slot: 5 };

#[test]
fn a_chunk_is_in_use_as_long_as_anything_is_on_it_or_waited_for() {
    assert!(BusyChunk::default().is_over());
    let mut busy: [BusyChunk; 8] = Default::default();
    busy[0].running.push(1);
    busy[1].waiting.push_back(1);
    busy[2].opening = Some((1, None));
    busy[3].set_operation(Some(0));
    busy[4].begin_repair();
    busy[5].left.push((1, PLACE));
    busy[6].begin_drop();
    busy[7].announce();
    for (number, busy) in busy.iter().enumerate() {
        assert!(!busy.is_over(), "{number}: {busy:?}");
    }
}

#[test]
fn an_announcement_is_made_once() {
    let mut busy = BusyChunk::default();
    assert_eq!([busy.announce(), busy.announce()], [true, false]);
    assert!(busy.is_announcing());
}

#[test]
fn a_read_may_have_met_a_write_that_was_there_when_it_began() {
    let mut busy = BusyChunk::default();
    assert!(!busy.was_written_since(1), "nobody wrote");
    busy.note_write(4);
    assert_eq!([3, 4, 5].map(|order| busy.was_written_since(order)), [true, true, false]);
}

#[test]
fn a_slot_opens_only_when_there_is_one() {
    let mut busy = BusyChunk { opening: Some((3, None)), ..BusyChunk::default() };
    assert_eq!(busy.slot_that_opens(), None);
    busy.opening = Some((3, Some(PLACE)));
    assert_eq!(busy.slot_that_opens(), Some((3, PLACE)));
}

#[test]
fn ranges_that_touch_do_not_overlap() {
    let range = 512..1024;
    let write = SubRequest::new(0, ChunkId::default(), range.clone(), write(&range));
    assert!(write.overlaps(&(1023..2048)) && write.overlaps(&(0..4096)));
    assert!(!write.overlaps(&(0..512)) && !write.overlaps(&(1024..2048)));
    assert!(write.is_write() && write.has_contents());
}

#[test]
fn an_operation_that_has_ended_makes_way_for_another() {
    let mut busy = BusyChunk::default();
    for operation in [Some(4), None, Some(2)] {
        busy.set_operation(operation);
        assert_eq!(busy.operation(), operation);
    }
}
