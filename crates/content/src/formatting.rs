//! Formatting a store: the superblocks of a former one are erased, and then a first checkpoint is
//! taken.

use crate::name::BLOCK;
use crate::open_error::OpenError;
use crate::state::{Mode, StoreState};
use crate::tasks::{TRIES_MAX, Task, offset};
use thermocline_ports::{DeviceError, Io, Payload};

/// A store being formatted.
#[derive(Debug)]
pub(crate) struct Formatting {
    /// Places that are being erased.
    outstanding: u32,
}

impl Formatting {
    /// Begins to erase: a former store's superblocks may have higher numbers.
    pub(crate) fn begin(state: &mut StoreState) -> Formatting {
        state.segments.use_for_nodes(0);
        let places = [0, state.layout.device_blocks - 2];
        places.into_iter().for_each(|place| send_erase(state, place, 0));
        Formatting { outstanding: places.len() as u32 }
    }

    /// A place was erased, or was not.
    pub(crate) fn erased(
        &mut self,
        state: &mut StoreState,
        place: u64,
        tries: u32,
        result: Result<Payload, DeviceError>,
    ) {
        match result {
            Ok(_) => {
                self.outstanding -= 1;
                if self.outstanding == 0 {
                    state.wants.checkpoint(Mode::Instead);
                }
            }
            Err(DeviceError::Io | DeviceError::TimedOut) if tries < TRIES_MAX => {
                send_erase(state, place, tries + 1);
            }
            Err(error) => state.refuse(OpenError::Device(error)),
        }
    }
}

fn send_erase(state: &mut StoreState, place: u64, tries: u32) {
    let data = Payload::Zeroes(2 * BLOCK);
    let io = Io::Write { offset: offset(place), data, fua: true };
    state.send(Task::Erase { place, tries }, io);
}
