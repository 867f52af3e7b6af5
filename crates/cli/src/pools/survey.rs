//! What is on the devices of a configuration, and which pool each of them is.

use super::is_on_tmpfs;
use crate::config::{Config, PoolConfig};
use crate::error::CliError;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use thermocline_ports::Device;
use thermocline_ports_os::OpenDeviceError;
use thermocline_units::{Bytes, PoolId};
use thermocline_volume::{LABEL_BYTES, Label, PoolLabel};

/// So much of a device's start and end must be zeroes before a pool is made on it: file systems,
/// partition tables and other volume managers have their marks there.
const MARKS_BYTES: usize = 128 << 10;

/// What is on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Zeroes where marks would be.
    Blank,
    /// A pool.
    Pool(PoolLabel),
    /// A pool whose superblocks are torn, rotten, or of another version.
    Unreadable,
    /// Something else.
    Strange,
}

/// A pool of the configuration.
pub(crate) struct Found<'a, D> {
    pub(crate) config: &'a PoolConfig,
    /// The device with what is on it; or why there is none.
    pub(crate) device: Result<(D, State), String>,
}

/// What the devices come to.
pub(crate) enum Arranged<'a, D> {
    /// There is no group yet.
    Fresh(Vec<Found<'a, D>>),
    /// There is one.
    Group(Members<'a, D>),
}

/// The devices of a group.
pub(crate) struct Members<'a, D> {
    /// The newest of the labels.
    pub(crate) label: PoolLabel,
    /// By pool id; none: removed, or missing.
    pub(crate) devices: Vec<Option<(D, &'a PoolConfig)>>,
    /// What the group needs and nobody has, with the reason.
    pub(crate) missing: Vec<String>,
    /// What the configuration names and is no pool, with what it is.
    pub(crate) strangers: Vec<String>,
}

/// Opens every device that is there with `open`, and looks what is on it.
///
/// # Errors
/// When a device is there and cannot be opened or read.
pub(crate) fn survey<D>(
    config: &Config,
    mut open: impl FnMut(&PoolConfig) -> Result<D, OpenDeviceError>,
) -> Result<Vec<Found<'_, D>>, CliError> {
    let found = config.pools.iter().map(|pool| {
        let device = match absence(&pool.path) {
            Some(reason) => Err(reason),
            None => {
                let device = open(pool).map_err(CliError::failed)?;
                let state = look_at(&pool.path).map_err(|error| {
                    CliError::failed(format!("{}: {error}", pool.path.display()))
                })?;
                Ok((device, state))
            }
        };
        Ok(Found { config: pool, device })
    });
    found.collect()
}

/// Why there is nothing to open; none when there is.
fn absence(path: &Path) -> Option<String> {
    let name = path.display();
    let target = std::fs::read_link(path).ok();
    match (std::fs::metadata(path), target) {
        (Ok(metadata), _) if metadata.is_file() && metadata.len() == 0 => {
            Some(format!("{name} is missing or empty"))
        }
        (Ok(_), _) => None,
        (Err(_), Some(target)) if is_on_tmpfs(path) => Some(format!(
            "{name} is missing or empty: it was in memory, as {}, and went with a reboot",
            target.display()
        )),
        (Err(_), Some(target)) => {
            Some(format!("{name} is missing or empty: it is a link to {}", target.display()))
        }
        (Err(error), None) if error.kind() == io::ErrorKind::NotFound => {
            Some(format!("{name} is missing or empty"))
        }
        // There is something, and opening it will say what is wrong with it.
        (Err(_), None) => None,
    }
}

/// Reads a device's start and end.
fn look_at(path: &Path) -> io::Result<State> {
    let mut file = File::open(path)?;
    let mut head = Vec::new();
    Read::by_ref(&mut file).take(MARKS_BYTES as u64).read_to_end(&mut head)?;
    match Label::read(&head[..head.len().min(LABEL_BYTES)]) {
        Label::Pool(label) => return Ok(State::Pool(label)),
        Label::Unreadable => return Ok(State::Unreadable),
        Label::Nothing => {}
    }
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(MARKS_BYTES as u64)))?;
    let mut tail = Vec::new();
    file.take(MARKS_BYTES as u64).read_to_end(&mut tail)?;
    let blank = head.iter().chain(&tail).all(|&byte| byte == 0);
    Ok(if blank { State::Blank } else { State::Strange })
}

/// Finds out which device is which pool.
///
/// # Errors
/// When devices belong to different groups, one is not part of the group, is there twice, or is
/// smaller than its pool.
pub(crate) fn arrange<D: Device>(found: Vec<Found<'_, D>>) -> Result<Arranged<'_, D>, CliError> {
    let labels = || {
        found.iter().filter_map(|found| match &found.device {
            Ok((_, State::Pool(label))) => Some((label, found.config)),
            _ => None,
        })
    };
    let Some((newest, first)) = labels().max_by_key(|(label, _)| label.sequence) else {
        return Ok(Arranged::Fresh(found));
    };
    if let Some((_, other)) = labels().find(|(label, _)| label.identity != newest.identity) {
        let text = format!(
            "{} and {} belong to different volume groups; name the devices of one",
            first.path.display(),
            other.path.display()
        );
        return Err(CliError::input(text));
    }
    let label = newest.clone();
    let mut devices: Vec<Option<(D, &PoolConfig)>> = Vec::new();
    devices.resize_with(label.members.len(), || None);
    let mut strangers = Vec::new();
    for Found { config, device } in found {
        match device {
            Ok((device, State::Pool(own))) => seat(&mut devices, &label, &own, device, config)?,
            Ok((_, State::Unreadable)) => strangers.push(format!(
                "{} has a superblock that is damaged, or of another version",
                config.path.display()
            )),
            Ok((_, State::Blank | State::Strange)) => {
                strangers.push(format!("{} holds no pool", config.path.display()));
            }
            Err(reason) => strangers.push(reason),
        }
    }
    let missing = missing(&label, &devices, &strangers);
    Ok(Arranged::Group(Members { label, devices, missing, strangers }))
}

/// Puts a device where its label says.
fn seat<'a, D: Device>(
    devices: &mut [Option<(D, &'a PoolConfig)>],
    newest: &PoolLabel,
    own: &PoolLabel,
    device: D,
    config: &'a PoolConfig,
) -> Result<(), CliError> {
    let path = config.path.display();
    let PoolId(id) = own.pool;
    let Some(seat) = devices.get_mut(usize::from(id)) else {
        let text = format!("{path} says it is pool {id}, which its group does not have");
        return Err(CliError::input(text));
    };
    let member = &newest.members[usize::from(id)];
    if let Some((_, other)) = seat {
        let other = other.path.display();
        let text = format!("{other} and {path} are both pool {id}; one is a copy, take it out");
        return Err(CliError::input(text));
    }
    let size = device.geometry().size;
    if member.wanted && size < member.bytes {
        let text = format!(
            "{path} has {} bytes, and its pool `{}` needs {}: it was cut short; bring it back whole",
            size.0, member.name, member.bytes.0
        );
        return Err(CliError::input(text));
    }
    if member.wanted {
        *seat = Some((device, config));
    }
    Ok(())
}

/// What nobody has, with what was found instead.
fn missing<D>(label: &PoolLabel, devices: &[Option<D>], strangers: &[String]) -> Vec<String> {
    let absent = label.members.iter().zip(devices).enumerate();
    let absent = absent.filter(|(_, (member, device))| member.wanted && device.is_none());
    let found = if strangers.is_empty() {
        "the configuration does not name its device".to_string()
    } else {
        strangers.join("; ")
    };
    absent
        .map(|(id, (member, _))| {
            format!("pool `{}` (number {id}) is not there: {found}", member.name)
        })
        .collect()
}

/// Bytes that a device of this configuration would have.
pub(crate) fn expected_size<D: Device>(found: &Found<'_, D>) -> Option<Bytes> {
    match &found.device {
        Ok((device, _)) => Some(device.geometry().size),
        Err(_) => found.config.size,
    }
}
