//! Opening a configuration's devices for an engine, or making them: a first start.

use super::opened::{
    Absence, Arranged, Found, Members, arrange, expected_size, half, open_all, refusal_of,
    refuse_contents,
};
use super::opener::{DeviceOpener, open, open_bucket};
use super::salvage::Damage;
use super::tmpfs::refuse_among_devices;
use super::{CacheConfig, DeviceConfig, GroupConfig, PoolConfig, StartError};
use crate::probe::{self, Contents};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use thermocline_admin::secret::random_number;
use thermocline_blockcache::{BlockCache, ORIGIN_LABEL_BYTES, PoolDevice};
use thermocline_policy::placement::PoolTraits;
use thermocline_ports::model::Profile;
use thermocline_ports::{Device, Geometry};
use thermocline_ports_os::objects::Purpose;
use thermocline_ports_os::objects::format::Shape;
use thermocline_ports_os::{Disk, take_back_file};
use thermocline_units::{Bytes, PoolId};
use thermocline_volume::{Group, PoolSpec, traits_of};

/// Profile that placements take a bucket for, unless they are told better.
const STORE: &str = "s3";

/// A group that an engine can drive.
pub struct Started {
    /// The group; recovery has not run yet.
    pub group: Group,
    /// Devices by pool id; `None`: its pool was removed.
    pub disks: Vec<Option<PoolDevice<Disk>>>,
    /// Names of the pools, by id.
    pub names: Vec<String>,
    /// Beginning of the devices' clock.
    pub clock: Instant,
}

/// Permission for a start to lose something.
#[derive(Debug, Clone, Copy, Default)]
pub struct Permission<'a> {
    /// Missing pools are given up.
    pub degraded: bool,
    /// Treatment of damaged metadata.
    pub damage: Damage,
    /// Devices whose contents are destroyed when a pool or a block cache is made there.
    pub erase: &'a [PathBuf],
}

/// The data folder, locked for as long as this is kept: one engine at a time has it.
pub struct DataFolder {
    _folder: File,
}

impl DataFolder {
    /// Makes the folder where it is missing, and locks it.
    ///
    /// # Errors
    /// When it cannot be made, or another engine runs with it.
    pub fn lock(path: &Path) -> Result<DataFolder, StartError> {
        let name = path.display();
        let failed = |error: io::Error| StartError::Failed(format!("{name}: {error}"));
        std::fs::create_dir_all(path).map_err(failed)?;
        let folder = File::open(path).map_err(failed)?;
        match rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(StartError::Failed(format!(
                "an engine is starting or running with the data folder {name}; stop that first, or \
                 give this one another folder"
            ))),
            // File systems without locks: the pools have locks of their own.
            _ => Ok(DataFolder { _folder: folder }),
        }
    }
}

/// Opens the devices, makes those that a first start lacks, and opens or makes the group on them.
/// `report` is told of contents that were destroyed because the caller permitted it, and of pools
/// that the configuration should not name any more.
///
/// # Errors
/// When a device is missing, in use, or has something else on it; when the group cannot be made of
/// these pools. Nothing is left behind that was not there before.
pub fn start(
    config: GroupConfig<'_>,
    may: Permission<'_>,
    report: fn(&str),
) -> Result<Started, StartError> {
    std::fs::create_dir_all(config.data)
        .map_err(|error| StartError::Failed(format!("{}: {error}", config.data.display())))?;
    let opener = DeviceOpener::to_run();
    match arrange(open_all(config.pools, &opener, may.erase)?)? {
        Arranged::Fresh(found) => first_start(config, &opener, found, report),
        Arranged::Group(members) => restart(config, &opener, members, (may, report)),
    }
}

fn restart(
    config: GroupConfig<'_>,
    opener: &DeviceOpener<Disk>,
    members: Members<'_, PoolDevice<Disk>>,
    (may, report): (Permission<'_>, fn(&str)),
) -> Result<Started, StartError> {
    let degraded = may.degraded;
    if let Some(missing) = members.missing.first().filter(|_| !degraded) {
        let text = format!(
            "{missing}. Bring it back; or give it up with --degraded: chunks that are only there \
             are lost then"
        );
        return Err(StartError::input(text));
    }
    // What is given up may be there as something else, or not at all.
    let gives_up = degraded && !members.missing.is_empty();
    if let Some(unread) = members.unread.first().filter(|_| gives_up) {
        let text = format!(
            "{unread}. It may be a pool that is missing, and --degraded would lose what is only \
             there: make it readable, or move it away, and start again"
        );
        return Err(StartError::Input(text));
    }
    if let Some(stranger) = members.strangers.first().filter(|_| !gives_up) {
        return Err(StartError::Input(refusal_of(stranger)));
    }
    members.removed.iter().for_each(|note| report(&format!("warning: {note}")));
    let (disks, configs): (Vec<_>, Vec<_>) = members.devices.into_iter().map(Option::unzip).unzip();
    let geometries: Vec<_> = disks.iter().map(|disk| disk.as_ref().map(Device::geometry)).collect();
    let names = members.label.members.into_iter().map(|member| member.name).collect();
    let mut group = may.damage.open(config.settings.clone(), &geometries);
    for ((id, pool), geometry) in (0..).zip(&configs).zip(&geometries) {
        let moves = pool.and_then(|pool| pool.moves_a_day);
        let budget = geometry.zip(moves).map(|(geometry, moves)| moves.of(geometry.size));
        group.set_traits(PoolId(id), pool.and_then(traits));
        group.set_pool_depth(PoolId(id), pool.and_then(|pool| pool.depth));
        group.set_wear_budget(PoolId(id), budget);
    }
    let clock = opener.started;
    Ok(Started { group, disks, names, clock })
}

/// Starts a group that is not there yet.
fn first_start(
    config: GroupConfig<'_>,
    opener: &DeviceOpener<Disk>,
    found: Vec<Found<'_, PoolDevice<Disk>>>,
    report: fn(&str),
) -> Result<Started, StartError> {
    let heads = check_first_start(config, &found)?;
    let mut made = Made::new();
    let started = make(config, opener, (found, &heads), &mut made, report);
    if started.is_err() {
        for (path, was_there) in made {
            let _ = take_back_file(path, was_there);
        }
    }
    started
}

/// Files that a start has made, or found empty; true: found.
type Made<'a> = Vec<(&'a Path, bool)>;

/// Makes the files that are missing, destroys what the others held, and makes the group. Files come
/// first: where one cannot be made, nothing was destroyed for it.
fn make<'a>(
    config: GroupConfig<'a>,
    opener: &DeviceOpener<Disk>,
    (found, heads): (Vec<Found<'a, PoolDevice<Disk>>>, &[Bytes]),
    made: &mut Made<'a>,
    report: fn(&str),
) -> Result<Started, StartError> {
    let (mut disks, mut specs, mut of) = (Vec::new(), Vec::new(), Vec::new());
    let mut files = Vec::new();
    for Found { config: pool, device, .. } in &found {
        let is_file = device.is_err() && pool.device.bucket.is_none();
        files.push(is_file.then(|| make_file(&pool.device, made)).transpose()?);
    }
    let all = found.into_iter().zip(heads).zip(files);
    for ((Found { config: pool, device, destroys, cache: _ }, head), file) in all {
        for (path, contents) in destroys {
            let failed = |error| StartError::Failed(format!("{}: {error}", path.display()));
            probe::erase(path).map_err(failed)?;
            report(&format!("{} held {contents}: destroyed, as asked", path.display()));
        }
        of.push(pool);
        let zeroed = device.is_err() || has_holes_only(&pool.device.path);
        let disk = match (device, file) {
            (Ok((disk, _)), _) => disk,
            (Err(_), Some(file)) => PoolDevice::Bare(file),
            (Err(_), None) => PoolDevice::Bare(make_in_bucket(config, pool, *head)?),
        };
        let disk = match (disk, &pool.cache) {
            (PoolDevice::Bare(disk), Some(cache)) => make_cache(opener, disk, cache, made)?,
            (disk, _) => disk,
        };
        specs.push(spec(config, pool, disk.geometry(), zeroed));
        disks.push(Some(disk));
    }
    let mut group =
        Group::create(config.settings.clone(), &specs, random()?).map_err(StartError::input)?;
    for (id, pool) in (0..).zip(of) {
        group.set_traits(PoolId(id), traits(pool));
        group.set_pool_depth(PoolId(id), pool.depth);
        let size = disks[usize::from(id)].as_ref().expect("it was just made").geometry().size;
        group.set_wear_budget(PoolId(id), pool.moves_a_day.map(|moves| moves.of(size)));
    }
    for (disk, id) in disks.iter().flatten().zip(0..) {
        let head = group.pool_head(PoolId(id)).expect("it was just made");
        give_room(disk.main(), Bytes(head.0 + ORIGIN_LABEL_BYTES))?;
    }
    let names = specs.into_iter().map(|spec| spec.name).collect();
    Ok(Started { group, disks, names, clock: opener.started })
}

/// Traits that placements take a pool for, where the configuration says them.
fn traits(pool: &PoolConfig) -> Option<PoolTraits> {
    let slowed_to = || pool.device.emulate.as_ref().map(|emulation| emulation.profile.clone());
    let store = || Profile::built_in(STORE).expect("it is built in");
    let in_bucket = || pool.device.bucket.as_ref().map(|_| store());
    pool.profile.clone().or_else(slowed_to).or_else(in_bucket).as_ref().map(traits_of)
}

/// A new device in a bucket. An extent is a chunk, and they begin alike: moving a chunk is an
/// object, not two halves.
fn make_in_bucket(
    config: GroupConfig<'_>,
    pool: &PoolConfig,
    head: Bytes,
) -> Result<Disk, StartError> {
    let extent = config.settings.chunk_size.0;
    let label = if pool.cache.is_some() { ORIGIN_LABEL_BYTES } else { 0 };
    let shape = Shape {
        size: pool.device.size.expect("a first start was checked to have it"),
        extent: u32::try_from(extent).expect("chunks are up to a GiB"),
        lead: ((head.0 + label) % extent) as u32,
    };
    open_bucket(&pool.device, Purpose::Make(random()?, shape)).map_err(StartError::failed)
}

fn make_file<'a>(device: &'a DeviceConfig, made: &mut Made<'a>) -> Result<Disk, StartError> {
    let was_there = device.path.exists();
    let disk = open(device, device.size);
    // What another start has locked is that start's, and stays when this one takes its files back.
    made.push((&device.path, was_there));
    disk.map_err(StartError::failed)
}

/// A new cache in front of a blank device. A line must never want for room.
fn make_cache<'a>(
    opener: &DeviceOpener<Disk>,
    slow: Disk,
    cache: &'a CacheConfig,
    made: &mut Made<'a>,
) -> Result<PoolDevice<Disk>, StartError> {
    let is_there = std::fs::metadata(&cache.device.path)
        .is_ok_and(|found| !found.is_file() || found.len() > 0);
    let fast = match is_there {
        true => open(&cache.device, None).map_err(StartError::failed)?,
        false => make_file(&cache.device, made)?,
    };
    give_room(&fast, fast.geometry().size)?;
    let failed = |error| StartError::Input(format!("{}: {error}", cache.device.path.display()));
    let made = BlockCache::format(opener.now(), fast, slow, random()?, cache.settings.clone());
    opener.settle(made.map_err(failed)?).map_err(StartError::failed)?.map_err(failed)
}

fn give_room(disk: &Disk, bytes: Bytes) -> Result<(), StartError> {
    disk.allocate(bytes).map_err(|error| {
        StartError::Failed(format!("{}: no room for {bytes}: {error}", disk.path().display()))
    })
}

/// Everything about a first start that can be said before anything is made: where each pool's
/// first chunk will be.
///
/// # Errors
/// When a device has something on it, a file cannot be made, or the pools do not make a group.
pub fn check_first_start<D: Device>(
    config: GroupConfig<'_>,
    found: &[Found<'_, D>],
) -> Result<Vec<Bytes>, StartError> {
    let mut specs = Vec::new();
    for found in found {
        let path = found.config.device.path.display();
        match &found.device {
            Ok((_, Contents::CacheHalf)) => return Err(StartError::input(half(found.config))),
            Ok((_, contents)) => {
                refuse_contents(&found.config.device.path, contents)?;
                refuse_size(&found.config.device)?;
            }
            // It is no first start for sure, or nothing could be made.
            Err(Absence::NoAnswer(reason)) => return Err(StartError::failed(reason)),
            Err(Absence::Refused(error)) => return Err(error.clone()),
            Err(Absence::Nothing(reason)) => {
                refuse_among_devices(&found.config.device.path).map_err(StartError::Input)?;
                refuse_lone_cache(found, reason)?;
            }
        }
        if let Some(cache) = &found.config.cache {
            refuse_among_devices(&cache.device.path).map_err(StartError::Input)?;
            if cache.device.size.is_none() && !cache.device.path.exists() {
                let text = format!(
                    "{} does not exist, and the cache of pool `{}` has no `size` to make it with",
                    cache.device.path.display(),
                    found.config.name
                );
                return Err(StartError::input(text));
            }
        }
        let Some(size) = expected_size(found) else {
            let text = format!(
                "{path} does not exist, and pool `{}` has no `size` to make it with",
                found.config.name
            );
            return Err(StartError::input(text));
        };
        let far = found.config.device.is_far();
        let geometry = Geometry { size, discard_zeroes: false, far };
        specs.push(spec(config, found.config, geometry, false));
    }
    let group = Group::create(config.settings.clone(), &specs, 0).map_err(StartError::input)?;
    let heads = (0..group.pool_count()).filter_map(|id| group.pool_head(PoolId(id)));
    Ok(heads.collect())
}

/// Refuses to make a cache over what its device holds, where the pool's own device is not there.
fn refuse_lone_cache<D>(found: &Found<'_, D>, reason: &str) -> Result<(), StartError> {
    let Some(cache) = &found.config.cache else { return Ok(()) };
    let path = &cache.device.path;
    match &found.cache {
        Contents::CacheHalf => Err(StartError::Input(format!(
            "{reason}, and {0} holds the block cache of a pool, with writes that may be nowhere \
             else. Bring the pool's device back. Only if nothing on {0} is needed: --erase {0} \
             destroys it",
            path.display()
        ))),
        contents => refuse_contents(path, contents),
    }
}

/// Refuses a device that is there and has another size than the configuration says.
fn refuse_size(device: &DeviceConfig) -> Result<(), StartError> {
    if device.bucket.is_some() || device.size.is_none() {
        return Ok(());
    }
    let size = File::open(&device.path).and_then(|mut file| file.seek(SeekFrom::End(0)));
    let size =
        size.map_err(|error| StartError::Failed(format!("{}: {error}", device.path.display())))?;
    probe::check_size(&device.path, Bytes(size), device.size).map_err(StartError::input)
}

fn spec(config: GroupConfig<'_>, pool: &PoolConfig, geometry: Geometry, zeroed: bool) -> PoolSpec {
    let chunk_size = config.settings.chunk_size.0;
    let reserve = pool.reserve.0.div_ceil(chunk_size);
    PoolSpec {
        name: pool.name.clone(),
        geometry,
        zeroed,
        reserve_chunks: u32::try_from(reserve).unwrap_or(u32::MAX),
    }
}

/// True if a file reads as zeroes because nothing was ever written to it.
fn has_holes_only(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.blocks() == 0)
}

/// A number that nobody can guess.
fn random() -> Result<u64, StartError> {
    random_number().map_err(StartError::failed)
}
