//! Devices of a configuration, opened: what each holds, and which pool it is.

use super::config::ADDED_POOLS_FILE;
use super::is_on_tmpfs;
use super::opener::DeviceOpener;
use super::{NamedBy, PoolConfig, StartError, is_same_place};
use crate::probe::{self, Contents, Existing, MARKS_BYTES, NotFree};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use thermocline_blockcache::{BlockCache, ORIGIN_LABEL_BYTES, PoolDevice};
use thermocline_ports::Device;
use thermocline_ports_os::OpenDeviceError;
use thermocline_units::{Bytes, PoolId};
use thermocline_volume::{MemberLabel, PoolLabel};

const _: () = assert!(MARKS_BYTES > ORIGIN_LABEL_BYTES as usize, "a pool's label is among them");

/// A pool of the configuration.
pub struct Found<'a, D> {
    /// Its description.
    pub config: &'a PoolConfig,
    /// The device with what is on it, where what shall be destroyed counts as blank; or why there
    /// is none.
    pub device: Result<(D, Contents), Absence>,
    /// Contents of its cache's device where its own device is not there; what shall be destroyed
    /// counts as blank.
    pub cache: Contents,
    /// Contents that shall be destroyed, and their paths.
    pub destroys: Vec<(&'a Path, Contents)>,
}

/// A reason that there is no device.
#[derive(Debug, Clone)]
pub enum Absence {
    /// There is nothing, and it can be made.
    Nothing(String),
    /// An unknown state: a store does not answer, or refuses.
    NoAnswer(String),
    /// There is something that cannot be opened, read or used as the configuration says. The start
    /// is refused with this, unless the group does without the pool.
    Refused(StartError),
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Absence::Nothing(reason) | Absence::NoAnswer(reason) => f.write_str(reason),
            Absence::Refused(error) => error.fmt(f),
        }
    }
}

/// Arrangement of the devices.
pub enum Arranged<'a, D> {
    /// There is no group yet.
    Fresh(Vec<Found<'a, D>>),
    /// There is one.
    Group(Members<'a, D>),
}

/// The devices of a group.
pub struct Members<'a, D> {
    /// The newest of the labels.
    pub label: PoolLabel,
    /// Devices by pool id; `None`: removed, or missing.
    pub devices: Vec<Option<(D, &'a PoolConfig)>>,
    /// Pools that the group needs and nobody has, with the reasons.
    pub missing: Vec<String>,
    /// Devices of this machine that are there and could not be opened or read, with the reasons.
    pub unread: Vec<String>,
    /// Devices that the configuration names and that are no pools, with what they are.
    pub strangers: Vec<String>,
    /// Devices that nobody wrote into a configuration, and that are no pools of the group, or no
    /// longer.
    pub forgotten: Vec<String>,
    /// Pools that the configuration names and the group has removed or given up: what is there now,
    /// and what to do.
    pub removed: Vec<String>,
}

/// Refusal of a device that the configuration names, as one of `strangers`.
pub fn refusal_of(stranger: &str) -> String {
    format!("{stranger}, and its volume group does not need it; take it out of the configuration")
}

/// Opens every device that is there, and looks what is on it, behind its cache where it has one.
/// What is on devices of `erase` counts as blank, and is noted.
///
/// # Errors
/// When a bucket cannot be opened, or what is in front of it; when `erase` names what is no device
/// of the configuration. What is wrong with other devices is in their [`Absence`].
pub fn open_all<'a, D: Device>(
    pools: &'a [PoolConfig],
    opener: &DeviceOpener<D>,
    erase: &[PathBuf],
) -> Result<Vec<Found<'a, PoolDevice<D>>>, StartError> {
    for path in erase {
        if !pools.iter().flat_map(PoolConfig::paths).any(|other| is_same_place(other, path)) {
            let text = format!("--erase {}: no pool of the configuration is there", path.display());
            return Err(StartError::input(text));
        }
    }
    pools.iter().map(|pool| look(pool, opener, erase)).collect()
}

fn look<'a, D: Device>(
    pool: &'a PoolConfig,
    opener: &DeviceOpener<D>,
    erase: &[PathBuf],
) -> Result<Found<'a, PoolDevice<D>>, StartError> {
    let mut destroys = Vec::new();
    let device = match pool.device.bucket.is_some() {
        true => look_into_bucket(pool, opener)?,
        false => match absence(&pool.device.path) {
            Some(reason) => Err(Absence::Nothing(reason)),
            None => match look_into(pool, opener, erase, &mut destroys) {
                Ok(found) => Ok(found),
                // Nobody has asked for it in so many words; the group may do without it.
                Err(error) if pool.named_by != NamedBy::Configuration => {
                    Err(Absence::NoAnswer(error.to_string()))
                }
                Err(error) => Err(Absence::Refused(error)),
            },
        },
    };
    // Its cache may be there alone, and a cache must not be made over what is there.
    let cache = match &device {
        Err(Absence::Nothing(_)) => contents_of_cache(pool, erase, &mut destroys)?,
        _ => Contents::Blank,
    };
    Ok(Found { config: pool, device, cache, destroys })
}

/// Contents of a device. What `erase` names counts as blank, and is noted in `destroys`.
fn kept_contents<'a>(
    path: &'a Path,
    erase: &[PathBuf],
    destroys: &mut Vec<(&'a Path, Contents)>,
) -> Result<Contents, StartError> {
    let contents = look_at(path)?;
    if contents == Contents::Blank || !erase.iter().any(|other| is_same_place(other, path)) {
        return Ok(contents);
    }
    destroys.push((path, contents));
    Ok(Contents::Blank)
}

/// Contents of the device of a pool's cache, as [`kept_contents`]; blank where there is none.
fn contents_of_cache<'a>(
    pool: &'a PoolConfig,
    erase: &[PathBuf],
    destroys: &mut Vec<(&'a Path, Contents)>,
) -> Result<Contents, StartError> {
    match &pool.cache {
        Some(cache) if absence(&cache.device.path).is_none() => {
            kept_contents(&cache.device.path, erase, destroys)
        }
        _ => Ok(Contents::Blank),
    }
}

/// A pool whose device is there.
fn look_into<'a, D: Device>(
    pool: &'a PoolConfig,
    opener: &DeviceOpener<D>,
    erase: &[PathBuf],
    destroys: &mut Vec<(&'a Path, Contents)>,
) -> Result<(PoolDevice<D>, Contents), StartError> {
    let device = (opener.open)(&pool.device).map_err(StartError::failed)?;
    let contents = kept_contents(&pool.device.path, erase, destroys)?;
    let of_cache = match contents {
        Contents::Blank => contents_of_cache(pool, erase, destroys)?,
        _ => Contents::Blank,
    };
    let head = at(&pool.device.path, head_of(&pool.device.path))?;
    behind_cache(pool, opener, device, &Sight { contents, of_cache, head })
}

/// A pool whose device is in a bucket: a reason when there is nothing yet, or nobody answers.
fn look_into_bucket<D: Device>(
    pool: &PoolConfig,
    opener: &DeviceOpener<D>,
) -> Result<Result<(PoolDevice<D>, Contents), Absence>, StartError> {
    let device = match (opener.open)(&pool.device) {
        Ok(device) => device,
        Err(OpenDeviceError::Bucket { path, source }) if source.is_nothing() => {
            let reason = format!("{} holds nothing yet", path.display());
            return Ok(Err(Absence::Nothing(reason)));
        }
        Err(OpenDeviceError::Bucket { path, source }) if source.is_unreachable() => {
            let reason = format!("{} cannot be asked: {source}", path.display());
            return Ok(Err(Absence::NoAnswer(reason)));
        }
        Err(error) => return Err(StartError::failed(error)),
    };
    let mut device = PoolDevice::Bare(device);
    let head = match opener.read(&mut device, MARKS_BYTES) {
        Ok(head) => head,
        Err(error) => {
            let name = pool.device.path.display();
            let reason = format!("{name}: its first objects cannot be read: {error}");
            return Ok(Err(Absence::NoAnswer(reason)));
        }
    };
    let PoolDevice::Bare(device) = device else { unreachable!("it was just made so") };
    let contents = Contents::of_head(&head);
    let cache = pool.cache.as_ref().filter(|cache| absence(&cache.device.path).is_none());
    let of_cache = match cache.filter(|_| contents == Contents::Blank) {
        Some(cache) => look_at(&cache.device.path)?,
        None => Contents::Blank,
    };
    behind_cache(pool, opener, device, &Sight { contents, of_cache, head }).map(Ok)
}

/// Findings about a pool's devices before they are put together.
struct Sight {
    /// Contents of its device.
    contents: Contents,
    /// Contents of the device of a block cache that would be made in front of it.
    of_cache: Contents,
    /// First bytes of its device.
    head: Vec<u8>,
}

/// A device with the cache that belongs in front of it, if one does.
fn behind_cache<D: Device>(
    pool: &PoolConfig,
    opener: &DeviceOpener<D>,
    device: D,
    sight: &Sight,
) -> Result<(PoolDevice<D>, Contents), StartError> {
    let name = pool.device.path.display();
    let state = sight.contents.clone();
    let Some(cache) = &pool.cache else { return Ok((PoolDevice::Bare(device), state)) };
    match state {
        // A first start was cut off while it made the two: it is begun again.
        Contents::CacheHalf | Contents::Blank
            if is_unfinished(&cache.device.path, &sight.head)? =>
        {
            return Ok((PoolDevice::Bare(device), Contents::Blank));
        }
        Contents::CacheHalf if absence(&cache.device.path).is_none() => {}
        Contents::Pool(_) => {
            let text = format!(
                "{name} is a pool without a block cache, and a cache can only be put in front of a \
                 new one; take `cache` out of the configuration"
            );
            return Err(StartError::input(text));
        }
        Contents::Blank if absence(&cache.device.path).is_none() => {
            refuse_contents(&cache.device.path, &sight.of_cache)?;
            return Ok((PoolDevice::Bare(device), state));
        }
        _ => return Ok((PoolDevice::Bare(device), state)),
    }
    let fast = (opener.open)(&cache.device).map_err(StartError::failed)?;
    let failed = |error| {
        StartError::Failed(format!("{name} behind {}: {error}", cache.device.path.display()))
    };
    let opened =
        BlockCache::open(opener.now(), fast, device, cache.settings.clone()).map_err(failed)?;
    let mut device = opener.settle(opened).map_err(StartError::failed)?.map_err(failed)?;
    let head = opener.read(&mut device, MARKS_BYTES).map_err(StartError::failed)?;
    let state = match Contents::of_head(&head) {
        // A cache does not stand behind another one.
        Contents::CacheHalf => Contents::Foreign("a block cache behind a block cache".to_string()),
        // Blank: the pair was made, and the group on it was not: a first start that was cut off.
        state => state,
    };
    Ok((device, state))
}

/// Refuses a device for a new pool, or a new block cache, that is in use or holds something.
pub(crate) fn refuse_contents(path: &Path, contents: &Contents) -> Result<(), StartError> {
    let name = path.display();
    probe::check_free(path, contents, Existing::Keep).map_err(|error| match &error {
        NotFree::Occupied { contents: Contents::DamagedPool, .. } => StartError::Input(format!(
            "{error}; bring its companions back, or see what can be saved with `thermocline check \
             --salvage`. Only if nothing on it is needed: --erase {name} destroys it"
        )),
        NotFree::Occupied { .. } => StartError::Input(format!(
            "{error}. Name another device, or say that this may be destroyed: --erase {name}"
        )),
        _ => StartError::failed(error),
    })
}

/// The reason that there is nothing to open; none when there is something.
fn absence(path: &Path) -> Option<String> {
    let name = path.display();
    let target = std::fs::read_link(path).ok();
    match (std::fs::metadata(path), target) {
        (Ok(metadata), _) if metadata.is_file() && metadata.len() == 0 => {
            Some(format!("{name} is missing or empty"))
        }
        (Ok(_), _) => None,
        // A folder on the way that may not be entered, or a file system that does not answer, is
        // no sign that there is nothing.
        (Err(error), _) if error.kind() != io::ErrorKind::NotFound => None,
        (Err(_), Some(target)) if is_on_tmpfs(path) => Some(format!(
            "{name} is missing or empty: it was in memory, as {}, and went with a reboot",
            target.display()
        )),
        (Err(_), Some(target)) => {
            Some(format!("{name} is missing or empty: it is a link to {}", target.display()))
        }
        (Err(_), None) => Some(format!("{name} is missing or empty")),
    }
}

/// True if a cache's device and the device behind it, which begins with `head`, are what the making
/// of a block cache left that was cut off.
fn is_unfinished(cache: &Path, head: &[u8]) -> Result<bool, StartError> {
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
fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, StartError> {
    result.map_err(|error| StartError::Failed(format!("{}: {error}", path.display())))
}

/// Reads a device's start and end.
fn look_at(path: &Path) -> Result<Contents, StartError> {
    at(path, Contents::of_path(path))
}

/// First bytes of a device.
fn head_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(MARKS_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Finds out which device is which pool.
///
/// # Errors
/// When devices belong to different groups, one is not part of the group, is there twice, is
/// smaller than its pool, or cannot be opened although the group may need it.
pub fn arrange<D: Device>(found: Vec<Found<'_, D>>) -> Result<Arranged<'_, D>, StartError> {
    let labels = || {
        found.iter().filter_map(|found| match &found.device {
            Ok((_, Contents::Pool(label))) => Some((label, found.config)),
            _ => None,
        })
    };
    let Some((newest, first)) = labels().max_by_key(|(label, _)| label.sequence) else {
        let refused = found.iter().find_map(|found| match &found.device {
            Err(Absence::Refused(error)) => Some(error.clone()),
            _ => None,
        });
        if let Some(error) = refused {
            return Err(error);
        }
        // What is busy may be the group: then that is said, and nothing is made.
        let busy = |f: &Found<'_, D>| matches!(f.device, Err(Absence::NoAnswer(_)));
        let recorded = found.iter().find(|f| f.config.named_by == NamedBy::Record);
        match recorded.filter(|_| !found.iter().any(busy)) {
            Some(recorded) => return Err(lost_group(recorded.config)),
            None => return Ok(Arranged::Fresh(found)),
        }
    };
    if let Some((path, _)) = found.iter().find_map(|found| found.destroys.first()) {
        let text = format!(
            "--erase {}: the volume group is there already, and a start does not make new pools; \
             `thermocline pool add` does, and takes --erase",
            path.display()
        );
        return Err(StartError::input(text));
    }
    if let Some((_, other)) = labels().find(|(label, _)| label.identity != newest.identity) {
        let text = format!(
            "{} and {} belong to different volume groups; name the devices of one",
            first.device.path.display(),
            other.device.path.display()
        );
        return Err(StartError::input(text));
    }
    let mut devices = Vec::new();
    devices.resize_with(newest.members.len(), || None);
    let (missing, unread, strangers) = (Vec::new(), Vec::new(), Vec::new());
    let (forgotten, removed) = (Vec::new(), Vec::new());
    let label = newest.clone();
    let mut members = Members { label, devices, missing, unread, strangers, forgotten, removed };
    for found in found {
        take(&mut members, found)?;
    }
    let others = [&members.strangers[..], &members.forgotten, &members.removed].concat();
    members.missing = missing_of(&members.label, &members.devices, &others);
    Ok(Arranged::Group(members))
}

/// Puts a device of the configuration where it belongs: to its pool, or to what is no pool of the
/// group.
fn take<'a, D: Device>(
    members: &mut Members<'a, D>,
    Found { config, device, .. }: Found<'a, D>,
) -> Result<(), StartError> {
    let path = config.device.path.display();
    // Its device is not missed: it was taken away, or has another use.
    let gone = |member: &MemberLabel| !member.wanted && member.name == config.name;
    let has_left = members.label.members.iter().any(gone);
    let found = match device {
        Err(Absence::Refused(error)) if !has_left => return Err(error),
        Ok((device, Contents::Pool(own))) => {
            seat(&mut members.devices, &members.label, &own, device, config)?;
            let member = &members.label.members[usize::from(own.pool.0)];
            if !member.wanted && config.named_by == NamedBy::Configuration {
                members.removed.push(removal(&format!("{path} is left over"), &member.name));
            }
            return Ok(());
        }
        Ok((_, Contents::DamagedPool)) => {
            format!("{path} has a superblock that is damaged, or of another version")
        }
        Ok((_, Contents::CacheHalf)) => half(config),
        Ok((_, Contents::Blank | Contents::Store | Contents::Foreign(_))) => {
            format!("{path} holds no pool")
        }
        Err(absence) => {
            if matches!(absence, Absence::NoAnswer(_)) && config.device.bucket.is_none() {
                members.unread.push(absence.to_string());
            }
            absence.to_string()
        }
    };
    match config.named_by {
        NamedBy::Default | NamedBy::Record => members.forgotten.push(found),
        NamedBy::Configuration if has_left => {
            members.removed.push(removal(&found, &config.name));
        }
        NamedBy::Configuration => members.strangers.push(found),
    }
    Ok(())
}

/// Note on a pool of the configuration that the group has no more.
fn removal(found: &str, name: &str) -> String {
    format!(
        "{found}; the volume group has removed pool `{name}`, or given it up: take it out of the \
         configuration"
    )
}

/// Refusal of a first start beside the record of another group's pools.
fn lost_group(recorded: &PoolConfig) -> StartError {
    StartError::Input(format!(
        "no device holds a pool, although pools were added to a group here ({} among them, on {}): \
         its devices are not there, or cannot be read. Bring them back. Only if that group is not \
         needed any more: move {ADDED_POOLS_FILE} out of the data folder, and a new group is made",
        recorded.name,
        recorded.device.path.display()
    ))
}

/// Puts a device where its label says.
fn seat<'a, D: Device>(
    devices: &mut [Option<(D, &'a PoolConfig)>],
    newest: &PoolLabel,
    own: &PoolLabel,
    device: D,
    config: &'a PoolConfig,
) -> Result<(), StartError> {
    let path = config.device.path.display();
    let PoolId(id) = own.pool;
    let Some(seat) = devices.get_mut(usize::from(id)) else {
        let text = format!("{path} says it is pool {id}, which its group does not have");
        return Err(StartError::input(text));
    };
    let member = &newest.members[usize::from(id)];
    if let Some((_, other)) = seat {
        let other = other.device.path.display();
        let text = format!("{other} and {path} are both pool {id}; one is a copy, take it out");
        return Err(StartError::input(text));
    }
    let size = device.geometry().size;
    if member.wanted && size < member.bytes {
        let text = format!(
            "{path} has {} bytes, and its pool `{}` needs {}: it was cut short; bring it back whole",
            size.0, member.name, member.bytes.0
        );
        return Err(StartError::input(text));
    }
    if member.wanted {
        *seat = Some((device, config));
    }
    Ok(())
}

/// Pools that nobody has, with what was found instead.
fn missing_of<D>(label: &PoolLabel, devices: &[Option<D>], strangers: &[String]) -> Vec<String> {
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
pub fn expected_size<D: Device>(found: &Found<'_, D>) -> Option<Bytes> {
    match &found.device {
        Ok((device, _)) => Some(device.geometry().size),
        Err(_) => {
            let label = if found.config.cache.is_some() { ORIGIN_LABEL_BYTES } else { 0 };
            found.config.device.size.map(|size| Bytes(size.0.saturating_sub(label)))
        }
    }
}

/// Advice on a device that lacks its companion.
pub(super) fn half(pool: &PoolConfig) -> String {
    if let Some(reason) = pool.cache.as_ref().and_then(|cache| absence(&cache.device.path)) {
        return format!("{reason}, and {} is of no use without it", pool.device.path.display());
    }
    format!(
        "{} belongs to a pool with a block cache, and is of no use alone; give pool `{}` its `cache`",
        pool.device.path.display(),
        pool.name
    )
}
