//! `cargo xtask powerloss`: power fails under a real engine on block devices, at many points of
//! what its kernel sent to them.
//!
//! 1. A guest of user-mode Linux runs the engine with two pools on block devices whose driver
//!    ([`device`], over the kernel's NBD) logs all that the kernel asks of it, and a client that
//!    records what was answered and marks the log ([`inside`]). The engine is killed twice and
//!    started again.
//! 2. The log is replayed up to many points, where writes that no flush has covered are lost, kept,
//!    or torn ([`log`], [`replay`]). At each point `thermocline check --scrub` must find no flaw,
//!    the engine must open the pools, and every sector must hold what was durable at the last mark,
//!    or what was sent before the next one.
//!
//! The guest's clock decides what happens when: `--seed` gives the same kind of run, not the same
//! run.

mod device;
mod guest;
mod inside;
mod log;
mod record;
mod replay;

use crate::torture::POLICIES;
use crate::{Failure, workspace};
use std::path::PathBuf;
use std::time::Instant;

/// Names of the devices, and their sizes in MiB: two pools, and the block cache of the second.
const DEVICES: [(&str, u64); 3] = [("fast", 8), ("slow", 32), ("cache", 4)];
/// Bytes of the volume.
const VOLUME: u64 = 16 << 20;

/// Options of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wish {
    seed: u64,
    /// Guests, each with the next seed.
    runs: u64,
    /// Requests of the client in a guest.
    requests: u64,
    /// Failures of power in each run.
    points: usize,
    /// Instead of a release build of this checkout.
    binary: Option<PathBuf>,
    /// Folder of everything; default: target/powerloss.
    folder: Option<PathBuf>,
    /// One of so many flushed writes is forgotten; 0: none. A device that lies, which must show.
    forgets: u64,
    /// The kernel is not told that the devices have a cache, and sends no flush: must show, too.
    no_flush: bool,
    /// This is the guest.
    inside: bool,
}

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let mut wish = parse(arguments)?;
    if wish.inside {
        let out = wish.folder.clone().unwrap_or_default();
        return inside::run(&wish, &out).map_err(Failure::Failed);
    }
    let tools = match guest::tools() {
        Ok(tools) => tools,
        Err(missing) => {
            println!(
                "SKIPPED: loss of power: {missing}; it needs the packages user-mode-linux, \
                 busybox-static and nbd-client"
            );
            return Ok(());
        }
    };
    let binary = crate::bench::binary(wish.binary.as_deref())?;
    let folder = wish.folder.clone();
    let folder = folder.unwrap_or_else(|| workspace::root().join("target").join("powerloss"));
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let folder = folder.canonicalize().map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut wrong = 0;
    for _ in 0..wish.runs {
        let folder = folder.join("run");
        wrong += one(&tools, &wish, &binary, &folder)?;
        if wrong > 0 {
            let kept = format!("{wrong} points are wrong; all of it is in {}", folder.display());
            return Err(Failure::Failed(kept));
        }
        wish.seed += 1;
    }
    Ok(())
}

/// One guest and its failures of power: how many points are wrong.
fn one(
    tools: &guest::Tools,
    wish: &Wish,
    binary: &std::path::Path,
    folder: &std::path::Path,
) -> Result<usize, Failure> {
    let begin = Instant::now();
    if let guest::End::NotStarted(why) = guest::run(tools, wish, binary, folder)? {
        println!("SKIPPED: loss of power: user-mode Linux does not start here: {why}");
        return Ok(0);
    }
    let lived = begin.elapsed();
    let found = replay::run(wish, binary, folder)?;
    println!(
        "seed {}: a guest of {:.1} s with {} requests; {} entries, {} flushes and {} marks in the \
         log; power failed at {} points in {:.1} s; {:.2} GiB compared; wrong at {} points",
        wish.seed,
        lived.as_secs_f64(),
        wish.requests,
        found.entries,
        found.flushes,
        found.marks,
        found.points,
        (begin.elapsed() - lived).as_secs_f64(),
        found.compared as f64 / f64::from(1 << 30),
        found.wrong.len()
    );
    if found.points == 0 {
        return Err(Failure::Failed("the log has no point to fail at".to_string()));
    }
    Ok(found.wrong.len())
}

fn parse(arguments: &[String]) -> Result<Wish, Failure> {
    let mut wish = Wish {
        seed: 1,
        runs: 1,
        requests: 3000,
        points: 300,
        binary: None,
        folder: None,
        forgets: 0,
        no_flush: false,
        inside: false,
    };
    let mut words = arguments.iter();
    while let Some(argument) = words.next() {
        match argument.as_str() {
            "--inside" => wish.inside = true,
            "--no-flush" => wish.no_flush = true,
            _ => {
                valued(&mut wish, argument, words.next())?;
            }
        }
    }
    Ok(wish)
}

/// An argument that has a value.
fn valued(wish: &mut Wish, argument: &str, value: Option<&String>) -> Result<(), Failure> {
    let number = || {
        let number = value.and_then(|text| text.parse().ok());
        number.ok_or_else(|| Failure::Usage(format!("`{argument}` takes a whole number")))
    };
    let path = || {
        let path = value.map(PathBuf::from);
        path.ok_or_else(|| Failure::Usage(format!("`{argument}` takes a path")))
    };
    match argument {
        "--seed" => wish.seed = number()?,
        "--runs" => wish.runs = number()?,
        "--requests" => wish.requests = number()?,
        "--points" => wish.points = number()? as usize,
        "--forget" => wish.forgets = number()?,
        "--binary" => wish.binary = Some(path()?),
        "--folder" => wish.folder = Some(path()?),
        _ => {
            let known = "--seed S, --runs N, --requests N, --points N, --binary FILE, --folder \
                         DIR, and what must be found: --forget N (one of N flushed writes), \
                         --no-flush";
            return Err(Failure::Usage(format!("`{argument}`: powerloss takes {known}")));
        }
    }
    Ok(())
}

fn has_cache(seed: u64) -> bool {
    seed % 8 >= 4
}

/// Small chunks and the smallest journal, so that it goes round; checksums, by the seed one of
/// torture's placements, and in four of eight seeds a block cache that is always too small.
fn config(seed: u64, path: impl Fn(usize, &str) -> String) -> String {
    let (policy, settings) = POLICIES[(seed % POLICIES.len() as u64) as usize];
    let pools: Vec<String> = DEVICES[..2]
        .iter()
        .enumerate()
        .map(|(number, (name, _))| {
            format!("[[pool]]\nname = \"{name}\"\npath = \"{}\"\n", path(number, name))
        })
        .collect();
    let cache = match has_cache(seed) {
        true => format!(
            "[pool.cache]\npath = \"{}\"\ndirty-percent = 5\naround-from = \"16KiB\"\n",
            path(2, DEVICES[2].0)
        ),
        false => String::new(),
    };
    format!(
        r#"
data = "pools"
chunk-size = "64KiB"
journal = "256KiB"
{}{cache}
[[volume]]
size = "{VOLUME}B"
[policy]
name = "{policy}"
epoch = "1s"
[policy.settings]
{settings}
[copying]
rate = "none"
"#,
        pools.concat()
    )
}

#[cfg(test)]
mod tests;
