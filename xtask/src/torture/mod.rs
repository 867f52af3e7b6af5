//! `cargo xtask torture`: a real engine, killed again and again, with real clients.
//!
//! 1. The accidents of `cases`: pools cut off, missing, full; each must be told clearly, and the
//!    rest must serve.
//! 2. Until the time is up, lives of [`ROUNDS`] rounds on fresh file pools, with checksums and
//!    without in turn, in two of five without room for everything. A round: start the engine (and
//!    sometimes kill it while it starts), read the whole volume back, set writers, fio, migrations
//!    and the administration of pools going, and kill it with `kill -9` at a random moment, or now
//!    and then stop it; then `thermocline check` must find no flaw. A life ends with a scrub, which
//!    must find nothing.
//! 3. The tally. Anything lost, wrong, hung or refused is a failure, and the pools are kept.
//!
//! A killed process loses what was in its memory, not what it handed to the system: crashes of the
//! machine are simulated instead (`cargo xtask simulate`). Timing decides what happens when, so
//! `--seed` gives the same kind of run, not the same run.

mod cases;
pub(crate) mod engine;
pub(crate) mod ledger;
pub(crate) mod load;
pub(crate) mod nbd;

use crate::{Failure, workspace};
use cases::Small;
use engine::Site;
use ledger::{Dice, Flaw, Ledger};
use load::{Asked, Fio, Load, Shared, Tally};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Rounds on the same pools.
const ROUNDS: u64 = 25;
/// Bytes of the volume that the ledger knows.
const VOLUME: u64 = 128 << 20;
/// Bytes of a file system that is too small for the pool on it.
const SMALL: u64 = 32 << 20;
/// fio reads its whole volume in one of so many rounds.
const FIO_PASS: u64 = 4;

/// Options of the command.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wish {
    minutes: u64,
    seed: u64,
    /// Instead of a release build of this checkout.
    binary: Option<PathBuf>,
    /// Folder in which pools are made; default: target/torture.
    folder: Option<PathBuf>,
}

/// Counts of what happened.
#[derive(Debug, Default)]
struct Score {
    kills: u64,
    kills_at_start: u64,
    stops: u64,
    asked: Asked,
    scrubbed: u64,
    fio_bytes: u64,
    compared: u64,
    tally: Tally,
}

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let wish = parse(arguments)?;
    let binary = crate::bench::binary(wish.binary.as_deref())?;
    let folder = wish.folder.clone();
    let folder = folder.unwrap_or_else(|| workspace::root().join("target").join("torture"));
    let failed_cases = cases::run(&binary, &folder);
    let mut score = Score::default();
    let mut dice = Dice::new(wish.seed);
    let begin = Instant::now();
    let until = begin + Duration::from_secs(60 * wish.minutes);
    let mut lives = 0;
    while Instant::now() < until {
        let site = Site::new(&binary, folder.join("life"), &config(lives, "slow.pool"))?;
        let small = match Room::of(lives) {
            Room::SmallFileSystem => small_file_system(&site, lives)?,
            Room::Enough | Room::SmallPools => None,
        };
        let crowded = small.is_some() || Room::of(lives) == Room::SmallPools;
        let outcome = life(&site, &mut dice, (until, crowded), &mut score);
        let minutes = begin.elapsed().as_secs_f64() / 60.0;
        println!("{minutes:.1} min: {}", score.line());
        let kept = site.folder.display();
        outcome
            .map_err(|error| format!("seed {}, life {lives}: {error}; kept: {kept}", wish.seed))?;
        if !score.is_clean() {
            return Err(Failure::Failed(format!("{}\nkept: {kept}", score.findings())));
        }
        lives += 1;
    }
    match failed_cases {
        0 => Ok(()),
        count => Err(Failure::Failed(format!("{count} accidents did not end as they should"))),
    }
}

fn parse(arguments: &[String]) -> Result<Wish, Failure> {
    let mut wish = Wish { minutes: 15, seed: 1, binary: None, folder: None };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let value = rest.next();
        let number = || {
            let number = value.and_then(|text| text.parse().ok());
            number.ok_or_else(|| Failure::Usage(format!("`{argument}` takes a whole number")))
        };
        let path = || {
            let path = value.map(PathBuf::from);
            path.ok_or_else(|| Failure::Usage(format!("`{argument}` takes a path")))
        };
        match argument.as_str() {
            "--minutes" => wish.minutes = number()?,
            "--seed" => wish.seed = number()?,
            "--binary" => wish.binary = Some(path()?),
            "--folder" => wish.folder = Some(path()?),
            _ => {
                let known =
                    "--minutes N (0: accidents only), --seed S, --binary FILE, --folder DIR";
                return Err(Failure::Usage(format!("`{argument}`: torture takes {known}")));
            }
        }
    }
    Ok(wish)
}

/// Placements of lives in turn, with settings: two that move, and those that mirror. `auto` moves
/// without evidence, and whatever a copy costs: a life is too short for proof.
pub(crate) const POLICIES: [(&str, &str); 5] = [
    ("auto", "trust = 1\nmargin = 0\nspend = 1"),
    ("baseline", "k = 100"),
    ("most", "step = 0.5"),
    ("benefit", "mirrors = 0.2\npayback = 1000000"),
    ("orthus", "misses = 1"),
];

/// Room of a life: of each five one on pools that are too small, and one on a file system that is
/// smaller than the pool on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Enough,
    SmallPools,
    SmallFileSystem,
}

impl Room {
    fn of(life: usize) -> Room {
        match life % 5 {
            2 => Room::SmallPools,
            4 => Room::SmallFileSystem,
            _ => Room::Enough,
        }
    }
}

/// Small chunks, the smallest journal, a policy in a hurry, a cache that is always too small: as
/// much as possible goes on at once.
fn config(life: usize, slow: &str) -> String {
    let [fast, middle, size] = match Room::of(life) {
        Room::SmallPools => [16, 24, 64],
        Room::Enough | Room::SmallFileSystem => [32, 96, 512],
    };
    let (checksums, cached) = (life.is_multiple_of(2), life % 4 < 2);
    // One on at each round of four, so that each meets every kind of life.
    let (policy, settings) = POLICIES[(life + life / 4) % POLICIES.len()];
    let cache = "[pool.cache]\nsize = \"4MiB\"\ndirty-percent = 5\naround-from = \"16KiB\"";
    let cache = if cached { cache } else { "" };
    format!(
        r#"
data = "pools"
chunk-size = "64KiB"
journal = "256KiB"
checksums = {checksums}
[[pool]]
name = "fast"
size = "{fast}MiB"
[[pool]]
name = "middle"
size = "{middle}MiB"
[[pool]]
name = "slow"
path = "{slow}"
size = "{size}MiB"
{cache}
[[volume]]
size = "{VOLUME}B"
[[volume]]
size = "16MiB"
[policy]
name = "{policy}"
epoch = "1s"
[policy.settings]
{settings}
[copying]
rate = "none"
"#
    )
}

/// Puts the pool `slow` on a file system that has not room for it.
fn small_file_system(site: &Site, life: usize) -> Result<Option<Small>, String> {
    let small = Small::new(&site.folder, SMALL);
    match &small {
        Some(small) => {
            let text = config(life, &small.0.join("slow.pool").display().to_string());
            std::fs::write(site.folder.join("engine.toml"), text).map_err(|e| e.to_string())?;
        }
        None => println!("SKIPPED: a full file system; needs root, loop devices and mkfs.ext4"),
    }
    Ok(small)
}

/// Rounds on one set of pools; `crowded`: there is not room for everything.
fn life(
    site: &Site,
    dice: &mut Dice,
    (until, crowded): (Instant, bool),
    score: &mut Score,
) -> Result<(), String> {
    let ledger: Shared = Arc::new(Mutex::new(Ledger::new(dice.next(), VOLUME)));
    let with_fio = load::fio_is_here();
    if !with_fio {
        println!("SKIPPED: the part of fio; it is not installed");
    }
    for round in 0..ROUNDS {
        while dice.below(5) == 0 {
            let engine = site.spawn("")?;
            std::thread::sleep(Duration::from_millis(dice.below(120)));
            engine.kill()?;
            score.kills_at_start += 1;
        }
        let engine = site.start("")?;
        score.tally.flaws.extend(load::read_back(site, &ledger)?);
        if with_fio && round == 0 {
            load::fio_pass(site, "--rw=write --do_verify=0 --end_fsync=1")?;
        } else if with_fio && round % FIO_PASS == 0 {
            score.fio_bytes += load::fio_pass(site, "--rw=read")?;
        }
        let load = Load::start(site, &ledger, dice, crowded);
        let fio = if with_fio { Some(Fio::start(site, dice.next() >> 1)?) } else { None };
        std::thread::sleep(Duration::from_millis(20 + dice.below(3000)));
        let in_order = dice.below(8) == 0;
        if in_order {
            let status = engine.stop()?;
            if !status.success() {
                return Err(format!("a stop ended with {status}: {}", site.log()));
            }
            score.stops += 1;
        } else {
            engine.kill()?;
            score.kills += 1;
        }
        let (tally, asked) = load.end()?;
        score.add(tally, asked);
        if let Some(fio) = fio {
            score.fio_bytes += fio.end()?;
        }
        load::lock(&ledger).ended(in_order);
        site.check()?;
        if Instant::now() >= until || !score.is_clean() {
            break;
        }
    }
    // The last crash, too, has to be got over.
    let engine = site.start("")?;
    score.tally.flaws.extend(load::read_back(site, &ledger)?);
    score.scrubbed += load::scrub(site)?;
    engine.stop()?;
    score.compared += load::lock(&ledger).compared * 512;
    Ok(())
}

impl Score {
    fn add(&mut self, tally: Tally, asked: Asked) {
        self.asked += asked;
        self.tally.full += tally.full;
        self.tally.flaws.extend(tally.flaws);
        self.tally.refused.extend(tally.refused);
        self.tally.broken.extend(tally.broken);
        self.tally.written += tally.written;
        self.tally.flushes += tally.flushes;
    }

    fn is_clean(&self) -> bool {
        let Tally { flaws, refused, broken, .. } = &self.tally;
        flaws.is_empty() && refused.is_empty() && broken.is_empty()
    }

    fn lost(&self) -> usize {
        self.tally.flaws.iter().filter(|flaw| matches!(flaw, Flaw::Lost(..))).count()
    }

    fn line(&self) -> String {
        let Score { kills, kills_at_start, stops, .. } = self;
        let Asked { moves, added, drains, removed, scrubs } = self.asked;
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        format!(
            "{kills} kills under load, {kills_at_start} while starting, {stops} stops; {:.2} GiB \
             written, {} flushes, {:.2} GiB compared, {:.2} GiB verified by fio, {:.2} GiB scrubbed, \
             {moves} moves asked, {added} pools added, {drains} drains and returns, {removed} \
             removals, {scrubs} scrubs asked, {} times no room; lost {}, wrong {}, refused {}, hung or broken {}",
            gib(self.tally.written),
            self.tally.flushes,
            gib(self.compared),
            gib(self.fio_bytes),
            gib(self.scrubbed),
            self.tally.full,
            self.lost(),
            self.tally.flaws.len() - self.lost(),
            self.tally.refused.len(),
            self.tally.broken.len()
        )
    }

    /// The first of everything that should not be.
    fn findings(&self) -> String {
        let Tally { flaws, refused, broken, .. } = &self.tally;
        let mut text = String::from("the first findings:");
        for flaw in flaws.iter().take(10) {
            text.push_str(&format!("\n{flaw}"));
        }
        for (ask, errno) in refused.iter().take(10) {
            text.push_str(&format!("\n{ask:?} was answered with error {errno}"));
        }
        for what in broken.iter().take(10) {
            text.push_str(&format!("\na connection ended with: {what}"));
        }
        text
    }
}

#[cfg(test)]
mod tests;
