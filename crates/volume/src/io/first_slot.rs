//! The first slot of a chunk: which pool gives it, how it is made to read as zeroes, and who waits
//! when none is free.

use crate::epoch::hinting::Hinting;
use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::io::busy_chunk::{Verb, bit};
use crate::io::leaving::Leaving;
use crate::io::request::RequestError;
use crate::io::sources::{allocate, pool_without_hint};
use crate::journal::commit::Waiter;
use crate::map::block_checksums::BlockChecksums;
use crate::map::copies::drop_copy;
use crate::map::place::Place;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, PoolId};

/// Progress of the search for a first slot.
#[derive(Debug)]
pub(crate) enum FirstSlot {
    /// The slot reads as zeroes: the chunk can be placed there.
    Ready(Place),
    /// The slot must be made to read as zeroes first, by this request.
    Cleaning(Place, Io),
    /// The sub-request waits for a slot that becomes free.
    Waits,
    /// There is none: the sub-request fails.
    Missing,
}

/// Gives the chunk of `sub_request` its first slot, and makes it read as zeroes if it may not.
pub(crate) fn open_chunk(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    hinting: &mut Hinting,
    leaving: &mut Leaving,
    sub_request: u32,
) -> FirstSlot {
    let chunk = group.sub_requests[sub_request].chunk;
    assert!(group.map.entry(chunk).first().is_none(), "a chunk gets its first slot once");
    let hinted = hinting.pools_for(group, chunk);
    let unfit = group.sub_requests[sub_request].unfit;
    let would = (!hinted.is_empty()).then(|| pool_without_hint(group, unfit)).flatten();
    let Some((place, clean)) = allocate(group, unfit, &hinted) else {
        return await_space(group, checksums, leaving, sub_request);
    };
    assert!(group.pools[place.pool].slots.is_taken(place.slot), "nobody else gets it");
    assert!(
        group.sub_requests[sub_request].unfit & bit(place.pool) == 0,
        "not where it failed before"
    );
    hinting.note_placed(group, chunk, place, &hinted, would);
    if clean || mutant("slot_not_zeroed") {
        return FirstSlot::Ready(place);
    }
    group.busy_chunk_of(chunk).opening = Some((sub_request, Some(place)));
    let pool = &group.pools[place.pool];
    let offset = pool.address(place, 0, group.pools.chunk_bytes());
    let length = Bytes(u64::from(group.pools.chunk_bytes()));
    let io = if pool.geometry.discard_zeroes {
        Io::Discard { offset, length }
    } else {
        Io::WriteZeroes { offset, length }
    };
    group.sub_requests[sub_request].outstanding += 1;
    group.journal.expect_record();
    FirstSlot::Cleaning(place, io)
}

/// The slot of an unmapped chunk reads as zeroes now, or its pool failed to do that.
pub(crate) fn opened(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    hinting: &mut Hinting,
    leaving: &mut Leaving,
    sub_request: u32,
    pool: PoolId,
    result: &Result<Payload, DeviceError>,
) -> FirstSlot {
    let opening = group.busy_chunk_of(group.sub_requests[sub_request].chunk).opening.take();
    let (_, place) = opening.expect("the part opens its chunk");
    let place = place.expect("a slot was being made ready");
    assert_eq!(place.pool, pool, "the pool that answers has the slot");
    group.journal.expected_record_came();
    let zeroed = result.is_ok() || mutant("slot_opened_though_not_zeroed");
    if zeroed && group.pools[pool].is_alive() {
        return FirstSlot::Ready(place);
    }
    group.pools[pool].slots.give_back(place.slot, false);
    group.sub_requests[sub_request].unfit |= 1 << pool.0;
    if *result == Err(DeviceError::NoSpace) {
        group.sub_requests[sub_request].error = Some(RequestError::NoSpace);
    }
    open_chunk(group, checksums, hinting, leaving, sub_request)
}

/// No slot is free: prefetched copies go, and slots that wait for the journal may become free.
fn await_space(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    leaving: &mut Leaving,
    sub_request: u32,
) -> FirstSlot {
    // No slot of lines is idle; one that is used is free when the last request on it has ended.
    group.lines.take_back(&mut group.pools);
    let lines_leave = group.lines.are_leaving();
    let evicted = !lines_leave && evict_prefetched(group, checksums);
    let committing = evicted || group.journal.will_free() || group.operations.will_free();
    if committing || lines_leave || leaving.slots > 0 {
        let chunk = group.sub_requests[sub_request].chunk;
        group.busy_chunk_of(chunk).opening = Some((sub_request, None));
        if committing {
            group.journal.join(Waiter::Space(sub_request));
        } else {
            leaving.waiting.push(sub_request);
            // What the chunk itself has left need not wait for this sub-request.
            group.emit(Effect::Eased(group.sub_requests[sub_request].chunk));
        }
        debug_assert!(is_opening(group, sub_request), "who waits behind it lets it go first");
        return FirstSlot::Waits;
    }
    let error = group.sub_requests[sub_request].error;
    group.sub_requests[sub_request].error = Some(error.unwrap_or(RequestError::NoSpace));
    FirstSlot::Missing
}

/// Drops one prefetched copy on a pool that takes chunks.
fn evict_prefetched(group: &mut GroupState, checksums: &mut BlockChecksums) -> bool {
    let victim =
        group.map.chunks().filter(|&chunk| !group.map.is_simple(chunk)).find_map(|chunk| {
            let mut copies = group.map.copies(chunk);
            let copy =
                copies.find(|c| c.gives_way() && group.pools[c.place.pool].takes_chunks())?;
            Some((chunk, copy.place.pool))
        });
    if let Some((chunk, pool)) = victim {
        let copies = group.map.copies(chunk).count();
        drop_copy(group, checksums, chunk, pool, true);
        assert_eq!(group.map.copies(chunk).count(), copies - 1, "one prefetched copy goes");
    }
    victim.is_some()
}

/// Tries once more to open the chunk of a sub-request that waited for space.
pub(crate) fn try_again(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    hinting: &mut Hinting,
    leaving: &mut Leaving,
    sub_request: u32,
) -> FirstSlot {
    assert!(
        matches!(group.sub_requests[sub_request].verb, Verb::Write(_)),
        "only writes open chunks"
    );
    let chunk = group.sub_requests[sub_request].chunk;
    if group.records_pile_up() {
        group.busy_chunk_of(chunk).opening = Some((sub_request, None));
        group.journal.join(Waiter::Space(sub_request));
        return FirstSlot::Waits;
    }
    let waited = group.busy_chunk_of(chunk).opening.take();
    assert_eq!(
        waited,
        Some((sub_request, None)),
        "the sub-request waited for a slot, and has none"
    );
    open_chunk(group, checksums, hinting, leaving, sub_request)
}

/// True if the sub-request waits for the first slot of its chunk.
pub(crate) fn is_opening(group: &GroupState, sub_request: u32) -> bool {
    let busy = group.busy_chunk(group.sub_requests[sub_request].chunk);
    let opening = busy.and_then(|busy| busy.opening);
    opening.is_some_and(|(opener, _)| opener == sub_request)
}

#[cfg(test)]
mod tests;
