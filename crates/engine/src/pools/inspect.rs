//! Opening a group without changing anything: recovery runs on scratch devices, whose writes stay
//! in memory.
//!
//! Devices are opened for reading, and locked as an engine locks them. What the group would copy
//! and repair by itself stays in memory as well, and is held back where the group is looked at for
//! longer.

use super::StartError;
use super::opened::Members;
use super::opener::DeviceOpener;
use super::salvage::Damage;
use std::ops::Range;
use thermocline_blockcache::PoolDevice;
use thermocline_ports::{Device, ScratchDevice};
use thermocline_ports_os::Disk;
use thermocline_units::{Bytes, PoolId, VolumeId};
use thermocline_volume::{
    Action, Copying, Fragment, Group, Priority, Reply, Request, RequestError, RequestId, Service,
    Settings,
};

/// A pool's devices, each under a scratch device.
pub type Look = PoolDevice<ScratchDevice<Disk>>;

/// Pieces of a read, by ascending offset; or why there are none.
pub type ReadResult = Result<Vec<Fragment>, RequestError>;

/// A group that is looked at: open in memory, its devices as they were.
pub struct Inspection<'w> {
    group: Group,
    opener: &'w DeviceOpener<ScratchDevice<Disk>>,
    devices: Vec<Option<Look>>,
}

impl<'w> Inspection<'w> {
    /// Recovers the group that `members` hold, in memory. Its service is ready or failed
    /// afterwards.
    ///
    /// # Errors
    /// When the kernel refuses to wait for a device.
    pub fn open(
        settings: Settings,
        opener: &'w DeviceOpener<ScratchDevice<Disk>>,
        members: Members<'_, Look>,
        damage: Damage,
    ) -> Result<Inspection<'w>, StartError> {
        let seats = members.devices.into_iter();
        let devices: Vec<Option<Look>> = seats.map(|seat| seat.map(|(device, _)| device)).collect();
        let geometries: Vec<_> =
            devices.iter().map(|device| device.as_ref().map(Device::geometry)).collect();
        let group = damage.open(settings, &geometries);
        let mut inspection = Inspection { group, opener, devices };
        inspection.run(|group| *group.service() != Service::Opening)?;
        Ok(inspection)
    }

    /// The group as recovery left it.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// Reads what volumes hold and verifies it, but for what is across a network; findings are the
    /// group's.
    ///
    /// # Errors
    /// When the kernel refuses to wait for a device.
    pub fn scrub(&mut self) -> Result<(), StartError> {
        self.group.scrub(self.opener.now());
        self.run(|group| !group.scrub_status().running)
    }

    /// The group, when no more is read.
    pub fn into_group(self) -> Group {
        self.group
    }

    /// Reads `range` of a volume, bytes, in reads of `step`, as many at once as
    /// the group takes. What each read brought, in order.
    ///
    /// # Errors
    /// When the kernel refuses to wait for a device.
    pub fn read(
        &mut self,
        volume: VolumeId,
        range: Range<u64>,
        step: u32,
    ) -> Result<Vec<ReadResult>, StartError> {
        let starts: Vec<u64> = range.clone().step_by(step as usize).collect();
        let mut contents: Vec<Option<ReadResult>> = vec![None; starts.len()];
        let (mut asked, mut replies) = (0, Vec::new());
        while contents.iter().any(Option::is_none) {
            while let Some(&start) = starts.get(asked) {
                let length = (range.end - start).min(u64::from(step)) as u32;
                let action = Action::Read { offset: Bytes(start), length };
                let id = RequestId(asked as u64);
                let request = Request { id, volume, action, priority: Priority::default() };
                if self.group.submit(self.opener.now(), request).is_err() {
                    break; // as soon as others are done
                }
                asked += 1;
            }
            self.step()?;
            self.group.take_replies(&mut replies);
            for Reply { id, result } in replies.drain(..) {
                contents[id.0 as usize] = Some(result);
            }
        }
        Ok(contents.into_iter().flatten().collect())
    }

    fn run(&mut self, done: impl Fn(&Group) -> bool) -> Result<(), StartError> {
        while !done(&self.group) {
            self.step()?;
        }
        Ok(())
    }

    /// Requests to the devices, answers to the group; waits for a device when there are none.
    fn step(&mut self) -> Result<(), StartError> {
        let now = self.opener.now();
        let (mut ios, mut done) = (Vec::new(), Vec::new());
        self.group.take_io(&mut ios);
        let mut moved = !ios.is_empty();
        for (PoolId(pool), ticket, io) in ios {
            let device = self.devices[usize::from(pool)].as_mut();
            device.expect("a group asks no pool that is missing").submit(now, ticket, io);
        }
        for (index, device) in self.devices.iter_mut().enumerate() {
            let Some(device) = device else { continue };
            device.poll(now, &mut done);
            for completion in done.drain(..) {
                self.group.complete(now, PoolId(index as u16), completion);
                moved = true;
            }
        }
        if !moved {
            let all = self.devices.iter_mut().flatten().flat_map(PoolDevice::devices_mut);
            self.opener.wait(all).map_err(StartError::failed)?;
        }
        Ok(())
    }
}

/// Settings to read everything soon: nothing is held back, and long pieces are read.
pub fn at_full_speed(settings: Settings) -> Settings {
    let (piece, outstanding) = (Some(Bytes::from_mib(1)), Some(16));
    let copying = Copying { rate_per_second: None, piece, outstanding, ..settings.copying };
    Settings { copying, ..settings }
}

/// Settings under which a group that is looked at for long copies next to nothing: it would all
/// stay in memory.
pub fn at_rest(settings: Settings) -> Settings {
    let rate_per_second = Some(Bytes(1));
    let copying = Copying { rate_per_second, reserve_per_second: None, ..settings.copying };
    Settings { copying, ..settings }
}
