//! Real block devices: loop devices, which only root can make. Where they cannot be made the tests
//! say SKIPPED.

use super::{poll_until, run};
use crate::{FileDevice, Health, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use thermocline_ports::{Completion, Device, DeviceError, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos};

/// A loop device over a file on a file system of its own; both go when this is dropped.
struct Loop {
    device: Option<PathBuf>,
    folder: tempfile::TempDir,
}

/// Runs a program; its output, or `None` when it is missing or fails.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are plain")
}

impl Loop {
    /// A block device of `bytes` over a file system that cannot punch holes, so that the device
    /// has neither WRITE ZEROES nor DISCARD.
    fn without_write_zeroes(bytes: u64) -> Option<Loop> {
        let mut made = Loop { device: None, folder: tempfile::tempdir().ok()? };
        let folder = made.folder.path().to_path_buf();
        said("mount", &["-t", "ramfs", "none", text(&folder)])?;
        let file = folder.join("disk");
        std::fs::File::create(&file).and_then(|file| file.set_len(bytes)).ok()?;
        made.device = Some(PathBuf::from(said("losetup", &["-f", "--show", text(&file)])?));
        Some(made)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            said("losetup", &["-d", text(device)]);
        }
        said("umount", &["-l", text(self.folder.path())]);
    }
}

/// A device without WRITE ZEROES was asked for holes behind its end, where the kernel answers
/// EINVAL whatever the device can do: so it was taken for one that can, and zeroes and discards
/// were answered with EIO, and every first write of a chunk with ENOSPC.
#[test]
fn a_block_device_without_write_zeroes_is_written_zeroes_and_ignores_discards() {
    let Some(made) = Loop::without_write_zeroes(16 << 20) else {
        return println!("SKIPPED: no loop device can be made here (it takes root)");
    };
    let path = made.device.clone().expect("it was made");
    let mut device = FileDevice::open(&path, OpenOptions::default()).expect("a block device");
    assert!(!device.geometry().discard_zeroes);
    let (offset, length) = (Bytes(1 << 20), Bytes(3 << 20));
    let data = Payload::from(vec![7; length.0 as usize]);
    let mut one = |io| run(&mut device, vec![io]).remove(0);
    one(Io::Write { offset, data, fua: false }).expect("it is written");
    let part = Bytes((1 << 20) + 4096);
    one(Io::WriteZeroes { offset, length: part }).expect("zeroes are written");
    one(Io::Discard { offset, length }).expect("nothing has to be done");
    let read = one(Io::Read { offset, length: length.0 as u32 }).expect("readable").to_vec();
    let (zeroes, rest) = read.split_at(part.0 as usize);
    assert!(zeroes.iter().all(|&byte| byte == 0) && rest.iter().all(|&byte| byte == 7));
}

/// A file system that can be frozen: whoever writes there then waits until it is thawed.
struct Frozen {
    folder: tempfile::TempDir,
}

impl Frozen {
    /// A file system with a file of `bytes`, not frozen yet.
    fn new(bytes: u64) -> Option<Frozen> {
        let made = Frozen { folder: tempfile::tempdir().ok()? };
        let (image, mount) = (made.folder.path().join("image"), made.mount());
        std::fs::create_dir(&mount).ok()?;
        std::fs::File::create(&image).and_then(|file| file.set_len(32 << 20)).ok()?;
        said("mkfs.ext4", &["-q", "-F", text(&image)])?;
        said("mount", &["-o", "loop", text(&image), text(&mount)])?;
        let whole = vec![7; usize::try_from(bytes).expect("small")];
        std::fs::write(made.file(), whole).ok()?;
        said("sync", &["-f", text(&made.file())])?;
        Some(made)
    }

    fn mount(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    fn file(&self) -> PathBuf {
        self.mount().join("pool")
    }

    fn freeze(&self) -> Option<String> {
        said("fsfreeze", &["-f", text(&self.mount())])
    }

    fn thaw(&self) {
        said("fsfreeze", &["-u", text(&self.mount())]);
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.thaw();
        said("umount", &["-l", text(&self.mount())]);
    }
}

/// No I/O had a deadline: a device that hung kept every request, and whoever waited, for ever. Here
/// the kernel has a write that it cannot end.
#[test]
fn a_write_that_the_kernel_never_ends_is_given_up_and_the_file_is_whole_once_it_has_ended() {
    let made = Frozen::new(64 << 10).filter(|made| made.freeze().is_some());
    let Some(frozen) = made else {
        return println!("SKIPPED: no file system can be frozen here (it takes root)");
    };
    frozen.thaw();
    let mut device = FileDevice::open(&frozen.file(), OpenOptions::default()).expect("a file");
    frozen.freeze().expect("it did a moment ago");
    let data = Payload::from(vec![9; 4096]);
    device.submit(Nanos(0), Ticket(1), Io::Write { offset: Bytes(0), data, fua: true });
    let mut now = 0;
    assert_eq!(poll_until(&mut device, &mut now, 290), []);
    assert!(matches!(device.health(), Health::Suspect { .. }));
    let gone = Completion { ticket: Ticket(1), result: Err(DeviceError::Gone) };
    assert_eq!(poll_until(&mut device, &mut now, 302), [gone]);
    drop(device); // Without waiting for the kernel, which cannot end it.
    // Nothing else may touch the file system before it is thawed: it would wait for that.
    frozen.thaw();
    let opened = || FileDevice::open(&frozen.file(), OpenOptions::default()).ok();
    let mut device = std::iter::repeat_with(opened).flatten().next().expect("once it has ended");
    let read = run(&mut device, vec![Io::Read { offset: Bytes(0), length: 4096 }]).remove(0);
    let read = read.expect("readable").to_vec();
    // The kernel ended the write late or gave it up; nothing else is on the file.
    assert!(read.iter().all(|&byte| byte == read[0]), "the block is of one write");
}
