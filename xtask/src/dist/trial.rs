//! `cargo xtask dist try [--binary FILE]`: the package in a clean Debian 12. Needs root,
//! debootstrap and a Debian mirror; with systemd-nspawn the Debian is booted.
//!
//! 1. The program is packed twice: as version 0.0.1, and as the version that it has.
//! 2. The older package is installed by apt, configured and started; a client writes a volume full.
//! 3. The later package is installed over it, in a booted system while the engine serves. A client
//!    must read what was written.
//! 4. Man pages, completions, headers and `doctor` must be there.
//! 5. In a booted system (`services`): the engine comes back after a kill; its socket unit starts
//!    it; the balancer serves, and is upgraded in place; the units keep programs in as they say.
//! 6. The package is removed and purged. The pool and the configuration must still be there.
//!
//! Where no system can be booted, the engine is started by the command line of its unit, and what
//! the unit takes away from it is not tried.

mod debian;
mod engine;
mod services;

use super::{deb, epoch, output, split, version};
use crate::{Failure, workspace};
use debian::Debian;
use engine::Engine;
use std::fs;
use std::path::Path;
use std::process::Command;

const OLDER: &str = "0.0.1";
const SERVICE: &str = "thermocline.service";
const CONFIG: &str = "etc/thermocline/thermocline.toml";
const POOL: &str = "var/lib/thermocline/main.pool";
const VOLUME: &str = "nbd+unix:///v0?socket=/run/thermocline/nbd.sock";
const VOLUME_BYTES: usize = 32 << 20;

/// The trial, with a program that is there; `Some` says what could not be tried.
pub(super) fn run(binary: &Path) -> Result<Option<String>, Failure> {
    let folder = workspace::target().join("dist-trial");
    let mut debian = Debian::fresh(&folder)?;
    let program = folder.join("thermocline");
    split(binary, &program, &folder.join("thermocline.debug"))?;
    let older = pack(&program, OLDER, &debian)?;
    let later = pack(&program, &version()?, &debian)?;
    let not_booted = debian.boot().err().map(|failure| match failure {
        Failure::Failed(why) | Failure::Usage(why) => why,
    });

    install(&debian, &older)?;
    configure(&debian)?;
    let written = random()?;
    write(&debian.at("var/tmp/written"), &written)?;
    let mut engine = Engine::start(&debian)?;
    debian.output(&["nbdcopy", "--flush", "/var/tmp/written", VOLUME])?;
    if debian.is_booted() {
        let before = services::main_process(&debian, SERVICE)?;
        install(&debian, &later)?;
        services::must_be_another(&debian, SERVICE, &before)?;
    } else {
        engine.stop(&debian)?;
        install(&debian, &later)?;
        engine = Engine::start(&debian)?;
    }
    let installed = debian.output(&["dpkg-query", "-W", "-f=${Version}", "thermocline"])?;
    if installed != version()?.as_bytes() {
        return Err("the later package was not installed".into());
    }
    must_read(&debian, &written, "the upgrade")?;
    must_have_documents(&debian)?;
    if debian.is_booted() {
        services::run(&debian, &written)?;
    }
    engine.stop(&debian)?;

    debian.output(&["apt-get", "remove", "-y", "thermocline"])?;
    debian.output(&["apt-get", "purge", "-y", "thermocline"])?;
    must_exist(&debian, POOL)?;
    must_exist(&debian, CONFIG)?;
    let how = if debian.is_booted() { "under systemd" } else { "without systemd" };
    println!("{OLDER} was installed, upgraded and purged {how}: the pool and its data are there");
    Ok(not_booted.map(|why| format!("the units were not run by systemd: {why}")))
}

/// The gate's share, with the program of the same build; `Some` says what was skipped.
pub(super) fn gate() -> Result<Option<String>, Failure> {
    let skipped = |why: &str| Ok(Some(format!("SKIPPED: the package was not installed: {why}")));
    let user = output(Command::new("id").arg("-u"))?;
    if user.trim_ascii() != b"0" {
        return skipped("that needs root");
    }
    if output(Command::new("debootstrap").arg("--version")).is_err() {
        return skipped("that needs debootstrap and systemd-container");
    }
    let program = workspace::built()?.join("thermocline");
    if let Err(Failure::Failed(why) | Failure::Usage(why)) =
        debian::clean(&workspace::target().join("dist-trial"))
    {
        return skipped(&format!("no Debian can be made here: {why}"));
    }
    let told = run(&program)?;
    Ok(told.map(|why| format!("SKIPPED: {why}")))
}

fn pack(program: &Path, version: &str, debian: &Debian) -> Result<String, Failure> {
    let folder = debian.at("var/tmp");
    let package = deb::Package::new(program, version.to_string(), epoch()?)?;
    let [name, _] = package.compressed_little().write(&folder)?;
    Ok(format!("/var/tmp/{name}"))
}

fn install(debian: &Debian, package: &str) -> Result<(), Failure> {
    debian.output(&["apt-get", "install", "-y", package]).map(|_| ())
}

/// Steps that docs/guides/packages.md tells an administrator to take, with a small pool.
fn configure(debian: &Debian) -> Result<(), Failure> {
    let example = "usr/share/doc/thermocline/examples/thermocline.toml";
    let text = read(&debian.at(example))?.replace("4GiB", "64MiB").replace("2GiB", "32MiB");
    write(&debian.at(CONFIG), text.as_bytes())?;
    debian.output(&["thermocline", "check", &format!("/{CONFIG}")])?;
    debian.output(&["thermocline", "doctor", "/var/lib/thermocline"])?;
    Ok(())
}

fn must_have_documents(debian: &Debian) -> Result<(), Failure> {
    debian.output(&["man", "-w", "thermocline-up"])?;
    for path in deb::SHELLS.map(|(_, path)| path) {
        must_exist(debian, path)?;
    }
    for header in deb::INTERFACES {
        must_exist(debian, &format!("{}/{header}", deb::HEADERS))?;
    }
    Ok(())
}

/// A client must read what was written before.
fn must_read(debian: &Debian, written: &[u8], after: &str) -> Result<(), Failure> {
    let read = debian.at("var/tmp/read");
    let _ = fs::remove_file(&read); // There is none the first time.
    debian.output(&["nbdcopy", VOLUME, "/var/tmp/read"])?;
    let back = fs::read(&read).map_err(|error| error.to_string())?;
    if back == written {
        return Ok(());
    }
    Err(Failure::Failed(format!("after {after}, the volume has other bytes than were written")))
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

fn must_exist(debian: &Debian, path: &str) -> Result<(), Failure> {
    match debian.at(path).exists() {
        true => Ok(()),
        false => Err(Failure::Failed(format!("/{path} is not there"))),
    }
}
