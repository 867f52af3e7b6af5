//! Opening a configuration's devices for an engine, or making them: a first start.

use super::survey::{Arranged, Found, Members, State, arrange, expected_size, survey};
use crate::config::{Config, PoolConfig};
use crate::doors::random;
use crate::error::CliError;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use thermocline_ports::{Device, Geometry};
use thermocline_ports_os::{Disk, OpenDeviceError, OpenOptions};
use thermocline_units::{Bytes, PoolId};
use thermocline_volume::{Group, PoolSpec};

/// A group that an engine can drive.
pub(crate) struct Started {
    pub(crate) group: Group,
    /// By pool id; none: its pool was removed.
    pub(crate) disks: Vec<Option<Disk>>,
    /// Names of the pools, by id.
    pub(crate) names: Vec<String>,
}

/// Opens the devices, makes those that a first start lacks, and opens or makes the group on them.
/// With `degraded`, missing pools are given up.
///
/// # Errors
/// When a device is missing, in use, or has something else on it; when the group cannot be made of
/// these pools. Nothing is left behind that was not there before.
pub(crate) fn start(config: &Config, degraded: bool) -> Result<Started, CliError> {
    std::fs::create_dir_all(&config.data)
        .map_err(|error| CliError::failed(format!("{}: {error}", config.data.display())))?;
    match arrange(survey(config, |pool| open(pool, None))?)? {
        Arranged::Fresh(found) => first_start(config, found),
        Arranged::Group(members) => restart(config, members, degraded),
    }
}

fn open(pool: &PoolConfig, create: Option<Bytes>) -> Result<Disk, OpenDeviceError> {
    let options = OpenOptions { create, buffered: pool.buffered };
    Disk::open(&pool.path, options, pool.emulate.as_ref().map(|emulation| &emulation.profile))
}

fn restart(
    config: &Config,
    members: Members<'_, Disk>,
    degraded: bool,
) -> Result<Started, CliError> {
    if let Some(missing) = members.missing.first().filter(|_| !degraded) {
        let text = format!(
            "{missing}. Bring it back; or give it up with --degraded: chunks that are only there \
             are lost then"
        );
        return Err(CliError::input(text));
    }
    // What is given up may be there as something else, or not at all.
    let gives_up = degraded && !members.missing.is_empty();
    if let Some(stranger) = members.strangers.first().filter(|_| !gives_up) {
        let text = format!(
            "{stranger}, and its volume group does not need it; take it out of the configuration"
        );
        return Err(CliError::input(text));
    }
    let disks: Vec<_> =
        members.devices.into_iter().map(|seat| seat.map(|(disk, _)| disk)).collect();
    let geometries: Vec<_> = disks.iter().map(|disk| disk.as_ref().map(Device::geometry)).collect();
    let names = members.label.members.into_iter().map(|member| member.name).collect();
    Ok(Started { group: Group::open(config.settings, &geometries), disks, names })
}

fn first_start(config: &Config, found: Vec<Found<'_, Disk>>) -> Result<Started, CliError> {
    check_first_start(config, &found)?;
    let mut made: Vec<&Path> = Vec::new();
    let started = make(config, found, &mut made);
    if started.is_err() {
        for path in made {
            let _ = std::fs::remove_file(path); // It was empty, or was not there.
        }
    }
    started
}

fn make<'a>(
    config: &'a Config,
    found: Vec<Found<'a, Disk>>,
    made: &mut Vec<&'a Path>,
) -> Result<Started, CliError> {
    let (mut disks, mut specs) = (Vec::new(), Vec::new());
    for Found { config: pool, device } in found {
        let disk = match device {
            Ok((disk, _)) => disk,
            Err(_) => {
                made.push(&pool.path);
                open(pool, pool.size).map_err(CliError::failed)?
            }
        };
        specs.push(spec(config, pool, disk.geometry(), has_holes_only(&pool.path)));
        disks.push(Some(disk));
    }
    let group = Group::create(config.settings, &specs, random()?).map_err(CliError::input)?;
    for (disk, id) in disks.iter().flatten().zip(0..) {
        let head = group.pool_head(PoolId(id)).expect("it was just made");
        if let Err(error) = disk.allocate(head) {
            let text =
                format!("{}: no room for {head} of metadata: {error}", disk.path().display());
            return Err(CliError::failed(text));
        }
    }
    Ok(Started { group, disks, names: specs.into_iter().map(|spec| spec.name).collect() })
}

/// Everything about a first start that can be said before anything is made.
///
/// # Errors
/// When a device has something on it, a file cannot be made, or the pools do not make a group.
pub(crate) fn check_first_start<D: Device>(
    config: &Config,
    found: &[Found<'_, D>],
) -> Result<(), CliError> {
    let mut specs = Vec::new();
    for found in found {
        let path = found.config.path.display();
        match &found.device {
            Ok((_, State::Strange)) => {
                let text = format!(
                    "{path} has something on it that is no pool; name another device, or erase \
                     this one's contents (blkdiscard -z, or a new file)"
                );
                return Err(CliError::input(text));
            }
            Ok((_, State::Unreadable)) => {
                let text = format!(
                    "{path} was a pool: its superblocks are damaged, or of another version. \
                     Nothing was changed; bring its companions back, or erase it"
                );
                return Err(CliError::input(text));
            }
            _ => {}
        }
        let Some(size) = expected_size(found) else {
            let text = format!(
                "{path} does not exist, and pool `{}` has no `size` to make it with",
                found.config.name
            );
            return Err(CliError::input(text));
        };
        let geometry = Geometry { size, discard_zeroes: false };
        specs.push(spec(config, found.config, geometry, false));
    }
    Group::create(config.settings, &specs, 0).map(|_| ()).map_err(CliError::input)
}

fn spec(config: &Config, pool: &PoolConfig, geometry: Geometry, zeroed: bool) -> PoolSpec {
    let chunk_size = config.settings.chunk_size.0;
    let reserve = pool.reserve.0.div_ceil(chunk_size);
    PoolSpec {
        name: pool.name.clone(),
        geometry,
        zeroed,
        reserve_chunks: u32::try_from(reserve).unwrap_or(u32::MAX),
    }
}

/// Whether a file reads as zeroes because nothing was ever written to it.
fn has_holes_only(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.blocks() == 0)
}
