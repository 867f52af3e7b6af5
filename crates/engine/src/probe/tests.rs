//! Contents of devices are recognised, and devices that hold something are refused.

use super::{Contents, Existing, MARKS_BYTES, NotFree, check_free, check_size, erase, use_of};
use std::path::{Path, PathBuf};
use std::process::Command;
use thermocline_units::Bytes;

const SIZE: usize = 16 << 20;

/// A file of 16 MiB of zeroes with `marks` in it.
fn file(folder: &Path, marks: &[(usize, &[u8])]) -> PathBuf {
    let mut bytes = vec![0; SIZE];
    for (at, mark) in marks {
        bytes[*at..*at + mark.len()].copy_from_slice(mark);
    }
    let path = folder.join("device");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn told(path: &Path) -> String {
    Contents::of_path(path).unwrap().to_string()
}

#[test]
fn what_is_on_a_device_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let raid = &[0xfc, 0x4e, 0x2b, 0xa9][..];
    let cases: [(usize, &[u8], &str); 9] = [
        (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
        (536, b"LVM2 001", "a physical volume of LVM"),
        (4086, b"SWAPSPACE2", "swap space"),
        (4096, raid, "a member of a Linux RAID"),
        (SIZE - 8192, raid, "a member of a Linux RAID"),
        (3, b"NTFS    ", "an NTFS file system"),
        (SIZE - 512, b"EFI PART", "the second copy of a partition table (GPT)"),
        (70_000, b"x", "contents that are not known here (the first of them at byte 70000)"),
        (SIZE - 70_000, b"x", "contents in its last 128 KiB that are not known here"),
    ];
    assert_eq!(Contents::of_path(&file(folder.path(), &[])).unwrap(), Contents::Blank);
    for (at, mark, what) in cases {
        assert_eq!(told(&file(folder.path(), &[(at, mark)])), what);
    }
}

#[test]
fn file_systems_and_partition_tables_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), &[]);
    if Command::new("mkfs.ext4").arg("-q").arg(&path).status().is_ok_and(|made| made.success()) {
        assert_eq!(told(&path), "an ext4 file system");
    } else {
        #[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
        let () = println!("SKIPPED: no mkfs.ext4");
    }
    // An MBR with one partition of type 83 from sector 2048 on.
    let mut entry = [0; 16];
    entry[4] = 0x83;
    entry[8..12].copy_from_slice(&2048_u32.to_le_bytes());
    entry[12..].copy_from_slice(&4096_u32.to_le_bytes());
    let path = file(folder.path(), &[(446, &entry), (510, &[0x55, 0xaa])]);
    assert_eq!(told(&path), "a partition table (1 partitions)");
}

#[test]
fn what_holds_something_is_refused_unless_it_may_be_destroyed_and_erasing_leaves_no_mark() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), &[(1080, b"x"), (8 << 20, b"middle"), (SIZE - 1, b"x")]);
    let before = std::fs::read(&path).unwrap();
    let contents = Contents::of_path(&path).unwrap();
    let refused = check_free(&path, &contents, Existing::Keep).unwrap_err();
    assert!(matches!(refused, NotFree::Occupied { .. }));
    assert!(refused.to_string().contains("device holds contents"), "{refused}");
    assert!(std::fs::read(&path).unwrap() == before, "looking changes nothing");
    check_free(&path, &contents, Existing::Destroy).unwrap();
    erase(&path).unwrap();
    assert_eq!(Contents::of_path(&path).unwrap(), Contents::Blank);
    let after = std::fs::read(&path).unwrap();
    assert!(after[MARKS_BYTES..SIZE - MARKS_BYTES] == before[MARKS_BYTES..SIZE - MARKS_BYTES]);

    let short = folder.path().join("short");
    std::fs::write(&short, vec![1; 70_000]).unwrap();
    erase(&short).unwrap();
    assert!(std::fs::read(&short).unwrap() == vec![0; 70_000]);
}

#[test]
fn a_file_of_another_size_than_was_asked_for_is_refused() {
    let path = Path::new("a.pool");
    check_size(path, Bytes::from_mib(64), None).unwrap();
    check_size(path, Bytes::from_mib(64), Some(Bytes::from_mib(64))).unwrap();
    let refused = check_size(path, Bytes::from_mib(64), Some(Bytes::from_gib(2))).unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("a.pool is there with 64 MiB, and 2 GiB were asked for"), "{said}");
}

#[test]
fn a_lock_on_a_range_of_the_file_is_a_use_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), &[]);
    assert_eq!(use_of(&path), None);
    let locked = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    // As qemu does it: a shared lock on a byte that stands for a permission.
    let mut lock = nix::libc::flock {
        l_type: nix::libc::F_RDLCK as nix::libc::c_short,
        l_whence: nix::libc::SEEK_SET as nix::libc::c_short,
        l_start: 201,
        l_len: 1,
        l_pid: 0,
    };
    nix::fcntl::fcntl(&locked, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock)).unwrap();
    assert_eq!(use_of(&path).unwrap(), "by a program that has locked it");
    lock.l_type = nix::libc::F_UNLCK as nix::libc::c_short;
    nix::fcntl::fcntl(&locked, nix::fcntl::FcntlArg::F_OFD_SETLK(&lock)).unwrap();
    assert_eq!(use_of(&path), None);
}
