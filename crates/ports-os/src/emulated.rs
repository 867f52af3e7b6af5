//! A real device slowed to a modelled one.
//!
//! 1. A request goes to both at once. Contents, durability and errors are the real device's; time
//!    is the later of the two, so a device that is slower than its model stays slower.
//! 2. The model counts from submission, on the clock that the caller passes as `now`. It keeps its
//!    queue, its head, its write buffer as if it were alone; it begins anew when the device is
//!    opened.
//! 3. An error waits for the model, too: a disk cannot report a bad sector before its head is
//!    there. And a ticket is free again only when nobody knows it any more.
//! 4. A request that the real device was late with is answered as soon as it answers.
//!
//! The contract holds because the real device keeps it: whatever is answered here was answered
//! there before. State: 40 B a request in flight, and the model's.

use std::collections::BTreeMap;
use thermocline_ports::model::{ModelDevice, Profile, ProfileError};
use thermocline_ports::{Completion, Device, DeviceError, Geometry, Io, Payload, Ticket};
use thermocline_units::Nanos;

/// The half of an answer that is there.
#[derive(Debug)]
enum Half {
    /// The model is done; the device is late.
    Time,
    /// The device has answered; the model is not done.
    Result(Result<Payload, DeviceError>),
}

/// A device that is as slow as a model.
#[derive(Debug)]
pub struct Emulated<D> {
    device: D,
    model: ModelDevice,
    halves: BTreeMap<Ticket, Half>,
    answers: Vec<Completion>,
}

impl<D: Device> Emulated<D> {
    /// Slows `device` to a device of `profile` that has the same size: a disk's seeks go over all
    /// of it. `seed` decides how the model's times vary.
    ///
    /// # Errors
    /// When the profile's medium does not come in that size; see [`Profile::with_size`].
    pub fn new(device: D, profile: &Profile, seed: u64) -> Result<Emulated<D>, ProfileError> {
        let profile = profile.with_size(device.geometry().size)?;
        let model = ModelDevice::new(&profile, seed);
        Ok(Emulated { device, model, halves: BTreeMap::new(), answers: Vec::new() })
    }

    /// The device that has the contents.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device that has the contents; only to wait for it, its answers come out of `poll` here.
    pub(crate) fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Answers of the device that are not too early.
    fn poll_device(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.device.poll(now, &mut self.answers);
        for Completion { ticket, result } in self.answers.drain(..) {
            match self.halves.remove(&ticket) {
                Some(Half::Time) => done.push(Completion { ticket, result }),
                Some(Half::Result(_)) => panic!("{ticket:?} was answered twice"),
                None => {
                    self.halves.insert(ticket, Half::Result(result));
                }
            }
        }
    }

    /// Answers of the model that the device has given, too.
    fn poll_model(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.model.poll(now, &mut self.answers);
        for Completion { ticket, .. } in self.answers.drain(..) {
            match self.halves.remove(&ticket) {
                Some(Half::Result(result)) => done.push(Completion { ticket, result }),
                Some(Half::Time) => panic!("{ticket:?} came due twice"),
                None => {
                    self.halves.insert(ticket, Half::Time);
                }
            }
        }
    }
}

impl<D: Device> Device for Emulated<D> {
    /// The real device's: contents, and what becomes of discarded ones, are there. How far it is
    /// the profile says as well.
    fn geometry(&self) -> Geometry {
        let geometry = self.device.geometry();
        Geometry { far: geometry.far || self.model.geometry().far, ..geometry }
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        self.model.submit(now, ticket, io.clone());
        self.device.submit(now, ticket, io);
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.poll_device(now, done);
        self.poll_model(now, done);
    }

    /// Time at which the model is done with its next request, or the device with its own where it
    /// knows. By then the device may not have answered: nothing comes out of `poll` in that case,
    /// and only the world knows when it will.
    fn next_event(&self) -> Option<Nanos> {
        match (self.model.next_event(), self.device.next_event()) {
            (Some(model), Some(device)) => Some(model.min(device)),
            (model, device) => model.or(device),
        }
    }
}

#[cfg(test)]
mod tests;
