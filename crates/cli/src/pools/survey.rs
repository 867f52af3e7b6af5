//! What is on the devices of a configuration, and which pool each of them is.

use super::is_on_tmpfs;
use super::ways::Ways;
use crate::config::{Config, PoolConfig};
use crate::error::CliError;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use thermocline_blockcache::{BlockCache, ORIGIN_LABEL_BYTES, PoolDevice};
use thermocline_ports::Device;
use thermocline_ports_os::OpenDeviceError;
use thermocline_units::{Bytes, PoolId};
use thermocline_volume::{LABEL_BYTES, Label, PoolLabel};

/// So much of a device's start and end must be zeroes before a pool is made on it: file systems,
/// partition tables and other volume managers have their marks there.
const MARKS_BYTES: usize = 128 << 10;

const _: () = assert!(MARKS_BYTES > ORIGIN_LABEL_BYTES as usize, "a pool's label is among them");

/// What is on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// Zeroes where marks would be.
    Blank,
    /// A pool.
    Pool(PoolLabel),
    /// A pool whose superblocks are torn, rotten, or of another version.
    Unreadable,
    /// One of the two devices of a pool with a block cache.
    Half,
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

/// Opens every device that is there, and looks what is on it, behind its cache where it has one.
///
/// # Errors
/// When a device is there and cannot be opened or read, or a pool and its cache do not belong
/// together.
pub(crate) fn survey<'a, D: Device>(
    config: &'a Config,
    ways: &Ways<D>,
) -> Result<Vec<Found<'a, PoolDevice<D>>>, CliError> {
    let found = config.pools.iter().map(|pool| {
        let device = match pool.device.bucket.is_some() {
            true => look_into_bucket(pool, ways)?,
            false => match absence(&pool.device.path) {
                Some(reason) => Err(reason),
                None => Ok(look_into(pool, ways)?),
            },
        };
        Ok(Found { config: pool, device })
    });
    found.collect()
}

/// A pool whose device is there.
fn look_into<D: Device>(
    pool: &PoolConfig,
    ways: &Ways<D>,
) -> Result<(PoolDevice<D>, State), CliError> {
    let device = (ways.open)(&pool.device).map_err(CliError::failed)?;
    let state = look_at(&pool.device.path)?;
    let head = at(&pool.device.path, head_of(&pool.device.path))?;
    behind_cache(pool, ways, device, state, &head)
}

/// A pool whose device is in a bucket: a reason when there is nothing yet, or nobody answers.
fn look_into_bucket<D: Device>(
    pool: &PoolConfig,
    ways: &Ways<D>,
) -> Result<Result<(PoolDevice<D>, State), String>, CliError> {
    let device = match (ways.open)(&pool.device) {
        Ok(device) => device,
        Err(OpenDeviceError::Bucket { path, source }) if source.is_nothing() => {
            return Ok(Err(format!("{} holds nothing yet", path.display())));
        }
        Err(OpenDeviceError::Bucket { path, source }) if source.is_unreachable() => {
            return Ok(Err(format!("{} cannot be asked: {source}", path.display())));
        }
        Err(error) => return Err(CliError::failed(error)),
    };
    let mut device = PoolDevice::Bare(device);
    let head = match ways.read(&mut device, MARKS_BYTES) {
        Ok(head) => head,
        Err(error) => {
            let name = pool.device.path.display();
            return Ok(Err(format!("{name}: its first objects cannot be read: {error}")));
        }
    };
    let PoolDevice::Bare(device) = device else { unreachable!("it was just made so") };
    behind_cache(pool, ways, device, state_of(&head), &head).map(Ok)
}

/// What a device's first bytes say.
fn state_of(head: &[u8]) -> State {
    match Label::read(&head[..head.len().min(LABEL_BYTES)]) {
        Label::Pool(label) => State::Pool(label),
        Label::Unreadable => State::Unreadable,
        Label::Nothing if thermocline_blockcache::is_labelled(head) => State::Half,
        Label::Nothing if head.iter().all(|&byte| byte == 0) => State::Blank,
        Label::Nothing => State::Strange,
    }
}

/// A device with the cache that belongs in front of it, if one does; `head` is how it begins.
fn behind_cache<D: Device>(
    pool: &PoolConfig,
    ways: &Ways<D>,
    device: D,
    state: State,
    head: &[u8],
) -> Result<(PoolDevice<D>, State), CliError> {
    let name = pool.device.path.display();
    let Some(cache) = &pool.cache else { return Ok((PoolDevice::Bare(device), state)) };
    match state {
        // A first start was cut off while it made the two: it is begun again.
        State::Half | State::Blank if is_unfinished(&cache.device.path, head)? => {
            return Ok((PoolDevice::Bare(device), State::Blank));
        }
        State::Half if absence(&cache.device.path).is_none() => {}
        State::Pool(_) => {
            let text = format!(
                "{name} is a pool without a block cache, and a cache can only be put in front of a \
                 new one; take `cache` out of the configuration"
            );
            return Err(CliError::input(text));
        }
        State::Blank if absence(&cache.device.path).is_none() => {
            if look_at(&cache.device.path)? != State::Blank {
                let name = cache.device.path.display();
                let text = format!(
                    "{name} has something on it, and is to be a new block cache; name another \
                     device, or erase this one's contents (blkdiscard -z, or a new file)"
                );
                return Err(CliError::input(text));
            }
            return Ok((PoolDevice::Bare(device), state));
        }
        _ => return Ok((PoolDevice::Bare(device), state)),
    }
    let fast = (ways.open)(&cache.device).map_err(CliError::failed)?;
    let failed =
        |error| CliError::failed(format!("{name} behind {}: {error}", cache.device.path.display()));
    let opened = BlockCache::open(ways.now(), fast, device, cache.settings).map_err(failed)?;
    let mut device = ways.settle(opened).map_err(CliError::failed)?.map_err(failed)?;
    let head = ways.read(&mut device, MARKS_BYTES).map_err(CliError::failed)?;
    let state = match state_of(&head) {
        // A cache does not stand behind another one.
        State::Half => State::Strange,
        // Blank: the pair was made, and the group on it was not: a first start that was cut off.
        state => state,
    };
    Ok((device, state))
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

/// Whether a cache's device and the device behind it, which begins with `head`, are what the making
/// of a block cache left that was cut off.
fn is_unfinished(cache: &Path, head: &[u8]) -> Result<bool, CliError> {
    if absence(cache).is_some() {
        return Ok(false);
    }
    let look = || -> io::Result<bool> {
        let mut file = File::open(cache)?;
        let size = Bytes(file.seek(SeekFrom::End(0))?);
        thermocline_blockcache::is_unfinished(size, head, |offset, into| {
            file.seek(SeekFrom::Start(offset.0))?;
            file.read_exact(into)
        })
    };
    at(cache, look())
}

/// An error with its path.
fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, CliError> {
    result.map_err(|error| CliError::failed(format!("{}: {error}", path.display())))
}

/// Reads a device's start and end.
fn look_at(path: &Path) -> Result<State, CliError> {
    at(path, marks(path))
}

/// How a device begins.
fn head_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(MARKS_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

fn marks(path: &Path) -> io::Result<State> {
    let state = state_of(&head_of(path)?);
    if state != State::Blank {
        return Ok(state);
    }
    let mut file = File::open(path)?;
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(MARKS_BYTES as u64)))?;
    let mut tail = Vec::new();
    file.take(MARKS_BYTES as u64).read_to_end(&mut tail)?;
    let blank = tail.iter().all(|&byte| byte == 0);
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
            first.device.path.display(),
            other.device.path.display()
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
                config.device.path.display()
            )),
            Ok((_, State::Half)) => strangers.push(half(config)),
            Ok((_, State::Blank | State::Strange)) => {
                strangers.push(format!("{} holds no pool", config.device.path.display()));
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
    let path = config.device.path.display();
    let PoolId(id) = own.pool;
    let Some(seat) = devices.get_mut(usize::from(id)) else {
        let text = format!("{path} says it is pool {id}, which its group does not have");
        return Err(CliError::input(text));
    };
    let member = &newest.members[usize::from(id)];
    if let Some((_, other)) = seat {
        let other = other.device.path.display();
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
        Err(_) => {
            let label = if found.config.cache.is_some() { ORIGIN_LABEL_BYTES } else { 0 };
            found.config.device.size.map(|size| Bytes(size.0.saturating_sub(label)))
        }
    }
}

/// What to say about a device that lacks its companion.
pub(crate) fn half(pool: &PoolConfig) -> String {
    if let Some(reason) = pool.cache.as_ref().and_then(|cache| absence(&cache.device.path)) {
        return format!("{reason}, and {} is of no use without it", pool.device.path.display());
    }
    format!(
        "{} belongs to a pool with a block cache, and is of no use alone; give pool `{}` its `cache`",
        pool.device.path.display(),
        pool.name
    )
}
