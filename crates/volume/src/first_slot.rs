//! The first slot of a chunk: which pool gives it, how it is made to read as zeroes, and who waits
//! when none is free.

use crate::block_checksums::BlockChecksums;
use crate::copies::drop_copy;
use crate::core::traffic::Verb;
use crate::core::{Core, Effect};
use crate::hinting::Hinting;
use crate::journal::Waiter;
use crate::leaving::Leaving;
use crate::map::NONE;
use crate::map::Place;
use crate::request::RequestError;
use crate::sources::allocate;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::Bytes;
use thermocline_units::PoolId;
use thermocline_units::mutants::mutant;

/// How far the search for a first slot has come.
#[derive(Debug)]
pub(crate) enum FirstSlot {
    /// The slot reads as zeroes: the chunk can be placed there.
    Ready(Place),
    /// The slot must be made to read as zeroes first, by this request.
    Cleaning(PoolId, Io),
    /// The part waits for a slot that becomes free.
    Waits,
    /// There is none: the part fails.
    Missing,
}

/// Gives the chunk of `part` its first slot, and makes it read as zeroes if it may not.
pub(crate) fn open_chunk(
    core: &mut Core,
    checksums: &mut BlockChecksums,
    hinting: &mut Hinting,
    leaving: &mut Leaving,
    part: u32,
) -> FirstSlot {
    let chunk = core.parts[part].chunk;
    let hinted = hinting.pools_for(core, chunk);
    let Some((place, clean)) = allocate(core, core.parts[part].unfit, &hinted) else {
        return await_space(core, checksums, leaving, part);
    };
    hinting.note_placed(place, &hinted);
    if clean || mutant("slot_not_zeroed") {
        return FirstSlot::Ready(place);
    }
    let traffic = core.traffic_of(chunk);
    core.traffic[traffic].opening = Some((part, Some(place)));
    let pool = &core.pools[place.pool];
    let offset = pool.address(place, 0, core.pools.chunk_bytes());
    let length = Bytes(u64::from(core.pools.chunk_bytes()));
    let io = if pool.geometry.discard_zeroes {
        Io::Discard { offset, length }
    } else {
        Io::WriteZeroes { offset, length }
    };
    core.parts[part].outstanding += 1;
    core.journal.expect_record();
    FirstSlot::Cleaning(place.pool, io)
}

/// The slot of an unmapped chunk reads as zeroes now, or its pool failed to do that.
pub(crate) fn opened(
    core: &mut Core,
    checksums: &mut BlockChecksums,
    hinting: &mut Hinting,
    leaving: &mut Leaving,
    part: u32,
    pool: PoolId,
    result: &Result<Payload, DeviceError>,
) -> FirstSlot {
    let traffic = core.traffic_of(core.parts[part].chunk);
    let opening = core.traffic[traffic].opening.take();
    let (_, place) = opening.expect("the part opens its chunk");
    let place = place.expect("a slot was being made ready");
    core.journal.expected_record_came();
    let zeroed = result.is_ok() || mutant("slot_opened_though_not_zeroed");
    if zeroed && core.pools[pool].is_alive() {
        return FirstSlot::Ready(place);
    }
    core.pools[pool].slots.give_back(place.slot, false);
    core.parts[part].unfit |= 1 << pool.0;
    if *result == Err(DeviceError::NoSpace) {
        core.parts[part].error = Some(RequestError::NoSpace);
    }
    open_chunk(core, checksums, hinting, leaving, part)
}

/// No slot is free: prefetched copies go, and slots that wait for the journal may become free.
fn await_space(
    core: &mut Core,
    checksums: &mut BlockChecksums,
    leaving: &mut Leaving,
    part: u32,
) -> FirstSlot {
    let evicted = evict_prefetched(core, checksums);
    let committing = evicted || core.journal.will_free() || core.operations.will_free();
    if committing || leaving.slots > 0 {
        let traffic = core.traffic_of(core.parts[part].chunk);
        core.traffic[traffic].opening = Some((part, None));
        if committing {
            core.journal.join(Waiter::Space(part));
        } else {
            leaving.waiting.push(part);
            // What the chunk itself has left need not wait for this part.
            core.emit(Effect::Eased(core.parts[part].chunk));
        }
        return FirstSlot::Waits;
    }
    let error = core.parts[part].error;
    core.parts[part].error = Some(error.unwrap_or(RequestError::NoSpace));
    FirstSlot::Missing
}

/// Drops one prefetched copy on a pool that takes chunks.
fn evict_prefetched(core: &mut Core, checksums: &mut BlockChecksums) -> bool {
    let victim = core.map.chunks().filter(|&chunk| !core.map.is_simple(chunk)).find_map(|chunk| {
        let mut copies = core.map.copies(chunk);
        let copy = copies.find(|c| c.prefetched && core.pools[c.place.pool].takes_chunks())?;
        Some((chunk, copy.place.pool))
    });
    if let Some((chunk, pool)) = victim {
        drop_copy(core, checksums, chunk, pool, true);
    }
    victim.is_some()
}

/// Tries once more to open the chunk of a part that waited for space.
pub(crate) fn try_again(
    core: &mut Core,
    checksums: &mut BlockChecksums,
    hinting: &mut Hinting,
    leaving: &mut Leaving,
    part: u32,
) -> FirstSlot {
    assert!(matches!(core.parts[part].verb, Verb::Write(_)), "only writes open chunks");
    let traffic = core.traffic_of(core.parts[part].chunk);
    if core.records_pile_up() {
        core.traffic[traffic].opening = Some((part, None));
        core.journal.join(Waiter::Space(part));
        return FirstSlot::Waits;
    }
    core.traffic[traffic].opening = None;
    open_chunk(core, checksums, hinting, leaving, part)
}

/// True if the part waits for the first slot of its chunk.
pub(crate) fn is_opening(core: &Core, part: u32) -> bool {
    let traffic = core.map.entry(core.parts[part].chunk).traffic;
    traffic != NONE && core.traffic[traffic].opening.is_some_and(|(opener, _)| opener == part)
}
