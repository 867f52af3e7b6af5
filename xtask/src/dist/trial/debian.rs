//! A clean Debian in a folder, which the package is tried in.
//!
//! debootstrap makes it once, and each trial works on a copy. Where systemd-nspawn can, the copy is
//! booted, with systemd as its first process and a network of its own; otherwise programs run in it
//! by chroot.

use super::super::{make_folder, output};
use crate::Failure;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SUITE: &str = "bookworm";
const MIRROR: &str = "http://deb.debian.org/debian";
/// Packages of the root: those that ours depends on, a client, and systemd.
const INCLUDED: &str = "adduser,dbus,libnbd-bin,man-db,procps,systemd,systemd-sysv";
/// Time for a service, an engine or the whole system to come up or to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// A copy of a clean Debian.
pub(super) struct Debian {
    folder: PathBuf,
    system: Option<System>,
}

/// A booted one.
struct System {
    nspawn: Child,
    /// Its first process, by the number that it has outside.
    first: u32,
}

/// The clean one below `folder`, which is made when there is none.
pub(super) fn clean(folder: &Path) -> Result<PathBuf, Failure> {
    make_folder(folder)?;
    let folder = folder.canonicalize().map_err(|error| error.to_string())?;
    // One with other packages is another one.
    let clean = folder.join(format!("{SUITE},{INCLUDED}"));
    if !clean.exists() {
        let half = folder.join("half");
        output(Command::new("rm").arg("-rf").arg(&half))?;
        let include = format!("--include={INCLUDED}");
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", &include, SUITE]).arg(&half).arg(MIRROR);
        output(&mut debootstrap).map_err(|failure| match failure {
            Failure::Failed(why) | Failure::Usage(why) => {
                format!("{why}; it needs root, `apt install debootstrap` and a mirror")
            }
        })?;
        fs::rename(&half, &clean).map_err(|error| error.to_string())?;
    }
    Ok(clean)
}

impl Debian {
    /// A copy of the clean one below `folder`, which is made when there is none.
    pub(super) fn fresh(folder: &Path) -> Result<Debian, Failure> {
        let clean = clean(folder)?;
        let used = clean.with_file_name("root");
        // What a run that was killed has left mounted is not to be removed through.
        let _ = output(Command::new("umount").arg(used.join("proc")));
        output(Command::new("rm").args(["-rf", "--one-file-system"]).arg(&used))?;
        output(Command::new("cp").arg("-a").arg(&clean).arg(&used))?;
        Ok(Debian { folder: used, system: None })
    }

    /// Boots it; the reason why that cannot be done here, after which it can be used by chroot.
    pub(super) fn boot(&mut self) -> Result<(), Failure> {
        match self.try_boot() {
            Ok(system) => {
                self.system = Some(system);
                Ok(())
            }
            Err(why) => {
                let proc = self.at("proc");
                output(Command::new("mount").args(["-t", "proc", "proc"]).arg(proc))?;
                Err(why)
            }
        }
    }

    fn try_boot(&self) -> Result<System, Failure> {
        let log = self.folder.with_extension("boot.log");
        let opened = File::create(&log).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, errors) = opened.map_err(|e| format!("{}: {e}", log.display()))?;
        let mut nspawn = Command::new("systemd-nspawn");
        nspawn.args(["--quiet", "--boot", "--register=no", "--keep-unit", "--private-network"]);
        nspawn.args(["--console=pipe", "--link-journal=no", "--directory"]).arg(&self.folder);
        let spawned = nspawn.stdin(Stdio::null()).stdout(out).stderr(errors).spawn();
        let nspawn = spawned.map_err(|error| format!("systemd-nspawn: {error}"))?;
        let mut system = System { nspawn, first: 0 };
        let start = Instant::now();
        loop {
            if system.first == 0 {
                system.first = first_process(&self.folder).unwrap_or_default();
            }
            let state = system.command(&["systemctl", "is-system-running"]).output();
            let state = state.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_string());
            if system.first > 0 && matches!(state.as_deref(), Ok("running" | "degraded")) {
                return Ok(system);
            }
            let ended = system.nspawn.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || start.elapsed() > PATIENCE {
                let told = fs::read_to_string(&log).unwrap_or_default();
                let last = told.lines().last().unwrap_or("it says nothing");
                return Err(Failure::Failed(format!("no Debian is booted here: {last}")));
            }
            pause();
        }
    }

    /// True if systemd runs in it.
    pub(super) fn is_booted(&self) -> bool {
        self.system.is_some()
    }

    /// A file in it.
    pub(super) fn at(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    /// A command in it, by its administrator.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        if let Some(system) = &self.system {
            return system.command(words);
        }
        let mut chroot = Command::new("chroot");
        chroot.arg(&self.folder).args(words);
        chroot
    }

    /// Runs a command in it; what it printed.
    pub(super) fn output(&self, words: &[&str]) -> Result<Vec<u8>, Failure> {
        output(&mut self.command(words)).map_err(|failure| match failure {
            Failure::Failed(why) | Failure::Usage(why) => {
                Failure::Failed(format!("`{}` in Debian: {why}", words.join(" ")))
            }
        })
    }

    /// Waits until a command prints what is wanted.
    pub(super) fn wait_for(
        &self,
        words: &[&str],
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            let ran = self.command(words).output().map_err(|error| error.to_string())?;
            let printed = String::from_utf8_lossy(&ran.stdout).trim().to_string();
            if is_wanted(&printed) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                let words = words.join(" ");
                return Err(Failure::Failed(format!("`{words}` in Debian still says {printed}")));
            }
            pause();
        }
    }
}

impl System {
    fn command(&self, words: &[&str]) -> Command {
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &self.first.to_string()]);
        enter.args(["--mount", "--uts", "--ipc", "--net", "--pid"]);
        // The folder and the environment of this process mean nothing there.
        enter.args(["env", "-C", "/", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]);
        enter.args(words);
        enter
    }
}

impl Drop for System {
    fn drop(&mut self) {
        // All other processes of the system end with its first one.
        if self.first > 0 {
            let _ = output(Command::new("kill").args(["-KILL", &self.first.to_string()]));
        } else {
            let _ = self.nspawn.kill();
        }
        let _ = self.nspawn.wait();
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        if self.system.is_none() {
            // Tried again by the next run.
            let _ = output(Command::new("umount").arg(self.at("proc")));
        }
    }
}

/// The process that a booted system in a folder began with.
fn first_process(folder: &Path) -> Option<u32> {
    let here = |process: &u32| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let is_first = numbers.is_some_and(|numbers| {
            let numbers: Vec<&str> = numbers.split_whitespace().collect();
            numbers.len() > 1 && numbers.last() == Some(&"1")
        });
        is_first && is_same(Path::new(&format!("/proc/{process}/root")), folder)
    };
    let processes = fs::read_dir("/proc").ok()?.filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_string_lossy().parse::<u32>().ok()
    });
    processes.into_iter().find(here)
}

/// True if two paths lead to one folder.
fn is_same(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let of = |path: &Path| fs::metadata(path.join("etc/passwd")).map(|it| (it.dev(), it.ino()));
    matches!((of(a), of(b)), (Ok(a), Ok(b)) if a == b)
}

/// Time between two looks.
pub(super) fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}
