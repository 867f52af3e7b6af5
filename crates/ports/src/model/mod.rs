//! Devices and links that cost virtual time as published media do.
//!
//! [`ModelDevice`] runs a [`Profile`]. Requests pass the stages of their medium in the order of
//! their submission, so that for all media but disks the time of completion follows at once from
//! when each stage becomes free; disks choose among what is queued. Times vary by seed. No contents
//! are stored: reads return zeroes of the right length, nothing fails, nothing is lost.
//!
//! 1. *Parallel*: a lane for all requests of a direction, then one of c servers.
//! 2. *Flash*: lane, die; writes go through a buffer and a flash translation layer whose cleaning
//!    keeps dies busy.
//! 3. *Disk*: seek, rotation, transfer; shortest positioning first, with a bound on age; where
//!    tracks are shingled, a persistent cache and bands that are rewritten as a whole.
//! 4. *Object*: time to the first byte, a rate for each stream, a lane for all.
//!
//! Sources: profiles name theirs; the models' are in the files. docs/guides/device-models.md tells
//! what is left out.

mod accelerator;
mod counters;
mod disk;
mod flash;
mod ftl;
mod keys;
mod lane;
mod link;
mod object;
mod parallel;
mod profile;
mod schedule;
mod shingles;
mod spread;
mod stripe;
mod text;

pub use accelerator::{AcceleratorProfile, Compute, ModelAccelerator};
pub use counters::{Counters, FlashCounters, IoCounters, ShingleCounters};
pub use keys::ProfileError;
pub use lane::LaneModel;
pub use link::{LinkCounts, LinkProfile, ModelLink};
pub mod published;
pub use profile::{Disk, Flash, Lane, Medium, Object, Parallel, Profile, Shingles};
pub use spread::Spread;

use crate::{Completion, Device, Geometry, Io, Ticket};
use disk::DiskModel;
use flash::FlashModel;
use object::ObjectModel;
use parallel::ParallelModel;
use schedule::{Kind, Request, Schedule};
use thermocline_units::{Nanos, Rng};

#[derive(Debug)]
enum Model {
    Parallel(ParallelModel),
    Flash(Box<FlashModel>),
    Disk(Box<DiskModel>),
    Object(ObjectModel),
}

/// A device of a given profile in virtual time. See `Device` for what it promises.
///
/// ```
/// use thermocline_ports::model::{ModelDevice, Profile};
/// use thermocline_ports::{Device, Io, Ticket};
/// use thermocline_units::{Bytes, Nanos};
///
/// let mut disk = ModelDevice::new(&Profile::built_in("hdd-7200").unwrap(), 1);
/// disk.submit(Nanos(0), Ticket(1), Io::Read { offset: Bytes::from_gib(100), length: 4096 });
/// assert!(disk.next_event() > Some(Nanos::from_micros(800)), "it had to seek");
/// ```
#[derive(Debug)]
pub struct ModelDevice {
    geometry: Geometry,
    model: Model,
    schedule: Schedule,
    rng: Rng,
    now: Nanos,
}

impl ModelDevice {
    /// A device as `profile` describes it; `seed` decides how times vary.
    ///
    /// # Panics
    /// When the profile's size was set to what [`Profile::with_size`] refuses.
    pub fn new(profile: &Profile, seed: u64) -> ModelDevice {
        if let Err(problem) = profile.check_size() {
            panic!("{problem}");
        }
        let model = match &profile.medium {
            Medium::Parallel(parallel) => Model::Parallel(ParallelModel::new(parallel)),
            Medium::Flash(flash) => Model::Flash(Box::new(FlashModel::new(flash, profile.size))),
            Medium::Disk(disk) => Model::Disk(Box::new(DiskModel::new(disk, profile.size))),
            Medium::Object(object) => Model::Object(ObjectModel::new(object)),
        };
        ModelDevice {
            geometry: Geometry {
                size: profile.size,
                discard_zeroes: profile.discard_zeroes,
                far: profile.is_far(),
            },
            model,
            schedule: Schedule::default(),
            rng: Rng::seeded(seed),
            now: Nanos(0),
        }
    }

    /// Its counters until now.
    pub fn counters(&self) -> &Counters {
        &self.schedule.counters
    }
}

impl Device for ModelDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        assert!(now >= self.now, "time does not run backwards");
        self.now = now;
        let (offset, length) = match io.range() {
            None => (0, 0),
            Some((offset, length)) => {
                self.geometry.sectors(offset, length);
                (offset.0, length.0)
            }
        };
        let kind = Kind::of(&io);
        let request = Request { ticket, kind, offset, length, submitted: now };
        let due = match &mut self.model {
            Model::Parallel(model) => model.due(&request, &mut self.rng),
            Model::Flash(model) => {
                model.due(&request, &mut self.rng, &mut self.schedule.counters.flash)
            }
            Model::Object(model) => model.due(&request, &mut self.rng),
            Model::Disk(model) => return model.submit(request, &mut self.schedule),
        };
        self.schedule.cover(now, due);
        self.schedule.push(request, due);
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        assert!(now >= self.now, "time does not run backwards");
        self.now = now;
        if let Model::Disk(model) = &mut self.model {
            model.advance(now, &mut self.schedule);
        }
        self.schedule.pop_until(now, done);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.schedule.next()
    }
}

#[cfg(test)]
mod tests;
