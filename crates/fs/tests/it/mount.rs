//! An image mounted through a loop device, one at a time, and FIEMAP's answers for its files.
//!
//! One at a time, because mkfs.btrfs refuses any device while another mounted one's file is out of
//! reach. What was mounted is unmounted when dropped, also after a failed assertion.

use crate::tools::{sh, shell};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static TURN: Mutex<()> = Mutex::new(());

/// A mounted image.
pub(crate) struct Mount {
    pub(crate) tree: PathBuf,
    is_mounted: bool,
    _turn: MutexGuard<'static, ()>,
}

/// True if images can be mounted here; says so when not.
#[allow(clippy::print_stderr, clippy::disallowed_macros)] // The gate repeats such lines at its end.
pub(crate) fn works(kind: &str) -> bool {
    let needed =
        format!("test $(id -u) = 0 && losetup --find && grep -qw {kind} /proc/filesystems");
    let works = shell(Path::new("/"), &needed).is_ok();
    if !works {
        eprintln!("SKIPPED: needs root, loop devices, and {kind} in the kernel");
    }
    works
}

/// The turn, for who does not mount, but may not meet a mount that is going away.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    // A test that failed in its turn has unmounted: the turn is good all the same.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mount {
    /// Mounts `image` on a folder beside it.
    pub(crate) fn new(image: &Path, options: &str) -> Mount {
        let turn = turn();
        let tree = image.with_extension("tree");
        std::fs::create_dir_all(&tree).unwrap();
        let words = format!("mount -o loop{options} {} {}", image.display(), tree.display());
        sh(Path::new("/"), &words);
        Mount { tree, is_mounted: true, _turn: turn }
    }

    /// Runs a shell command in the mounted tree.
    pub(crate) fn sh(&self, words: &str) -> String {
        sh(&self.tree, words)
    }

    /// Unmounts, as a system that shuts down does.
    pub(crate) fn end(mut self) {
        sh(Path::new("/"), &format!("umount {}", self.tree.display()));
        self.is_mounted = false;
    }

    /// Places of the bytes of all regular files by FIEMAP, by the files' paths from the root.
    pub(crate) fn fiemap(&self) -> Vec<(PathBuf, Vec<Range<u64>>)> {
        let said = self.sh("find . -xdev -type f -print0 | xargs -0 filefrag -e -v -b1 2>&1");
        let mut files: Vec<(PathBuf, Vec<Range<u64>>)> = Vec::new();
        for line in said.lines() {
            if let Some(rest) = line.strip_prefix("File size of ") {
                let (name, _) = rest.split_once(" is ").unwrap();
                let path = Path::new("/").join(name.strip_prefix("./").unwrap());
                files.push((path, Vec::new()));
                continue;
            }
            let cells: Vec<&str> = line.split(':').map(str::trim).collect();
            if cells.len() < 4
                || cells[0].parse::<u32>().is_err()
                || cells[5..].concat().contains("inline")
            {
                continue;
            }
            let (first, last) = cells[2].split_once("..").unwrap();
            let first: u64 = first.trim().parse().unwrap();
            let last: u64 = last.trim().parse().unwrap();
            files.last_mut().unwrap().1.push(first..last + 1);
        }
        files
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.is_mounted {
            let tree = self.tree.display();
            let _ = shell(Path::new("/"), &format!("umount {tree} || umount -l {tree}"));
        }
    }
}
