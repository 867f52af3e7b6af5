//! Trailers of segments, which come and go when records are durable.
//!
//! 1. A full segment gets its trailer when its blocks are durable.
//! 2. A segment that nothing lies on any more loses it, as soon as the records with which the last
//!    blocks left are durable and nobody reads there. Then it is discarded, and free.

use crate::format::{Head, encode_trailer};
use crate::journal::Waiter;
use crate::name::BLOCK;
use crate::segments::State;
use crate::state::StoreState;
use crate::tasks::{TRIES_MAX, Task, offset};
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::Bytes;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Segments on their way to be free.
#[derive(Debug, Default)]
pub(crate) struct Sealing {
    /// Emptied segments whose trailers may be wiped as soon as nothing reads the segments.
    leaving: Vec<u32>,
}

impl Sealing {
    /// Notes that the records are durable with which the last blocks left a segment.
    pub(crate) fn leave(&mut self, segment: u32) {
        self.leaving.push(segment);
    }

    /// Lets go of segments that nothing lies on.
    pub(crate) fn pump(&mut self, state: &mut StoreState) {
        for segment in std::mem::take(&mut state.segments.emptied) {
            if mutant("segment_free_before_the_moves_are_durable") {
                self.leaving.push(segment);
            } else {
                state.journal.join(Waiter::Wipe(segment));
            }
        }
        self.leaving.retain(|&segment| {
            let is_read = state.segments.get(segment).readers > 0;
            met_if(is_read, "emptied segment waited for a read");
            let stays = is_read && !mutant("segment_free_under_a_read");
            if !stays {
                send_wipe(state, segment, 0);
            }
            stays
        });
    }
}

/// A trailer was written, or was not.
pub(crate) fn sealed(
    state: &mut StoreState,
    segment: u32,
    data: Payload,
    tries: u32,
    result: Result<Payload, DeviceError>,
) {
    match result {
        Ok(_) => state.segments.sealed(segment),
        Err(DeviceError::Io | DeviceError::TimedOut) if tries < TRIES_MAX => {
            send_seal(state, segment, data, tries + 1);
        }
        Err(error) => state.stop(error),
    }
}

/// A trailer was wiped, or was not.
pub(crate) fn wiped(
    state: &mut StoreState,
    segment: u32,
    tries: u32,
    result: Result<Payload, DeviceError>,
) {
    match result {
        Ok(_) if state.settings.discard => {
            let offset = offset(u64::from(state.layout.first_slot(segment)));
            let length = Bytes(u64::from(state.layout.slots()) * u64::from(BLOCK));
            state.send(Task::Discard { segment }, Io::Discard { offset, length });
        }
        Ok(_) => state.segments.free(segment),
        Err(DeviceError::Io | DeviceError::TimedOut) if tries < TRIES_MAX => {
            send_wipe(state, segment, tries + 1);
        }
        Err(error) => state.stop(error),
    }
}

/// Writes the trailer of a full segment whose blocks are durable.
pub(crate) fn seal(state: &mut StoreState, segment: u32) {
    let unsealed = &state.segments.unsealed[&segment];
    let head = Head {
        identity: state.identity,
        generation: unsealed.sequence,
        sequence: u64::from(segment),
        part: 0,
        extra: u32::from(unsealed.class),
    };
    let data = Payload::from(encode_trailer(head, &unsealed.entries));
    state.segments.get_mut(segment).state = State::Sealing;
    met("segment sealed");
    send_seal(state, segment, data, 0);
}

fn send_seal(state: &mut StoreState, segment: u32, data: Payload, tries: u32) {
    let offset = offset(u64::from(state.layout.trailer(segment)));
    let io = Io::Write { offset, data: data.clone(), fua: true };
    state.send(Task::Seal { segment, data, tries }, io);
}

fn send_wipe(state: &mut StoreState, segment: u32, tries: u32) {
    let offset = offset(u64::from(state.layout.trailer(segment)));
    let io = Io::Write { offset, data: Payload::Zeroes(BLOCK), fua: true };
    state.send(Task::Wipe { segment, tries }, io);
}
