//! Write-zeroes limits of queues, read from folders like the kernel's.

use super::write_zeroes_max;
use std::os::unix::fs::symlink;

#[test]
fn a_disks_queue_tells_for_its_partitions_and_silence_is_no_zero() {
    let folder = tempfile::tempdir().expect("a folder");
    let (disk, numbers) = (folder.path().join("devices/sda"), folder.path().join("block"));
    for made in [disk.join("queue"), disk.join("sda1"), numbers.clone()] {
        std::fs::create_dir_all(made).expect("ours");
    }
    symlink(&disk, numbers.join("8:0")).expect("ours");
    symlink(disk.join("sda1"), numbers.join("8:1")).expect("ours");
    let limit = disk.join("queue/write_zeroes_max_bytes");
    for (text, expected) in [("0\n", Some(0)), ("2147450880\n", Some(2_147_450_880)), ("?", None)] {
        std::fs::write(&limit, text).expect("ours");
        assert_eq!(write_zeroes_max(&numbers, (8, 0)), expected);
        assert_eq!(write_zeroes_max(&numbers, (8, 1)), expected);
    }
    assert_eq!(write_zeroes_max(&numbers, (7, 3)), None);
}
