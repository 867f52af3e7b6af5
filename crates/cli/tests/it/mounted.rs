//! A volume as a mounted device of the system: nbdfuse makes it a file, a loop device makes that a
//! disk. Needs root, FUSE and loop devices; tests say SKIPPED without them.
//!
//! Whatever was attached is detached when dropped, also when the engine below it is gone. One
//! volume is mounted at a time: mkfs.btrfs refuses any device while another one's file is out of
//! reach (`cannot check mount status`), as it is for a moment after a test has killed its engine.

use crate::up::URI;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Turn to have a volume mounted.
static TURN: Mutex<()> = Mutex::new(());

/// A volume that is a device of the system, and perhaps mounted on `tree`.
pub(crate) struct Mounted {
    folder: PathBuf,
    fuse: Child,
    device: Option<String>,
    _turn: MutexGuard<'static, ()>,
}

/// Runs a shell command to its end: its output, or what it complained about.
pub(crate) fn shell(folder: &Path, words: &str) -> Result<String, String> {
    let done = Command::new("timeout")
        .args(["120", "sh", "-ec", words])
        .current_dir(folder)
        .output()
        .map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
}

impl Mounted {
    /// Makes the volume a device of the system, once no other test has one.
    pub(crate) fn new(folder: &Path) -> Result<Mounted, String> {
        // A test that failed in its turn has detached its volume: the turn is good all the same.
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        std::fs::create_dir_all(folder.join("fuse")).map_err(|error| error.to_string())?;
        std::fs::create_dir_all(folder.join("tree")).map_err(|error| error.to_string())?;
        let fuse = Command::new("nbdfuse")
            .args(["fuse", URI])
            .current_dir(folder)
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut mounted = Mounted { folder: folder.to_path_buf(), fuse, device: None, _turn: turn };
        let start = Instant::now();
        while !folder.join("fuse/nbd").exists() {
            let ended = mounted.fuse.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || start.elapsed() > Duration::from_secs(10) {
                return Err("nbdfuse does not mount".to_string());
            }
            std::thread::yield_now();
        }
        mounted.device = Some(shell(folder, "losetup --find --show fuse/nbd")?);
        Ok(mounted)
    }

    /// The loop device.
    pub(crate) fn device(&self) -> &str {
        self.device.as_deref().unwrap_or_default()
    }

    /// Runs a shell command that must succeed; DEVICE stands for the device.
    pub(crate) fn shell(&self, words: &str) -> String {
        let device = self.device.as_deref().unwrap_or_default();
        let words = words.replace("DEVICE", device);
        shell(&self.folder, &words).unwrap_or_else(|error| panic!("{words}: {error}"))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily where it must be: over an engine that is gone nothing can be written any more.
        let _ = shell(&self.folder, "mountpoint -q tree && (umount tree || umount -l tree)");
        if let Some(device) = &self.device {
            let _ = shell(&self.folder, &format!("losetup -d {device}"));
        }
        if shell(&self.folder, "umount fuse").is_err() {
            let _ = shell(&self.folder, "umount -l fuse");
            let _ = self.fuse.kill();
        }
        let _ = self.fuse.wait();
    }
}

/// True if this system can mount, and has these programs; says so when not.
#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
pub(crate) fn mounting_works(folder: &Path, programs: &str) -> bool {
    let needed = format!(
        "test $(id -u) = 0 && test -w /dev/fuse && losetup --find && \
         for p in nbdfuse {programs}; do command -v $p; done"
    );
    let here = shell(folder, &needed);
    if here.is_err() {
        println!("SKIPPED: needs root, /dev/fuse, loop devices, nbdfuse, {programs}");
    }
    here.is_ok()
}
