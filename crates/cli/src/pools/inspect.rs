//! Opening a group without changing anything: recovery runs on overlays, its writes stay in memory.
//!
//! Devices are opened for reading, and locked as an engine locks them. The group is let go as soon
//! as recovery has ended, or what it holds has been read: what it would copy and repair is only
//! counted.

use super::salvage::Damage;
use super::survey::Members;
use super::ways::Ways;
use crate::error::CliError;
use thermocline_blockcache::PoolDevice;
use thermocline_ports::{Device, Overlay};
use thermocline_ports_os::Disk;
use thermocline_units::{Bytes, Nanos, PoolId};
use thermocline_volume::{Copying, Group, Service, Settings};

/// A pool's devices under overlays.
pub(crate) type Look = PoolDevice<Overlay<Disk>>;

/// Depth of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Superblocks, checkpoints, journal.
    Metadata,
    /// Contents of chunks as well, but for what is across a network only.
    Contents,
}

/// Recovers the group that `members` hold, in memory. Its service is ready or failed afterwards.
///
/// # Errors
/// When the kernel refuses to wait for a device.
pub(crate) fn inspect(
    settings: Settings,
    ways: &Ways<Overlay<Disk>>,
    members: Members<'_, Look>,
    damage: Damage,
    depth: Depth,
) -> Result<Group, CliError> {
    let seats = members.devices.into_iter();
    let mut devices: Vec<Option<Look>> = seats.map(|seat| seat.map(|(device, _)| device)).collect();
    let geometries: Vec<_> =
        devices.iter().map(|device| device.as_ref().map(Device::geometry)).collect();
    let mut group = damage.open(at_full_speed(settings), &geometries);
    let mut asked = depth == Depth::Metadata;
    while *group.service() == Service::Opening || group.scrub_status().running || !asked {
        if *group.service() != Service::Opening && !std::mem::replace(&mut asked, true) {
            group.scrub(ways.now());
            continue;
        }
        let moved = step(&mut group, &mut devices, ways.now());
        if !moved && (*group.service() == Service::Opening || group.scrub_status().running) {
            let all = devices.iter_mut().flatten().flat_map(PoolDevice::devices_mut);
            ways.wait(all).map_err(CliError::failed)?;
        }
    }
    Ok(group)
}

/// Nobody else reads: nothing is held back, and long pieces are read.
fn at_full_speed(settings: Settings) -> Settings {
    let (piece, outstanding) = (Bytes::from_mib(1), 16);
    let copying = Copying { rate_per_second: None, piece, outstanding, ..settings.copying };
    Settings { copying, ..settings }
}

/// Requests to the devices, answers to the group; whether there were any.
fn step(group: &mut Group, devices: &mut [Option<Look>], now: Nanos) -> bool {
    let (mut ios, mut done) = (Vec::new(), Vec::new());
    group.take_io(&mut ios);
    let mut moved = !ios.is_empty();
    for (PoolId(pool), ticket, io) in ios {
        let device = devices[usize::from(pool)].as_mut();
        device.expect("a group asks no pool that is missing").submit(now, ticket, io);
    }
    for (index, device) in devices.iter_mut().enumerate() {
        let Some(device) = device else { continue };
        device.poll(now, &mut done);
        for completion in done.drain(..) {
            group.complete(now, PoolId(index as u16), completion);
            moved = true;
        }
    }
    moved
}
