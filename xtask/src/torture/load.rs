//! Load on an engine while it is killed: writers that know what was answered, fio, migrations.
//!
//! - A writer has a connection of its own and sends batches of requests, which the engine may
//!   answer in any order; every few of them a flush. All writers share one ledger: a flush on one
//!   connection covers what was answered on any other, as CAN_MULTI_CONN promises.
//! - fio writes and verifies a second volume with checksums of its own.
//! - A mover asks for migrations, replicas, prefetches and redirections of random ranges, and makes
//!   and deletes a third volume.
//! - An administrator adds a pool, drains and takes back pools, removes the one it added when it is
//!   empty, and starts and stops scrubs.

use super::engine::Site;
use super::ledger::{Change, Dice, Flaw, Ledger};
use super::nbd::{Ask, Client, NO_SPACE};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Connections that write.
const WRITERS: u64 = 3;
/// Requests of a batch.
const BATCH: u64 = 8;
/// The pool that comes and goes.
const GUEST: &str = "guest";
/// Bytes read at a time when a volume is read back.
const READ_BACK: u64 = 1 << 20;
/// Words of a scrub for contents that are not as they were written.
const SCRUB_FLAWS: [&str; 6] = [
    "checksum_errors",
    "unreadable",
    "repaired_blocks",
    "unrepairable_blocks",
    "undecided_blocks",
    "lost_tables",
];
/// Options of fio on every volume of its own: one sector at a time, since a crash leaves each
/// sector of 512 bytes old or new, and no more is promised.
const FIO: &str = "--name=torture --ioengine=nbd --bs=512 --size=16m --verify=crc32c --iodepth=16 \
                   --verify_fatal=1 --output-format=json";

/// Findings and actions of writers.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) flaws: Vec<Flaw>,
    /// Answers with an error, by number.
    pub(super) refused: Vec<(Ask, u32)>,
    /// Changes that pools had no room for, in lives where that is to be expected.
    pub(super) full: u64,
    /// Connections that did not end as those of a killed engine do: hangs, answers out of order.
    pub(super) broken: Vec<String>,
    pub(super) written: u64,
    pub(super) flushes: u64,
}

/// A ledger that writers share.
pub(crate) type Shared = Arc<Mutex<Ledger>>;

/// Locks; a writer that panicked has failed the run already.
pub(crate) fn lock(ledger: &Shared) -> std::sync::MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Requests beside reads and writes that were accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) moves: u64,
    pub(super) added: u64,
    pub(super) drains: u64,
    pub(super) removed: u64,
    pub(super) scrubs: u64,
}

impl std::ops::AddAssign for Asked {
    fn add_assign(&mut self, other: Asked) {
        self.moves += other.moves;
        self.added += other.added;
        self.drains += other.drains;
        self.removed += other.removed;
        self.scrubs += other.scrubs;
    }
}

/// Writers, the mover and the administrator at work.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Tally>>,
    others: [JoinHandle<Asked>; 2],
}

impl Load {
    /// `crowded`: pools have not room for everything.
    pub(super) fn start(site: &Site, ledger: &Shared, dice: &mut Dice, crowded: bool) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let writer = |_| {
            let (site, ledger, stop) = (site.clone(), Arc::clone(ledger), Arc::clone(&stop));
            let (dice, tally) = (Dice::new(dice.next()), Tally::default());
            let mut writer = Writer { ledger, dice, tally, crowded };
            std::thread::spawn(move || {
                writer.run(&site, &stop);
                writer.tally
            })
        };
        let writers = (0..WRITERS).map(writer).collect();
        let others = [keep_moving, administer].map(|work| {
            let (site, over, seed) = (site.clone(), Arc::clone(&stop), dice.next());
            std::thread::spawn(move || work(&site, &over, &mut Dice::new(seed)))
        });
        Load { stop, writers, others }
    }

    /// Waits for all of it, after the engine ended: what writers say, and what was asked for
    /// besides.
    pub(super) fn end(self) -> Result<(Tally, Asked), String> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Tally::default();
        for writer in self.writers {
            let tally = writer.join().map_err(|_| "a writer panicked".to_string())?;
            all.flaws.extend(tally.flaws);
            all.refused.extend(tally.refused);
            all.broken.extend(tally.broken);
            all.full += tally.full;
            all.written += tally.written;
            all.flushes += tally.flushes;
        }
        let mut asked = Asked::default();
        for other in self.others {
            asked += other.join().map_err(|_| "the mover or the administrator panicked")?;
        }
        Ok((all, asked))
    }
}

struct Writer {
    ledger: Shared,
    dice: Dice,
    tally: Tally,
    crowded: bool,
}

/// A request under way.
struct Sent {
    ask: Ask,
    range: Range<u64>,
    /// Number of a change; of a flush, that of what it covers.
    number: u64,
}

impl Writer {
    /// Until the connection ends.
    fn run(&mut self, site: &Site, stop: &AtomicBool) {
        let Ok(mut client) = Client::connect(&site.socket(), "v0") else { return };
        while !stop.load(Ordering::Relaxed) {
            if let Err(error) = self.batch(&mut client) {
                use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
                if !matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof) {
                    self.tally.broken.push(error.to_string());
                }
                return;
            }
        }
    }

    fn batch(&mut self, client: &mut Client) -> std::io::Result<()> {
        let mut sent = Vec::new();
        for _ in 0..1 + self.dice.below(BATCH) {
            let Some((request, contents)) = self.draw() else { continue };
            let Range { start, end } = request.range;
            let (at, length) = (start * 512, ((end - start) * 512) as u32);
            client.send(sent.len() as u64, request.ask, (at, length), &contents)?;
            sent.push(Some(request));
        }
        for _ in 0..sent.len() {
            let (cookie, error) = client.answer()?;
            let request = usize::try_from(cookie).ok().and_then(|at| sent.get_mut(at)?.take());
            let request = request.ok_or_else(|| std::io::Error::other("answered twice"))?;
            let length = ((request.range.end - request.range.start) * 512) as u32;
            let bytes = match (request.ask, error) {
                (Ask::Read, 0) => client.contents(length)?,
                _ => Vec::new(),
            };
            self.answered(&request, error, &bytes);
        }
        Ok(())
    }

    /// The next request and its contents; none when its range is in use.
    fn draw(&mut self) -> Option<(Sent, Vec<u8>)> {
        let ask = match self.dice.below(100) {
            0..50 => Ask::Write,
            50..58 => Ask::WriteForced,
            58..78 => Ask::Read,
            78..90 => Ask::Flush,
            90..94 => Ask::Discard,
            94..98 => Ask::Zero,
            _ => Ask::ZeroForced,
        };
        let mut ledger = lock(&self.ledger);
        if ask == Ask::Flush {
            return Some((Sent { ask, range: 0..0, number: ledger.mark() as u64 }, Vec::new()));
        }
        let range = draw_range(&mut self.dice, ask, ledger.sectors());
        if !ledger.take(&range) {
            return None;
        }
        let number = change(ask).map_or(0, |change| ledger.sent(&range, change));
        let contents = match ask {
            Ask::Write | Ask::WriteForced => ledger.contents(&range, number),
            _ => Vec::new(),
        };
        Some((Sent { ask, range, number: u64::from(number) }, contents))
    }

    fn answered(&mut self, request: &Sent, error: u32, bytes: &[u8]) {
        let Sent { ask, range, number } = request;
        let mut ledger = lock(&self.ledger);
        if error != 0 {
            // It stays taken: what it left is known only after the next end.
            match self.crowded && error == NO_SPACE && change(*ask).is_some() {
                true => self.tally.full += 1,
                false => self.tally.refused.push((*ask, error)),
            }
            return;
        }
        match (*ask, change(*ask)) {
            (Ask::Flush, _) => {
                ledger.flushed(*number as usize);
                self.tally.flushes += 1;
            }
            (_, Some(change)) => {
                let forced = matches!(ask, Ask::WriteForced | Ask::ZeroForced);
                ledger.done(range, *number as u32, change, forced);
                self.tally.written += (range.end - range.start) * 512;
            }
            (_, None) => {
                self.tally.flaws.extend(ledger.compare(range, bytes));
                ledger.give_back(range);
            }
        }
    }
}

/// The effect of a request, if it has any.
pub(crate) fn change(ask: Ask) -> Option<Change> {
    match ask {
        Ask::Write | Ask::WriteForced => Some(Change::Written),
        Ask::Zero | Ask::ZeroForced => Some(Change::Zeroed),
        Ask::Discard => Some(Change::Discarded),
        Ask::Read | Ask::Flush => None,
    }
}

/// Half of all goes to an eighth of the volume; most is small, some spans several chunks.
pub(crate) fn draw_range(dice: &mut Dice, ask: Ask, sectors: u64) -> Range<u64> {
    let length = match (dice.below(8), ask) {
        (0, _) => 1 + dice.below(512),
        (1, Ask::Discard | Ask::Zero | Ask::ZeroForced) => 128 * (1 + dice.below(4)),
        _ => 1 + dice.below(16),
    };
    let room = if dice.below(2) == 0 { sectors / 8 } else { sectors };
    let start = dice.below(room.min(sectors - length) + 1);
    // Often whole chunks of 64 KiB: dropping one is another way than writing it.
    let start = if length.is_multiple_of(128) { start / 128 * 128 } else { start };
    start..start + length
}

/// True if a command was accepted; an engine that was just killed answers nobody.
fn accepts(site: &Site, words: &str) -> bool {
    site.command(words).is_ok_and(|output| output.status.success())
}

/// Asks for moves until told to stop.
fn keep_moving(site: &Site, stop: &AtomicBool, dice: &mut Dice) -> Asked {
    let mut asked = Asked::default();
    while !stop.load(Ordering::Relaxed) {
        let pool = ["fast", "middle", "slow"][dice.below(3) as usize];
        let (offset, length) = (dice.below(120) << 20, (1 + dice.below(8)) << 20);
        let range = format!("v0 --data pools --offset {offset}B --length {length}B");
        let words = match dice.below(10) {
            0..6 => format!("migrate {range} --to {pool}"),
            6 => format!("migrate {range} --to {pool} --do replicate"),
            7 => format!("migrate {range} --to fast --do prefetch"),
            8 => format!("migrate {range} --to {pool} --do redirect"),
            _ if dice.below(2) == 0 => "volume create 4MiB --data pools".to_string(),
            _ => "volume delete v2 --yes --data pools".to_string(),
        };
        asked.moves += u64::from(accepts(site, &words));
    }
    asked
}

/// Looks after pools until told to stop. `slow` is never drained: of the pools that are always
/// there it alone has room for everything, so that writes have no reason to fail.
fn administer(site: &Site, stop: &AtomicBool, dice: &mut Dice) -> Asked {
    let mut asked = Asked::default();
    while !stop.load(Ordering::Relaxed) {
        let pool = ["fast", "middle", GUEST, GUEST][dice.below(4) as usize];
        let count = match dice.below(12) {
            0..3 => {
                // What the guest of before left on the file is in the way, unless it may be erased.
                let erase = if dice.below(2) == 0 { " --erase" } else { "" };
                let words =
                    format!("pool add {GUEST} {GUEST}.pool --size 48MiB --data pools{erase}");
                asked.added += u64::from(accepts(site, &words));
                continue;
            }
            3..5 => (format!("pool drain {pool} --data pools"), &mut asked.drains),
            5 | 6 => (format!("pool undrain {pool} --data pools"), &mut asked.drains),
            7 | 8 => (format!("pool remove {GUEST} --data pools"), &mut asked.removed),
            9 | 10 => ("scrub --data pools".to_string(), &mut asked.scrubs),
            _ => ("scrub --stop --data pools".to_string(), &mut asked.scrubs),
        };
        *count.1 += u64::from(accepts(site, &count.0));
    }
    asked
}

/// A scrub to its end. Devices that kept everything have nothing that is not as it was written:
/// neither what cannot be repaired nor what had to be. How many bytes it read.
pub(super) fn scrub(site: &Site) -> Result<u64, String> {
    site.expect("scrub --wait --data pools")?;
    let told = site.expect("scrub --show --json --data pools")?;
    let told: serde_json::Value =
        serde_json::from_str(&told).map_err(|e| format!("`scrub --show --json`: {e}"))?;
    let wrong: Vec<String> = SCRUB_FLAWS
        .iter()
        .filter(|name| told[**name].as_u64() != Some(0))
        .map(|name| format!("{name} {}", told[*name]))
        .collect();
    match wrong.is_empty() {
        true => Ok(told["read_bytes"].as_u64().unwrap_or(0)),
        false => Err(format!("a scrub finds {}", wrong.join(", "))),
    }
}

/// Reads the whole volume back after an end.
pub(crate) fn read_back(site: &Site, ledger: &Shared) -> Result<Vec<Flaw>, String> {
    let failed = |e: std::io::Error| format!("reading back: {e}");
    let mut client = Client::connect(&site.socket(), "v0").map_err(failed)?;
    let mut flaws = Vec::new();
    for at in (0..client.size).step_by(READ_BACK as usize) {
        let length = READ_BACK.min(client.size - at);
        let bytes = client.one(Ask::Read, (at, length as u32), &[]).map_err(failed)?;
        let bytes = bytes.map_err(|errno| format!("reading back {at}: error {errno}"))?;
        let range = at / 512..(at + length) / 512;
        flaws.extend(lock(ledger).settle(&range, &bytes));
    }
    Ok(flaws)
}

/// fio on the second volume.
pub(super) struct Fio(Child);

/// True if it is installed.
pub(super) fn fio_is_here() -> bool {
    Command::new("fio").arg("--version").output().is_ok()
}

fn fio(site: &Site, words: &str) -> Command {
    let uri = format!("--uri=nbd+unix:///v1?socket={}", site.socket().display());
    let mut command = Command::new("fio");
    command.args(FIO.split_whitespace()).arg(uri).args(words.split_whitespace());
    command.current_dir(&site.folder).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Writes all of the second volume once; or reads it, and every block must be whole and its own:
/// bytes verified.
pub(super) fn fio_pass(site: &Site, words: &str) -> Result<u64, String> {
    let output = fio(site, words).output().map_err(|e| format!("fio: {e}"))?;
    match output.status.success() {
        true => Ok(verified(&output.stdout)),
        false => Err(format!("fio {words}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

impl Fio {
    /// Writes at random, with flushes, and verifies what it wrote a little later.
    pub(super) fn start(site: &Site, seed: u64) -> Result<Fio, String> {
        let words = format!(
            "--rw=randwrite --verify_backlog=256 --fsync=16 --time_based --runtime=1h --randseed={seed}"
        );
        fio(site, &words).spawn().map(Fio).map_err(|e| format!("fio: {e}"))
    }

    /// After the engine ended: bytes verified. It must have stumbled over the connection, not over
    /// contents.
    pub(super) fn end(self) -> Result<u64, String> {
        let output = self.0.wait_with_output().map_err(|e| format!("fio: {e}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        match said.contains("verify:") || said.contains("Input/output error") {
            false => Ok(verified(&output.stdout)),
            true => Err(format!("fio: {said}")),
        }
    }
}

/// Bytes that fio read and verified.
fn verified(json: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(json);
    let json = text.find('{').map_or("", |at| &text[at..]);
    let told = serde_json::from_str::<serde_json::Value>(json).unwrap_or_default();
    told["jobs"][0]["read"]["io_bytes"].as_u64().unwrap_or(0)
}
