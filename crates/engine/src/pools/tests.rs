//! Devices of a configuration: first starts, restarts, and everything that must be refused.

use super::opener::open;
use super::{
    Arranged, CacheConfig, Damage, DeviceConfig, DeviceOpener, GroupConfig, Inspection, NamedBy,
    Permission, PoolConfig, Started, arrange, link_to_tmpfs, open_all, start,
};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use thermocline_blockcache::BlockCache;
use thermocline_ports::{Completion, Device};
use thermocline_ports_os::Patience;
use thermocline_units::{Bytes, Nanos, PoolId};
use thermocline_volume::{Service, Settings};

/// Size of the volume.
const VOLUME: Bytes = Bytes::from_mib(64);

/// A group of its own.
#[derive(Clone)]
struct Config {
    data: PathBuf,
    pools: Vec<PoolConfig>,
    settings: Settings,
}

impl Config {
    fn group(&self) -> GroupConfig<'_> {
        GroupConfig { data: &self.data, pools: &self.pools, settings: &self.settings }
    }

    fn start(&self) -> Result<Started, String> {
        start(self.group(), Permission::default(), |_| ()).map_err(|error| error.to_string())
    }
}

/// A volume of 64 MiB on three files.
fn config(data: &Path) -> Config {
    let data = data.join("pools");
    let pools = [("scm", 32), ("ssd", 32), ("hdd", 68)].map(|(name, mib)| PoolConfig {
        name: name.to_string(),
        device: device(data.join(format!("{name}.pool")), Bytes::from_mib(mib)),
        cache: None,
        profile: None,
        reserve: Bytes(0),
        depth: None,
        moves_a_day: None,
        named_by: NamedBy::Default,
    });
    Config { data, pools: pools.to_vec(), settings: Settings::default() }
}

fn device(path: PathBuf, size: Bytes) -> DeviceConfig {
    let patience = Patience::DEFAULT;
    DeviceConfig { path, size: Some(size), emulate: None, buffered: false, patience, bucket: None }
}

/// Makes the group, or recovers it, and closes it.
fn run_once(config: &Config) {
    let Started { mut group, mut disks, .. } = config.start().unwrap();
    let (mut ios, mut done) = (Vec::new(), Vec::<Completion>::new());
    let mut made = false;
    while *group.service() != Service::Closed {
        assert!(!matches!(group.service(), Service::Failed(_)));
        if *group.service() == Service::Ready && !std::mem::replace(&mut made, true) {
            if group.volumes().next().is_none() {
                group.create_volume(Nanos(0), VOLUME).unwrap();
            }
            group.close(Nanos(0));
        }
        group.take_io(&mut ios);
        for (pool, ticket, io) in ios.drain(..) {
            disks[usize::from(pool.0)].as_mut().unwrap().submit(Nanos(0), ticket, io);
        }
        for (index, disk) in disks.iter_mut().enumerate() {
            let disk = disk.as_mut().unwrap();
            disk.poll(Nanos(0), &mut done);
            disk.devices_mut().for_each(|disk| disk.wait().unwrap());
            disk.poll(Nanos(0), &mut done);
            for completion in done.drain(..) {
                group.complete(Nanos(0), PoolId(index as u16), completion);
            }
        }
    }
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

fn cache(config: &Config, name: &str) -> CacheConfig {
    let device = device(config.data.join(name), Bytes::from_mib(4));
    CacheConfig { device, settings: thermocline_blockcache::Settings::default() }
}

/// A group of one pool with a block cache, which was started once.
fn only_cached_pool(folder: &Path) -> Config {
    let mut config = config(folder);
    config.pools.drain(..2);
    config.pools[0].cache = Some(cache(&config, "hdd.cache"));
    run_once(&config);
    config
}

fn refusal(config: &Config) -> String {
    config.start().err().expect("something is wrong")
}

#[test]
fn pools_are_told_apart_by_their_labels_in_whatever_order_they_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    run_once(&config);
    config.pools.reverse();
    let started = config.start().unwrap();
    let files: Vec<_> = started
        .disks
        .iter()
        .map(|disk| disk.as_ref().unwrap().main().path().file_name().unwrap().to_owned())
        .collect();
    assert_eq!(files, ["scm.pool", "ssd.pool", "hdd.pool"]);
    assert_eq!(started.names, ["scm", "ssd", "hdd"]);
    drop(started);
    run_once(&config);
}

#[test]
fn a_missing_a_foreign_a_doubled_and_a_cut_pool_are_refused_with_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    run_once(&config);
    let (ssd, aside) = (config.pools[1].device.path.clone(), folder.path().join("aside"));
    std::fs::rename(&ssd, &aside).unwrap();
    let said = refusal(&config);
    assert!(said.contains("pool `ssd` (number 1) is not there"), "{said}");
    assert!(said.contains("ssd.pool is missing or empty"), "{said}");
    assert!(!ssd.exists(), "nothing was made in its place");

    std::fs::copy(&config.pools[2].device.path, &ssd).unwrap();
    assert!(refusal(&config).contains("are both pool 2; one is a copy"), "{}", refusal(&config));

    let other = self::config(&folder.path().join("other"));
    run_once(&other);
    std::fs::copy(&other.pools[1].device.path, &ssd).unwrap();
    assert!(refusal(&config).contains("belong to different volume groups"));

    std::fs::rename(&aside, &ssd).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&ssd).unwrap();
    let whole = file.metadata().unwrap().len();
    file.set_len(whole / 2).unwrap();
    assert!(refusal(&config).contains("it was cut short"), "{}", refusal(&config));
    file.set_len(whole).unwrap();
    file.write_all_at(&[7; 8192], 0).unwrap();
    assert!(refusal(&config).contains("ssd.pool holds no pool"), "{}", refusal(&config));
}

#[test]
fn a_first_start_that_cannot_be_leaves_nothing_behind_and_no_contents_are_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    std::fs::create_dir_all(&config.data).unwrap();
    for at in [1080, (100 << 10) + 3, (8 << 20) - 65_536] {
        // Where ext4, btrfs and the metadata of RAID have their marks.
        let mut bytes = vec![0; 8 << 20];
        bytes[at] = 0x53;
        std::fs::write(&config.pools[2].device.path, &bytes).unwrap();
        let said = refusal(&config);
        assert!(said.contains("hdd.pool holds") && said.contains("--erase"), "{said}");
        assert!(std::fs::read(&config.pools[2].device.path).unwrap() == bytes);
    }
    std::fs::remove_file(&config.pools[2].device.path).unwrap();
    config.pools[0].device.size = Some(Bytes::from_mib(1));
    let said = refusal(&config);
    assert!(said.contains("pool `scm` has no room for a single chunk"), "{said}");
    config.pools[0].device.size = None;
    assert!(refusal(&config).contains("scm.pool does not exist, and pool `scm` has no `size`"));
    config.pools[0].device.size = Some(Bytes::from_mib(32));
    config.pools[2].device.path = folder.path().join("nowhere/hdd.pool");
    assert!(refusal(&config).contains("nowhere"));
    assert_eq!(std::fs::read_dir(&config.data).unwrap().count(), 0);
}

#[test]
fn an_inspection_recovers_in_memory_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.pools[2].cache = Some(cache(&config, "hdd.cache"));
    run_once(&config);
    let contents = || config.pools.iter().flat_map(PoolConfig::paths).map(read);
    let before: Vec<_> = contents().collect();
    let opener = DeviceOpener::to_look();
    let found = open_all(&config.pools, &opener, &[]).unwrap();
    let Arranged::Group(members) = arrange(found).unwrap() else { panic!("there is a group") };
    let opened = Inspection::open(config.settings.clone(), &opener, members, Damage::Refused);
    let group = opened.unwrap().into_group();
    assert_eq!(*group.service(), Service::Ready);
    assert_eq!(group.fsck(), []);
    assert_eq!(group.volumes().next().unwrap().size, Bytes::from_mib(64));
    assert!(contents().eq(before), "not a byte");
}

#[test]
fn a_pool_in_memory_is_a_link_that_a_reboot_leaves_dangling() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let link = &config.pools[0].device.path;
    if !Path::new("/dev/shm").is_dir() {
        println!("SKIPPED: no tmpfs at /dev/shm");
        return;
    }
    link_to_tmpfs(&config.data, link).map_err(|e| e.to_string()).unwrap();
    let target = std::fs::read_link(link).unwrap();
    run_once(&config);
    assert!(target.is_file());
    link_to_tmpfs(&config.data, link).map_err(|e| e.to_string()).unwrap();
    run_once(&config);
    std::fs::remove_dir_all(target.parent().unwrap()).unwrap();
    let said = refusal(&config);
    assert!(said.contains("it was in memory") && said.contains("a reboot"), "{said}");
}

#[test]
fn a_pool_and_its_cache_are_found_again_and_one_without_the_other_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.pools[2].cache = Some(cache(&config, "hdd.cache"));
    run_once(&config);
    run_once(&config);
    let (with, path) = (config.clone(), config.data.join("hdd.cache"));

    config.pools[2].cache = None;
    let said = refusal(&config);
    assert!(said.contains("hdd.pool belongs to a pool with a block cache"), "{said}");
    assert!(said.contains("give pool `hdd` its `cache`"), "{said}");
    config.pools[2].cache = Some(cache(&config, "other.cache"));
    let said = refusal(&config);
    assert!(said.contains("other.cache is missing or empty"), "{said}");
    assert!(!config.data.join("other.cache").exists(), "nothing was made in its place");

    // The cache of another pool, made at another time.
    let mut other = self::config(&folder.path().join("other"));
    other.pools[2].cache = Some(cache(&other, "hdd.cache"));
    run_once(&other);
    std::fs::copy(other.data.join("hdd.cache"), config.data.join("other.cache")).unwrap();
    let said = refusal(&config);
    assert!(said.contains("do not belong together"), "{said}");

    let whole = read(&path);
    std::fs::write(&path, &whole[..1 << 20]).unwrap();
    assert!(refusal(&with).contains("hdd.cache"), "{}", refusal(&with));
    let mut torn = whole.clone();
    torn[4096 + 20] ^= 3; // One flipped bit would be set right.
    std::fs::write(&path, &torn).unwrap();
    let said = refusal(&with);
    assert!(said.contains("sector 0 of the table of dirty lines is damaged"), "{said}");
    std::fs::write(&path, whole).unwrap();
    run_once(&with);

    config = with;
    config.pools[1].cache = Some(cache(&config, "ssd.cache"));
    let said = refusal(&config);
    assert!(said.contains("can only be put in front of a new one"), "{said}");
}

#[test]
fn a_first_start_that_ended_after_it_had_made_a_cache_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    std::fs::create_dir_all(&config.data).unwrap();
    config.pools[2].cache = Some(cache(&config, "hdd.cache"));
    let (slow, fast) = (&config.pools[2].device, config.pools[2].cache.as_ref().unwrap());
    let opener = DeviceOpener::to_run();
    let disk = |device: &DeviceConfig| open(device, device.size).unwrap();
    let made =
        BlockCache::format(opener.now(), disk(&fast.device), disk(slow), 1, fast.settings.clone())
            .unwrap();
    drop(opener.settle(made).unwrap().map_err(|error| error.to_string()).unwrap());
    run_once(&config);
    run_once(&config);
}

/// A first start that was killed while it made a block cache needed a person, in 18 of 60 tries:
/// an empty table without labels was something that is no pool.
#[test]
fn a_first_start_that_ended_anywhere_in_the_making_of_a_cache_is_begun_again() {
    for steps in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path());
        std::fs::create_dir_all(&config.data).unwrap();
        config.pools[2].cache = Some(cache(&config, "hdd.cache"));
        let (slow, fast) = (&config.pools[2].device, config.pools[2].cache.as_ref().unwrap());
        let opener = DeviceOpener::to_run();
        let disk = |device: &DeviceConfig| open(device, device.size).unwrap();
        let made = BlockCache::format(
            opener.now(),
            disk(&fast.device),
            disk(slow),
            1,
            fast.settings.clone(),
        );
        let mut made = made.unwrap();
        for _ in 0..steps {
            let (fast, slow) = made.devices_mut();
            fast.wait().unwrap();
            slow.wait().unwrap();
            made.poll(opener.now(), &mut Vec::new());
        }
        let whole = made.is_open() == Ok(true);
        drop(made);
        run_once(&config);
        run_once(&config);
        if whole {
            assert!(steps >= 4, "a table, a flush and two labels");
            return;
        }
    }
}

/// A device in use is never taken for the remains of a first start.
#[test]
fn a_cache_without_its_label_and_one_before_a_strange_device_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.pools[2].cache = Some(cache(&config, "hdd.cache"));
    run_once(&config);
    let (slow, fast) = (config.pools[2].device.path.clone(), config.data.join("hdd.cache"));
    let (slow_before, fast_before) = (read(&slow), read(&fast));
    std::fs::write(&slow, vec![0; slow_before.len()]).unwrap();
    let said = refusal(&config);
    assert!(said.contains("hdd.cache holds one of the two devices"), "{said}");
    std::fs::write(&slow, &slow_before).unwrap();
    let mut unlabelled = fast_before.clone();
    unlabelled[..512].fill(0);
    std::fs::write(&fast, &unlabelled).unwrap();
    let said = refusal(&config);
    assert!(said.contains("carries no label"), "{said}");
    std::fs::write(&slow, &slow_before).unwrap();
    std::fs::write(&fast, &fast_before).unwrap();
    run_once(&config);
}

#[test]
fn an_only_pool_whose_cache_is_gone_is_not_taken_for_a_first_start() {
    let folder = tempfile::tempdir().unwrap();
    let config = only_cached_pool(folder.path());
    let (slow, lines) = (config.pools[0].device.path.clone(), config.data.join("hdd.cache"));
    let (before, away) = (read(&slow), folder.path().join("away"));
    std::fs::rename(&lines, &away).unwrap();
    let said = refusal(&config);
    assert!(said.contains("hdd.cache is missing or empty"), "{said}");
    assert!(read(&slow) == before && !lines.exists(), "not a byte");
    std::fs::rename(&away, &lines).unwrap();
    run_once(&config);
}

/// The cache's device was formatted without a look when the pool's own device was not there.
#[test]
fn a_cache_is_not_made_over_contents_where_the_slow_device_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    std::fs::create_dir_all(&config.data).unwrap();
    config.pools[2].cache = Some(cache(&config, "hdd.cache"));
    let fast = config.data.join("hdd.cache");
    let mut occupied = vec![0; 4 << 20];
    occupied[1080] = 0x53;
    std::fs::write(&fast, &occupied).unwrap();
    let said = refusal(&config);
    assert!(said.contains("hdd.cache holds") && said.contains("--erase"), "{said}");
    assert!(read(&fast) == occupied, "not a byte");
    assert_eq!(std::fs::read_dir(&config.data).unwrap().count(), 1, "nothing was made beside it");

    // Only with a word from its owner.
    let erase = [fast.clone()];
    let may = Permission { erase: &erase, ..Permission::default() };
    drop(start(config.group(), may, |_| ()).unwrap());
    assert!(read(&fast) != occupied);
}

#[test]
fn the_cache_of_an_only_pool_whose_slow_device_is_gone_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let config = only_cached_pool(folder.path());
    let (slow, fast) = (config.pools[0].device.path.clone(), config.data.join("hdd.cache"));
    let (lines, away) = (read(&fast), folder.path().join("away"));
    std::fs::rename(&slow, &away).unwrap();
    let said = refusal(&config);
    assert!(said.contains("hdd.pool is missing") && said.contains("block cache"), "{said}");
    assert!(read(&fast) == lines && !slow.exists(), "not a byte");
    std::fs::rename(&away, &slow).unwrap();
    run_once(&config);
}

/// A mount that was missed at boot looked like a first start, and clients got an empty volume.
#[test]
fn no_group_is_made_beside_the_record_of_another_ones_pools() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    let added = PoolConfig {
        name: "added".to_string(),
        device: device(folder.path().join("not-mounted/added.pool"), Bytes::from_mib(32)),
        named_by: NamedBy::Record,
        ..config.pools[0].clone()
    };
    config.pools.push(added);
    let said = refusal(&config);
    assert!(said.contains("added.pool") && said.contains("added-pools.toml"), "{said}");
    assert_eq!(std::fs::read_dir(&config.data).unwrap().count(), 0, "nothing was made");
}

#[test]
fn a_pool_that_is_only_busy_is_not_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    run_once(&config);
    let busy = open(&config.pools[1].device, None).unwrap();
    let may = Permission { degraded: true, ..Permission::default() };
    let said = start(config.group(), may, |_| ()).err().expect("a pool is busy").to_string();
    assert!(said.contains("ssd.pool") && said.contains("would lose"), "{said}");
    drop(busy);
    run_once(&config);
}

/// The link was removed, and what it led to stayed: the next start made its pool on the disk of the
/// link. An empty file that somebody had made was removed, too.
#[test]
fn a_first_start_that_fails_leaves_links_and_empty_files_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    std::fs::create_dir_all(&config.data).unwrap();
    let (link, empty) = (config.pools[0].device.path.clone(), config.pools[1].device.path.clone());
    let target = folder.path().join("large-disk.pool");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    std::fs::write(&empty, b"").unwrap();
    config.pools[2].device.path = folder.path().join("nowhere/hdd.pool");
    assert!(refusal(&config).contains("nowhere"));
    assert_eq!(std::fs::read_link(&link).unwrap(), target);
    assert!(!target.exists(), "what was made is taken back");
    assert_eq!(std::fs::metadata(&empty).unwrap().len(), 0);
}

#[test]
fn nothing_is_erased_for_a_first_start_whose_files_cannot_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    std::fs::create_dir_all(&config.data).unwrap();
    let scm = config.pools[0].device.path.clone();
    let contents = vec![0x53; 32 << 20];
    std::fs::write(&scm, &contents).unwrap();
    config.pools[2].device.path = folder.path().join("nowhere/hdd.pool");
    let may = Permission { erase: std::slice::from_ref(&scm), ..Permission::default() };
    let said = start(config.group(), may, |_| ()).err().expect("a folder is missing").to_string();
    assert!(said.contains("nowhere"), "{said}");
    assert!(read(&scm) == contents, "not a byte");
}

/// Such a pool counted as missing, and `--degraded` gave it up for good.
#[test]
fn a_link_that_cannot_be_followed_is_not_taken_for_a_missing_pool() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    run_once(&config);
    let (ssd, aside) = (config.pools[1].device.path.clone(), folder.path().join("aside"));
    std::fs::rename(&ssd, &aside).unwrap();
    std::os::unix::fs::symlink(&ssd, &ssd).unwrap(); // To itself.
    let may = Permission { degraded: true, ..Permission::default() };
    let said = start(config.group(), may, |_| ()).err().expect("it is not read").to_string();
    assert!(said.contains("ssd.pool") && said.contains("would lose"), "{said}");
    std::fs::remove_file(&ssd).unwrap();
    std::fs::rename(&aside, &ssd).unwrap();
    run_once(&config);
}

#[test]
fn no_file_is_made_in_the_place_of_a_device() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("disk");
    std::os::unix::fs::symlink("/dev/no-such-disk", &link).unwrap();
    for path in [Path::new("/dev/no-such-disk"), &link] {
        let said = super::refuse_among_devices(path).unwrap_err();
        assert!(said.contains("connect the device"), "{said}");
    }
    for path in ["/dev/null", "/dev/shm/no-such-file", "/tmp/no-such-file", "no-such-file"] {
        super::refuse_among_devices(Path::new(path)).unwrap();
    }
    let mut config = config(folder.path());
    config.pools[2].device.path = PathBuf::from("/dev/no-such-disk");
    assert!(refusal(&config).contains("connect the device"));
}
