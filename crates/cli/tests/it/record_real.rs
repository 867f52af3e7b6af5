//! A recording of a real workload: a file system is made on the volume and mounted (nbdfuse and a
//! loop device), a source tree is copied, changed, copied again and deleted; then the recording is
//! replayed.
//!
//! Needs root, FUSE, loop devices, nbdfuse and e2fsprogs; says SKIPPED without them.
//! `THERMOCLINE_RECORD_TREE` names another tree to copy than this project's crates, and
//! `THERMOCLINE_RECORD_KEEP` a file to keep the recording in: docs/results/recording.md.

use crate::program;
use crate::up::{URI, Up, clients_are_here};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A mounted volume; taken apart when dropped.
struct Mounted {
    folder: PathBuf,
    fuse: Child,
    device: Option<String>,
}

/// Runs a shell command to its end: its output, or what it complained about.
fn shell(folder: &Path, words: &str) -> Result<String, String> {
    let done = Command::new("timeout")
        .args(["120", "sh", "-ec", words])
        .current_dir(folder)
        .output()
        .map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
}

impl Mounted {
    /// Makes the volume a device of the system.
    fn new(folder: &Path) -> Result<Mounted, String> {
        std::fs::create_dir_all(folder.join("fuse")).map_err(|error| error.to_string())?;
        std::fs::create_dir_all(folder.join("tree")).map_err(|error| error.to_string())?;
        let fuse = Command::new("nbdfuse")
            .args(["fuse", URI])
            .current_dir(folder)
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| error.to_string())?;
        let mut mounted = Mounted { folder: folder.to_path_buf(), fuse, device: None };
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

    fn shell(&self, words: &str) -> String {
        let device = self.device.as_deref().unwrap_or_default();
        let words = words.replace("DEVICE", device);
        shell(&self.folder, &words).unwrap_or_else(|error| panic!("{words}: {error}"))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = shell(&self.folder, "umount tree");
        if let Some(device) = &self.device {
            let _ = shell(&self.folder, &format!("losetup -d {device}"));
        }
        let _ = shell(&self.folder, "umount fuse");
        let _ = self.fuse.wait();
    }
}

/// Whether this system can do it.
#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
fn mounting_works(folder: &Path) -> bool {
    let needed = "test $(id -u) = 0 && test -w /dev/fuse && losetup --find && \
                  which nbdfuse mkfs.ext4 e2fsck";
    let here = shell(folder, needed);
    if here.is_err() {
        println!(
            "SKIPPED: no mounts here; needs root, /dev/fuse, loop devices, nbdfuse, e2fsprogs"
        );
    }
    here.is_ok()
}

#[test]
fn the_proposals_of_a_mounted_file_systems_life_are_had_again() {
    let folder = program::folder("record-real");
    if !clients_are_here() || !mounting_works(&folder) {
        return;
    }
    let tree = std::env::var("THERMOCLINE_RECORD_TREE");
    let tree = tree.unwrap_or_else(|_| format!("{}/..", env!("CARGO_MANIFEST_DIR")));
    let engine = "--size 512MiB --no-emulation --policy baseline:k=24 --epoch 50ms --record r.tcr";
    let up = Up::start_with(&folder, engine);
    let mounted = Mounted::new(&folder).unwrap();
    mounted.shell("mkfs.ext4 -q DEVICE && mount DEVICE tree");
    // sync makes each step a load of the volume and not of the page cache only.
    mounted.shell(&format!("cp -r '{tree}' tree/one && sync -f tree"));
    mounted
        .shell("find tree/one -name '*.rs' | head -200 | while read f; do echo '//' >> $f; done");
    mounted.shell("cp -r tree/one tree/two && sync -f tree && umount tree && mount DEVICE tree");
    mounted.shell("diff -r tree/one tree/two && rm -rf tree/one && sync -f tree");
    mounted.shell("umount tree && e2fsck -fn DEVICE");
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));

    let ran = program::run(&folder, "lab volume --replay r.tcr --json").succeeded();
    let told: Value = serde_json::from_str(&ran.stdout()).unwrap();
    let total = |what: &str| -> u64 {
        told["epochs"].as_array().unwrap().iter().map(|row| row[what].as_u64().unwrap()).sum()
    };
    assert_eq!((&told["equal"], &told["cut_off"]), (&Value::Bool(true), &Value::Null), "{told:#}");
    assert!(total("accesses") > 50, "{told:#}");
    if let Ok(keep) = std::env::var("THERMOCLINE_RECORD_KEEP") {
        std::fs::copy(folder.join("r.tcr"), keep).unwrap();
    }
}
