//! `cargo xtask dist upgrade [--binary FILE]`: a package in a clean Debian root, and a later one
//! over it. Needs root, debootstrap and a Debian mirror.
//!
//! 1. debootstrap makes a Debian 12, once. Each run works on a copy of it.
//! 2. The program is packed twice: as version 0.0.1, and as the version that it has.
//! 3. The older package is installed. The engine is started by the command line of its unit, as the
//!    unit's user; a client writes a volume full; the engine is stopped.
//! 4. The later package is installed over it, and the engine started again. A client must read what
//!    was written.
//! 5. The package is removed and purged. The pool and the configuration must still be there.
//!
//! systemd does not run in such a root: what the unit takes away from the program is not tested.

use super::{deb, epoch, make_folder, output, split, version};
use crate::{Failure, workspace};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const OLDER: &str = "0.0.1";
const SUITE: &str = "bookworm";
const MIRROR: &str = "http://deb.debian.org/debian";
/// Packages of the root: those that ours depends on, and a client.
const INCLUDED: &str = "adduser,libnbd-bin,man-db";
const USER: &str = "thermocline";
const CONFIG: &str = "etc/thermocline/thermocline.toml";
const POOL: &str = "var/lib/thermocline/main.pool";
const VOLUME: &str = "nbd+unix:///v0?socket=/run/thermocline/nbd.sock";
const VOLUME_BYTES: usize = 32 << 20;
/// Time for an engine to come up or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The trial, with a program that is there.
pub(super) fn run(binary: &Path) -> Result<(), Failure> {
    let folder = workspace::target().join("dist-upgrade");
    make_folder(&folder)?;
    let root = Root::fresh(&folder)?;
    let program = folder.join("thermocline");
    split(binary, &program, &folder.join("thermocline.debug"))?;
    let (older, later) = (pack(&program, OLDER, &root)?, pack(&program, &version()?, &root)?);

    root.output(&["dpkg", "-i", &older])?;
    let example = "usr/share/doc/thermocline/examples/thermocline.toml";
    let text = read(&root.at(example))?.replace("4GiB", "64MiB").replace("2GiB", "32MiB");
    write(&root.at(CONFIG), text.as_bytes())?;
    let config = format!("/{CONFIG}");
    root.output(&["thermocline", "check", &config])?;
    root.output(&["install", "-d", "-o", USER, "-g", USER, "/run/thermocline"])?;
    let written = random()?;
    write(&root.at("tmp/written"), &written)?;
    let engine = Engine::start(&root)?;
    root.output(&["nbdcopy", "--flush", "/tmp/written", VOLUME])?;
    engine.stop()?;

    root.output(&["dpkg", "-i", &later])?;
    let installed = root.output(&["dpkg-query", "-W", "-f=${Version}", "thermocline"])?;
    if installed != version()?.as_bytes() {
        return Err("the later package was not installed".into());
    }
    let engine = Engine::start(&root)?;
    root.output(&["nbdcopy", VOLUME, "/tmp/read"])?;
    engine.stop()?;
    let back = fs::read(root.at("tmp/read")).map_err(|error| error.to_string())?;
    if back != written {
        return Err("after the upgrade, the volume has other bytes than were written to it".into());
    }
    root.output(&["man", "-w", "thermocline-up"])?;
    for path in deb::SHELLS.map(|(_, path)| path) {
        must_exist(&root, path)?;
    }
    for header in deb::INTERFACES {
        must_exist(&root, &format!("{}/{header}", deb::HEADERS))?;
    }

    root.output(&["dpkg", "--remove", "thermocline"])?;
    root.output(&["dpkg", "--purge", "thermocline"])?;
    must_exist(&root, POOL)?;
    must_exist(&root, CONFIG)?;
    println!("{OLDER} was installed, upgraded and purged: the pool and its data are there");
    Ok(())
}

fn pack(program: &Path, version: &str, root: &Root) -> Result<String, Failure> {
    let folder = root.at("tmp");
    let [name, _] = deb::Package::new(program, version.to_string(), epoch()?)?.write(&folder)?;
    Ok(format!("/tmp/{name}"))
}

/// Bytes that no earlier run has left behind.
fn random() -> Result<Vec<u8>, Failure> {
    use std::io::Read;
    let mut bytes = vec![0; VOLUME_BYTES];
    let mut source = fs::File::open("/dev/urandom").map_err(|error| error.to_string())?;
    source.read_exact(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|e| Failure::Failed(format!("{}: {e}", path.display())))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes).map_err(|e| Failure::Failed(format!("{}: {e}", path.display())))
}

fn must_exist(root: &Root, path: &str) -> Result<(), Failure> {
    match root.at(path).exists() {
        true => Ok(()),
        false => Err(Failure::Failed(format!("/{path} is not there"))),
    }
}

/// A Debian in a folder, with /proc while it is used.
struct Root(PathBuf);

impl Root {
    /// A copy of a clean one, which is made when there is none.
    fn fresh(folder: &Path) -> Result<Root, Failure> {
        let (clean, used) = (folder.join("clean"), folder.join("root"));
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
        // What a run that was killed has left mounted is not to be removed through.
        let _ = output(Command::new("umount").arg(used.join("proc")));
        output(Command::new("rm").args(["-rf", "--one-file-system"]).arg(&used))?;
        output(Command::new("cp").arg("-a").arg(&clean).arg(&used))?;
        output(Command::new("mount").args(["-t", "proc", "proc"]).arg(used.join("proc")))?;
        Ok(Root(used))
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    fn output(&self, words: &[&str]) -> Result<Vec<u8>, Failure> {
        output(Command::new("chroot").arg(&self.0).args(words))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = output(Command::new("umount").arg(self.at("proc"))); // Tried again by the next run.
    }
}

/// An engine in the root, started as its unit says.
struct Engine(Child);

impl Engine {
    fn start(root: &Root) -> Result<Engine, Failure> {
        let unit = read(&root.at("usr/lib/systemd/system/thermocline.service"))?;
        let line = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key));
        let (Some(command), Some(user)) = (line("ExecStart="), line("User=")) else {
            return Err("the unit has no ExecStart or no User".into());
        };
        let log = fs::File::create(root.at("tmp/engine.log")).map_err(|error| error.to_string())?;
        let mut chroot = Command::new("chroot");
        chroot.arg(format!("--userspec={user}:{user}")).arg(&root.0);
        chroot.args(command.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::null());
        let child = chroot.stderr(log).spawn().map_err(|error| format!("chroot: {error}"))?;
        let mut engine = Engine(child);
        let start = Instant::now();
        while root.output(&["nbdinfo", "--size", VOLUME]).is_err() {
            let ended = engine.0.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() || start.elapsed() > PATIENCE {
                let log = read(&root.at("tmp/engine.log"))?;
                return Err(Failure::Failed(format!("the engine does not come up: {log}")));
            }
        }
        Ok(engine)
    }

    fn stop(mut self) -> Result<(), Failure> {
        output(Command::new("kill").args(["-TERM", &self.0.id().to_string()]))?;
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            match self.0.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(Failure::Failed(format!("the engine ended with {status}")));
                }
                None => std::thread::yield_now(),
            }
        }
        Err("the engine does not end".into())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill(); // It has ended, but for an error on the way.
        let _ = self.0.wait();
    }
}
