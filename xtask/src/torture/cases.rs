//! Accidents that are no crash: pools cut off, missing and full, a full file system, no room for
//! metadata. Each must be told clearly; what it does not touch must go on being served.
//!
//! The volume is 64 MiB on pools of 8 and 16 MiB, chunks of 64 KiB: its first [`FAST`] bytes,
//! written in order, are on the pool `fast`, the rest on `slow`.

use super::engine::{Engine, Site};
use super::nbd::{Ask, Client, NO_SPACE};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

/// Bytes of the volume that certainly are on `fast`.
const FAST: u64 = 4 << 20;
/// Bytes that fit on both pools together, and leave them nearly full.
const BOTH: u64 = 20 << 20;
const MIB: u64 = 1 << 20;

/// Error numbers of the protocol.
const IO: u32 = 5;
const INVALID: u32 = 22;

/// Volumes that a group has room for.
const VOLUMES_MAX: usize = 4096;

/// A name, and what must hold.
type Case = (&'static str, fn(&Site) -> Result<(), String>);

const CASES: [Case; 6] = [
    ("a pool that is missing at the start", missing),
    ("a pool that was cut off before the start", cut_off_before),
    ("a pool that is cut off under the engine", cut_off_under),
    ("pools that are full", full_pools),
    ("a full file system under a pool", full_file_system),
    ("no room for more volumes", full_metadata),
];

/// Runs all; how many failed.
pub(super) fn run(binary: &Path, folder: &Path) -> usize {
    let mut failed = 0;
    for (at, (name, case)) in CASES.iter().enumerate() {
        let site = Site::new(binary, folder.join(format!("case-{at}")), &config("slow.pool"));
        match site.and_then(|site| case(&site).map_err(|e| format!("{e}\n{}", site.log()))) {
            Ok(()) => println!("ok: {name}"),
            Err(error) => {
                println!("FAILED: {name}: {error}");
                failed += 1;
            }
        }
    }
    failed
}

fn config(slow: &str) -> String {
    format!(
        r#"
data = "pools"
chunk-size = "64KiB"
journal = "256KiB"
[[pool]]
name = "fast"
size = "8MiB"
[[pool]]
name = "slow"
path = "{slow}"
size = "16MiB"
[[volume]]
size = "64MiB"
"#
    )
}

/// A client that says what it expects.
struct Asking(Client);

impl Asking {
    fn new(site: &Site) -> Result<Asking, String> {
        let client = Client::connect(&site.socket(), "v0");
        client.map(Asking).map_err(|e| format!("the engine lets nobody in: {e}"))
    }

    fn ask(
        &mut self,
        ask: Ask,
        at: u64,
        length: u64,
        byte: u8,
    ) -> Result<Result<Vec<u8>, u32>, String> {
        let contents = if ask == Ask::Write { vec![byte; length as usize] } else { Vec::new() };
        let answer = self.0.one(ask, (at, length as u32), &contents);
        answer.map_err(|e| format!("{ask:?} of {length} at {at}: {e}"))
    }

    /// MiB by MiB; the first error.
    fn write(&mut self, at: u64, length: u64, byte: u8) -> Result<Option<u32>, String> {
        for at in (at..at + length).step_by(MIB as usize) {
            if let Err(errno) = self.ask(Ask::Write, at, MIB, byte)? {
                return Ok(Some(errno));
            }
        }
        Ok(None)
    }

    /// Checks that what was written is there.
    fn reads(&mut self, at: u64, length: u64, byte: u8) -> Result<(), String> {
        for at in (at..at + length).step_by(MIB as usize) {
            match self.ask(Ask::Read, at, MIB, 0)? {
                Ok(bytes) if bytes.iter().all(|&found| found == byte) => {}
                Ok(_) => return Err(format!("{at} does not read as {byte}")),
                Err(errno) => return Err(format!("reading {at}: error {errno}")),
            }
        }
        Ok(())
    }

    /// A request must end with this error.
    fn fails(&mut self, ask: Ask, at: u64, errno: u32) -> Result<(), String> {
        match self.ask(ask, at, MIB, 9)? {
            Err(found) if found == errno => Ok(()),
            other => Err(format!(
                "{ask:?} at {at} ended with {:?} instead of error {errno}",
                other.map(|bytes| bytes.len())
            )),
        }
    }
}

/// Both pools hold something, durably; the engine has stopped.
fn filled(site: &Site) -> Result<(), String> {
    let engine = site.start("")?;
    let mut asking = Asking::new(site)?;
    if let Some(errno) = asking.write(0, BOTH, 1)? {
        return Err(format!("filling ends with error {errno}"));
    }
    stop(engine)
}

fn stop(engine: Engine) -> Result<(), String> {
    match engine.stop()? {
        status if status.success() => Ok(()),
        status => Err(format!("a stop ended with {status}")),
    }
}

/// Checks what must hold after every accident: this range is readable and writable, also durably.
fn serves(site: &Site, engine: &mut Engine) -> Result<(), String> {
    let mut asking = Asking::new(site)?;
    asking.reads(0, FAST, 1)?;
    let written = asking.write(FAST - MIB, MIB, 1)?;
    asking.ask(Ask::Flush, 0, 0, 0)?.map_err(|e| format!("a flush ended with error {e}"))?;
    match (written, engine.runs()) {
        (None, true) => Ok(()),
        (errno, runs) => Err(format!("a write ended with {errno:?}; the engine runs: {runs}")),
    }
}

fn missing(site: &Site) -> Result<(), String> {
    filled(site)?;
    std::fs::rename(site.path("slow.pool"), site.path("away")).map_err(|e| e.to_string())?;
    site.refused("up engine.toml", 2, "pool `slow` (number 1) is not there")?;
    site.refused("up engine.toml", 2, "--degraded")?;
    site.refused("check engine.toml", 1, "pool `slow` (number 1) is not there")?;
    let mut engine = site.start("--degraded")?;
    serves(site, &mut engine)?;
    Asking::new(site)?.fails(Ask::Read, BOTH - MIB, IO)?;
    stop(engine)?;
    // It stays given up: what is configured and what is on disk must agree again.
    site.refused("up engine.toml", 2, "take it out of the configuration")?;
    let text = config("slow.pool");
    let cut: Vec<&str> = text.split("[[").filter(|part| !part.contains("slow")).collect();
    std::fs::write(site.folder.join("engine.toml"), cut.join("[[")).map_err(|e| e.to_string())?;
    let mut engine = site.start("")?;
    serves(site, &mut engine)?;
    Asking::new(site)?.fails(Ask::Read, BOTH - MIB, IO)?;
    stop(engine)
}

fn cut_off_before(site: &Site) -> Result<(), String> {
    filled(site)?;
    let pool = File::options().write(true).open(site.path("slow.pool"));
    pool.and_then(|pool| pool.set_len(8 * MIB)).map_err(|e| e.to_string())?;
    site.refused("up engine.toml", 2, "it was cut short; bring it back whole")?;
    site.refused("check engine.toml", 2, "it was cut short; bring it back whole")
}

fn cut_off_under(site: &Site) -> Result<(), String> {
    filled(site)?;
    let mut engine = site.start("")?;
    let pool = File::options().write(true).open(site.path("slow.pool"));
    pool.and_then(|pool| pool.set_len(8 * MIB)).map_err(|e| e.to_string())?;
    let mut asking = Asking::new(site)?;
    asking.fails(Ask::Read, BOTH - MIB, IO)?;
    serves(site, &mut engine)?;
    // What is written there now is there.
    match asking.write(BOTH - MIB, MIB, 5)? {
        None => asking.reads(BOTH - MIB, MIB, 5)?,
        Some(errno) => return Err(format!("writing where it was cut off: error {errno}")),
    }
    stop(engine)
}

fn full_pools(site: &Site) -> Result<(), String> {
    filled(site)?;
    let mut engine = site.start("")?;
    let mut asking = Asking::new(site)?;
    if asking.write(BOTH, 40 * MIB, 2)? != Some(NO_SPACE) {
        return Err("more fits on the pools than they have".to_string());
    }
    asking.fails(Ask::Write, 60 * MIB, NO_SPACE)?;
    asking.fails(Ask::Read, 64 * MIB, INVALID)?;
    asking.fails(Ask::Write, 64 * MIB, NO_SPACE)?;
    serves(site, &mut engine)?;
    asking.reads(0, BOTH, 1)?;
    // Room that is given back can be used again.
    for at in (8 * MIB..16 * MIB).step_by(MIB as usize) {
        asking.ask(Ask::ZeroForced, at, MIB, 0)?.map_err(|e| format!("zeroing: error {e}"))?;
    }
    if let Some(errno) = asking.write(50 * MIB, 4 * MIB, 3)? {
        return Err(format!("after zeroing 8 MiB, 4 MiB do not fit: error {errno}"));
    }
    engine.kill()?;
    site.check()?;
    let mut engine = site.start("")?;
    serves(site, &mut engine)?;
    stop(engine)
}

/// A small file system, unmounted when dropped.
pub(super) struct Small(pub(super) std::path::PathBuf);

impl Small {
    /// Made in this folder and mounted; none where that is not possible.
    pub(super) fn new(folder: &Path, bytes: u64) -> Option<Small> {
        let at = folder.join("small");
        std::fs::create_dir_all(&at).ok()?;
        let image = folder.join("small.ext4");
        File::create(&image).and_then(|file| file.set_len(bytes)).ok()?;
        let done = |program: &str, arguments: &[&Path]| {
            let output = Command::new(program).args(arguments).output();
            output.is_ok_and(|output| output.status.success())
        };
        let mounted = done("mkfs.ext4", &[Path::new("-q"), &image])
            && done("mount", &[Path::new("-o"), Path::new("loop"), &image, &at]);
        mounted.then_some(Small(at))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status(); // Nothing more can be done.
    }
}

fn full_file_system(site: &Site) -> Result<(), String> {
    let Some(small) = Small::new(&site.folder, 12 * MIB) else {
        println!("SKIPPED: a full file system; needs root, loop devices and mkfs.ext4");
        return Ok(());
    };
    let slow = small.0.join("slow.pool");
    let text = config(&slow.display().to_string());
    std::fs::write(site.folder.join("engine.toml"), text).map_err(|e| e.to_string())?;
    let mut engine = site.start("")?;
    let mut asking = Asking::new(site)?;
    if asking.write(0, BOTH, 1)? != Some(NO_SPACE) {
        return Err("more fits on the file system than it has".to_string());
    }
    serves(site, &mut engine)?;
    engine.kill()?;
    site.check()?;
    let mut engine = site.start("")?;
    serves(site, &mut engine)?;
    stop(engine)
}

fn full_metadata(site: &Site) -> Result<(), String> {
    let mut engine = site.start("")?;
    let written = Asking::new(site)?.write(0, FAST, 1)?;
    if let Some(errno) = written {
        return Err(format!("filling ends with error {errno}"));
    }
    for at in 1..VOLUMES_MAX {
        let (status, text) = create_volume(site)?;
        if status != 200 && status != 201 {
            return Err(format!("volume {at}: status {status}: {text}"));
        }
    }
    let (status, text) = create_volume(site)?;
    if !(400..500).contains(&status) || !text.contains("no room for more") {
        return Err(format!("one volume too many is answered with {status}: {text}"));
    }
    serves(site, &mut engine)?;
    // What the API answered is durable.
    site.expect("volume grow v7 2MiB --data pools")?;
    engine.kill()?;
    site.check()?;
    let mut engine = site.start("")?;
    serves(site, &mut engine)?;
    let listed = site.expect("volume list --data pools")?;
    if listed.lines().count() != VOLUMES_MAX || !listed.contains("v7, 2 MiB") {
        return Err(format!("{} volumes are left, or v7 did not grow", listed.lines().count()));
    }
    stop(engine)
}

/// Over the API, as a program would: status and body.
fn create_volume(site: &Site) -> Result<(u16, String), String> {
    let body = format!("{{\"size_bytes\": {MIB}}}");
    let request = format!(
        "POST /v1/volumes HTTP/1.1\r\nhost: torture\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let failed = |e: std::io::Error| format!("the API: {e}");
    let mut stream = UnixStream::connect(site.path("http.sock")).map_err(failed)?;
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(failed)?;
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| format!("the API answers {text}"))?, text))
}
