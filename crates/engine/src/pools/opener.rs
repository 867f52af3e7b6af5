//! Opening of devices, and waiting for them: as an engine does it, or only to look.

use super::DeviceConfig;
use crate::probe;
use std::io;
use std::time::Instant;
use thermocline_blockcache::{BlockCache, OpenError, PoolDevice};
use thermocline_ports::{Device, Io, ScratchDevice, Ticket};
use thermocline_ports_os::objects::{ObjectDevice, ObjectSettings, Purpose};
use thermocline_ports_os::{Disk, OpenDeviceError, OpenOptions};
use thermocline_units::{Bytes, Nanos};

/// Opens devices that are there, and waits for them.
pub struct DeviceOpener<D> {
    pub(super) open: fn(&DeviceConfig) -> Result<D, OpenDeviceError>,
    wait: fn(&mut D) -> io::Result<()>,
    /// Beginning of the devices' clock.
    pub started: Instant,
}

/// Opens a device for an engine; makes a file of size `create` where there is none.
pub(super) fn open(device: &DeviceConfig, create: Option<Bytes>) -> Result<Disk, OpenDeviceError> {
    if device.bucket.is_some() {
        return open_bucket(device, Purpose::Run);
    }
    if let Some(by) = probe::use_of(&device.path) {
        return Err(OpenDeviceError::Used { path: device.path.clone(), by });
    }
    let options = OpenOptions { create, buffered: device.buffered, patience: device.patience };
    Disk::open(&device.path, options, device.emulate.as_ref().map(|emulation| &emulation.profile))
}

/// Opens, makes, or looks at a device in a bucket.
///
/// # Panics
/// When the device is in none.
pub(super) fn open_bucket(
    device: &DeviceConfig,
    purpose: Purpose,
) -> Result<Disk, OpenDeviceError> {
    let bucket = device.bucket.as_ref().expect("only devices in buckets are opened there");
    let memory = Some(bucket.memory.clone());
    let settings = ObjectSettings::new(bucket.buffer, bucket.read_ahead, bucket.patience, memory);
    match ObjectDevice::open(&bucket.options, &settings, purpose) {
        Ok(objects) => Ok(Disk::Objects(Box::new(objects))),
        Err(source) => {
            let (path, source) = (device.path.clone(), Box::new(source));
            Err(OpenDeviceError::Bucket { path, source })
        }
    }
}

/// Opens a device without changing it.
fn open_to_look(device: &DeviceConfig) -> Result<Disk, OpenDeviceError> {
    match device.bucket {
        Some(_) => open_bucket(device, Purpose::Look),
        None => Disk::open_to_read(&device.path),
    }
}

impl DeviceOpener<Disk> {
    /// An opener of devices to run on.
    pub(crate) fn to_run() -> DeviceOpener<Disk> {
        DeviceOpener {
            open: |device| open(device, None),
            wait: Disk::wait,
            started: Instant::now(),
        }
    }
}

impl DeviceOpener<ScratchDevice<Disk>> {
    /// An opener of devices to look at; what is written stays in memory.
    pub fn to_look() -> DeviceOpener<ScratchDevice<Disk>> {
        DeviceOpener {
            open: |device| open_to_look(device).map(ScratchDevice::new),
            wait: |scratch| scratch.device_mut().wait(),
            started: Instant::now(),
        }
    }
}

impl<D: Device> DeviceOpener<D> {
    /// Time by the devices' clock.
    pub fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.started.elapsed().as_nanos()).expect("584 years"))
    }

    /// Waits until something may have happened, unless the clock alone decides.
    pub fn wait<'a>(&self, devices: impl Iterator<Item = &'a mut D>) -> io::Result<()>
    where
        D: 'a,
    {
        devices.into_iter().try_for_each(|device| (self.wait)(device))
    }

    /// Waits until a cache is open.
    ///
    /// # Errors
    /// When the kernel refuses to wait, or the cache cannot be opened.
    pub fn settle(&self, cache: BlockCache<D, D>) -> io::Result<Result<PoolDevice<D>, OpenError>> {
        let mut device = PoolDevice::Cached(Box::new(cache));
        loop {
            device.poll(self.now(), &mut Vec::new());
            let PoolDevice::Cached(cache) = &device else { unreachable!("it was just made") };
            match cache.is_open() {
                Ok(true) => return Ok(Ok(device)),
                Ok(false) => self.wait(device.devices_mut())?,
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    /// The first bytes of a device.
    ///
    /// # Errors
    /// When the kernel refuses to wait, or the device to read.
    pub fn read(&self, device: &mut PoolDevice<D>, length: usize) -> io::Result<Vec<u8>> {
        let length = (length as u64).min(device.geometry().size.0) as u32;
        device.submit(self.now(), Ticket(0), Io::Read { offset: Bytes(0), length });
        let mut done = Vec::new();
        loop {
            device.poll(self.now(), &mut done);
            match done.pop() {
                Some(completion) => {
                    return completion.result.map(|head| head.to_vec()).map_err(io::Error::other);
                }
                None => self.wait(device.devices_mut())?,
            }
        }
    }
}
