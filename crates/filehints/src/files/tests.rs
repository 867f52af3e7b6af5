//! Devices are followed in a made-up `/sys`; mounts are read as the kernel writes them.

use super::device::{Ground, Lost, Sys};
use super::mounts::Mounts;
use super::{FileFacts, choose};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use thermocline_engine::api::Volume;

const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 7:0 / /mnt/my\\040volume rw - ext4 /dev/loop0 rw
31 22 7:0 /srv/www /www rw - ext4 /dev/loop0 rw
40 22 0:40 / /fuse rw,nosuid - fuse.nbdfuse nbdfuse rw
50 22 0:50 / /pool rw - btrfs /dev/loop1 rw
";

fn mounts() -> Mounts {
    Mounts::parse(MOUNTS.as_bytes())
}

/// A `/sys` with a partitioned loop device on `backing`, an nbd disk, another disk and a stack.
fn sys(folder: &Path, backing: &str) -> Sys {
    let file = |path: &str, text: &str| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let disk = |number: &str, name: &str| {
        file(&format!("devices/{name}/size"), "8192\n");
        std::fs::create_dir_all(folder.join("dev/block")).unwrap();
        symlink(format!("../../devices/{name}"), folder.join("dev/block").join(number)).unwrap();
    };
    disk("7:0", "loop0");
    file("devices/loop0/loop/backing_file", &format!("{backing}\n"));
    file("devices/loop0/loop/offset", "1048576\n");
    disk("259:0", "loop0/loop0p1");
    file("devices/loop0/loop0p1/partition", "1\n");
    file("devices/loop0/loop0p1/start", "2048\n");
    disk("43:0", "nbd0");
    disk("254:0", "vda");
    disk("252:0", "dm-0");
    std::fs::create_dir_all(folder.join("devices/dm-0/slaves/nbd0")).unwrap();
    Sys::new(folder, mounts())
}

fn ground(device: (u32, u32), backing: &str) -> Result<Ground, Lost> {
    let folder = tempfile::tempdir().unwrap();
    let on = mounts().holding(Path::new("/")).unwrap();
    sys(folder.path(), backing).ground(device, &on.kind)
}

#[test]
fn offsets_of_partition_and_loop_device_add_up() {
    let below = PathBuf::from("/fuse/v0");
    let found = ground((259, 0), "/fuse/v0").unwrap();
    assert_eq!(found, Ground { below, offset: 2 << 20, length: 4 << 20, of_client: true });
}

#[test]
fn an_nbd_disk_is_a_volume_and_another_is_not_until_somebody_says_so() {
    assert!(ground((43, 0), "").unwrap().of_client);
    assert!(!ground((254, 0), "").unwrap().of_client);
    assert!(!ground((7, 0), "/images/disk.img").unwrap().of_client, "a file of an ordinary disk");
}

#[test]
fn what_cannot_be_followed_says_why() {
    let stack = ground((252, 0), "").unwrap_err();
    assert_eq!(stack, Lost::Stack("dm-0".to_string(), vec!["nbd0".to_string()]));
    assert!(matches!(ground((9, 9), "").unwrap_err(), Lost::Unclear(_)));
    let folder = tempfile::tempdir().unwrap();
    let btrfs = mounts().holding(Path::new("/pool/file")).unwrap();
    let lost = sys(folder.path(), "").ground((0, 50), &btrfs.kind).unwrap_err();
    assert_eq!(lost, Lost::NoDevice("btrfs".to_string()));
}

#[test]
fn a_file_s_directory_is_seen_from_the_root_of_its_file_system() {
    let facts = |path: &str| {
        let mount = mounts().holding(Path::new(path)).unwrap();
        FileFacts::new(&mount, Path::new(path), 1).unwrap()
    };
    assert_eq!(facts("/mnt/my volume/a/b.txt").directory, "/a");
    assert_eq!(facts("/mnt/my volume/b.txt").directory, "/");
    assert_eq!(facts("/www/img/c.png").directory, "/srv/www/img", "below a bind mount");
    assert_eq!(facts("/www/img/c.png").name, "c.png");
}

#[test]
fn a_volume_is_found_by_name_then_alone_and_never_smaller_than_its_device() {
    let volume = |name: &str, size_bytes| {
        let (name, identity, sla) = (name.to_string(), 1, None);
        Volume { name, identity, number: 0, size_bytes, sla }
    };
    let ground = |below: &str, of_client| Ground {
        below: PathBuf::from(below),
        offset: 1 << 20,
        length: 4 << 20,
        of_client,
    };
    let two = [volume("v0", 5 << 20), volume("v1", 5 << 20)];
    let name = |ground: &Ground, volumes: &[Volume], named: Option<&str>| {
        choose(ground, volumes, named).map(|volume| volume.name.clone()).map_err(|e| e.to_string())
    };
    assert_eq!(name(&ground("/fuse/v1", true), &two, None).unwrap(), "v1");
    assert_eq!(name(&ground("/fuse/nbd", true), &two[..1], None).unwrap(), "v0");
    assert!(name(&ground("/fuse/nbd", true), &two, None).unwrap_err().contains("--volume"));
    assert!(name(&ground("/dev/vda", false), &two[..1], None).unwrap_err().contains("--volume"));
    assert_eq!(name(&ground("/dev/vda", false), &two, Some("v1")).unwrap(), "v1");
    assert!(name(&ground("/dev/vda", false), &two, Some("v9")).unwrap_err().contains("v0, v1"));
    let small = [volume("v0", 4 << 20)];
    assert!(name(&ground("/fuse/nbd", true), &small, None).unwrap_err().contains("not the same"));
}
