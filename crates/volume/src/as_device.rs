//! A volume in the words of a device: a machine that stands on a device stands on a volume as well.
//!
//! A volume keeps the contract of [`thermocline_ports::Device`]: what was answered is volatile
//! until a flush, FUA is durable when it is answered, sectors are never torn. A discard may leave
//! what was there, so `Geometry::discard_zeroes` is false for it.
//!
//! Only words are translated here. Whoever makes a device of a volume brings requests to the group
//! and answers back: in the live engine `VolumeDevice`, in tests a loop in virtual time.

use crate::io::request::{Action, Fragment, RequestError};
use thermocline_ports::{DeviceError, Io, Payload};

impl Action {
    /// The action of a volume that does what a device would do for `io`.
    pub fn of_io(io: Io) -> Action {
        match io {
            Io::Read { offset, length } => Action::Read { offset, length },
            Io::Write { offset, data, fua } => Action::Write { offset, payload: data, fua },
            Io::Flush => Action::Flush,
            Io::Discard { offset, length } => Action::Discard { offset, length },
            Io::WriteZeroes { offset, length } => {
                Action::WriteZeroes { offset, length, fua: false }
            }
        }
    }
}

/// A volume's answer as a device would give it.
///
/// # Errors
/// The failure of the request. A group that is out of service, and a volume that was deleted, do
/// not come back: they are [`DeviceError::Gone`].
///
/// # Panics
/// When the range was outside the volume, as with every device.
pub fn device_result(result: Result<Vec<Fragment>, RequestError>) -> Result<Payload, DeviceError> {
    match result {
        Ok(fragments) => Ok(joined(fragments)),
        Err(RequestError::Io) => Err(DeviceError::Io),
        Err(RequestError::NoSpace) => Err(DeviceError::NoSpace),
        Err(RequestError::NoVolume | RequestError::NotReady) => Err(DeviceError::Gone),
        Err(RequestError::BadRange) => panic!("a request lies outside the volume"),
    }
}

fn joined(mut fragments: Vec<Fragment>) -> Payload {
    match fragments.len() {
        0 => Payload::EMPTY,
        1 => fragments.remove(0).payload,
        _ => {
            let length = fragments.iter().map(|fragment| fragment.payload.len() as usize).sum();
            let mut bytes = vec![0; length];
            for Fragment { at, payload } in fragments {
                let at = at as usize;
                payload.copy_to(&mut bytes[at..at + payload.len() as usize]);
            }
            Payload::from(bytes)
        }
    }
}

#[cfg(test)]
mod tests;
